//! The same turns on the fake provider and on real cells: what the model is given is the same, under the settings of each of the
//! three systems.

use crate::world::{rest, text, with};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use stockade_policy::Policy;
use stockade_runtime::{Settings, ToolRuntime};
use stockade_sandbox::SandboxProvider;
use stockade_sandbox::fake::{FakeProvider, Script, Step, policy};
use stockade_sandbox::linux::{LauncherSource, LinuxProvider, SessionOptions};
use stockade_sandbox::{CommandSpec, Exit};
use stockade_tests::{Scratch, stockade_bin};
use stockade_types::ToolCall;

/// A turn of lines that both worlds understand: `say WORD`, `wait MS`, `fail CODE`, joined by `;`.
fn turn(lines: &[&str]) -> Vec<ToolCall> {
    let mut calls = vec![with("Write", "file", json!({"file_path": "a.txt", "content": "one\n"}))];
    for (number, line) in (1..).zip(lines) {
        calls.push(with("Bash", &format!("bash_{number}"), json!({ "command": line })));
    }
    calls.push(with("Read", "read", json!({"file_path": "a.txt"})));
    calls.push(with("Read", "missing", json!({"file_path": "nothing.txt"})));
    calls.push(with(
        "Edit",
        "edit",
        json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"}),
    ));
    calls.push(with("Read", "again", json!({"file_path": "a.txt"})));
    calls.push(with("Nobody", "unknown", json!({})));
    calls
}

const FUNCTIONS: &str = "say() { echo \"$1\"; }; wait_ms() { sleep $(printf '0.%03d' \"$1\"); }; fail() { exit \"$1\"; }";

/// The line as the real bash takes it.
fn for_bash(calls: Vec<ToolCall>) -> Vec<ToolCall> {
    let real = |mut call: ToolCall| {
        if let Some(line) = call.arguments["command"].as_str() {
            let line = line.replace("wait ", "wait_ms ");
            call.arguments = json!({ "command": format!("{FUNCTIONS}; {line}") });
        }
        call
    };
    calls.into_iter().map(real).collect()
}

/// The same as a script.
fn script(command: &CommandSpec) -> Script {
    let line = command.argv.last().map(|line| line.to_string_lossy().into_owned());
    let mut script = Script::steps(Vec::new());
    for deed in line.unwrap_or_default().split(';') {
        match deed.trim().split_once(' ') {
            Some(("say", word)) => script.steps.push(Step::Stdout(format!("{word}\n").into())),
            Some(("wait", ms)) => {
                let ms = Duration::from_millis(ms.parse().expect("a number"));
                script.steps.push(Step::Sleep(ms));
            }
            Some(("fail", code)) => script.exit = Exit::Code(code.parse().expect("a number")),
            other => panic!("{other:?} is no deed"),
        }
    }
    script
}

async fn answers(
    provider: Arc<dyn SandboxProvider>,
    policy: Policy,
    settings: Settings,
    calls: Vec<ToolCall>,
) -> Vec<(String, bool)> {
    let runtime = ToolRuntime::builder().provider(provider).policy(policy).settings(settings);
    let runtime = runtime.build().expect("a runtime");
    // Fed as its system feeds: call by call, as groups, or whole.
    let results = if settings == Settings::streaming() {
        let mut turn = runtime.open_turn();
        for call in calls {
            turn.submit(call).expect("open");
            tokio::task::yield_now().await;
        }
        turn.close();
        rest(&mut turn).await
    } else if settings.grouped {
        runtime.run_groups(calls).await.expect("no fault")
    } else {
        runtime.run_turn(calls).await.expect("no fault")
    };
    results.iter().map(|result| (text(result), result.is_error)).collect()
}

async fn on_fakes(workspace: &Path, settings: Settings, lines: &[&str]) -> Vec<(String, bool)> {
    let provider = FakeProvider::new(workspace).on_command(|command| Ok(script(command)));
    answers(Arc::new(provider), policy("test"), settings, turn(lines)).await
}

async fn on_cells(workspace: &Path, settings: Settings, lines: &[&str]) -> Vec<(String, bool)> {
    let provider = LinuxProvider::start(SessionOptions {
        session: None,
        workspace: workspace.to_owned(),
        home: "/home/nobody".into(),
        host_environment: std::env::vars_os().collect(),
        launcher: LauncherSource::Executable(stockade_bin().to_owned()),
        host: None,
    });
    let provider = provider.await.expect("a session");
    let policy = Policy::load("workspace-write".as_ref()).expect("a shipped policy");
    answers(Arc::new(provider), policy, settings, for_bash(turn(lines))).await
}

async fn same(settings: Settings) {
    let turns: [&[&str]; 4] = [
        &["say hello", "wait 20; say later"],
        &["say before; fail 3", "say behind"],
        &["wait 5", "say a; say b; fail 1", "say c"],
        &[],
    ];
    for lines in turns {
        let scratch = Scratch::new();
        let workspace = scratch.folder("work").canonicalize().expect("a folder");
        let fakes = on_fakes(&workspace, settings, lines).await;
        let mut cells = on_cells(&workspace, settings, lines).await;
        for (text, _) in &mut cells {
            // A sibling is described by its command, which is another text here.
            if let Some((_, rest)) = text.split_once("Bash(say() ") {
                assert!(rest.ends_with("…) errored"), "{text}");
                *text = "sibling".to_owned();
            }
        }
        let fakes = fakes.into_iter().map(|(text, is_error)| {
            let by_sibling = text.starts_with("Cancelled: parallel tool call Bash(");
            (if by_sibling { "sibling".to_owned() } else { text }, is_error)
        });
        assert_eq!(fakes.collect::<Vec<_>>(), cells, "{settings:?} {lines:?}");
    }
}

#[tokio::test]
async fn s_the_same_turns_on_real_cells_give_the_same_results() {
    same(Settings::streaming()).await;
}

#[tokio::test]
async fn b_the_same_turns_on_real_cells_give_the_same_results() {
    same(Settings::batched()).await;
}

#[tokio::test]
async fn r_the_same_turns_on_real_cells_give_the_same_results() {
    same(Settings::rolling()).await;
}
