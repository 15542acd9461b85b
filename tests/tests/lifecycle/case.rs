use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use stockade_tests::{
    Finished, RunReport, Scratch, copy_executable, finish, procs, stockade_bin, unique,
};

/// Who runs `stockade`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Whoever runs the tests.
    Caller,
    /// Somebody without privileges: another user where the caller is root.
    OrdinaryUser,
    /// The same where no namespace can be had: Landlock, filter and limits alone.
    WithoutNamespaces,
}

/// One case: a workspace of its own, and a mark that every process of it carries in its environment.
pub struct Case {
    who: Who,
    scratch: Scratch,
    /// A copy of the binary that everyone may execute, shared by the cases that run at the same time.
    binaries: Arc<Scratch>,
    mark: String,
}

/// Far longer than any case takes: a hang is a failure with a name.
const HANG: Duration = Duration::from_secs(120);
/// How long the kernel may take to tidy up what was killed.
const TIDY: Duration = Duration::from_secs(10);
/// An ordinary user, where the caller is root.
const NOBODY: u32 = 65534;

fn binaries() -> Arc<Scratch> {
    static SHARED: Mutex<Weak<Scratch>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let scratch = Arc::new(Scratch::new());
        copy_executable(stockade_bin(), &scratch.path().join("stockade"));
        *shared = Arc::downgrade(&scratch);
        scratch
    })
}

impl Case {
    pub fn new(who: Who) -> Self {
        let case = Self { who, scratch: Scratch::new(), binaries: binaries(), mark: unique() };
        if who == Who::WithoutNamespaces {
            case.policy_with("");
        }
        for folder in ["work", "home", "state"] {
            let folder = case.scratch.folder(folder);
            if case.changes_user() {
                std::os::unix::fs::chown(folder, Some(NOBODY), Some(NOBODY)).expect("chown");
            }
        }
        case
    }

    /// Whether a pid namespace holds its processes.
    pub fn has_namespaces(&self) -> bool {
        self.who != Who::WithoutNamespaces
    }

    fn changes_user(&self) -> bool {
        self.who != Who::Caller && nix::unistd::geteuid().is_root()
    }

    /// The case's own policy, if it has one.
    fn policy(&self) -> Option<PathBuf> {
        let path = self.scratch.path().join("policy.toml");
        path.exists().then_some(path)
    }

    /// From now on under `workspace-write` with these lines. It asks for no more than there is.
    pub fn policy_with(&self, lines: &str) {
        let require = match self.who {
            Who::WithoutNamespaces => "require = [\"landlock\", \"seccomp\"]\n",
            _ => "",
        };
        let policy = format!("name = \"case\"\nextends = \"workspace-write\"\n{require}{lines}");
        fs::write(self.scratch.path().join("policy.toml"), policy).expect("a policy");
    }

    /// The workspace.
    pub fn work(&self) -> PathBuf {
        self.scratch.path().join("work")
    }

    /// The folder of the sessions.
    pub fn state(&self) -> PathBuf {
        self.scratch.path().join("state")
    }

    /// A number that stands in the environment of each of its processes, fit for `sleep`.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// `stockade` with these arguments, as the case's user, as a list: for who starts it in a terminal.
    pub fn argv(&self, arguments: &[&str]) -> Vec<String> {
        let mut argv = Vec::new();
        if self.changes_user() {
            argv.push("setpriv".to_owned());
            argv.extend([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")]);
            argv.push("--clear-groups".to_owned());
        }
        if self.who == Who::WithoutNamespaces {
            // In a user namespace that may make none, by someone who has lost what could make others.
            let forbid = "echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all \"$@\"";
            let unshare = ["unshare", "--user", "--map-current-user", "--keep-caps"];
            argv.extend(unshare.iter().chain(&["sh", "-c", forbid, "sh"]).map(ToString::to_string));
        }
        argv.push("env".to_owned());
        if arguments.first() != Some(&"shell") {
            // As where nobody has logged in: a terminal has set it, CI has not.
            argv.push("--unset=SHELL".to_owned());
        }
        argv.push(format!("HOME={}", self.scratch.path().join("home").display()));
        argv.push(self.binaries.path().join("stockade").display().to_string());
        let mut arguments = arguments.iter().map(|&argument| argument.to_owned());
        argv.extend(arguments.next());
        if let Some(policy) = self.policy()
            && argv.last().is_some_and(|name| ["run", "shell", "exec"].contains(&name.as_str()))
        {
            argv.extend(["--policy".to_owned(), policy.display().to_string()]);
        }
        argv.extend(arguments);
        argv
    }

    /// `stockade` with these arguments.
    pub fn stockade(&self, arguments: &[&str]) -> Command {
        let argv = self.argv(arguments);
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).current_dir(self.work());
        command
    }

    /// `stockade run` with these options, of this line of bash.
    pub fn run(&self, options: &[&str], line: &str) -> Command {
        let mark = format!("STOCKADE_TEST_MARK={}", self.mark);
        let mut command = self.stockade(&["run", "--env", &mark]);
        command.args(options).args(["--", "bash", "-c", line]);
        command
    }

    /// Runs it to its end, and looks that nothing is left.
    pub fn plain(&self, options: &[&str], line: &str) -> Finished {
        let finished = finish(&mut self.run(options, line), &[], HANG);
        self.nothing_is_left();
        finished
    }

    /// The same with `--json`.
    pub fn report(&self, options: &[&str], line: &str) -> RunReport {
        self.report_of(options, line, &[])
    }

    /// The same with this stdin.
    pub fn report_of(&self, options: &[&str], line: &str, stdin: &[u8]) -> RunReport {
        let options = [&["--json"], options].concat();
        let finished = finish(&mut self.run(&options, line), stdin, HANG);
        self.nothing_is_left();
        RunReport::of(&finished)
    }

    /// Starts it with `--json`, to be signalled meanwhile; both its outputs are piped.
    pub fn start(&self, options: &[&str], line: &str) -> Child {
        let options = [&["--json"], options].concat();
        let mut command = self.run(&options, line);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("stockade starts")
    }

    /// The report of one that was started, once it has ended.
    pub fn report_of_started(&self, child: Child) -> (RunReport, Option<i32>) {
        let (pid, (tell, ended)) = (child.id(), std::sync::mpsc::channel());
        std::thread::spawn(move || tell.send(child.wait_with_output()));
        let output = ended.recv_timeout(HANG).unwrap_or_else(|_| {
            let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
            panic!("it hangs; are the signals ignored that it was sent? scripts/test sees to that")
        });
        let output = output.expect("stockade ends");
        self.nothing_is_left();
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("no report ({error}): {}", String::from_utf8_lossy(&output.stderr))
        });
        (report, output.status.code())
    }

    /// Waits until a file of the workspace is there.
    pub fn waits_for(&self, name: impl AsRef<OsStr>) {
        let path = self.work().join(name.as_ref());
        let found = procs::until(Duration::from_secs(30), || path.exists().then_some(()));
        assert!(found.is_some(), "{path:?} did not come into being");
    }

    /// Every process that carries the mark is gone.
    pub fn nothing_is_left(&self) {
        let left = procs::none_left(TIDY, || procs::marked(&self.mark));
        let shown: Vec<_> = left.iter().map(|p| (p, procs::executable(p.pid))).collect();
        assert!(left.is_empty(), "still alive: {shown:?}");
    }
}

impl Drop for Case {
    /// A case that failed leaves nothing behind either.
    fn drop(&mut self) {
        for left in procs::marked(&self.mark) {
            let pid = nix::unistd::Pid::from_raw(left.pid);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).ok();
        }
    }
}

/// Sends a signal to a process.
pub fn signal(child: &Child, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, signal).expect("it can be signalled");
}

/// Whether the sizes are to be whole.
pub fn full() -> bool {
    std::env::var_os("STOCKADE_LIFECYCLE_FULL").is_some_and(|value| value == "1")
}
