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
    /// Peak memory of the whole tree, in KiB: the most anonymous memory that it was seen to use when it was looked at (every
    /// 20 ms at first, four times a second in the end), or `max_rss_kib` if that is more. `None` where nothing shows the tree and
    /// nothing else, as without a pid namespace: what the largest process had is not what all had together.
    #[serde(default)]
    pub peak_memory_kib: Option<u64>,
    /// Processes and threads that it started, the main process included; `None` where that is not known, as without a pid
    /// namespace.
    #[serde(default)]
    pub started: Option<u32>,
    /// Context switches because a process waited.
    #[serde(default)]
    pub voluntary_switches: u64,
    /// Context switches because a time slice was up.
    #[serde(default)]
    pub involuntary_switches: u64,
}
