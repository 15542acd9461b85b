use std::time::Duration;

/// How a command is to be run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Wall time, from the start; `None` is no limit.
    pub deadline: Option<Duration>,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    /// How long processes that the main one left behind may go on writing before they are killed (spec 6.2).
    pub drain: Duration,
    /// Bytes of output kept in memory, each of stdout and stderr: the first half and the last half.
    pub output_limit: usize,
    /// What to write to stdin, which is closed after it. `None` leaves stdin as the command's specification says.
    pub stdin: Option<Vec<u8>>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            deadline: None,
            grace: Duration::from_secs(2),
            drain: Duration::from_millis(500),
            output_limit: 1 << 20,
            stdin: None,
        }
    }
}
