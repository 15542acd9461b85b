//! The two records of a call in the session log (spec 9.1).

use crate::call::QueuedCall;
use crate::failure::CallFailure;
use serde::Serialize;
use serde_json::Value;
use stockade_tools::{RunReport, ToolOutput};
use stockade_types::{CallFlags, CallId, ContentBlock, Denial, ToolResult};

/// A call at its start.
#[derive(Serialize)]
pub(crate) struct CallRecord<'a> {
    r#type: &'static str,
    turn: u64,
    call_id: &'a CallId,
    name: &'a str,
    arguments: &'a Value,
    #[serde(flatten)]
    flags: CallFlags,
}

/// A result at its commit.
#[derive(Serialize)]
pub(crate) struct ResultRecord<'a> {
    r#type: &'static str,
    turn: u64,
    /// The sequence number of the call's record.
    call: u64,
    call_id: &'a CallId,
    is_error: bool,
    /// Exactly what the model received.
    content: &'a [ContentBlock],
    /// What went wrong, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(flatten)]
    report: RunReport,
}

/// A turn that was discarded.
#[derive(Serialize)]
pub(crate) struct DiscardRecord {
    r#type: &'static str,
    turn: u64,
}

impl DiscardRecord {
    pub(crate) fn of(turn: u64) -> Self {
        Self { r#type: "turn/discard", turn }
    }
}

impl<'a> CallRecord<'a> {
    pub(crate) fn of(call: &'a QueuedCall, flags: CallFlags) -> Self {
        let QueuedCall { turn, id, name, arguments, .. } = call;
        Self { r#type: "tool/call", turn: *turn, call_id: id, name, arguments, flags }
    }
}

impl<'a> ResultRecord<'a> {
    pub(crate) fn of(
        call: u64,
        turn: u64,
        result: &'a ToolResult,
        outcome: &Result<ToolOutput, CallFailure>,
    ) -> Self {
        let (message, report) = match outcome {
            Ok(output) => (None, output.report.clone()),
            Err(failure) => {
                let denials = failure.denials().to_vec();
                (Some(failure.to_string()), RunReport { denials, ..RunReport::default() })
            }
        };
        let ToolResult { call_id, content, is_error, .. } = result;
        let is_error = *is_error;
        Self { r#type: "tool/result", turn, call, call_id, is_error, content, message, report }
    }
}

/// What the sandbox refused to a call.
pub(crate) fn denials(outcome: &Result<ToolOutput, CallFailure>) -> &[Denial] {
    match outcome {
        Ok(output) => &output.report.denials,
        Err(failure) => failure.denials(),
    }
}
