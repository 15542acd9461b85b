use crate::call::QueuedCall;
use crate::caught::caught;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::SystemTime;
use stockade_tools::Display;
use stockade_tools::registry::ToolsChanged;
use stockade_types::{CallFlags, CallId, ToolResult};

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
    /// Somebody must approve it; the slot for the answer stands already (spec 2.6).
    PermissionRequested {
        /// What is to be approved, as a client reads it.
        request: Value,
    },
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
        /// What people are shown of it.
        #[serde(skip_serializing_if = "Option::is_none")]
        display: Option<Display>,
    },
}

/// Something that happened to more than one call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Notice {
    /// A group of a turn's plan begins (spec 1.6).
    BatchStarted {
        /// The turn.
        turn: u64,
        /// Which group of it, from 0.
        batch: usize,
        /// Its calls.
        calls: Vec<CallId>,
    },
    /// Nothing of the group is left.
    BatchEnded {
        /// The turn.
        turn: u64,
        /// Which group of it.
        batch: usize,
    },
    /// Tools were added, replaced, removed or restricted somewhere (spec 3.5).
    #[serde(rename = "tools/change")]
    ToolsChanged {
        /// The how manieth change it is.
        generation: u64,
    },
}

/// A result on its way to whoever feeds the turn.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) result: ToolResult,
    /// The name of its tool, for the event.
    pub(crate) tool: String,
    pub(crate) display: Option<Display>,
}

/// Takes events, at once and in order for each call. It should return quickly; what it panics with changes nothing.
pub trait EventSink: Send + Sync {
    /// Something happened.
    fn emit(&self, event: &Event);

    /// Something happened to more than one call.
    fn notice(&self, _notice: &Notice) {}
}

/// All who listen to the calls of one scope: those of the scopes above it first.
#[derive(Clone, Default)]
pub(crate) struct Events(pub(crate) Vec<Arc<dyn EventSink>>);

impl Events {
    pub(crate) fn of_call(&self, call: &QueuedCall, transition: Transition) {
        self.emit(call.turn, &call.id, &call.name, transition);
    }

    pub(crate) fn emit(&self, turn: u64, call_id: &CallId, tool: &str, transition: Transition) {
        if self.0.is_empty() {
            return;
        }
        let event = Event {
            time: timestamp(),
            turn,
            call_id: call_id.clone(),
            tool: tool.to_owned(),
            transition,
        };
        self.each(|sink| sink.emit(&event));
    }

    pub(crate) fn notice(&self, notice: Notice) {
        self.each(|sink| sink.notice(&notice));
    }

    fn each(&self, tell: impl Fn(&dyn EventSink)) {
        for sink in &self.0 {
            if let Err(panic) = caught(|| tell(&**sink)) {
                tracing::warn!("an event sink panicked: {}", panic.0);
            }
        }
    }
}

impl ToolsChanged for Events {
    fn tools_changed(&self, generation: u64) {
        self.notice(Notice::ToolsChanged { generation });
    }
}

/// Now: RFC 3339, UTC, to the millisecond.
pub(crate) fn timestamp() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}
