//! What the model is given of a result (spec 8.1, 8.2).

use crate::caught::caught;
use std::io;
use std::sync::Arc;
use stockade_spill::{Growing, Retention, SpillStore, Spilled};
use stockade_tools::{
    Kept, KeptOutput, OutputFile, OutputStore, Preview, RegisteredTool, ResultBudget, Strategy,
};
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
    kept: Option<&Kept>,
) -> bool {
    let budget = tool.map(RegisteredTool::budget).unwrap_or_default();
    let bytes: usize = content.iter().map(|block| text_of(block).map_or(0, str::len)).sum();
    if bytes <= budget.bytes() {
        return false;
    }
    let texts: Vec<&str> = content.iter().filter_map(text_of).collect();
    let all = texts.join("\n");
    let kept = match (kept, budget.strategy, store) {
        (Some(Kept::Whole(file)), ..) => Some(file.clone()),
        (None, Strategy::Artifact, Some(store)) => keep(store, call, &all),
        _ => None,
    };
    let place = kept.as_ref().map(|file| file.inside.display().to_string());
    let own = tool.and_then(|tool| {
        caught(|| tool.tool().oversized(content, place.as_deref())).ok().flatten()
    });
    // An envelope of the tool's own is held to the budget as well.
    if let Some(own) = own
        && own.iter().filter_map(text_of).map(str::len).sum::<usize>() <= budget.bytes()
    {
        *content = own;
        return true;
    }
    let text = match kept {
        Some(file) => envelope(&all, &file, budget.preview),
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

/// The session's store for what is still coming (spec 6.4).
pub(crate) struct Comes(pub(crate) Arc<SpillStore>);

impl OutputStore for Comes {
    fn begin(&self, call: &CallId) -> io::Result<Box<dyn OutputFile>> {
        let file = self.0.begin(call, "txt", Retention::Session).map_err(io::Error::other)?;
        Ok(Box::new(Coming(file)))
    }
}

struct Coming(Growing);

impl OutputFile for Coming {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write(bytes).map_err(io::Error::other)
    }

    fn finish(self: Box<Self>) -> KeptOutput {
        kept_output(self.0.finish())
    }
}

fn kept_output(Spilled { inside, uri, bytes, .. }: Spilled) -> KeptOutput {
    KeptOutput { inside, uri, bytes }
}

/// Where all of it is kept. A store that fails is no failure of the call.
fn keep(store: &SpillStore, call: &CallId, all: &str) -> Option<KeptOutput> {
    match store.put(call, "txt", all.as_bytes(), Retention::Session) {
        Ok(kept) => Some(kept_output(kept)),
        Err(error) => {
            tracing::warn!(call = %call, %error, "a large result is cut, since it could not be kept");
            None
        }
    }
}

fn envelope(all: &str, file: &KeptOutput, preview: Preview) -> String {
    let KeptOutput { inside, uri, bytes } = file;
    let place = inside.display();
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
