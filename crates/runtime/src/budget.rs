//! What the model is given of a result (spec 8.1, 8.2).

use crate::caught::caught;
use std::sync::Arc;
use stockade_spill::{Retention, SpillStore};
use stockade_tools::{Preview, RegisteredTool, ResultBudget, Strategy};
use stockade_types::{CallId, ContentBlock};

/// Characters of a kept result that are shown.
const PREVIEW_CHARS: usize = 2000;

/// Holds content to its tool's budget; whether anything was left out. Within it nothing is touched. Blocks that are no text are
/// never cut, and keep their order.
pub(crate) fn hold(
    content: &mut Vec<ContentBlock>,
    call: &CallId,
    tool: Option<&RegisteredTool>,
    store: Option<&Arc<SpillStore>>,
) -> bool {
    let budget = tool.map(RegisteredTool::budget).unwrap_or_default();
    let bytes: usize = content.iter().map(|block| text_of(block).map_or(0, str::len)).sum();
    if bytes <= budget.bytes() {
        return false;
    }
    let texts: Vec<&str> = content.iter().filter_map(text_of).collect();
    let all = texts.join("\n");
    let kept = match (budget.strategy, store) {
        (Strategy::Artifact, Some(store)) => keep(store, call, &all),
        _ => None,
    };
    let own = tool.and_then(|tool| {
        caught(|| tool.tool().oversized(content, kept.as_ref().map(|(place, _)| place.as_str())))
            .ok()
            .flatten()
    });
    // An envelope of the tool's own is held to the budget as well.
    if let Some(own) = own
        && own.iter().filter_map(text_of).map(str::len).sum::<usize>() <= budget.bytes()
    {
        *content = own;
        return true;
    }
    let text = match kept {
        Some((place, uri)) => envelope(&all, &place, &uri, budget.preview),
        None => truncated(&all, budget),
    };
    let mut text = Some(text);
    *content = std::mem::take(content)
        .into_iter()
        .filter_map(|block| match block {
            ContentBlock::Text { .. } => text.take().map(ContentBlock::text),
            other => Some(other),
        })
        .collect();
    true
}

fn text_of(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text { text } => Some(text),
        ContentBlock::Image { .. } => None,
    }
}

/// Where all of it is kept: a path inside the cell, and an URI. A store that fails is no failure of the call.
fn keep(store: &SpillStore, call: &CallId, all: &str) -> Option<(String, String)> {
    match store.put(call, "txt", all.as_bytes(), Retention::Session) {
        Ok(kept) => Some((kept.inside.display().to_string(), kept.uri)),
        Err(error) => {
            tracing::warn!(call = %call, %error, "a large result is cut, since it could not be kept");
            None
        }
    }
}

fn envelope(all: &str, place: &str, uri: &str, preview: Preview) -> String {
    let bytes = all.len();
    let (what, shown) = match preview {
        Preview::Head => ("The beginning", at_line_end(head(all, PREVIEW_CHARS)).to_owned()),
        Preview::Tail => ("The end", tail(all, PREVIEW_CHARS).to_owned()),
        Preview::HeadAndTail => {
            let half = PREVIEW_CHARS / 2;
            let (head, tail) = (at_line_end(head(all, half)), tail(all, half));
            ("The beginning and the end", format!("{head}\n[…]\n{tail}"))
        }
    };
    format!(
        "[The output is {bytes} bytes, too large to return. All of it is in {place} ({uri}), which Read, Grep and Bash can open. \
         {what}:]\n{shown}"
    )
}

/// Cut to the budget, without anywhere to keep the rest.
fn truncated(all: &str, budget: ResultBudget) -> String {
    let max = budget.bytes();
    let note = |what: &str| {
        let left_out = all.len() - max.min(all.len());
        format!(
            "[Tool output truncated by resultBudget: {left_out} of {} bytes left out; {what}]",
            all.len()
        )
    };
    match budget.preview {
        Preview::Head => format!("{}\n{}", head_bytes(all, max), note("the beginning is shown")),
        Preview::Tail => format!("{}\n{}", note("the end is shown"), tail_bytes(all, max)),
        Preview::HeadAndTail => {
            let (first, last) = (head_bytes(all, max / 2), tail_bytes(all, max - max / 2));
            format!("{first}\n{}\n{last}", note("the beginning and the end are shown"))
        }
    }
}

/// The first characters.
fn head(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(byte, _)| text.split_at(byte).0)
}

/// The last characters.
fn tail(text: &str, chars: usize) -> &str {
    match chars.checked_sub(1).and_then(|last| text.char_indices().rev().nth(last)) {
        Some((byte, _)) => text.split_at(byte).1,
        None => text,
    }
}

/// Cut at a line end, if one lies in its second half.
fn at_line_end(preview: &str) -> &str {
    match preview.rfind('\n') {
        Some(end) if end >= preview.len() / 2 => preview.split_at(end).0,
        _ => preview,
    }
}

fn head_bytes(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.split_at(end).0
}

fn tail_bytes(text: &str, bytes: usize) -> &str {
    let mut start = text.len() - bytes.min(text.len());
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.split_at(start).1
}
