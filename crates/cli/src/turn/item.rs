use super::error::without_place;
use super::{Dialect, Item, depth};
use serde_json::{Map, Value};
use stockade_runtime::Submission;
use stockade_types::{CallId, ToolCall};

/// What one element of a turn (a content block, an output item, a tool call) is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A call in this dialect.
    Call(Dialect),
    /// Text, reasoning, or a call that the model's own host has run already: needs no answer.
    NoCall,
    /// An element of a type that is not known here, perhaps a call that waits for an answer.
    Unsupported,
    /// Nothing that any dialect knows.
    Unknown,
}

/// Elements that need no answer: text and reasoning, and calls that the API's own servers run, with their results. A
/// type that is not listed is an error, since it may be a call whose model waits for a result.
const NO_CALL: [&str; 24] = [
    "bash_code_execution_tool_result",
    "code_execution_tool_result",
    "code_interpreter_call",
    "compaction",
    "container_upload",
    "document",
    "file_search_call",
    "image",
    "image_generation_call",
    "mcp_call",
    "mcp_list_tools",
    "mcp_tool_result",
    "mcp_tool_use",
    "message",
    "reasoning",
    "redacted_thinking",
    "server_tool_use",
    "text",
    "text_editor_code_execution_tool_result",
    "thinking",
    "tool_search_call",
    "web_fetch_tool_result",
    "web_search_call",
    "web_search_tool_result",
];

pub(super) fn kind(value: &Value) -> Kind {
    let Some(object) = value.as_object() else {
        return Kind::Unknown;
    };
    match object.get("type").and_then(Value::as_str) {
        Some("tool_use") => Kind::Call(Dialect::Anthropic),
        Some("function_call") => Kind::Call(Dialect::OpenAiResponses),
        Some("function") => Kind::Call(Dialect::OpenAiChat),
        Some(name) if NO_CALL.contains(&name) => Kind::NoCall,
        Some(_) => Kind::Unsupported,
        // Some hosts leave `type` out of chat tool calls.
        None if object.get("function").is_some_and(Value::is_object) => {
            Kind::Call(Dialect::OpenAiChat)
        }
        None => Kind::Unknown,
    }
}

/// Reads one call. `Err` says why it has no id, without which it can be neither run nor answered.
pub(super) fn read(value: &Value, dialect: Dialect) -> Result<Item, String> {
    let id = id(value, dialect)?;
    let parts = match dialect {
        Dialect::Anthropic => name(value, "name").and_then(|n| Ok((n, input(value)?))),
        Dialect::OpenAiResponses => name(value, "name").and_then(|n| Ok((n, arguments(value)?))),
        Dialect::OpenAiChat => match value.get("function") {
            Some(function @ Value::Object(_)) => {
                name(function, "function.name").and_then(|n| Ok((n, arguments(function)?)))
            }
            _ => Err("the call has no `function` object".to_owned()),
        },
    };
    let submission = match parts {
        Ok((name, arguments)) => Submission::Call(ToolCall { id, name, arguments }),
        Err(why) => Submission::Broken {
            id,
            message: format!("<tool_use_error>InputValidationError: {why}</tool_use_error>"),
        },
    };
    Ok(Item { dialect, submission })
}

fn id(value: &Value, dialect: Dialect) -> Result<CallId, String> {
    let key = match dialect {
        Dialect::OpenAiResponses => "call_id",
        Dialect::Anthropic | Dialect::OpenAiChat => "id",
    };
    match value.get(key) {
        Some(Value::String(id)) if !id.is_empty() => Ok(CallId(id.clone())),
        None | Some(Value::Null) => {
            Err(format!("the call has no `{key}`, so that its result could not be addressed"))
        }
        Some(Value::String(_)) => Err(format!("the call's `{key}` is empty")),
        Some(other) => Err(format!("the call's `{key}` is {}, not a string", word(other))),
    }
}

fn name(of: &Value, called: &str) -> Result<String, String> {
    match of.get("name") {
        Some(Value::String(name)) if !name.is_empty() => Ok(name.clone()),
        Some(Value::String(_)) => Err(format!("the call's `{called}` is empty")),
        None | Some(Value::Null) => Err(format!("the call has no `{called}`")),
        Some(other) => Err(format!("the call's `{called}` is {}, not a string", word(other))),
    }
}

fn input(value: &Value) -> Result<Value, String> {
    match value.get("input") {
        Some(object @ Value::Object(_)) => Ok(object.clone()),
        None => Err("the call has no `input`; an object was expected".to_owned()),
        Some(other) => Err(format!("`input` is {}; an object was expected", word(other))),
    }
}

/// `arguments` is JSON in a string; hosts that decode it for convenience are understood too.
fn arguments(of: &Value) -> Result<Value, String> {
    match of.get("arguments") {
        // What models write for a tool without parameters.
        Some(Value::String(text)) if text.trim().is_empty() => Ok(Value::Object(Map::new())),
        Some(Value::String(text)) => match depth::parse(text.as_bytes()) {
            Ok(object @ Value::Object(_)) => Ok(object),
            Ok(other) => Err(format!("`arguments` is {}; an object was expected", word(&other))),
            Err(error) => Err(format!(
                "`arguments` is not valid JSON: {}, at its line {} column {}",
                without_place(&error),
                error.line(),
                error.column()
            )),
        },
        Some(object @ Value::Object(_)) => Ok(object.clone()),
        None => Err("the call has no `arguments`; an object as JSON was expected".to_owned()),
        Some(other) => Err(format!("`arguments` is {}; an object was expected", word(other))),
    }
}

pub(super) fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
