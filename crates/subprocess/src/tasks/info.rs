use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};
use stockade_types::{Denial, Killed, LimitMet, Outcome, Usage};

/// The name of a task, unique in its session: `task_1`, `task_2`, …
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(pub String);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TaskId {
    pub(super) fn of(number: u64) -> Self {
        Self(format!("task_{number}"))
    }

    /// Its number; `None` if it is no task's name, and so none that may become a file's.
    pub fn number(&self) -> Option<u64> {
        let digits = self.0.strip_prefix("task_")?;
        digits.parse().ok().filter(|number: &u64| number.to_string() == digits)
    }
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Its main process runs.
    Running,
    /// Its main process has ended; others live on.
    LivesOn,
    /// Nothing of it is left.
    Ended,
    /// The runtime that had it is gone, and it with it.
    Lost,
}

impl TaskStatus {
    /// Whether something of it may still run.
    pub fn is_alive(self) -> bool {
        matches!(self, TaskStatus::Running | TaskStatus::LivesOn)
    }
}

impl fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TaskStatus::Running => "running",
            TaskStatus::LivesOn => "lives on",
            TaskStatus::Ended => "ended",
            TaskStatus::Lost => "lost",
        })
    }
}

/// What there is to know about a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskInfo {
    /// Its name.
    pub id: TaskId,
    /// What it is, for people: the command, or what its owner calls it.
    pub description: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// When it started, in milliseconds of Unix time.
    pub started_ms: u64,
    /// When the last of it ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended_ms: Option<u64>,
    /// Its time, in milliseconds; it is ended then.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub deadline_ms: Option<u64>,
    /// How much it has written, kept or not.
    pub bytes: u64,
    /// What is not kept of that: its policy's `task_output`, the session's quota and a disk without room bound it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub not_kept: Vec<ByteRange>,
    /// Processes that live on after the main one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub left: Option<u32>,
    /// How it ended, where it is a command.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub outcome: Option<Outcome>,
    /// What had to be ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub killed: Option<Killed>,
    /// What it used.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<Usage>,
    /// What was refused to it, or put aside, with the evidence.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub denials: Vec<Denial>,
    /// The limits that it ran up against without being ended by them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub limits_met: Vec<LimitMet>,
    /// What its owner said of its end, or what is missing of its output.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
}

/// Bytes of an output, `to` not included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteRange {
    /// The first.
    pub from: u64,
    /// The first that is none of them.
    pub to: u64,
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes {} to {}", self.from, self.to)
    }
}

impl TaskInfo {
    /// One that has just started.
    pub(super) fn running(id: TaskId, description: String) -> Self {
        Self {
            id,
            description,
            status: TaskStatus::Running,
            started_ms: now_ms(),
            ended_ms: None,
            deadline_ms: None,
            bytes: 0,
            not_kept: Vec::new(),
            left: None,
            outcome: None,
            killed: None,
            usage: None,
            denials: Vec::new(),
            limits_met: Vec::new(),
            note: None,
        }
    }

    /// One whose record says nothing.
    pub(super) fn unreadable(id: TaskId, error: &io::Error) -> Self {
        Self {
            status: TaskStatus::Lost,
            started_ms: 0,
            note: Some(format!("what was written down of it cannot be read: {error}")),
            ..Self::running(id, String::new())
        }
    }
}

pub(super) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    crate::ladder::millis(now)
}
