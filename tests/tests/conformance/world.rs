//! A runtime over the fake provider, and what comes out of it.

use crate::probe::{Log, Probe};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stockade_runtime::{Event, EventSink, Notice, RuntimeBuilder, Settings, ToolRuntime, Turn};
use stockade_sandbox::fake::{FakeProvider, policy};
use stockade_tools::{InterruptBehavior, Metadata, Registry, SideEffects};
use stockade_types::{CallId, ContentBlock, ToolCall, ToolResult};
use tokio::time::Instant;

/// The tools of the reference systems' examples: `Read` and `Grep` read, `WebFetch` runs beside others and is no reader, `Edit` runs
/// alone, `Bash` is a shell, `Watch` can be interrupted.
pub fn tools(log: &Log) -> Registry {
    let fetches = Metadata {
        concurrency_safe: Some(true),
        side_effects: SideEffects::Unknown,
        ..Metadata::default()
    };
    let registry = Registry::new();
    for probe in [
        Probe::reads("Read", log),
        Probe::reads("Grep", log),
        Probe { metadata: fetches, ..Probe::alone("WebFetch", log) },
        Probe::alone("Edit", log),
        Probe::shell("Bash", log),
        Probe { interrupt: InterruptBehavior::Cancel, ..Probe::reads("Watch", log) },
    ] {
        registry.register(Arc::new(probe)).expect("a probe is a tool");
    }
    registry
}

pub fn builder(settings: Settings, registry: Registry) -> RuntimeBuilder {
    ToolRuntime::builder()
        .provider(Arc::new(FakeProvider::new("/ws")))
        .policy(policy("test"))
        .registry(Arc::new(registry))
        .settings(settings)
}

pub fn runtime(settings: Settings, log: &Log) -> ToolRuntime {
    builder(settings, tools(log)).build().expect("a runtime")
}

pub fn call(name: &str, id: &str, ms: u64) -> ToolCall {
    with(name, id, json!({ "ms": ms }))
}

pub fn with(name: &str, id: &str, arguments: Value) -> ToolCall {
    ToolCall { id: CallId(id.to_owned()), name: name.to_owned(), arguments }
}

pub fn text(result: &ToolResult) -> String {
    let texts = result.content.iter().map(|block| match block {
        ContentBlock::Text { text } => text.as_str(),
        ContentBlock::Image { .. } => "(image)",
    });
    texts.collect::<Vec<_>>().join("\n")
}

pub fn ids(results: &[ToolResult]) -> Vec<&str> {
    results.iter().map(|result| result.call_id.0.as_str()).collect()
}

/// All results of a turn that is fed and closed, each with the milliseconds since `begun`.
pub async fn timed(turn: &mut Turn, begun: Instant) -> Vec<(String, u128)> {
    let mut results = Vec::new();
    while let Some(result) = turn.next_result().await.expect("no fault") {
        results.push((result.call_id.0, begun.elapsed().as_millis()));
    }
    results
}

pub async fn rest(turn: &mut Turn) -> Vec<ToolResult> {
    let mut results = Vec::new();
    while let Some(result) = turn.next_result().await.expect("no fault") {
        results.push(result);
    }
    results
}

pub async fn wait(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// Every event as JSON, in order.
#[derive(Clone, Default)]
pub struct Events(Arc<Mutex<Vec<Value>>>);

impl Events {
    pub fn all(&self) -> Vec<Value> {
        self.0.lock().expect("nobody panics with it").clone()
    }

    /// The names of a call's events.
    pub fn of(&self, id: &str) -> Vec<String> {
        let own = self.all().into_iter().filter(|event| event["call_id"] == id);
        own.map(|event| event["event"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

impl EventSink for Events {
    fn emit(&self, event: &Event) {
        let event = serde_json::to_value(event).expect("an event is JSON");
        self.0.lock().expect("nobody panics with it").push(event);
    }

    fn notice(&self, notice: &Notice) {
        let notice = serde_json::to_value(notice).expect("a notice is JSON");
        self.0.lock().expect("nobody panics with it").push(notice);
    }
}
