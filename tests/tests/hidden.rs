//! What a policy of the user's hides below a folder that it shows is absent (spec 5.4): whoever asks for it is told that it does not
//! exist, and listings leave its name out, and no other.

#![forbid(unsafe_code)]

use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use stockade_tests::{Confined, Conversation, Finished, Scratch, finish, stockade_bin, turn};

const POLICY: &str = r#"extends = "workspace-write"
[filesystem]
hide = ["$WORKSPACE/.env", "$WORKSPACE/sub/.env", "$WORKSPACE/keys", "$WORKSPACE/many/x*"]
"#;

struct Scene {
    scratch: Scratch,
    work: PathBuf,
    policy: String,
}

impl Scene {
    fn new() -> Self {
        let scratch = Scratch::new();
        let work = scratch.folder("work");
        let policy = scratch.path().join("hides.toml");
        fs::write(&policy, POLICY).expect("a policy");
        for (file, text) in
            [(".env", "secret"), ("sub/.env", "secret"), ("keys/k", "secret"), ("a", "seen")]
        {
            let path = work.join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            fs::write(path, text).expect("a file");
        }
        let policy = policy.to_str().expect("UTF-8").to_owned();
        Self { scratch, work, policy }
    }

    fn bash(&self, line: &str) -> Finished {
        let mut run = Confined::new(&self.policy, &self.work);
        run.process().env("HOME", self.scratch.path());
        run.bash(line)
    }

    fn python(&self, program: &str) -> Finished {
        let mut run = Confined::new(&self.policy, &self.work);
        run.process().env("HOME", self.scratch.path());
        run.run(&["python3", "-c", program])
    }
}

#[test]
fn whoever_asks_for_what_is_hidden_is_told_that_it_does_not_exist() {
    let scene = Scene::new();
    for line in [
        "cat .env",
        "stat .env",
        "ls -d keys",
        "ls keys",
        "cat keys/k",
        "cd keys",
        "cp sub/.env copy",
        "mv .env moved",
        "echo x > .env",
        "touch -c -r .env a",
        "test -e .env || { echo 'No such file or directory' >&2; false; }",
    ] {
        let outside = scene.work.join(".env");
        assert_eq!(fs::read_to_string(outside).expect("there outside"), "secret");
        let ran = scene.bash(line);
        assert!(ran.err().contains("No such file or directory"), "{line}: {}", ran.err());
        assert_ne!(ran.code(), 0, "{line}");
    }
}

#[test]
fn a_listing_leaves_out_what_is_hidden_and_nothing_else() {
    let scene = Scene::new();
    let many = scene.work.join("many");
    fs::create_dir(&many).expect("a folder");
    // Enough to be read in many batches, of which some are hidden from one end to the other.
    let mut seen = Vec::new();
    for n in 0..4000 {
        let name = if n % 4 == 0 { format!("seen-{n}") } else { format!("x-{n}") };
        fs::write(many.join(&name), "").expect("a file");
        if n % 4 == 0 {
            seen.push(name);
        }
    }
    seen.sort();
    let ran = scene.bash("ls -A; ls -A sub; find . -mindepth 1 -not -path './many/*' | sort");
    assert_eq!(ran.out(), "a\nmany\nsub\n./a\n./many\n./sub\n", "{}", ran.err());
    let ran = scene.bash("ls -A many");
    let found: Vec<String> = ran.out().lines().map(str::to_owned).collect();
    let mut sorted = found.clone();
    sorted.sort();
    assert_eq!(sorted, seen, "{}", ran.err());
}

/// getdents64 by its number, with buffers of any size, and what else a hostile caller hands over.
const RAW: &str = r#"
import ctypes, os, threading
libc = ctypes.CDLL(None, use_errno=True)
NUMBER = {"x86_64": 217, "aarch64": 61}[os.uname().machine]
def raw(fd, size, address=None):
    buffer = ctypes.create_string_buffer(size)
    got = libc.syscall(NUMBER, fd, address or buffer, size)
    if got < 0:
        return -ctypes.get_errno(), b""
    return got, buffer.raw[:got] if not address else b""
def names(data):
    found = []
    while data:
        length = int.from_bytes(data[16:18], "little")
        found.append(data[19:length].split(b"\0")[0].decode())
        data = data[length:]
    return found
def whole(fd, size):
    found = []
    while True:
        got, data = raw(fd, size)
        assert got >= 0, got
        if got == 0:
            return sorted(found)
        found += names(data)
"#;

#[test]
fn a_listing_is_answered_whatever_is_handed_over() {
    let scene = Scene::new();
    let program = format!(
        r#"{RAW}
import errno
os.mkfifo("fifo")
for size in (64, 100, 4096, 1 << 20):
    fd = os.open(".", os.O_RDONLY)
    print(size, whole(fd, size))
    os.lseek(fd, 0, 0)
    # The position is the open file's, which others share.
    child = os.fork()
    if child == 0:
        raw(fd, 64); os._exit(0)
    os.waitpid(child, 0)
    print(len(whole(fd, 64)) < 6)
fd = os.open(".", os.O_RDONLY)
word = lambda value: errno.errorcode[-value[0]]
print(word(raw(99, 100)), word(raw(os.open("a", os.O_RDONLY), 100)), word(raw(fd, 1)))
print(word(raw(os.open("fifo", os.O_RDWR), 100)), word(raw(os.open(".", os.O_PATH), 100)), word(raw(fd, 4096, 8)))
# A failed one has taken nothing away.
print(whole(fd, 4096))
print(os.listdir("/proc/self/fd")[:3], len(os.listdir("/proc")) > 5)
for own in (os.getpid(), 1):
    try:
        print(os.listdir(f"/proc/{{own}}/map_files"))
    except PermissionError:
        print("closed")
"#
    );
    let ran = scene.python(&program);
    let all = "['.', '..', 'a', 'fifo', 'sub']";
    let sizes: Vec<_> =
        [64, 100, 4096, 1 << 20].iter().map(|size| format!("{size} {all}\nTrue\n")).collect();
    let expected = format!(
        "{}EBADF ENOTDIR EINVAL\nENOTDIR EBADF EFAULT\n{all}\n['0', '1', '2'] True\nclosed\nclosed\n",
        sizes.concat()
    );
    assert_eq!(ran.out(), expected, "{}", ran.err());
}

/// Callers wait through signals whose handlers restart calls, as those of most programs do.
#[test]
fn signals_take_nothing_from_a_listing() {
    let scene = Scene::new();
    let program = r#"
import os, signal
heard = 0
def hear(*_):
    global heard
    heard += 1
signal.signal(signal.SIGALRM, hear)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
while heard < 50:
    assert sorted(os.listdir(".")) == ["a", "sub"], os.listdir(".")
print("whole")
"#;
    let ran = scene.python(program);
    assert_eq!(ran.out(), "whole\n", "{}", ran.err());
}

/// Others put folders that hide something, and those that do not, under one number while it is read.
#[test]
fn no_race_of_threads_shows_a_hidden_name() {
    let scene = Scene::new();
    let program = format!(
        r#"{RAW}
hiding, plain = os.open(".", os.O_RDONLY), os.open("/usr", os.O_RDONLY)
fd, stop, found = os.dup(plain), False, set()
def swap():
    while not stop:
        os.dup2(hiding, fd); os.lseek(hiding, 0, 0); os.dup2(plain, fd); os.lseek(plain, 0, 0)
threads = [threading.Thread(target=swap) for _ in range(2)]
for thread in threads: thread.start()
for _ in range(2000):
    found.update(names(raw(fd, 4096)[1]))
stop = True
for thread in threads: thread.join()
print(".env" in found, "keys" in found, "a" in found, "bin" in found)
"#
    );
    let ran = scene.python(&program);
    assert_eq!(ran.out(), "False False True True\n", "{}", ran.err());
}

#[test]
fn a_call_that_lists_without_end_ends_by_its_deadline() {
    let scene = Scene::new();
    let mut run = Confined::new(&scene.policy, &scene.work).options(&["--timeout", "2s"]);
    run.process().env("HOME", scene.scratch.path());
    let report =
        run.report(&["bash", "-c", "for n in 1 2 3 4; do while :; do ls -A; done & done; wait"]);
    assert_eq!(report.outcome, "timed_out", "{}", report.stderr);
}

fn git(scene: &Scene, line: &str) {
    let ran = Command::new("bash")
        .args(["-c", line])
        .current_dir(&scene.work)
        .env("HOME", scene.scratch.path())
        .status();
    assert!(ran.expect("bash").success(), "{line}");
}

const IDENTITY: &str = "git -c user.name=n -c user.email=n@x";

#[test]
fn git_and_what_copies_trees_go_on_working_beside_what_is_hidden() {
    let scene = Scene::new();
    git(&scene, "git init -q . && git add a");
    git(&scene, &format!("{IDENTITY} commit -qm first"));
    for line in [
        "git status --short && git add -A",
        &format!(
            "echo b > b && git add -A && {IDENTITY} commit -qm second && git ls-files | tr '\\n' ' '"
        ),
        "tar cf \"$HOME/x.tar\" . && tar tf \"$HOME/x.tar\" | grep -c env | grep -x 0",
        "cp -a . \"$HOME/copy\" && ! ls -A \"$HOME/copy\" | grep env",
        "rsync -a ./ \"$HOME/other/\" && ! ls -A \"$HOME/other\" | grep env",
        "! grep -r secret .",
        "find . -name '*env*' -exec false {} +",
    ] {
        let ran = scene.bash(&format!("mkdir -p \"$HOME\"; {line}"));
        assert_eq!((ran.code(), ran.err().as_str()), (0, ""), "{line}: {}", ran.out());
    }
}

#[test]
fn the_file_tools_see_none_of_it_either() {
    let scene = Scene::new();
    let state = scene.scratch.folder("state");
    let path = |name: &str| scene.work.join(name).to_str().expect("UTF-8").to_owned();
    let calls = turn::of_calls(&[
        ("Glob", json!({"pattern": "**/*", "path": path("")})),
        ("Glob", json!({"pattern": "**/.env", "path": path("")})),
        ("Grep", json!({"pattern": "secret", "path": path("")})),
        ("Read", json!({"file_path": path(".env")})),
    ]);
    let answers = exec(&scene, &state, &calls);
    let [all, env, secret, read] = answers.as_slice() else { panic!("{answers:?}") };
    assert!(all.contains("/a") && !all.contains(".env") && !all.contains("keys"), "{all}");
    assert!(!env.contains(&path(".env")), "{env}");
    assert!(!secret.contains(".env") && !secret.contains("keys"), "{secret}");
    assert!(read.contains("No such file") || read.contains("does not exist"), "{read}");
}

fn exec(scene: &Scene, state: &Path, calls: &str) -> Vec<String> {
    let mut command = Command::new(stockade_bin());
    command.args(["exec", "--cascade", "off", "--policy", &scene.policy, "--workspace"]);
    command.arg(&scene.work).arg("--state-dir").arg(state).env("HOME", scene.scratch.path());
    let finished = finish(&mut command, calls.as_bytes(), Duration::from_secs(120));
    turn::answers(&finished.out()).into_iter().map(|answer| answer.text).collect()
}

// spec 5.9: nothing tells of it but the command's own words
#[test]
fn what_a_command_misses_since_it_is_hidden_is_said_to_be_hidden() {
    let scene = Scene::new();
    for (line, target) in
        [("cat .env", ".env"), ("cd keys", "keys"), ("cat sub/../sub/.env", "sub/.env")]
    {
        let mut run = Confined::new(&scene.policy, &scene.work);
        run.process().env("HOME", scene.scratch.path());
        let report = run.report(&["bash", "-c", line]);
        let path = scene.work.join(target);
        let denial =
            report.denials.iter().find(|denial| denial["target"] == path.to_str().expect("UTF-8"));
        let denial = denial.unwrap_or_else(|| panic!("{line}: {:?}", report.denials));
        assert_eq!(denial["evidence"], "inferred", "{denial}");
        assert_eq!(denial["note"], "hidden by the policy", "{denial}");
        // No grant shows what is hidden.
        assert!(denial["grant"].as_str().is_none_or(str::is_empty), "{denial}");
    }
    // Of what is not there, and was not hidden, nothing is said.
    let mut run = Confined::new(&scene.policy, &scene.work);
    run.process().env("HOME", scene.scratch.path());
    assert!(run.report(&["cat", "sub/nothing"]).denials.is_empty());
}

// spec 5.4, 2.5
#[test]
fn a_root_of_the_policy_that_a_rule_denies_as_a_whole_stops_no_call() {
    let scene = Scene::new();
    let other = scene.scratch.folder("other");
    let policy = scene.scratch.path().join("whole.toml");
    let text = format!("extends = \"workspace-write\"\n[filesystem]\nread = [{other:?}]\n");
    fs::write(&policy, &text).expect("a policy");
    let rules = scene.scratch.path().join("rules.toml");
    let text = format!("default = \"confine\"\ndeny = [\"Read({}/**)\"]\n", other.display());
    fs::write(&rules, text).expect("rules");
    let mut command = Command::new(stockade_bin());
    command.args(["exec", "--policy"]).arg(&policy).arg("--workspace").arg(&scene.work);
    command.arg("--rules").arg(&rules);
    command.arg("--state-dir").arg(scene.scratch.path().join("state")).arg("-");
    let call =
        json!({"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "echo ran"}});
    let ran = finish(&mut command, format!("{call}\n").as_bytes(), Duration::from_secs(120));
    assert!(ran.out().contains("ran"), "{} {}", ran.out(), ran.err());
}

#[test]
fn what_comes_into_being_under_a_hidden_name_between_two_calls_is_hidden_from_the_next() {
    let scene = Scene::new();
    let home = scene.scratch.folder("empty-home");
    let state = scene.scratch.folder("state");
    let mut command = Command::new(stockade_bin());
    command.args(["exec", "--cascade", "off", "--policy", &scene.policy, "--workspace"]);
    command.arg(&scene.work).arg("--state-dir").arg(state).env("HOME", home);
    let mut session = Conversation::start(&mut command);
    let whole = scene.work.join("sub/.env");
    let look = "cat sub/.env many/xyz; ls -a sub many; echo over";
    fs::remove_file(&whole).expect("it was there");
    session.bash("first", look);
    for (path, text) in [("sub/.env", "secret"), ("many/xyz", "secret")] {
        let path = scene.work.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, text).expect("a file");
    }
    let said = session.bash("second", look);
    assert!(said.contains("over") && !said.contains("secret"), "{said}");
    assert!(!said.contains("\\n.env\\n") && !said.contains("\\nxyz"), "{said}");
    let read = session.call("third", "Read", &json!({"file_path": whole}));
    assert!(!read.contains("secret"), "{read}");
    session.end();
    assert_eq!(fs::read_to_string(&whole).expect("it stays"), "secret");
}
