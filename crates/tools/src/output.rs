use serde::{Deserialize, Serialize};
use stockade_types::{ContentBlock, Denial, Killed, Outcome, Usage};

/// What a body gives back.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// What the model is to see.
    pub content: Vec<ContentBlock>,
    /// Whether it should take it as a failure, as with a command that exits with 3.
    pub is_error: bool,
    /// How the work went, for people and logs.
    pub report: RunReport,
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
    /// What the sandbox refused.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub denials: Vec<Denial>,
}

impl ToolOutput {
    /// A success of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![ContentBlock::Text { text: text.into() }],
            is_error: false,
            report: RunReport::default(),
        }
    }
}
