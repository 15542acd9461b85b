//! A session from its opening to its end: a log, a store for large results, groups, a scope with fewer tools, and the history read back.
//!
//! `cargo run -p stockade-examples --bin session`
#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use stockade_policy::Policy;
use stockade_runtime::{SessionLog, Settings, ToolRuntime, replay};
use stockade_sandbox::fake::FakeProvider;
use stockade_spill::{Ages, Limits, SpillStore, sweep};
use stockade_tools::{Filter, Registry, ToolError, TypedTool};
use stockade_types::{CallId, SessionId, ToolCall};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Text {
    text: String,
}

fn tools() -> Result<Registry, Box<dyn std::error::Error>> {
    let registry = Registry::new();
    // Plain code that takes its time goes to a thread that is there for it.
    let count = |of: Text, _| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        Ok(of.text.len().to_string())
    };
    registry
        .register(Arc::new(TypedTool::blocking("Count", "Counts bytes.", count).read_only()))?;
    let shout = |of: Text, _| async move { Ok::<_, ToolError>(of.text.to_uppercase()) };
    registry.register(Arc::new(TypedTool::new("Shout", "Shouts.", shout)))?;
    Ok(registry)
}

fn call(id: &str, name: &str) -> ToolCall {
    let arguments = serde_json::json!({"text": "hello"});
    ToolCall { id: CallId(id.into()), name: name.into(), arguments }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let state = std::env::temp_dir().join(format!("stockade-session-{}", std::process::id()));
    let state = state.as_path();

    let session = SessionId::new("demo")?;
    let log = SessionLog::open(state, &session)?;
    let log_path = log.path().to_owned();
    // Large results go to a folder that the session's cells show under this path.
    let inside = Path::new("/run/stockade/spill");
    let store = SpillStore::open(state, &session, inside, Limits::default())?;
    let runtime = ToolRuntime::builder()
        .provider(Arc::new(FakeProvider::new("/workspace")))
        .policy(Policy::load("read-only".as_ref())?)
        .registry(Arc::new(tools()?))
        .session_log(log)
        .spill(Arc::new(store))
        .settings(Settings::batched())
        .build()?;

    let turn = || [call("1", "Count"), call("2", "Count"), call("3", "Shout")];
    println!("groups: {:?}", runtime.plan(turn()));
    let results = runtime.run_groups(turn()).await?;

    // A scope: its own hooks, listeners and tools, and of the others only those that it is let have.
    let scope = runtime.scope().build();
    let restriction = scope.registry().restrict(Filter::allow(["Count"]))?;
    let refused = scope.run_turn([call("4", "Shout")]).await?;
    println!("in the scope: {:?}", refused[0].content);
    restriction.undo();

    let history = replay(&log_path)?;
    println!("turns: {}, the same: {}", history.len(), history[0].results == results);

    runtime.end_session("the user left");
    let swept = sweep(state, &Ages::default(), SystemTime::now());
    println!("removed: {} files", swept.files);
    std::fs::remove_dir_all(state)?;
    Ok(())
}
