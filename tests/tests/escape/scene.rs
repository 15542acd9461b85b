//! The fake host of one attack: a home full of secrets, files beside the workspace, listeners, another program, and a careless parent
//! that leaves descriptors open. None of it is anybody's.

use crate::listeners::Listeners;
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use stockade_tests::{FakeHome, Scratch, copy_executable, finish, procs, tree, unique};

const VICTIM: &str = include_str!("victim.py");
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Whose attack it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The user of the tests.
    Me,
    /// A user without any privilege, where the tests' own is root.
    Nobody,
}

/// See the module.
pub struct Scene {
    scratch: Scratch,
    who: Who,
    home: FakeHome,
    listeners: Listeners,
    victim: Option<Victim>,
    /// In the argument and environment of every process of the attack.
    tag: String,
}

struct Victim {
    child: Child,
    name: String,
    said: Value,
}

/// What must not change: the home, what lies beside the workspace, and what may only be read.
type Surroundings = [tree::Snapshot; 3];

impl Scene {
    /// Sets everything up; a victim only where the program asks for one.
    pub fn new(who: Who, program: &str) -> Self {
        let scratch = Scratch::new();
        let home = FakeHome::new(&scratch.folder("home"));
        let marker = home.marker().to_owned();
        let outside = scratch.folder("outside");
        let shared = scratch.folder("shared");
        for folder in [&outside, &shared] {
            fs::write(folder.join("secret"), if *folder == outside { &marker } else { "public" })
                .expect("a file");
            fs::write(folder.join("victim"), "untouched\n").expect("a file");
            fs::create_dir(folder.join("dir")).expect("a folder");
        }
        scratch.folder("trap");
        let script = scratch.folder("other").join("spring");
        let line = format!("#!/bin/sh\ntouch {}/trap/sprung\n", scratch.path().display());
        fs::write(&script, line).expect("a script");
        fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("a mode");
        let work = if program.contains("git") && !program.contains("{plain}") {
            scratch.repository("work")
        } else {
            scratch.folder("work")
        };
        fs::write(work.join("README.md"), "# Work\n").expect("a file");
        fs::create_dir_all(work.join("private")).expect("a folder");
        fs::write(work.join("private/key"), &marker).expect("a file");
        repositories_below(&work, program);
        for name in ["int80", "uring"] {
            if program.contains(&format!("{{c:{name}}}")) {
                compile(name, &work.join(name));
            }
        }
        if program.contains("{node}") {
            make_node(&work.join("node"));
        }
        let listeners = Listeners::start(&marker, &scratch.path(), program);
        let mut scene = Self { scratch, who, home, listeners, victim: None, tag: unique() };
        scene.give_away();
        if program.contains("{setuid}") {
            let copy = scene.path("outside/id");
            copy_executable(Path::new("/usr/bin/id"), &copy);
            fs::set_permissions(&copy, PermissionsExt::from_mode(0o4755)).expect("a mode");
        }
        if program.contains("{victim") {
            scene.victim = Some(scene.start_victim());
        }
        scene
    }

    /// Everything belongs to the attacker: what then stops him is the sandbox and not whose files they are.
    fn give_away(&self) {
        if let Some(uid) = self.uid() {
            let owner = format!("{uid}:{uid}");
            let mut command = Command::new("chown");
            let status = command.args(["-hR", &owner]).arg(self.scratch.path()).status();
            assert!(status.is_ok_and(|status| status.success()), "root can give files away");
        }
    }

    /// The user to become, where it is another one.
    fn uid(&self) -> Option<u32> {
        (self.who == Who::Nobody).then_some(65534)
    }

    fn dress<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        self.home.dress(command).env("PATH", PATH).env("STOCKADE_ESCAPE", &self.tag);
        for (name, value) in self.listeners.environment() {
            command.env(name, value);
        }
        if let Some(uid) = self.uid() {
            command.uid(uid).gid(uid);
        }
        command.current_dir(self.path("work"))
    }

    fn start_victim(&self) -> Victim {
        let name = format!("/stockade-{}", unique());
        let mut command = Command::new("python3");
        let outside = self.path("outside");
        let number = name.trim_start_matches("/stockade-").to_owned();
        command.args(["-c", VICTIM, "serve", &number, self.marker()]).arg(outside);
        self.dress(&mut command).env_remove("STOCKADE_ESCAPE");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("python3 can be run");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("the victim's word");
        let said = serde_json::from_str(&line).unwrap_or_else(|e| panic!("the victim: {e}"));
        Victim { child, name: number, said }
    }

    /// A path of the fake host.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// What every secret of the fake host contains.
    pub fn marker(&self) -> &str {
        self.home.marker()
    }

    /// Fills in the places of a program or an option.
    pub fn fill(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for comment in ["{plain}", "{nested}", "{bare}", "{linked}", "{module}"] {
            text = text.replace(comment, "");
        }
        // As a file that can be executed, as a line, and as a program of the attacker's that makes such a file.
        let line = format!("touch {}; false", self.path("trap/sprung").display());
        let script = "set -- ''; t() { printf '#!/bin/sh\\n%s\\n' '{trap-line}' > \"$1\"; chmod +x \"$1\"; }; t";
        text = text.replace("{trap-script}", script).replace("{trap-line}", &line);
        text = text.replace("{trap-path}", self.path("other/spring").to_str().expect("UTF-8"));
        for folder in ["outside", "work", "shared", "other", "trap", "home"] {
            text = text.replace(
                &format!("{{{folder}}}"),
                self.path(folder).to_str().expect("it is UTF-8"),
            );
        }
        text = text.replace("{node}", self.path("work/node").to_str().expect("it is UTF-8"));
        text = text.replace("{setuid}", self.path("outside/id").to_str().expect("it is UTF-8"));
        text = text.replace("{tag}", &self.tag).replace("{c:", "./").replace("int80}", "int80");
        text = text.replace("uring}", "uring");
        text = self.listeners.fill(&text);
        if text.contains("{handle}") {
            text = text.replace("{handle}", &handle_of(&self.path("outside/secret")));
        }
        if let Some(victim) = &self.victim {
            for what in ["address", "key", "stored", "queue", "pts"] {
                let value = victim.said[what].to_string().replace('"', "");
                text = text.replace(&format!("{{victim-{what}}}"), &value);
            }
            text = text.replace("{victim-name}", &victim.name);
            text = text.replace("{victim}", &victim.child.id().to_string());
        }
        text
    }

    /// Runs this command line as the attacker, with a parent that leaves descriptors open: 7 to write to a file outside, 8 to read a
    /// secret, 9 a folder, and 6 a connection where the program is about one.
    pub fn run(&self, argv: &[OsString], with_connection: bool) -> stockade_tests::Finished {
        let connect = if with_connection {
            format!("exec 6<>/dev/tcp/127.0.0.1/{};", self.listeners.tcp())
        } else {
            String::new()
        };
        // Not executed in place: the attacker's parent is a process of the host.
        let line = format!(
            "exec 7>>\"$0/victim\" 8<\"$0/secret\" 9<\"$0\"; {connect} \"$@\"; status=$?; : {}; exit $status",
            self.marker()
        );
        let mut command = Command::new("bash");
        command.args(["-c", &line]).arg(self.path("outside")).args(argv);
        self.dress(&mut command);
        finish(&mut command, &[], Duration::from_secs(120))
    }

    /// Runs a line as the person whose host it is.
    pub fn person(&self, line: &str) -> String {
        let mut command = Command::new("bash");
        command.args(["-c", line]);
        self.dress(&mut command).env("GIT_AUTHOR_NAME", "P").env("GIT_COMMITTER_NAME", "P");
        command.env("GIT_AUTHOR_EMAIL", "p@example.invalid");
        command.env("GIT_COMMITTER_EMAIL", "p@example.invalid");
        let finished = finish(&mut command, &[], Duration::from_secs(120));
        finished.out() + &finished.err()
    }

    /// What must not change, as it is now.
    pub fn surroundings(&self) -> Surroundings {
        ["home", "outside", "shared"].map(|folder| tree::snapshot(&self.path(folder)))
    }

    /// Whether a listener has received `exfil`.
    pub fn heard(&self) -> bool {
        self.listeners.heard()
    }

    /// Whether the other program was ended or stopped.
    pub fn victim_is_hurt(&self) -> bool {
        self.victim.as_ref().is_some_and(|victim| {
            let stat = fs::read_to_string(format!("/proc/{}/stat", victim.child.id()));
            let state = stat.ok().and_then(|stat| stat.rsplit_once(") ")?.1.chars().next());
            // A process that is gone was ended.
            matches!(state, None | Some('Z' | 'X' | 'T' | 't'))
        })
    }

    /// Processes of the attack that are alive.
    pub fn survivors(&self) -> Vec<procs::Process> {
        procs::marked(&self.tag)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for process in self.survivors() {
            let pid = nix::unistd::Pid::from_raw(process.pid);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).ok();
        }
        let Some(mut victim) = self.victim.take() else { return };
        victim.child.kill().ok();
        victim.child.wait().ok();
        let mut clean = Command::new("python3");
        clean.args(["-c", VICTIM, "clean", &victim.name, "", ""]);
        self.dress(&mut clean).status().ok();
    }
}

/// The repositories below the workspace that a program is about.
fn repositories_below(work: &Path, program: &str) {
    let git = |line: &str| {
        let who = "-c user.name=T -c user.email=t@example.invalid -c protocol.file.allow=always";
        let line = line.replace("git ", &format!("git {who} "));
        let output = Command::new("bash").args(["-ec", &line]).current_dir(work).output();
        let output = output.expect("bash can be run");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    };
    if program.contains("{nested}") {
        git("git init -q nested; git -C nested commit -q --allow-empty -m x");
    }
    if program.contains("{bare}") {
        git("git init -q --bare bare.git");
    }
    if program.contains("{linked}") {
        git("git worktree add -q linked");
    }
    if program.contains("{module}") {
        git("git clone -q . ../origin; git submodule --quiet add ../origin module");
    }
}

fn compile(name: &str, to: &Path) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/escape/programs");
    let source = folder.join(name).with_extension("c");
    let status = Command::new("gcc").arg("-o").args([to, &source]).status();
    assert!(status.is_ok_and(|status| status.success()), "gcc can compile {source:?}");
}

fn make_node(path: &Path) {
    // A harmless one, /dev/zero: that it can be opened at all is what counts.
    let mut command = Command::new("mknod");
    let status = command.arg(path).args(["-m", "0666", "c", "1", "5"]).status();
    assert!(status.is_ok_and(|status| status.success()), "root can make a device node");
}

/// open_by_handle_at(2) takes what this returns: type and bytes, as a Python literal.
fn handle_of(path: &Path) -> String {
    let program = "import ctypes, struct, sys\nlibc = ctypes.CDLL(None)\n\
        buffer = ctypes.create_string_buffer(struct.pack('Ii', 128, 0) + bytes(128))\nmount = ctypes.c_int()\n\
        assert libc.name_to_handle_at(-100, sys.argv[1].encode(), buffer, ctypes.byref(mount), 0) == 0\n\
        size, kind = struct.unpack('Ii', buffer.raw[:8])\nprint((kind, buffer.raw[8:8 + size]))";
    let output = Command::new("python3").args(["-c", program]).arg(path).output().expect("python3");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
