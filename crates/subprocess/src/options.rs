use crate::output::{OutputSink, ProgressFn};
use std::fmt;
use std::time::Duration;
use stockade_sandbox::Exit;
use tokio_util::sync::CancellationToken;

/// How a command is to be run.
pub struct RunOptions {
    /// Wall time, from the start; `None` is no limit. See [`crate::Budget`] for the clock.
    pub deadline: Option<Duration>,
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    /// Fires when no grace is to be given any more: the tree gets SIGKILL at once, and counts as interrupted by the user unless
    /// something was ending it already.
    pub kill: CancellationToken,
    /// What becomes of processes that the main one leaves behind.
    pub leftovers: Leftovers,
    /// Bytes of output kept in memory, each of stdout, stderr, and both in the order of arrival: the first half and the last
    /// half.
    pub output_limit: usize,
    /// What to write to stdin, which is closed after it. `None` leaves stdin as the command's specification says.
    pub stdin: Option<Vec<u8>>,
    /// Takes all output as it comes, however much it is.
    pub sink: Option<Box<dyn OutputSink>>,
    /// Is told of new output, at most ten times a second.
    pub progress: Option<ProgressFn>,
    /// Is told when the main process has ended and others live on: how it ended, and how many.
    pub on_main_ended: Option<Box<dyn FnOnce(Exit, u32) + Send>>,
}

/// What becomes of processes that the main one leaves behind (spec 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftovers {
    /// Those that hold a pipe may go on writing for so long; then all are killed.
    End {
        /// How long.
        drain: Duration,
    },
    /// They live on, and the command goes on until the last of them has ended.
    Keep,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            deadline: None,
            grace: Duration::from_secs(2),
            kill: CancellationToken::new(),
            leftovers: Leftovers::End { drain: Duration::from_millis(500) },
            output_limit: 1 << 20,
            stdin: None,
            sink: None,
            progress: None,
            on_main_ended: None,
        }
    }
}

impl fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunOptions")
            .field("deadline", &self.deadline)
            .field("grace", &self.grace)
            .field("leftovers", &self.leftovers)
            .field("output_limit", &self.output_limit)
            .finish_non_exhaustive()
    }
}
