//! From a call's outcome to what the model sees.

use crate::failure::CallFailure;
use stockade_tools::ToolOutput;
use stockade_types::{CallId, ContentBlock, ToolResult};

/// The result of an outcome (spec 2.14, 2.16).
pub(crate) fn result(
    call_id: CallId,
    tool: &str,
    outcome: &Result<ToolOutput, CallFailure>,
) -> ToolResult {
    match outcome {
        Ok(output) if is_empty(&output.content) => {
            ToolResult::text(call_id, format!("({tool} completed with no output)"), output.is_error)
        }
        Ok(output) => {
            let (content, is_error) = (output.content.clone(), output.is_error);
            ToolResult { call_id, content, is_error, stop_turn: output.stop_turn }
        }
        Err(failure) => ToolResult::text(call_id, failure.model_text(), true),
    }
}

fn is_empty(content: &[ContentBlock]) -> bool {
    content.iter().all(|block| match block {
        ContentBlock::Text { text } => text.trim().is_empty(),
        ContentBlock::Image { .. } => false,
    })
}

/// Appends what hooks added, failures and refusals included (spec 2.15).
pub(crate) fn append_context(result: &mut ToolResult, context: &[String]) {
    if context.is_empty() {
        return;
    }
    let mut text = "[Hook additional context]".to_owned();
    for (number, note) in (1..).zip(context) {
        text.push_str(&format!("\n{number}. {note}"));
    }
    result.content.push(ContentBlock::Text { text });
}
