//! A host's loop: calls go in while the model still streams, results come out in the model's order, each call confined by the
//! kernel.
//!
//! `cargo run -p stockade-examples --bin host_loop`
#![forbid(unsafe_code)]

use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use stockade_policy::Policy;
use stockade_runtime::{Event, EventSink, Settings, ToolRuntime};
use stockade_sandbox::linux::{LauncherSource, LinuxProvider, SessionOptions};
use stockade_types::{CallId, ToolCall};

/// Prints what happens, when it happens.
struct Prints;

impl EventSink for Prints {
    fn emit(&self, event: &Event) {
        println!("  {} {:?}", event.call_id, event.transition);
    }
}

/// What a model would stream: each call comes a moment after the one before.
async fn model() -> Vec<ToolCall> {
    tokio::time::sleep(Duration::from_millis(50)).await;
    let call = |id: &str, name: &str, arguments| ToolCall {
        id: CallId(id.into()),
        name: name.into(),
        arguments,
    };
    vec![
        call("1", "Write", json!({"file_path": "notes.txt", "content": "one\ntwo\n"})),
        call("2", "Read", json!({"file_path": "notes.txt"})),
        call("3", "Bash", json!({"command": "wc -l < notes.txt; touch /etc/not-here"})),
    ]
}

// The launcher is this very program, executed anew: `main` begins with it, before any thread exists.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    stockade_launcher::main_if_launcher();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(host())
}

async fn host() -> Result<(), Box<dyn std::error::Error>> {
    let workspace = std::env::temp_dir().join(format!("stockade-example-{}", std::process::id()));
    std::fs::create_dir(&workspace)?;
    let provider = LinuxProvider::start(SessionOptions {
        session: None,
        workspace: workspace.clone(),
        home: std::env::home_dir().unwrap_or_else(|| PathBuf::from("/nonexistent")),
        host_environment: std::env::vars_os().collect(),
        launcher: LauncherSource::CurrentExecutable,
        host: None,
    })
    .await?;
    let runtime = ToolRuntime::builder()
        .provider(Arc::new(provider))
        .policy(Policy::load("workspace-write".as_ref())?)
        .settings(Settings::streaming())
        .events(Arc::new(Prints))
        .build()?;

    let mut turn = runtime.open_turn();
    let submitter = turn.submitter();
    tokio::spawn(async move {
        for call in model().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
            // A turn that was closed meanwhile takes nothing.
            if submitter.submit(call).is_err() {
                return;
            }
        }
        submitter.close();
    });
    while let Some(result) = turn.next_result().await? {
        println!("{} error={} {:?}", result.call_id, result.is_error, result.content);
    }
    std::fs::remove_dir_all(&workspace)?;
    Ok(())
}
