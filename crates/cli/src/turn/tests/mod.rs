mod layout;
mod stream;
mod whole;

use super::*;
use serde_json::{Value, json};

/// Everything a reader says of an input: a stream's events, and what the end was.
fn read_as(
    wanted: Option<Dialect>,
    input: impl AsRef<[u8]>,
) -> (Vec<Event>, Result<Turn, TurnError>) {
    let mut reader = Reader::new(wanted);
    let mut events = Vec::new();
    for line in input.as_ref().split_inclusive(|byte| *byte == b'\n') {
        match reader.line(line) {
            Ok(more) => events.extend(more),
            Err(error) => return (events, Err(error)),
        }
    }
    (events, reader.finish())
}

fn read(input: impl AsRef<[u8]>) -> (Vec<Event>, Result<Turn, TurnError>) {
    read_as(None, input)
}

fn whole(input: impl AsRef<[u8]>) -> (Dialect, Vec<Item>) {
    match read(input) {
        (events, Ok(Turn::Whole { dialect, items })) if events.is_empty() => (dialect, items),
        other => panic!("not a whole turn: {other:?}"),
    }
}

fn error(input: impl AsRef<[u8]>) -> String {
    match read(input) {
        (_, Err(error)) => error.to_string(),
        other => panic!("no error: {other:?}"),
    }
}

fn broken(item: &Item) -> (&str, &str) {
    match &item.submission {
        Submission::Broken { id, message } => (&id.0, message),
        other => panic!("not broken: {other:?}"),
    }
}

fn call(item: &Item) -> (&str, &str, &Value) {
    match &item.submission {
        Submission::Call(call) => (&call.id.0, &call.name, &call.arguments),
        other => panic!("no plain call: {other:?}"),
    }
}

fn tool_use(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "ls"}})
}

fn id_of(item: &Item) -> &str {
    match &item.submission {
        Submission::Call(call) | Submission::After { call, .. } => &call.id.0,
        Submission::Broken { id, .. } => &id.0,
    }
}
