//! The two records of a call in the session log (spec 9.1).

use crate::call::{EndedCall, QueuedCall};
use crate::failure::short;
use crate::replay::KeptImage;
use serde::Serialize;
use serde_json::Value;
use stockade_spill::{Retention, SpillStore};
use stockade_tools::RunReport;
use stockade_types::{CallFlags, CallId, ContentBlock, Outcome, Refusal, ToolResult};

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
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stop_turn: bool,
    /// Exactly what the model received.
    content: Vec<Recorded<'a>>,
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

impl CallRecord<'_> {
    pub(crate) fn turn(&self) -> u64 {
        self.turn
    }
}

impl ResultRecord<'_> {
    pub(crate) fn turn(&self) -> u64 {
        self.turn
    }
}

impl<'a> ResultRecord<'a> {
    pub(crate) fn of(
        call: u64,
        result: &'a ToolResult,
        ended: &EndedCall,
        refusal: Option<&Refusal>,
        store: Option<&SpillStore>,
    ) -> Self {
        let turn = ended.trace.queued.turn;
        let message = result.is_error.then(|| message(result, ended, refusal));
        let report = match ended.output() {
            Some(output) => output.report.clone(),
            None => RunReport { denials: ended.denials().to_vec(), ..RunReport::default() },
        };
        let ToolResult { call_id, content, is_error, stop_turn } = result;
        Self {
            r#type: "tool/result",
            turn,
            call,
            call_id,
            is_error: *is_error,
            stop_turn: *stop_turn,
            content: content.iter().map(|block| recorded(block, call_id, store)).collect(),
            message,
            report,
        }
    }
}

/// What went wrong.
fn message(result: &ToolResult, ended: &EndedCall, refusal: Option<&Refusal>) -> String {
    let own = match &ended.outcome {
        Err(failure) => Some(failure.to_string()),
        Ok(output) => match &output.report.outcome {
            Some(Outcome::Exited { code: 0 }) | None => None,
            Some(Outcome::Exited { code }) => {
                Some(format!("the command ended with exit code {code}"))
            }
            Some(Outcome::Signaled { signal }) => {
                Some(format!("signal {signal} ended the command"))
            }
            Some(Outcome::TimedOut { timeout_ms }) => {
                Some(format!("the command's {timeout_ms} ms were up"))
            }
            Some(Outcome::LimitExceeded { limit }) => {
                Some(format!("the limit {limit} ended the command"))
            }
            Some(Outcome::Cancelled { .. }) => Some("the command was cancelled".to_owned()),
            Some(_) => None,
        },
    };
    let parts: Vec<String> = own.into_iter().chain(refusal.map(ToString::to_string)).collect();
    if !parts.is_empty() {
        return parts.join("; ");
    }
    // The tool's own words, and what was said when the result was made.
    let mut texts = result.content.iter().filter_map(|block| match block {
        ContentBlock::Text { text } if !text.trim().is_empty() => Some(short(text)),
        _ => None,
    });
    texts.next().unwrap_or_else(|| "the tool says that it failed, and not why".to_owned())
}

/// A block as the log has it.
#[derive(Serialize)]
#[serde(untagged)]
enum Recorded<'a> {
    Block(&'a ContentBlock),
    Kept(KeptImage),
}

/// Media lie in the spill store, and the log refers to them; without a store, or with one that fails, they stand in the log.
fn recorded<'a>(
    block: &'a ContentBlock,
    call: &CallId,
    store: Option<&SpillStore>,
) -> Recorded<'a> {
    if let (ContentBlock::Image { media_type, data }, Some(store)) = (block, store) {
        // As long as anything is kept: a log whose media are gone cannot be replayed.
        match store.put(call, "b64", data.as_bytes(), Retention::Project) {
            Ok(kept) => return Recorded::Kept(KeptImage::new(media_type.clone(), kept.uri)),
            Err(error) => tracing::warn!(%call, %error, "a picture stands in the session log"),
        }
    }
    Recorded::Block(block)
}
