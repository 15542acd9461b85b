use super::item::{Kind, kind, word};
use super::{Dialect, TurnError};
use serde_json::{Map, Value};

/// A whole turn, recognised: its dialect, its elements, and where they stand.
pub(super) struct Shape<'a> {
    pub dialect: Dialect,
    pub elements: &'a [Value],
    /// The path of the list: `content`, `choices[0].message.tool_calls`; empty for a bare list.
    pub path: &'static str,
}

const EXPECTED: &str = "expected an Anthropic message or its content, the output items of an OpenAI response or the \
     response itself, or an OpenAI chat message or completion";

/// Recognises a whole turn. `wanted` is what `--format` says, `None` for `auto`.
pub(super) fn recognise(value: &Value, wanted: Option<Dialect>) -> Result<Shape<'_>, TurnError> {
    let shape = match value {
        Value::Array(items) => bare_list(items, wanted)?,
        Value::Object(object) => object_shape(object, value, wanted)?,
        other => {
            return Err(TurnError::shape("the turn", format!("it is {}; {EXPECTED}", word(other))));
        }
    };
    match wanted {
        Some(wanted) if wanted != shape.dialect => Err(TurnError::shape(
            "the turn",
            format!(
                "it is in the shape of {}, but --format says {}",
                shape.dialect.name(),
                wanted.name()
            ),
        )),
        _ => Ok(shape),
    }
}

/// Whether a JSON value that stands alone on the first line is a whole turn, not the first item of a stream.
pub(super) fn is_whole(value: &Value) -> bool {
    match value {
        Value::Array(_) => true,
        Value::Object(object) => match object.get("type").and_then(Value::as_str) {
            // Both APIs have a `message`: here a whole turn, there an output item that holds only text.
            Some("message") => !is_text_item(object),
            Some(_) => object.contains_key("output") || object.contains_key("choices"),
            None => ["choices", "output", "tool_calls", "content"]
                .iter()
                .any(|key| object.contains_key(*key)),
        },
        _ => false,
    }
}

/// Whether this is a message with calls in it, standing where a call should.
pub(super) fn holds_calls(value: &Value) -> bool {
    value
        .get("content")
        .and_then(Value::as_array)
        .is_some_and(|blocks| blocks.iter().any(|block| matches!(kind(block), Kind::Call(_))))
}

fn holds_tool_calls(message: &Value) -> bool {
    message.get("tool_calls").and_then(Value::as_array).is_some_and(|calls| !calls.is_empty())
}

fn is_text_item(object: &Map<String, Value>) -> bool {
    object.get("content").and_then(Value::as_array).is_some_and(|blocks| {
        !blocks.is_empty()
            && blocks.iter().all(|block| {
                matches!(block.get("type").and_then(Value::as_str), Some("output_text" | "refusal"))
            })
    })
}

fn object_shape<'a>(
    object: &'a Map<String, Value>,
    value: &'a Value,
    wanted: Option<Dialect>,
) -> Result<Shape<'a>, TurnError> {
    if let Some(choices) = object.get("choices") {
        let Some(message) = choices.get(0).and_then(|choice| choice.get("message")) else {
            return Err(TurnError::shape("choices[0].message", "it is missing"));
        };
        let others = choices.as_array().into_iter().flatten().skip(1);
        if others.filter_map(|choice| choice.get("message")).any(holds_tool_calls) {
            return Err(TurnError::shape(
                "choices",
                "it has more than one choice with calls; give the message of the one that goes on, alone",
            ));
        }
        if holds_calls(message) {
            return Err(TurnError::shape(
                "choices[0].message.content",
                "it holds calls, which stand in `tool_calls` in a chat completion",
            ));
        }
        return chat_message(message, "choices[0].message", "choices[0].message.tool_calls");
    }
    if let Some(output) = object.get("output") {
        let elements = list(output, "output")?;
        return Ok(Shape { dialect: Dialect::OpenAiResponses, elements, path: "output" });
    }
    if let Kind::Call(dialect) = kind(value) {
        return Ok(Shape { dialect, elements: std::slice::from_ref(value), path: "" });
    }
    if holds_calls(value) && holds_tool_calls(value) {
        return Err(TurnError::shape(
            "the turn",
            "it holds calls in `content` and in `tool_calls`, which are two dialects, and can be answered in one; give \
             the calls of each as a message of their own",
        ));
    }
    let text_only = !matches!(object.get("content"), None | Some(Value::Array(_)));
    let chat = object.contains_key("tool_calls") && !holds_calls(value);
    if chat || (text_only && wanted != Some(Dialect::Anthropic)) {
        return chat_message(value, "the turn", "tool_calls");
    }
    match object.get("content") {
        // With --format openai-chat: a message of parts, without calls.
        Some(Value::Array(_)) if wanted == Some(Dialect::OpenAiChat) && !holds_calls(value) => {
            chat_message(value, "the turn", "tool_calls")
        }
        Some(Value::Array(elements)) => {
            assistants(value, "the turn")?;
            Ok(Shape { dialect: Dialect::Anthropic, elements, path: "content" })
        }
        Some(Value::String(_)) => {
            assistants(value, "the turn")?;
            Ok(Shape { dialect: Dialect::Anthropic, elements: &[], path: "content" })
        }
        Some(other) => {
            Err(TurnError::shape("content", format!("it is {}; a list was expected", word(other))))
        }
        None => {
            let keys: Vec<&str> = object.keys().take(8).map(String::as_str).collect();
            Err(TurnError::shape(
                "the turn",
                format!("it is an object with the keys [{}]; {EXPECTED}", keys.join(", ")),
            ))
        }
    }
}

fn chat_message<'a>(
    message: &'a Value,
    place: &str,
    path: &'static str,
) -> Result<Shape<'a>, TurnError> {
    assistants(message, place)?;
    let elements = match message.get("tool_calls") {
        None | Some(Value::Null) => &[],
        Some(calls) => list(calls, path)?,
    };
    Ok(Shape { dialect: Dialect::OpenAiChat, elements, path })
}

/// A turn is what the assistant said; another role's message is a mistake that would pass as a turn without calls.
fn assistants(message: &Value, place: &str) -> Result<(), TurnError> {
    match message.get("role") {
        None => Ok(()),
        Some(Value::String(role)) if role == "assistant" => Ok(()),
        Some(role) => Err(TurnError::shape(
            place,
            format!("it has the role {role}; a turn is a message of the role \"assistant\""),
        )),
    }
}

fn bare_list(items: &[Value], wanted: Option<Dialect>) -> Result<Shape<'_>, TurnError> {
    if let Some(at) = items.iter().position(|i| i.get("type").is_none() && i.get("role").is_some())
    {
        return Err(TurnError::shape(
            format!("[{at}]"),
            "it is a message, so the list is a conversation; give its last assistant message alone",
        ));
    }
    let called = items.iter().find_map(|item| match kind(item) {
        Kind::Call(dialect) => Some(dialect),
        _ => None,
    });
    let dialect = match called.or(wanted) {
        Some(dialect) => dialect,
        // Without a call, a text block is all that tells an Anthropic list.
        None if items.iter().any(|i| i.get("type").and_then(Value::as_str) == Some("text")) => {
            Dialect::Anthropic
        }
        None => Dialect::OpenAiResponses,
    };
    Ok(Shape { dialect, elements: items, path: "" })
}

fn list<'a>(value: &'a Value, path: &str) -> Result<&'a [Value], TurnError> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| {
        TurnError::shape(path, format!("it is {}; a list was expected", word(value)))
    })
}
