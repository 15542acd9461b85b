use crate::Bytes;
use serde::{Deserialize, Serialize};

/// One command to start in a cell. Beside it travel four descriptors: the init's end of the lifeline,
/// then stdin, stdout and stderr.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandPlan {
    /// The runtime's number for the call; answers carry it.
    pub id: u64,
    /// The argument vector, byte for byte; never empty, no NUL in it.
    pub argv: Vec<Bytes>,
    /// The whole environment as `NAME=value`.
    pub env: Vec<Bytes>,
    /// The files to try to execute, in this order (one, or one for each folder of `PATH`).
    pub candidates: Vec<Bytes>,
    /// The working directory, inside.
    pub cwd: Bytes,
    /// Resource limits to set before the exec.
    pub rlimits: Vec<RlimitPlan>,
    /// The highest pid of the call's pid namespace, which bounds its processes (kernel 6.14 on).
    pub pid_max: Option<u32>,
    /// How many bytes of memory the whole tree may use; watched by its init.
    pub memory: Option<u64>,
    /// Whether stdin is a terminal that becomes the controlling one of the command's session.
    pub controlling_terminal: bool,
}

/// One resource limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RlimitPlan {
    /// The `RLIMIT_*` number of setrlimit(2).
    pub resource: u32,
    /// What holds, in the resource's unit.
    pub soft: u64,
    /// The most that the command could raise it to.
    pub hard: u64,
}
