use crate::cancel::CallCancel;
use crate::escalation::Lease;
use crate::failure::CallFailure;
use crate::render;
use crate::telemetry::Telemetry;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stockade_policy::Policy;
use stockade_sandbox::file::Place;
use stockade_tools::bounds;
use stockade_tools::{FrozenInput, Lookup, RegisteredTool, SessionContext, ToolOutput};
use stockade_types::{CallFlags, CallId, Denial, ToolCall};

/// What is handed to a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Submission {
    /// A call to run.
    Call(ToolCall),
    /// A call to run after others, wherever those stand in the turn (spec 1.7).
    After {
        /// The call.
        call: ToolCall,
        /// The calls that must have ended before it starts. Whether they failed does not count here: which failures cancel which calls
        /// is the cascade's business (spec 1.11).
        depends_on: Vec<CallId>,
    },
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
    pub(crate) depends_on: Vec<CallId>,
    /// The text of its error result, if it cannot be run at all.
    pub(crate) broken: Option<String>,
}

impl QueuedCall {
    /// Arguments that are too much make it a broken one at once: they are not even to wait, since whoever drops what waits may
    /// overflow its stack by them.
    pub(crate) fn new(turn: u64, submission: Submission) -> Self {
        let (call, depends_on) = match submission {
            Submission::Call(call) => (call, Vec::new()),
            Submission::After { call, depends_on } => (call, depends_on),
            Submission::Broken { id, message } => {
                let (name, arguments, depends_on) = (String::new(), Value::Null, Vec::new());
                let broken = Some(message);
                return Self { turn, id, name, arguments, depends_on, broken };
            }
        };
        let ToolCall { id, name, arguments } = call;
        let excess = bounds::check(&arguments);
        let mut queued = Self { turn, id, name, arguments, depends_on, broken: None };
        if let Err(excess) = excess {
            queued.break_with(&format!(
                "InputValidationError: the arguments are {excess}, so this call was not run: write large content in parts"
            ));
        }
        queued
    }

    /// It cannot be run, for this reason.
    pub(crate) fn break_with(&mut self, reason: &str) {
        self.broken = Some(format!("<tool_use_error>{reason}</tool_use_error>"));
        // Nothing looks at the arguments any more, and they may be the reason.
        bounds::dismantle(std::mem::take(&mut self.arguments));
    }
}

/// A call that is about to be prepared.
pub(crate) struct StartedCall {
    pub(crate) queued: QueuedCall,
    /// The tool that was found when the call was classified; the same one runs.
    pub(crate) lookup: Lookup,
    pub(crate) flags: CallFlags,
    pub(crate) cancel: CallCancel,
    pub(crate) context: Arc<SessionContext>,
}

/// A call whose body may run.
pub(crate) struct ReadyCall {
    pub(crate) trace: CallTrace,
    /// For how long it may run under its policy.
    pub(crate) lease: Lease,
    /// Where its path led when it was approved.
    pub(crate) place: Option<Box<Place>>,
    pub(crate) call: Arc<PreparedCall>,
    pub(crate) tool: Arc<RegisteredTool>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) cancel: CallCancel,
    pub(crate) context: Arc<SessionContext>,
}

/// A call that will not run any further: with the body's output, or with what stopped it.
pub(crate) struct EndedCall {
    pub(crate) trace: CallTrace,
    /// Set once hooks may see the call: they see its result too.
    pub(crate) call: Option<Arc<PreparedCall>>,
    /// Set once the tool's body ran: it has a word on the result.
    pub(crate) tool: Option<Arc<RegisteredTool>>,
    pub(crate) outcome: Result<ToolOutput, CallFailure>,
    /// What is left of the body's work where it was stopped: what its command had written, and how that ended. The outcome
    /// is then the reason.
    pub(crate) remains: Option<Box<ToolOutput>>,
}

impl EndedCall {
    /// One that failed, without a body that could have left anything.
    pub(crate) fn failed(
        trace: CallTrace,
        call: Option<Arc<PreparedCall>>,
        failure: CallFailure,
    ) -> Self {
        Self { trace, call, tool: None, outcome: Err(failure), remains: None }
    }

    /// The body's output, or what is left of it.
    pub(crate) fn output(&self) -> Option<&ToolOutput> {
        self.outcome.as_ref().ok().or(self.remains.as_deref())
    }

    /// The same, to be changed.
    pub(crate) fn output_mut(&mut self) -> Option<&mut ToolOutput> {
        self.outcome.as_mut().ok().or(self.remains.as_deref_mut())
    }

    /// What the sandbox refused to the call.
    pub(crate) fn denials(&self) -> &[Denial] {
        match (self.output(), &self.outcome) {
            (Some(output), _) => &output.report.denials,
            (None, Err(failure)) => failure.denials(),
            (None, Ok(_)) => &[],
        }
    }

    /// Whether it failed, and not because somebody cancelled it.
    pub(crate) fn failed_by_itself(&self) -> bool {
        match &self.outcome {
            Ok(output) => render::is_error(output),
            Err(failure) => !failure.is_cancellation(),
        }
    }
}

/// What is carried along with a call from its start to its end.
pub(crate) struct CallTrace {
    pub(crate) queued: QueuedCall,
    pub(crate) flags: CallFlags,
    /// The sequence number of its call record.
    pub(crate) recorded: Option<u64>,
    /// What hooks added for the model.
    pub(crate) context: Vec<String>,
    pub(crate) telemetry: Telemetry,
    /// The digest of the policy that it was allowed to run under; empty as long as it was not.
    pub(crate) policy_digest: Arc<str>,
    pub(crate) begun: std::time::Instant,
}
