use crate::CallId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One tool invocation, as the model asked for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The model's id for the call.
    pub id: CallId,
    /// The tool's name, as the model wrote it (it may not exist).
    pub name: String,
    /// The arguments, not yet validated.
    pub arguments: Value,
}

/// What the model is given back for one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call that this answers.
    pub call_id: CallId,
    /// The content, in order.
    pub content: Vec<ContentBlock>,
    /// Whether the model should take it as a failure.
    pub is_error: bool,
    /// Whether the turn ends with it: no later call of the turn runs (spec 1.18).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stop_turn: bool,
}

/// One block of a result's content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Plain text.
    Text {
        /// The text itself.
        text: String,
    },
    /// A picture. Budgets never cut or move one (spec 8.2).
    Image {
        /// Its media type, such as `image/png`.
        media_type: String,
        /// Its bytes, in base64 (RFC 4648, with padding).
        data: String,
    },
}

impl ContentBlock {
    /// A block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

impl ToolResult {
    /// A result of one text block.
    pub fn text(call_id: CallId, text: impl Into<String>, is_error: bool) -> Self {
        Self { call_id, content: vec![ContentBlock::text(text)], is_error, stop_turn: false }
    }
}

/// How a call shares time with others (spec 1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallMode {
    /// May run beside other parallel calls.
    Parallel,
    /// Runs alone: everything before it has finished, nothing after it has started.
    Exclusive,
}

/// What a call's start event says of it, as classified at start (spec 1.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFlags {
    /// Parallel or exclusive.
    pub mode: CallMode,
    /// Whether the tool says that these arguments only read.
    pub read_only: bool,
}
