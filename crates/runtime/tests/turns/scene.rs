//! What these tests begin with: a runtime of some tools, a call, and what its result says.

use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use stockade_runtime::{RuntimeBuilder, ToolRuntime};
use stockade_sandbox::fake::{FakeProvider, policy};
use stockade_tools::{Registry, Tool};
use stockade_types::{CallId, ContentBlock, ToolCall, ToolResult};

/// After this a test has failed: far longer than a slow machine takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The arguments of a tool that takes none.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct Nothing {}

pub fn builder(registry: Registry) -> RuntimeBuilder {
    ToolRuntime::builder()
        .provider(Arc::new(FakeProvider::new("/ws")))
        .policy(policy("test"))
        .registry(Arc::new(registry))
}

pub fn of_tools<T: Tool + 'static>(tools: impl IntoIterator<Item = T>) -> RuntimeBuilder {
    let registry = Registry::new();
    for tool in tools {
        registry.register(Arc::new(tool)).unwrap();
    }
    builder(registry)
}

pub fn call(id: &str, name: &str) -> ToolCall {
    call_with(id, name, json!({}))
}

pub fn call_with(id: &str, name: &str, arguments: Value) -> ToolCall {
    ToolCall { id: CallId(id.into()), name: name.into(), arguments }
}

pub fn text(result: &ToolResult) -> String {
    let texts = result.content.iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(text.as_str()),
        ContentBlock::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
