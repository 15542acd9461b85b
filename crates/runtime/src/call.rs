use crate::failure::CallFailure;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stockade_policy::Policy;
use stockade_tools::{FrozenInput, RegisteredTool, ToolOutput};
use stockade_types::{CallFlags, CallId, ToolCall};
use tokio_util::sync::CancellationToken;

/// What is handed to a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Submission {
    /// A call to run.
    Call(ToolCall),
    /// Something in a call's place that cannot be run. It is answered with an error, in its place.
    Broken {
        /// The call that is answered.
        id: CallId,
        /// The whole text of the error result.
        message: String,
    },
}

impl From<ToolCall> for Submission {
    fn from(call: ToolCall) -> Self {
        Submission::Call(call)
    }
}

/// A call's identity inside the runtime. Unlike the model's id it is unique in the process, and nobody can make one up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallToken(u64);

impl CallToken {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A call as hooks, guards, approver and observers see it: exactly what will run.
#[derive(Clone, Debug)]
pub struct PreparedCall {
    pub(crate) token: CallToken,
    pub(crate) id: CallId,
    pub(crate) name: String,
    pub(crate) input: FrozenInput,
    pub(crate) flags: CallFlags,
}

impl PreparedCall {
    /// Its identity.
    pub fn token(&self) -> CallToken {
        self.token
    }

    /// The model's id.
    pub fn id(&self) -> &CallId {
        &self.id
    }

    /// The tool's name.
    pub fn tool(&self) -> &str {
        &self.name
    }

    /// The frozen arguments; the body gets this same value.
    pub fn input(&self) -> &FrozenInput {
        &self.input
    }

    /// How it was classified.
    pub fn flags(&self) -> CallFlags {
        self.flags
    }
}

/// A call that waits for its start.
#[derive(Debug)]
pub(crate) struct QueuedCall {
    pub(crate) turn: u64,
    pub(crate) id: CallId,
    pub(crate) name: String,
    pub(crate) arguments: Value,
    /// The text of its error result, if it cannot be run at all.
    pub(crate) broken: Option<String>,
}

impl QueuedCall {
    pub(crate) fn new(turn: u64, submission: Submission) -> Self {
        match submission {
            Submission::Call(ToolCall { id, name, arguments }) => {
                Self { turn, id, name, arguments, broken: None }
            }
            Submission::Broken { id, message } => Self {
                turn,
                id,
                name: String::new(),
                arguments: Value::Null,
                broken: Some(message),
            },
        }
    }
}

/// A call that is about to be prepared.
pub(crate) struct StartedCall {
    pub(crate) queued: QueuedCall,
    /// The tool that was found when the call was classified; the same one runs.
    pub(crate) tool: Option<Arc<RegisteredTool>>,
    pub(crate) flags: CallFlags,
    pub(crate) cancel: CancellationToken,
}

/// A call whose body may run.
pub(crate) struct ReadyCall {
    pub(crate) trace: CallTrace,
    pub(crate) call: Arc<PreparedCall>,
    pub(crate) tool: Arc<RegisteredTool>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) cancel: CancellationToken,
}

/// A call that will not run any further: with the body's output, or with what stopped it.
pub(crate) struct EndedCall {
    pub(crate) trace: CallTrace,
    /// Set once hooks may see the call: they see its result too.
    pub(crate) call: Option<Arc<PreparedCall>>,
    pub(crate) outcome: Result<ToolOutput, CallFailure>,
}

/// What is carried along with a call from its start to its end.
pub(crate) struct CallTrace {
    pub(crate) queued: QueuedCall,
    pub(crate) flags: CallFlags,
    /// The sequence number of its call record.
    pub(crate) recorded: Option<u64>,
    /// What hooks added for the model.
    pub(crate) context: Vec<String>,
}
