//! A runtime with a log, whose bodies take no time or wait to be cancelled.

use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use stockade_runtime::{RuntimeBuilder, SessionLog, ToolRuntime, Turn};
use stockade_sandbox::fake::{FakeProvider, policy};
use stockade_tools::{CallContext, Registry, ToolError, TypedTool};
use stockade_types::{CallId, SessionId, ToolCall, ToolResult};

pub struct World {
    pub runtime: ToolRuntime,
    log: PathBuf,
    _state: tempfile::TempDir,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct Nothing {}

/// `Read` runs beside others and `Edit` alone; `Wait` ends when it is cancelled, and an interrupt does that; it could stop
/// `Stoppable`, too.
fn registry() -> Registry {
    let registry = Registry::new();
    let at_once = |_: Nothing, _| async { Ok::<_, ToolError>("done") };
    let waits = |_: Nothing, context: CallContext| async move {
        context.cancel.cancelled().await;
        Err::<&str, _>(ToolError::Cancelled)
    };
    let wait = TypedTool::new("Wait", "", waits).read_only().cancel_on_interrupt();
    registry.register(Arc::new(TypedTool::new("Read", "", at_once).read_only())).expect("a tool");
    registry.register(Arc::new(TypedTool::new("Edit", "", at_once))).expect("a tool");
    registry.register(Arc::new(wait)).expect("a tool");
    let stoppable = TypedTool::new("Stoppable", "", at_once).read_only().cancel_on_interrupt();
    registry.register(Arc::new(stoppable)).expect("a tool");
    registry
}

impl World {
    pub fn new() -> Self {
        Self::with(|builder| builder)
    }

    pub fn with(more: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> Self {
        let state = tempfile::tempdir().expect("a folder");
        let session = SessionId::new("s").expect("an id");
        let session_log = SessionLog::open(state.path(), &session).expect("a log");
        let log = session_log.path().to_owned();
        let builder = ToolRuntime::builder()
            .provider(Arc::new(FakeProvider::new("/ws")))
            .policy(policy("test"))
            .registry(Arc::new(registry()))
            .session_log(session_log);
        Self { runtime: more(builder).build().expect("a runtime"), log, _state: state }
    }

    pub fn records(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).expect("a log");
        text.lines().map(|line| serde_json::from_str(line).expect("a whole record")).collect()
    }
}

pub fn call(id: usize, name: &str) -> ToolCall {
    ToolCall { id: CallId(id.to_string()), name: name.to_owned(), arguments: json!({}) }
}

pub async fn rest(turn: &mut Turn) -> Vec<ToolResult> {
    let mut results = Vec::new();
    while let Some(result) = turn.next_result().await.expect("no fault") {
        results.push(result);
    }
    results
}

/// The ids of a turn's records of one kind, in the order of the log.
pub fn ids(records: &[Value], turn: u64, kind: &str) -> Vec<usize> {
    let own = records.iter().filter(|record| record["turn"] == turn && record["type"] == kind);
    own.map(|record| record["call_id"].as_str().and_then(|id| id.parse().ok()).unwrap_or_default())
        .collect()
}
