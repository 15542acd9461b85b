use serde::{Deserialize, Serialize};

/// What a command used, its whole reaped tree together (spec 6.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Wall time, in microseconds.
    pub wall_us: u64,
    /// Time in user mode, in microseconds.
    pub user_us: u64,
    /// Time in the kernel, in microseconds.
    pub system_us: u64,
    /// Peak memory of its largest process, in KiB (`ru_maxrss`, getrusage(2)).
    pub max_rss_kib: u64,
}
