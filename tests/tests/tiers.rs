//! What is left of confinement where a host lacks something (spec 5.3). Here it is really taken away, from a process of the test's
//! own: user namespaces by their sysctl in a user namespace of its own, or by a filter as containers have it; root's
//! capabilities; a /proc that is masked as in a default container.

#![forbid(unsafe_code)]

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use stockade_tests::{
    Finished, RunReport, Scratch, copy_executable, finish, lowered_policy, procs, stockade_bin,
    unique,
};

/// Takes away what its first argument names, then executes the rest.
const TAKE_AWAY: &str = r#"
import ctypes, os, platform, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
def check(result, what):
    if result < 0: raise OSError(ctypes.get_errno(), what)
def own_user_namespace():
    uid, gid = os.getuid(), os.getgid()
    check(libc.unshare(0x10000000), "unshare")
    for name, text in ("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1"):
        with open(f"/proc/self/{name}", "w") as file: file.write(text)
def sysctl():
    own_user_namespace()
    with open("/proc/sys/user/max_user_namespaces", "w") as file: file.write("0")
def capabilities():
    for number in range(64):
        if libc.prctl(24, number, 0, 0, 0) < 0: break
    libc.prctl(47, 4, 0, 0, 0)
    header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    check(libc.syscall(126 if X86 else 91, header, nothing), "capset")
def filtered():
    check(libc.prctl(38, 1, 0, 0, 0), "no_new_privs")
    unshare, clone = (272, 56) if X86 else (97, 220)
    new_user, eperm, enosys, allow = 0x10000000, 0x50001, 0x50026, 0x7fff0000
    program = [(0x20, 0, 0, 0), (0x15, 0, 1, 435), (6, 0, 0, enosys),
               (0x15, 1, 0, unshare), (0x15, 0, 3, clone),
               (0x20, 0, 0, 16), (0x45, 0, 1, new_user), (6, 0, 0, eperm), (6, 0, 0, allow)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *i) for i in program))
    class Program(ctypes.Structure): _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
    check(libc.prctl(22, 2, ctypes.byref(Program(len(program), ctypes.addressof(code))), 0, 0), "seccomp")
def masked():
    own_user_namespace()
    check(libc.unshare(0x20000), "unshare")
    check(libc.mount(None, b"/", None, 0x44000, None), "private")
    check(libc.mount(b"/dev/null", b"/proc/keys", None, 4096, None), "mask")
for what in sys.argv[1].split("+"): globals()[what]()
os.execvp(sys.argv[2], sys.argv[2:])
"#;

/// Ways to be without user namespaces and without the capability to do without them.
const BARE: [&str; 3] = ["sysctl+capabilities", "capabilities+filtered", "masked"];

struct Place {
    scratch: Scratch,
    work: PathBuf,
}

impl Place {
    fn new() -> Self {
        let scratch = Scratch::new();
        let work = scratch.folder("work");
        lowered_policy(&scratch.path());
        Self { scratch, work }
    }

    fn lowered(&self) -> String {
        self.scratch.path().join("lowered.toml").to_str().expect("UTF-8").to_owned()
    }

    fn command(&self, taken: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("python3");
        command.args(["-c", TAKE_AWAY, taken]).arg(stockade_bin()).args(arguments);
        command.env("TMPDIR", self.scratch.folder("tmp"));
        command
    }

    fn run(&self, taken: &str, policy: &str, options: &[&str], line: &str) -> Finished {
        let work = self.work.to_str().expect("UTF-8");
        let mut arguments = vec!["run", "--json", "--policy", policy, "--workspace", work];
        arguments.extend(options);
        arguments.extend(["--", "bash", "-c", line]);
        finish(&mut self.command(taken, &arguments), &[], Duration::from_secs(120))
    }

    fn report(&self, taken: &str, options: &[&str], line: &str) -> RunReport {
        RunReport::of(&self.run(taken, &self.lowered(), options, line))
    }

    /// The session's temporary folders that are left. What is over takes a moment to be cleared away.
    fn left(&self) -> Vec<PathBuf> {
        let look = || -> Vec<PathBuf> {
            let entries = fs::read_dir(self.scratch.folder("tmp")).expect("a folder");
            entries.map(|entry| entry.expect("an entry").path()).collect()
        };
        procs::until(Duration::from_secs(20), || look().is_empty().then_some(()));
        look()
    }
}

fn state<'a>(layers: &'a Value, layer: &str) -> &'a Value {
    let layers = layers.as_array().expect("layers");
    layers.iter().find(|entry| entry["layer"] == layer).expect("it is listed")
}

#[test]
fn what_is_said_to_be_taken_away_is_really_gone() {
    let tries = |taken: &str, argv: &[&str]| {
        let mut command = Command::new("python3");
        command.args(["-c", TAKE_AWAY, taken]).args(argv);
        finish(&mut command, &[], Duration::from_secs(120)).code()
    };
    let new_user = ["unshare", "--user", "true"];
    let new_proc = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "--pid",
        "--fork",
        "--mount-proc",
        "true",
    ];
    assert_eq!(
        finish(Command::new("unshare").args(&new_proc[1..]), &[], Duration::from_secs(120)).code(),
        0
    );
    for taken in ["sysctl", "sysctl+capabilities", "capabilities+filtered"] {
        assert_ne!(tries(taken, &new_user), 0, "{taken}");
    }
    assert_eq!(tries("masked", &new_user), 0);
    assert_ne!(tries("masked", &new_proc), 0);
    assert_eq!(tries("sysctl", &["unshare", "--mount", "true"]), 0, "root's own way is open");
    assert_ne!(tries("sysctl+capabilities", &["unshare", "--mount", "true"]), 0);
}

// spec 5.3
#[test]
fn a_shipped_policy_is_refused_by_layer_rule_and_remedy_and_nothing_runs() {
    let place = Place::new();
    for taken in BARE {
        let ran = place.run(taken, "workspace-write", &[], "touch ran");
        assert_eq!(ran.code(), 126, "{taken}: {} {}", ran.out(), ran.err());
        let report: Value = serde_json::from_slice(&ran.stdout).expect("an object");
        let reason = report["refusal"]["reason"].as_str().expect("a reason").to_owned();
        for word in
            ["pid_namespace", "mount_tree", "filesystem.protect", "network.mode", "`require`"]
        {
            assert!(reason.contains(word), "{taken}: {word} in {reason}");
        }
        assert!(
            reason.contains("max_user_namespaces")
                || reason.contains("forbidden")
                || reason.contains("masked"),
            "{reason}"
        );
        assert!(!place.work.join("ran").exists(), "{taken}");
    }
    let ran = place.run("sysctl", "workspace-write", &[], "touch ran");
    assert_eq!(ran.code(), 126);
    assert!(ran.out().contains("requires user_namespace, which"), "{}", ran.out());
}

// spec 5.3
#[test]
fn a_lowered_policy_runs_and_its_result_says_what_was_not_enforced() {
    let place = Place::new();
    for taken in BARE {
        let ran = place.report(taken, &[], "cat /proc/self/status; echo kept > kept");
        assert_eq!(ran.exit_code, Some(0), "{taken}: {ran:?}");
        assert!(
            ran.stdout.contains("CapPrm:\t0000000000000000")
                && ran.stdout.contains("NoNewPrivs:\t1")
        );
        assert_eq!(fs::read_to_string(place.work.join("kept")).expect("it was written"), "kept\n");
        let mounts = state(&ran.layers, "mount_tree");
        assert_eq!(mounts["state"], "missing", "{taken}");
        assert!(
            mounts["reason"]
                .as_str()
                .is_some_and(|text| text.contains("not enforced: filesystem.protect"))
        );
        assert_eq!(state(&ran.layers, "landlock")["state"], "enforced");
        assert_eq!(state(&ran.layers, "seccomp")["state"], "enforced");
    }
    let ran = place.report("sysctl", &[], "cat /proc/self/status; ls -d /host /cell 2>&1");
    assert!(ran.stdout.contains("CapPrm:\t0000000000000000"), "{ran:?}");
    assert_eq!(state(&ran.layers, "user_namespace")["state"], "missing");
    assert_eq!(state(&ran.layers, "mount_tree")["state"], "enforced");
}

// spec 5.3, 5.4, 5.5, 5.7
#[test]
fn what_a_lowered_policy_names_holds_without_namespaces() {
    let place = Place::new();
    let outside = place.scratch.folder("outside");
    fs::write(outside.join("secret"), "s3cret").expect("a file");
    fs::write(outside.join("file"), "whole").expect("a file");
    let socket = outside.join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let victim = Command::new("sleep").arg("60").spawn().expect("a victim");
    let victim = Victim(victim);
    let attacks = format!(
        "import os, socket, ctypes\n\
         def attempt(name, what):\n\
         \x20 try: what(); print(name, 'REACHED')\n\
         \x20 except OSError as e: print(name, 'refused')\n\
         o = {outside:?}\n\
         attempt('read', lambda: open(o + '/secret').read())\n\
         attempt('write', lambda: open(o + '/file', 'w'))\n\
         attempt('truncate', lambda: os.truncate(o + '/file', 0))\n\
         attempt('create', lambda: open(o + '/new', 'w'))\n\
         attempt('remove', lambda: os.unlink(o + '/file'))\n\
         attempt('list', lambda: os.listdir(o))\n\
         attempt('unix', lambda: socket.socket(socket.AF_UNIX).connect(o + '/socket'))\n\
         attempt('inet', lambda: socket.socket(socket.AF_INET))\n\
         attempt('inet6', lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))\n\
         attempt('signal', lambda: os.kill({pid}, 0))\n\
         attempt('environment', lambda: open('/proc/{pid}/environ').read())\n\
         attempt('memory', lambda: open('/proc/{pid}/mem').read(1))\n\
         attempt('shared memory', lambda: 1/0 if ctypes.CDLL(None, use_errno=True).shmget(1, 1, 0o1600) >= 0 else os.open('', 0))\n\
         attempt('shadow', lambda: open('/etc/shadow').read())\n\
         a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'\n\
         import tempfile; tempfile.TemporaryFile().write(b'x')\n",
        outside = outside.to_str().expect("UTF-8"),
        pid = victim.0.id(),
    );
    fs::write(place.work.join("attacks.py"), attacks).expect("a file");
    let free =
        Command::new("python3").arg(place.work.join("attacks.py")).output().expect("python3");
    let free = String::from_utf8_lossy(&free.stdout).into_owned();
    // But for /etc/shadow, which an ordinary user cannot read, all of it works unconfined.
    for name in [
        "read",
        "write",
        "truncate",
        "create",
        "remove",
        "list",
        "unix",
        "inet",
        "inet6",
        "signal",
        "environment",
    ] {
        assert!(free.contains(&format!("{name} REACHED")), "{name}: {free}");
    }
    fs::write(outside.join("file"), "whole").expect("a file");
    fs::remove_file(outside.join("new")).expect("it was made");
    for taken in BARE {
        let ran = place.report(taken, &[], "python3 attacks.py");
        assert_eq!(ran.exit_code, Some(0), "{taken}: {ran:?}");
        assert!(!ran.stdout.contains("REACHED"), "{taken}: {}", ran.stdout);
        assert_eq!(ran.stdout.matches("refused").count(), 14, "{taken}: {}", ran.stdout);
        assert_eq!(fs::read_to_string(outside.join("file")).expect("it is there"), "whole");
        assert!(!outside.join("new").exists());
        let named = |target: &str| {
            ran.denials.iter().any(|d| d["target"] == target && d["evidence"] == "kernel")
        };
        assert!(
            taken.contains("filtered") || named("socket(AF_INET, SOCK_STREAM, 0)"),
            "{:?}",
            ran.denials
        );
        assert_eq!(place.left(), [] as [PathBuf; 0], "{taken}: no temporary folder is left");
    }
}

struct Victim(std::process::Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// spec 6.1, 6.3: the best effort where no pid namespace ends a tree
#[test]
fn without_a_pid_namespace_a_tree_is_hunted_down() {
    let place = Place::new();
    let number = unique();
    let stubborn = format!(
        "for i in 1 2 3; do (setsid bash -c 'trap \"\" TERM; (setsid sleep {number} &); sleep {number}' &); done; trap '' TERM; sleep {number}"
    );
    for taken in BARE {
        let options = ["--timeout", "700ms", "--grace", "200ms"];
        let ran = place.report(taken, &options, &stubborn);
        assert_eq!(ran.outcome, "timed_out", "{taken}: {ran:?}");
        let left = procs::none_left(Duration::from_secs(10), || procs::with_argument(&number));
        assert!(left.is_empty(), "{taken}: {left:?}");
        // What is left when the main process ends.
        let ran = place.report(taken, &[], &format!("(setsid sleep {number} &); exit 3"));
        assert_eq!(
            (ran.exit_code, &ran.killed["killed"]),
            (Some(3), &Value::Bool(true)),
            "{ran:?}"
        );
        let left = procs::none_left(Duration::from_secs(10), || procs::with_argument(&number));
        assert!(left.is_empty(), "{taken}: {left:?}");
    }
}

/// Leaves itself behind all the time, for half a minute: whoever looks at it finds one that has gone.
const RUNNER: &str = "import os, time\nend = time.time() + 30\nwhile time.time() < end:\n if os.fork(): os._exit(0)\n os.setsid()\n";

/// A cgroup of version 2 that is the caller's own, as a service manager delegates one. It goes with this.
struct Delegated(PathBuf);

impl Delegated {
    fn new() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("a file");
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "));
        let mount = mount.and_then(|line| line.split(' ').nth(4)).expect("cgroups of version 2");
        let groups = fs::read_to_string("/proc/self/cgroup").expect("a file");
        let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).expect("its place");
        let path = Path::new(mount).join(own).join(format!("stockade-test-{}", unique()));
        fs::create_dir(&path).expect("root may make one");
        Self(path)
    }

    fn cells(&self) -> Vec<PathBuf> {
        let entries =
            fs::read_dir(&self.0).expect("a folder").map(|entry| entry.expect("one").path());
        entries.filter(|path| path.is_dir()).collect()
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
        let removed = procs::until(Duration::from_secs(20), || fs::remove_dir(&self.0).ok());
        assert!(removed.is_some() || std::thread::panicking(), "{:?}", self.0);
    }
}

// spec 5.7, 6.1: a cgroup ends what runs faster than it can be looked for
#[test]
fn without_a_pid_namespace_a_delegated_cgroup_ends_what_would_outrun_a_sweep() {
    let place = Place::new();
    fs::write(place.work.join("runner.py"), RUNNER).expect("a file");
    let work = place.work.to_str().expect("UTF-8");
    for taken in BARE {
        let delegated = Delegated::new();
        let number = unique();
        let line = format!("cat /proc/self/cgroup; python3 runner.py {number} & sleep 0.3; exit 3");
        let lowered = place.lowered();
        let arguments =
            ["run", "--json", "--policy", &lowered, "--workspace", work, "--", "bash", "-c", &line];
        let inner = place.command(taken, &arguments);
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ >\"$0\"/cgroup.procs && exec \"$@\""]).arg(&delegated.0);
        command.arg(inner.get_program()).args(inner.get_args());
        command.env("TMPDIR", place.scratch.folder("tmp"));
        let ran = RunReport::of(&finish(&mut command, &[], Duration::from_secs(120)));
        assert_eq!(ran.exit_code, Some(3), "{taken}: {ran:?}");
        assert!(ran.stdout.contains("/stockade-test-") && ran.stdout.contains("/stockade-"));
        let reason = state(&ran.layers, "pid_namespace")["reason"].as_str().expect("a reason");
        assert!(!reason.contains("hunted down"), "{taken}: {reason}");
        let left = procs::none_left(Duration::from_secs(10), || procs::with_argument(&number));
        assert!(left.is_empty(), "{taken}: {left:?}");
        let gone =
            procs::until(Duration::from_secs(20), || delegated.cells().is_empty().then_some(()));
        assert!(gone.is_some(), "{taken}: {:?}", delegated.cells());
    }
}

// spec 5.4, 6.3
#[test]
fn repair_removes_what_sessions_that_were_killed_have_left_and_nothing_else() {
    let place = Place::new();
    let (tmp, delegated) = (place.scratch.folder("tmp"), Delegated::new());
    // Of no process: pids end at 2^22. And of one that lives.
    let (gone, alive) = (4_194_305, std::process::id());
    for pid in [gone, alive] {
        fs::create_dir_all(tmp.join(format!("stockade-tmp-{pid}-0/left"))).expect("a folder");
        fs::create_dir_all(delegated.0.join(format!("stockade-{pid}/7"))).expect("a cgroup");
    }
    fs::create_dir(tmp.join("stockade-tmp-of-somebody")).expect("a folder");
    let repair = || {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ >\"$0\"/cgroup.procs && exec \"$@\""]).arg(&delegated.0);
        command.arg(stockade_bin()).args(["doctor", "--repair", "--state-dir"]);
        command.arg(place.scratch.folder("state")).env("TMPDIR", &tmp);
        finish(&mut command, &[], Duration::from_secs(120))
    };
    let first = repair();
    assert_eq!((first.code(), first.out().lines().count()), (0, 2), "{}", first.out());
    assert!(!tmp.join(format!("stockade-tmp-{gone}-0")).exists());
    assert!(!delegated.0.join(format!("stockade-{gone}")).exists());
    assert!(tmp.join(format!("stockade-tmp-{alive}-0/left")).exists());
    assert!(tmp.join("stockade-tmp-of-somebody").exists());
    assert!(delegated.0.join(format!("stockade-{alive}/7")).exists());
    assert_eq!(repair().out(), "nothing was left behind\n");
    fs::remove_dir(delegated.0.join(format!("stockade-{alive}/7"))).expect("it is empty");
    fs::remove_dir(delegated.0.join(format!("stockade-{alive}"))).expect("it is empty");
}

// spec 6.3
#[test]
fn without_a_pid_namespace_nothing_outlives_a_runtime_that_was_killed() {
    let place = Place::new();
    for taken in BARE {
        let number = unique();
        let work = place.work.to_str().expect("UTF-8").to_owned();
        let line = format!("(setsid sleep {number} &); sleep {number}");
        let lowered = place.lowered();
        let arguments =
            ["run", "--policy", &lowered, "--workspace", &work, "--", "bash", "-c", &line];
        let mut runtime = place
            .command(taken, &arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("stockade");
        let two = || {
            (procs::with_argument(&number).iter().filter(|p| is_sleep(p.pid)).count() >= 2)
                .then_some(())
        };
        procs::until(Duration::from_secs(20), two).unwrap_or_else(|| {
            panic!("{taken}: both should sleep: {:?}", procs::with_argument(&number))
        });
        runtime.kill().expect("SIGKILL");
        runtime.wait().expect("it is gone");
        let left = procs::none_left(Duration::from_secs(10), || procs::with_argument(&number));
        assert!(left.is_empty(), "{taken}: {left:?}");
        assert_eq!(place.left(), [] as [PathBuf; 0], "{taken}: no temporary folder is left");
    }
}

fn is_sleep(pid: i32) -> bool {
    procs::executable(pid).is_some_and(|path| Path::new(&path).ends_with("sleep"))
}

// spec 5.8
#[test]
fn the_file_tools_are_held_by_the_same_rules_without_namespaces() {
    let place = Place::new();
    let outside = place.scratch.folder("outside");
    let call = |id: &str, path: PathBuf| {
        serde_json::json!({"type": "tool_use", "id": id, "name": "Write",
            "input": {"file_path": path, "content": "x"}})
    };
    let turn = serde_json::json!({"role": "assistant", "content": [
        call("inside", place.work.join("inside")),
        call("outside", outside.join("outside")),
        call("protected", place.work.join(".git/hooks/pre-commit")),
    ]});
    for taken in BARE {
        let lowered = place.lowered();
        let work = place.work.to_str().expect("UTF-8");
        let state = place.scratch.folder("state");
        let arguments = [
            "exec",
            "--policy",
            &lowered,
            "--workspace",
            work,
            "--state-dir",
            state.to_str().expect("UTF-8"),
            "--format",
            "anthropic",
            "-",
        ];
        let mut command = place.command(taken, &arguments);
        let ran = finish(&mut command, turn.to_string().as_bytes(), Duration::from_secs(120));
        assert_eq!(ran.code(), 0, "{taken}: {} {}", ran.out(), ran.err());
        assert!(place.work.join("inside").exists(), "{taken}: {}", ran.out());
        assert!(!outside.join("outside").exists(), "{taken}");
        assert!(!place.work.join(".git/hooks/pre-commit").exists(), "{taken}");
        fs::remove_file(place.work.join("inside")).expect("it was written");
        assert_eq!(place.left(), [] as [PathBuf; 0], "{taken}: no temporary folder is left");
    }
}

// spec 5.3, 10.2
#[test]
fn a_session_in_a_cell_names_the_call_it_lacks_and_runs_where_that_is_allowed() {
    let place = Place::new();
    copy_executable(stockade_bin(), &place.work.join("stockade"));
    lowered_policy(&place.work);
    let outer = place.work.join("outer.toml");
    let text =
        "name = \"outer\"\nextends = \"workspace-write\"\n[syscalls]\nallow = [\"openat2\"]\n";
    fs::write(&outer, text).expect("a policy");
    let nested = |policy: &str| {
        let inner =
            "./stockade run --policy ./lowered.toml -- bash -c 'echo inner; echo x > .envrc'";
        let work = place.work.to_str().expect("UTF-8");
        let mut command = Command::new(stockade_bin());
        command.args(["run", "--policy", policy, "--workspace", work, "--", "bash", "-c", inner]);
        finish(command.current_dir(&place.work), &[], Duration::from_secs(120))
    };
    let lacks = nested("workspace-write");
    assert_eq!((lacks.code(), lacks.out().as_str()), (125, ""), "{}", lacks.err());
    assert!(lacks.err().contains("allow = [\"openat2\"]"), "{}", lacks.err());
    let runs = nested(outer.to_str().expect("UTF-8"));
    assert_eq!((runs.code(), runs.out().as_str()), (0, "inner\n"), "{}", runs.err());
    assert!(!place.work.join(".envrc").exists(), "{}", runs.err());
}
