use std::error::Error;
use stockade_sandbox::SandboxError;
use stockade_subprocess::tasks::TaskError;
use stockade_types::{Denial, Refusal, SetupFailure};

/// Why a tool did not do what it was asked. The set-up's failure, the sandbox's refusal and the tool's own
/// failure are never confused.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The arguments do not fit the schema, or contradict each other.
    #[error("{0}")]
    InvalidArguments(String),
    /// The tool understood and cannot do it: no such file, text not found, …
    #[error("{0}")]
    Business(String),
    /// The sandbox refused something while it was being done.
    #[error("{message}")]
    Denied {
        /// What happened, in words.
        message: String,
        /// What was refused.
        denials: Vec<Denial>,
    },
    /// Refused before anything ran.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The confinement could not be set up; nothing ran.
    #[error(transparent)]
    SetupFailed(#[from] SetupFailure),
    /// The confinement ended under the call.
    #[error("{0}")]
    Lost(String),
    /// The call was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The call's time was up.
    #[error("Tool execution timed out after {timeout_ms}ms{}", queued(.queued_ms))]
    TimedOut {
        /// The budget, in milliseconds.
        timeout_ms: u64,
        /// How long it waited to be admitted somewhere, in milliseconds; that does not count (spec 2.9).
        queued_ms: u64,
    },
    /// Anything else that a tool of somebody else's meets.
    #[error(transparent)]
    Other(Box<dyn Error + Send + Sync>),
}

fn queued(queued_ms: &u64) -> String {
    if *queued_ms == 0 {
        String::new()
    } else {
        format!(" (queued_ms: {queued_ms}, which did not count)")
    }
}

impl From<TaskError> for ToolError {
    fn from(error: TaskError) -> Self {
        match error {
            TaskError::Sandbox(error) => error.into(),
            other => ToolError::Business(other.to_string()),
        }
    }
}

impl From<SandboxError> for ToolError {
    fn from(error: SandboxError) -> Self {
        match error {
            SandboxError::Setup(failure) => ToolError::SetupFailed(failure),
            SandboxError::Refused(refusal) => ToolError::Refused(refusal),
            lost @ (SandboxError::SessionOver(_) | SandboxError::CellLost(_)) => {
                ToolError::Lost(lost.to_string())
            }
        }
    }
}
