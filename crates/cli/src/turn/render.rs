use super::Dialect;
use serde_json::{Value, json};
use stockade_types::{ContentBlock, ToolResult};

/// The answer to a whole turn: one document, its results in the order given.
pub fn whole_answer(dialect: Dialect, results: &[ToolResult]) -> Value {
    let items: Vec<Value> = results.iter().map(|result| stream_item(dialect, result)).collect();
    match dialect {
        Dialect::Anthropic => json!({ "role": "user", "content": items }),
        Dialect::OpenAiResponses | Dialect::OpenAiChat => Value::Array(items),
    }
}

/// The answer to one call: an element of a whole answer, or a line of a stream.
pub fn stream_item(dialect: Dialect, result: &ToolResult) -> Value {
    let id = &result.call_id.0;
    match dialect {
        Dialect::Anthropic => json!({
            "type": "tool_result",
            "tool_use_id": id,
            "content": result.content.iter().map(anthropic_block).collect::<Vec<_>>(),
            "is_error": result.is_error,
        }),
        Dialect::OpenAiResponses => json!({
            "type": "function_call_output",
            "call_id": id,
            "output": text(result),
        }),
        Dialect::OpenAiChat => json!({
            "role": "tool",
            "tool_call_id": id,
            "content": text(result),
        }),
    }
}

fn anthropic_block(block: &ContentBlock) -> Value {
    match block {
        ContentBlock::Text { text } => json!({ "type": "text", "text": text }),
        ContentBlock::Image { media_type, data } => json!({
            "type": "image",
            "source": { "type": "base64", "media_type": media_type, "data": data },
        }),
    }
}

/// These dialects carry one string; where a result has several blocks they stand one below the other.
fn text(result: &ToolResult) -> String {
    let blocks: Vec<String> = result
        .content
        .iter()
        .map(|block| match block {
            ContentBlock::Text { text } => text.clone(),
            ContentBlock::Image { media_type, data } => {
                format!("[an image of type {media_type}, {} bytes in base64, which this dialect cannot carry]", data.len())
            }
        })
        .collect();
    blocks.join("\n")
}
