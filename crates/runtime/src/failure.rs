use crate::caught::caught;
use crate::session_log::LogError;
use std::error::Error;
use stockade_tools::{ToolError, describe_denial};
use stockade_types::{Denial, Refusal};

/// The longest error text outside `<tool_use_error>`, in characters.
const MESSAGE_CHARS_MAX: usize = 500;
/// How far a cause chain is followed.
const CAUSES_MAX: usize = 12;

/// Why a call has no output of its own. Every one becomes a result (spec 2.14).
#[derive(Debug, thiserror::Error)]
pub enum CallFailure {
    /// It was submitted as broken.
    #[error("{0}")]
    Broken(String),
    /// No tool has this name.
    #[error("No such tool available: {0}")]
    UnknownTool(String),
    /// The tool failed, refused the arguments, or was refused by its sandbox.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// Refused by a hook, a guard or the approver.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Refused by an approver who wants the whole turn to stop (spec 1.12).
    #[error("{0}")]
    Stopped(Refusal),
    /// Somebody else's code panicked.
    #[error("{what} panicked: {message}")]
    Panicked {
        /// Whose code.
        what: String,
        /// What the panic said.
        message: String,
    },
    /// Cancelled before its body ran.
    #[error("ABORTED_BEFORE_DISPATCH: the turn was aborted before this call ran")]
    AbortedBeforeDispatch,
    /// Cancelled while its body ran; the body has ended. In the tool's own words, where it has some (spec 2.10).
    #[error("ABORTED: {}", .0.as_deref().unwrap_or("the turn was aborted while this call ran, and the call was stopped"))]
    Aborted(Option<String>),
    /// Stopped, but its body holds its thread and could not be dropped: it may still be at work.
    #[error("{0}\n[its code does not give its thread back, so it may still be running]")]
    StillRuns(Box<CallFailure>),
    /// Cancelled because a sibling failed (spec 1.11).
    #[error("Cancelled: parallel tool call {sibling} errored")]
    SiblingErrored {
        /// The sibling, described.
        sibling: String,
    },
    /// Cancelled because its turn was discarded (spec 1.15). Nobody sees this.
    #[error("Cancelled: the turn was discarded")]
    Discarded,
    /// Not run because an earlier result stopped the turn (spec 1.18).
    #[error("Tool cancelled because a previous tool result requested a turn stop.")]
    TurnStopped,
    /// The tool returned something else than it declares (spec 2.11).
    #[error("ToolOutputError: {tool} returned something else than it declares: {reason}")]
    Output {
        /// The tool.
        tool: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Only exclusive calls may change the turn's context (spec 1.20).
    #[error(
        "ToolOutputError: {0} changed the turn's context in a call that runs beside others: the change is refused"
    )]
    ParallelContextChange(String),
    /// A change of the turn's context that cannot be made, or that its tool never declared (spec 1.20).
    #[error(
        "ToolOutputError: {tool} returned a change of the turn's context that is refused: {reason}"
    )]
    ContextChange {
        /// The tool.
        tool: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A record that it needs could not be written to the ledger, so it did not run.
    #[error("the call was not run, because the ledger cannot be written: {0}")]
    NotInLedger(String),
    /// Its call record could not be written, so it did not run.
    #[error("the call was not run, because it could not be recorded: {0}")]
    NotRecorded(#[from] LogError),
}

/// A tool's own error, in words: what it is made of is its own code, which may panic.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Told {
    message: String,
    source: Option<Box<Told>>,
}

impl Told {
    fn of(error: &(dyn Error + 'static), depth: usize) -> Self {
        let cause = error.source().filter(|_| depth < CAUSES_MAX);
        let source = cause.map(|cause| Box::new(Self::of(cause, depth + 1)));
        Self { message: error.to_string(), source }
    }
}

impl CallFailure {
    /// Why something could not be written down, without what that means for a call that has not run yet.
    pub(crate) fn cause(&self) -> String {
        match self {
            CallFailure::NotInLedger(why) => why.clone(),
            CallFailure::NotRecorded(why) => why.to_string(),
            other => other.to_string(),
        }
    }

    /// A tool's failure. Asked once what it says, here, where a panic of it is only that.
    pub(crate) fn of_tool(error: ToolError) -> Self {
        let ToolError::Other(error) = error else { return CallFailure::Tool(error) };
        let said = caught(|| Told::of(&*error, 1));
        let _ = caught(|| drop(error));
        match said {
            Ok(said) => CallFailure::Tool(ToolError::Other(Box::new(said))),
            Err(panic) => {
                CallFailure::Panicked { what: "the tool's error".to_owned(), message: panic.0 }
            }
        }
    }

    /// What the model is told.
    pub(crate) fn model_text(&self) -> String {
        match self {
            CallFailure::Broken(message) => message.clone(),
            CallFailure::UnknownTool(_) => tool_use_error(&format!("Error: {self}")),
            CallFailure::Tool(ToolError::InvalidArguments(message)) => {
                tool_use_error(&format!("InputValidationError: {message}"))
            }
            CallFailure::Tool(ToolError::Business(message)) => tool_use_error(message),
            CallFailure::Tool(ToolError::Denied { message, denials }) => {
                let mut lines = vec![short(message)];
                lines.extend(denials.iter().map(describe_denial));
                lines.join("\n")
            }
            CallFailure::Tool(ToolError::Other(error)) => first_message(&**error),
            CallFailure::StillRuns(_) => self.to_string(),
            _ => short(&self.to_string()),
        }
    }

    /// Whether somebody cancelled the call, rather than that it failed.
    pub(crate) fn is_cancellation(&self) -> bool {
        if let CallFailure::StillRuns(stopped) = self {
            return stopped.is_cancellation();
        }
        matches!(
            self,
            CallFailure::AbortedBeforeDispatch
                | CallFailure::Aborted(_)
                | CallFailure::SiblingErrored { .. }
                | CallFailure::Discarded
                | CallFailure::TurnStopped
                | CallFailure::Tool(ToolError::Cancelled)
        )
    }

    /// A short, stable name of what kind of failure it is, for traces.
    pub(crate) fn class(&self) -> &'static str {
        match self {
            CallFailure::Broken(_) => "broken",
            CallFailure::UnknownTool(_) => "unknown_tool",
            CallFailure::Tool(error) => match error {
                ToolError::InvalidArguments(_) => "invalid_arguments",
                ToolError::Business(_) => "business",
                ToolError::Denied { .. } => "sandbox_denied",
                ToolError::Refused(_) => "sandbox_refused",
                ToolError::SetupFailed(_) => "setup_failed",
                ToolError::Lost(_) => "lost",
                ToolError::Cancelled => "cancelled",
                ToolError::TimedOut { .. } => "timed_out",
                ToolError::Other(_) => "tool",
            },
            CallFailure::Refused(_) | CallFailure::Stopped(_) => "refused",
            CallFailure::Panicked { .. } => "panicked",
            CallFailure::AbortedBeforeDispatch => "aborted_before_dispatch",
            CallFailure::Aborted(_) => "aborted",
            CallFailure::StillRuns(_) => "still_runs",
            CallFailure::SiblingErrored { .. } => "sibling_error",
            CallFailure::Discarded => "discarded",
            CallFailure::TurnStopped => "turn_stopped",
            CallFailure::Output { .. }
            | CallFailure::ParallelContextChange(_)
            | CallFailure::ContextChange { .. } => "tool_output",
            CallFailure::NotRecorded(_) => "not_recorded",
            CallFailure::NotInLedger(_) => "not_in_ledger",
        }
    }

    /// What the sandbox refused.
    pub(crate) fn denials(&self) -> &[Denial] {
        match self {
            CallFailure::Tool(ToolError::Denied { denials, .. }) => denials,
            _ => &[],
        }
    }
}

/// A reason as it was given, or that none was: "refused by hook x: " with nothing behind it reads like a fault of ours.
pub(crate) fn given(reason: String) -> String {
    if reason.trim().is_empty() { "no reason given".to_owned() } else { reason }
}

fn tool_use_error(message: &str) -> String {
    format!("<tool_use_error>{message}</tool_use_error>")
}

/// The first message down the chain that says more than its cause does.
fn first_message(error: &(dyn Error + 'static)) -> String {
    let mut current = error;
    for _ in 1..CAUSES_MAX {
        let Some(cause) = current.source() else { break };
        let own = current.to_string();
        if !own.trim().is_empty() && own != cause.to_string() {
            break;
        }
        current = cause;
    }
    match short(&current.to_string()) {
        empty if empty.is_empty() => "the tool failed without saying why".to_owned(),
        message => message,
    }
}

/// White space collapsed, and cut.
pub(crate) fn short(message: &str) -> String {
    let collapsed = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match collapsed.char_indices().nth(MESSAGE_CHARS_MAX) {
        None => collapsed,
        Some((byte, _)) => {
            let (head, _) = collapsed.split_at(byte);
            // The ellipsis counts too.
            let mut head = head.to_owned();
            head.pop();
            head.push('…');
            head
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Wrapped {
        text: String,
        #[source]
        cause: std::io::Error,
    }

    // spec 2.14
    #[test]
    fn a_wrapper_that_says_nothing_of_its_own_is_passed_over() {
        let cause = || std::io::Error::other("the disk\n  is on fire");
        let error = |text: &str| {
            let error = Wrapped { text: text.into(), cause: cause() };
            CallFailure::Tool(ToolError::Other(Box::new(error))).model_text()
        };
        assert_eq!(error(" "), "the disk is on fire");
        assert_eq!(error("the disk\n  is on fire"), "the disk is on fire");
        assert_eq!(error("cannot  save"), "cannot save");
    }

    // spec 2.14
    #[test]
    fn an_error_text_has_at_most_500_characters() {
        let text = CallFailure::Tool(ToolError::Lost("ä".repeat(501))).model_text();
        assert_eq!(text.chars().count(), 500);
        assert!(text.ends_with('…'));
        let text = CallFailure::Tool(ToolError::Lost("ä".repeat(500))).model_text();
        assert_eq!(text, "ä".repeat(500));
    }
}
