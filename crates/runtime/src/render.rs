//! From a call's outcome to what the model sees.

use crate::caught::caught;
use crate::failure::CallFailure;
use crate::pipeline::panicked;
use serde_json::Value;
use stockade_tools::{Display, RegisteredTool, ToolOutput};
use stockade_types::{CallId, ContentBlock, ToolResult};

/// The result of an outcome (spec 2.14).
pub(crate) fn result(
    call_id: CallId,
    tool: &str,
    outcome: &Result<ToolOutput, CallFailure>,
    remains: Option<&ToolOutput>,
) -> ToolResult {
    match outcome {
        Ok(output) => {
            let (content, stop_turn) = (output.content.clone(), output.stop_turn);
            let mut result = ToolResult { call_id, content, is_error: is_error(output), stop_turn };
            fill_empty(tool, &mut result);
            result
        }
        Err(failure) => {
            let mut result = ToolResult::text(call_id, failure.model_text(), true);
            append(
                &mut result.content,
                remains.map(|remains| &*remains.content).unwrap_or_default(),
            );
            result
        }
    }
}

/// What a stopped body's command had to say goes into the very text that says why it was stopped.
fn append(content: &mut Vec<ContentBlock>, remains: &[ContentBlock]) {
    for block in remains {
        match (content.last_mut(), block) {
            (Some(ContentBlock::Text { text }), ContentBlock::Text { text: more }) => {
                text.push('\n');
                text.push_str(more);
            }
            (_, block) => content.push(block.clone()),
        }
    }
}

/// Whether an output stands for a failure. One whose value itself says `isError` does (spec 2.14).
pub(crate) fn is_error(output: &ToolOutput) -> bool {
    output.is_error || output.value.as_ref().is_some_and(says_error)
}

/// Whether a value says of itself that it is an error.
pub(crate) fn says_error(value: &Value) -> bool {
    value.get("isError") == Some(&Value::Bool(true))
}

/// Says so where a tool said nothing (spec 2.16).
pub(crate) fn fill_empty(tool: &str, result: &mut ToolResult) {
    if is_empty(&result.content) {
        result.content = vec![ContentBlock::text(format!("({tool} completed with no output)"))];
    }
}

fn is_empty(content: &[ContentBlock]) -> bool {
    content.iter().all(|block| match block {
        ContentBlock::Text { text } => text.trim().is_empty(),
        ContentBlock::Image { .. } => false,
    })
}

/// The content of a value, by its tool.
pub(crate) fn value(
    tool: &RegisteredTool,
    value: &Value,
) -> Result<Vec<ContentBlock>, CallFailure> {
    caught(|| tool.tool().render(value))
        .map_err(|panic| panicked(tool, panic))?
        .map_err(CallFailure::of_tool)
}

/// The tool's own last word on the content (spec 2.13). One that panics has none.
pub(crate) fn finalize_content(tool: &RegisteredTool, result: &mut ToolResult) {
    if !tool.has_last_word() {
        return;
    }
    let content = result.content.clone();
    match caught(|| tool.tool().finalize_content(content, result.is_error)) {
        Ok(content) => result.content = content,
        Err(panic) => {
            tracing::warn!(tool = tool.name(), "finalize_content panicked: {}", panic.0);
        }
    }
}

/// What people are shown of an output, within its limits (spec 8.4).
pub(crate) fn display(
    tool: Option<&RegisteredTool>,
    output: Option<ToolOutput>,
) -> Option<Display> {
    let ToolOutput { display, value, .. } = output?;
    let display = display.or_else(|| {
        let (tool, value) = (tool.filter(|tool| tool.has_last_word())?, value?);
        caught(|| tool.tool().display(&value)).ok().flatten()
    });
    display.map(Display::limited)
}
