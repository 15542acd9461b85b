//! A tool in under 20 lines, its schema derived from a Rust type, and a turn that calls it.
//!
//! `cargo run -p stockade-examples --bin add`
#![forbid(unsafe_code)]

use std::sync::Arc;
use stockade_policy::Policy;
use stockade_runtime::ToolRuntime;
use stockade_sandbox::fake::FakeProvider;
use stockade_tools::{Registry, ToolError, TypedTool};
use stockade_types::{CallId, ToolCall};

// The tool:
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    /// The first number.
    a: i64,
    /// The second.
    b: i64,
}

fn add() -> Arc<dyn stockade_tools::Tool> {
    let body = |add: Add, _| async move {
        let sum = add.a.checked_add(add.b).ok_or(ToolError::Business("too large".into()))?;
        Ok(sum.to_string())
    };
    Arc::new(TypedTool::new("Add", "Adds two numbers.", body).read_only())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let registry = Registry::new();
    registry.register(add())?;
    let shown = registry.view()?.direct;
    println!("{}: {}", shown[0].name(), shown[0].tool().input_schema());
    // This tool needs no cell, so that a provider without a kernel will do. `host_loop` has a real one.
    let runtime = ToolRuntime::builder()
        .provider(Arc::new(FakeProvider::new("/")))
        .policy(Policy::load("read-only".as_ref())?)
        .registry(Arc::new(registry))
        .build()?;
    let call = |id: &str, a, b| ToolCall {
        id: CallId(id.into()),
        name: "Add".into(),
        arguments: serde_json::json!({"a": a, "b": b}),
    };
    for result in runtime.run_turn([call("1", 2, 3), call("2", i64::MAX, 1)]).await? {
        println!("{}: {:?}", result.call_id, result.content);
    }
    Ok(())
}
