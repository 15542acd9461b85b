use crate::Bytes;
use serde::{Deserialize, Serialize};

/// One command to start in a cell. Beside it travel the init's end of the lifeline, then stdin, stdout and stderr; with a
/// terminal, which is all three, the lifeline alone.
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
    /// What the audit records of its Landlock domain are to be known by: the name that the process has which makes the domain. At most
    /// 15 bytes, no NUL in it. Takes ABI 7; without it the kernel logs nothing of what the command is refused.
    pub audit_mark: Option<Bytes>,
    /// How many bytes of memory the whole tree may use; watched by its init.
    pub memory: Option<u64>,
    /// The `memory.max` of the call's cgroup in bytes, where the cell has one with that controller.
    pub memory_max: Option<u64>,
    /// Its `pids.max`.
    pub pids_max: Option<u64>,
    /// A terminal of the view's own to open for it, as its three streams and the controlling one of its session. The other end
    /// travels back beside [`crate::CellReply::Spawned`].
    pub terminal: Option<TerminalSize>,
}

/// A terminal's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Rows of characters.
    pub rows: u16,
    /// Columns of characters.
    pub columns: u16,
    /// Width in pixels; 0 where unknown.
    pub pixel_width: u16,
    /// Height in pixels; 0 where unknown.
    pub pixel_height: u16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self { rows: 24, columns: 80, pixel_width: 0, pixel_height: 0 }
    }
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
