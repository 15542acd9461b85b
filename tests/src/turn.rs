//! Turns in the dialects of agent hosts, and `stockade exec`, which answers them (spec 10.1).

use crate::{Finished, data_dir, finish, stockade_bin};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// One result, whatever the dialect it came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The call's id.
    pub id: String,
    /// Its text blocks, joined.
    pub text: String,
    /// Whether it is an error; `None` where the dialect cannot say so.
    pub is_error: Option<bool>,
}

/// The text of a turn in `tests/data/turns`.
pub fn file(name: &str) -> String {
    let path = data_dir().join("turns").join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("cannot read {path:?}: {e}"))
}

/// An Anthropic message of Bash calls, with the ids `call_1`, `call_2`, …
pub fn of_commands(commands: &[&str]) -> String {
    let calls: Vec<Value> = commands.iter().map(|line| json!({"command": line})).collect();
    of_calls(&calls.iter().map(|input| ("Bash", input.clone())).collect::<Vec<_>>())
}

/// An Anthropic message of calls, with the ids `call_1`, `call_2`, …
pub fn of_calls(calls: &[(&str, Value)]) -> String {
    let content: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(n, (name, input))| {
            json!({"type": "tool_use", "id": format!("call_{}", n + 1), "name": name, "input": input})
        })
        .collect();
    json!({"role": "assistant", "content": content}).to_string()
}

/// `stockade exec` under `workspace-write` in this workspace, its state in that folder.
pub fn exec_command(workspace: &Path, state: &Path) -> Command {
    exec_command_of(stockade_bin(), workspace, state)
}

/// The same, with this copy of the binary.
pub fn exec_command_of(binary: &Path, workspace: &Path, state: &Path) -> Command {
    let mut command = Command::new(binary);
    command.args(["exec", "--policy", "workspace-write", "--workspace"]).arg(workspace);
    // The turns of these tests are lists of attempts: each is to be made, whatever became of the one before.
    command.args(["--cascade", "off"]).arg("--state-dir").arg(state);
    command
}

/// Runs a turn through it.
pub fn exec(workspace: &Path, state: &Path, turn: &str) -> Finished {
    finish(&mut exec_command(workspace, state), turn.as_bytes(), Duration::from_secs(300))
}

/// The results in what `exec` printed, in order; of one Anthropic message, a list of OpenAI items, or
/// JSON lines of such items.
///
/// # Panics
/// When there is anything else in it.
pub fn answers(stdout: &str) -> Vec<Answer> {
    match serde_json::from_str::<Value>(stdout) {
        Ok(Value::Array(items)) => items.iter().map(answer).collect(),
        Ok(message) if message["content"].is_array() && message["type"].is_null() => {
            assert_eq!(message["role"], "user", "an Anthropic answer is a user message");
            message["content"].as_array().into_iter().flatten().map(answer).collect()
        }
        _ => stdout.lines().map(|line| answer(&parse(line))).collect(),
    }
}

/// Reads a line that must be JSON.
pub fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|e| panic!("{line:?} is not JSON: {e}"))
}

/// Reads one result of any dialect.
pub fn answer(item: &Value) -> Answer {
    let string =
        |key: &str| item[key].as_str().unwrap_or_else(|| panic!("no {key} in {item}")).into();
    match (item["type"].as_str(), item["role"].as_str()) {
        (Some("tool_result"), _) => Answer {
            id: string("tool_use_id"),
            text: texts(&item["content"]),
            is_error: Some(item["is_error"].as_bool().unwrap_or(false)),
        },
        (Some("function_call_output"), _) => {
            Answer { id: string("call_id"), text: string("output"), is_error: None }
        }
        (_, Some("tool")) => {
            Answer { id: string("tool_call_id"), text: texts(&item["content"]), is_error: None }
        }
        _ => panic!("{item} is no result in any dialect"),
    }
}

fn texts(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        other => panic!("{other} is no content"),
    }
}
