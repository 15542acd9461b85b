use crate::call::QueuedCall;
use crate::caught::caught;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::SystemTime;
use stockade_types::{CallFlags, CallId};

/// One step in a call's life (spec 1.9).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// When: RFC 3339, UTC, to the millisecond.
    pub time: String,
    /// Which turn of the session, from 1.
    pub turn: u64,
    /// Which call.
    pub call_id: CallId,
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// What happened.
    #[serde(flatten)]
    pub transition: Transition,
}

/// What happened to a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Transition {
    /// It waits for its start.
    Queued,
    /// Its body is about to run; nothing has changed yet. A call that is refused never gets here.
    Executing(CallFlags),
    /// Its body reports something.
    Progress {
        /// What, in the tool's own shape.
        data: Value,
    },
    /// Nothing of it runs any more; its result waits for its turn.
    Completed,
    /// Its result was taken.
    Yielded {
        /// Whether it is an error.
        is_error: bool,
    },
}

/// Takes events, at once and in order for each call. It should return quickly; what it panics with changes nothing.
pub trait EventSink: Send + Sync {
    /// Something happened.
    fn emit(&self, event: &Event);
}

#[derive(Clone, Default)]
pub(crate) struct Events(pub(crate) Option<Arc<dyn EventSink>>);

impl Events {
    pub(crate) fn of_call(&self, call: &QueuedCall, transition: Transition) {
        self.emit(call.turn, &call.id, &call.name, transition);
    }

    pub(crate) fn emit(&self, turn: u64, call_id: &CallId, tool: &str, transition: Transition) {
        let Some(sink) = &self.0 else { return };
        let event = Event {
            time: timestamp(),
            turn,
            call_id: call_id.clone(),
            tool: tool.to_owned(),
            transition,
        };
        if let Err(panic) = caught(|| sink.emit(&event)) {
            tracing::warn!(call = %call_id, "the event sink panicked: {}", panic.0);
        }
    }
}

/// Now: RFC 3339, UTC, to the millisecond.
pub(crate) fn timestamp() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}
