use crate::Kept;
use crate::{ContextChange, Display};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stockade_types::{ContentBlock, Denial, Killed, LimitMet, Outcome, Usage};

/// What a body gives back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// What the model is to see. Empty with a value: [`crate::Tool::render`] makes it.
    pub content: Vec<ContentBlock>,
    /// The output as a value, for a tool that declares an output schema.
    pub value: Option<Value>,
    /// Whether the model should take it as a failure, as with a command that exits with 3.
    pub is_error: bool,
    /// How the work went, for people and logs.
    pub report: RunReport,
    /// What people are shown of it (spec 8.4).
    pub display: Option<Display>,
    /// What the model is to be told beside the result; dropped when a hook blocks it (spec 2.12).
    pub context: Vec<String>,
    /// What calls after it find changed; an exclusive call's only (spec 1.20).
    pub change: Option<ContextChange>,
    /// No later call of the turn is to run (spec 1.18).
    pub stop_turn: bool,
    /// What became of output that is too large for `content` (spec 8.2); `None` if `content` has all of it.
    pub kept: Option<Kept>,
}

/// How a call's work went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// How the command ended, where there was one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub outcome: Option<Outcome>,
    /// What it used.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<Usage>,
    /// What had to be ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub killed: Option<Killed>,
    /// The limits that it ran up against.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub limits_met: Vec<LimitMet>,
    /// What the sandbox refused.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub denials: Vec<Denial>,
}

impl ToolOutput {
    /// A success of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![ContentBlock::text(text)], ..Self::default() }
    }

    /// A success that is a value.
    pub fn value(value: Value) -> Self {
        Self { value: Some(value), ..Self::default() }
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}
