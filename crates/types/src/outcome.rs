use crate::{Refusal, SetupFailure};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a confined command ended (spec 6.6, 10.1). A timeout is never an exit code in here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// It ended by itself.
    Exited {
        /// Its exit code, 0 to 255.
        code: i32,
    },
    /// A signal ended it that Stockade did not send.
    Signaled {
        /// The signal's number.
        signal: i32,
    },
    /// Its time was up, and its whole tree was ended.
    TimedOut {
        /// The budget, in milliseconds.
        timeout_ms: u64,
    },
    /// A limit ended it.
    LimitExceeded {
        /// Which one.
        limit: LimitName,
    },
    /// It was cancelled, and its whole tree was ended.
    Cancelled {
        /// Why.
        reason: CancelReason,
    },
    /// Nothing ran: the confinement could not be set up.
    SetupFailed(SetupFailure),
    /// The confinement stood, but the program could not be executed in it.
    NotExecutable {
        /// The program, as it was asked for.
        program: String,
        /// The kernel's error number (`ENOENT`: not found there).
        errno: i32,
    },
    /// Nothing ran: it was refused.
    Refused(Refusal),
    /// The confinement was ended from outside (someone killed the launcher, the cell or the init);
    /// the kernel ended the tree with it.
    Lost {
        /// What is known about it.
        detail: String,
    },
}

/// Why a call was cancelled, lowest priority first (spec 1.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// The user interrupted or aborted.
    UserInterrupted,
    /// A sibling failed.
    SiblingError,
    /// The turn was discarded; no result is delivered.
    Discarded,
}

/// The limits that can end a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum LimitName {
    Memory,
    Pids,
    Cpu,
    Files,
    FileSize,
    Output,
}

/// What Stockade ended at the end of a call (spec 6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Killed {
    /// SIGTERM was sent to the tree.
    pub terminated: bool,
    /// How many processes got SIGTERM; 0 where that is not known.
    #[serde(default)]
    pub signalled: u32,
    /// The tree did not end within the grace, or was left over, and got SIGKILL.
    pub killed: bool,
    /// How many processes were still there when SIGKILL was sent.
    pub processes: u32,
    /// The signal that ended the main process after the first of these signals was sent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub main_signal: Option<i32>,
    /// The code with which the main process exited after the first of these signals was sent, as one does that cleans up.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub main_exit_code: Option<i32>,
    /// Neither a namespace nor a cgroup held the tree together: its processes were found by who descends from whom.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub best_effort: bool,
    /// The hunt for the last of them was given up: some may be left.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub outrun: bool,
    /// From the first signal to the last process gone, in milliseconds.
    pub took_ms: u64,
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LimitName::Memory => "memory",
            LimitName::Pids => "pids",
            LimitName::Cpu => "cpu",
            LimitName::Files => "files",
            LimitName::FileSize => "file_size",
            LimitName::Output => "output",
        })
    }
}
