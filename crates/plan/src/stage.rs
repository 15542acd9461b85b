use crate::Bytes;
use serde::{Deserialize, Serialize};

macro_rules! stages {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// The step of a set-up that failed. The names are stable: they appear in results and logs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum Stage { $($(#[$doc])* $variant,)* }

        impl Stage {
            const ALL: &[Stage] = &[$(Stage::$variant,)*];

            /// The stage's name in kebab case.
            pub fn name(self) -> &'static str {
                match self { $(Stage::$variant => $name,)* }
            }

            /// The stage with this number, as [`crate::record::Record`]s carry it.
            pub fn from_u8(number: u8) -> Option<Stage> {
                Self::ALL.get(usize::from(number)).copied()
            }
        }
    };
}

stages! {
    /// A message from the runtime could not be understood.
    Message = "message",
    /// unshare(2) of the session's user namespace.
    UserNamespace = "user-namespace",
    /// Writing uid_map, gid_map or setgroups.
    IdMap = "id-map",
    /// The session's own mount namespace and root.
    SessionRoot = "session-root",
    /// clone3(2) of the cell with its namespaces.
    CellClone = "cell-clone",
    /// A mount of the cell's tree; the subject is its target.
    Mount = "mount",
    /// pivot_root(2) into the cell's tree.
    PivotRoot = "pivot-root",
    /// Bringing up the loopback interface.
    Loopback = "loopback",
    /// Building the Landlock ruleset; the subject is the path.
    LandlockRuleset = "landlock-ruleset",
    /// clone3(2) of an init with its pid and mount namespace.
    InitClone = "init-clone",
    /// Mounting the call's /proc.
    MountProc = "mount-proc",
    /// Making a protected path read-only; the subject is the path.
    Protect = "protect",
    /// Writing the pid namespace's pid_max.
    PidMax = "pid-max",
    /// Making the call's cgroup, or entering it.
    Cgroup = "cgroup",
    /// clone(2) of the command.
    CommandClone = "command-clone",
    /// setsid(2), or making the terminal the controlling one.
    Session = "session",
    /// Putting stdin, stdout and stderr in their places.
    Descriptors = "descriptors",
    /// chdir(2) to the working directory.
    WorkingDirectory = "working-directory",
    /// setrlimit(2).
    Rlimit = "rlimit",
    /// Dropping capabilities.
    Capabilities = "capabilities",
    /// prctl(PR_SET_NO_NEW_PRIVS).
    NoNewPrivs = "no-new-privs",
    /// landlock_restrict_self(2).
    Landlock = "landlock",
    /// seccomp(2).
    Seccomp = "seccomp",
    /// execve(2) of the command. Not a failure of the set-up: the program is missing or cannot run.
    Exec = "exec",
    /// Starting the file worker.
    Worker = "worker",
    /// Opening a terminal of the view's own.
    Terminal = "terminal",
}

/// A step failed, with the kernel's word for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageFailure {
    /// Which step.
    pub stage: Stage,
    /// The kernel's error number; 0 where it was not the kernel that refused.
    pub errno: i32,
    /// What the step was working on; may be empty.
    pub subject: Bytes,
    /// More, in words; may be empty.
    pub detail: String,
}
