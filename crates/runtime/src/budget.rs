//! What the model is given of a result (spec 8.1, 8.2).

use crate::caught::caught;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use stockade_spill::{Growing, Retention, SpillStore, Spilled};
use stockade_tools::{
    Kept, KeptOutput, OutputFile, OutputStore, Preview, RegisteredTool, ResultBudget, Strategy,
};
use stockade_types::{CallId, ContentBlock};

/// Characters of a kept result that are shown.
const PREVIEW_CHARS: usize = 2000;

/// What of one result the model may be given: its content, and what hooks and the tool add beside it. All of it together is no
/// more text than `max_model_bytes`, marks and envelopes included.
pub(crate) struct Share {
    budget: ResultBudget,
    /// Bytes of text for the content.
    content: usize,
    /// What is added, within its share (spec 2.15).
    context: Option<String>,
    truncated: bool,
}

impl Share {
    /// Context has what the content leaves, and half of the budget at least.
    pub(crate) fn new(
        content: &[ContentBlock],
        context: &[String],
        tool: Option<&RegisteredTool>,
    ) -> Self {
        let budget = tool.map(RegisteredTool::budget).unwrap_or_default();
        if context.is_empty() {
            let content = budget.bytes();
            return Self { budget, content, context: None, truncated: false };
        }
        let (most, wanted) = (budget.max_model_bytes, text_bytes(content).min(budget.bytes()));
        let all = context_text(context);
        let (context, truncated) = cut_context(&all, (most / 2).max(most - wanted));
        let content = budget.bytes().min(most - context.len());
        Self { budget, content, context: Some(context), truncated }
    }

    /// Holds content to its share, and adds the context; whether anything was left out. Within it nothing is touched. Blocks
    /// that are no text are never cut, and keep their order.
    pub(crate) fn hold(
        self,
        content: &mut Vec<ContentBlock>,
        call: &CallId,
        tool: Option<&RegisteredTool>,
        store: Option<&Arc<SpillStore>>,
        kept: Option<&Kept>,
    ) -> bool {
        let is_large = text_bytes(content) > self.content;
        if is_large {
            self.cut(content, call, tool, store, kept);
        }
        let context = self.context.filter(|text| !text.is_empty());
        content.extend(context.map(ContentBlock::text));
        is_large || self.truncated
    }

    fn cut(
        &self,
        content: &mut Vec<ContentBlock>,
        call: &CallId,
        tool: Option<&RegisteredTool>,
        store: Option<&Arc<SpillStore>>,
        kept: Option<&Kept>,
    ) {
        let texts: Vec<&str> = content.iter().filter_map(text_of).collect();
        let all = texts.join("\n");
        let kept = match (kept, self.budget.strategy, store) {
            (Some(Kept::Whole(file)), ..) => Some(file.clone()),
            (None, Strategy::Artifact, Some(store)) => keep(store, call, &all),
            _ => None,
        };
        let place = kept.as_ref().map(|file| file.inside.display().to_string());
        let own = tool.filter(|tool| tool.has_last_word()).and_then(|tool| {
            caught(|| tool.tool().oversized(content, place.as_deref())).ok().flatten()
        });
        // An envelope of the tool's own is held to the budget as well.
        if let Some(own) = own
            && text_bytes(&own) <= self.content
        {
            *content = own;
            return;
        }
        let preview = self.budget.preview;
        let text = match kept {
            Some(file) => envelope(&all, &file, preview, self.content),
            None => truncated(&all, preview, self.content),
        };
        let mut text = Some(text);
        *content = std::mem::take(content)
            .into_iter()
            .filter_map(|block| match block {
                ContentBlock::Text { .. } => text.take().map(ContentBlock::text),
                other => Some(other),
            })
            .collect();
    }
}

fn text_bytes(content: &[ContentBlock]) -> usize {
    content.iter().filter_map(text_of).map(str::len).sum()
}

/// What hooks added, failures and refusals included (spec 2.15).
fn context_text(context: &[String]) -> String {
    let mut text = "[Hook additional context]".to_owned();
    for (number, note) in (1..).zip(context) {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{number}. {note}");
    }
    text
}

/// Context of at most `max` bytes; whether that is less than all.
fn cut_context(all: &str, max: usize) -> (String, bool) {
    if all.len() <= max {
        return (all.to_owned(), false);
    }
    let mark = |left_out: usize| {
        let all = all.len();
        format!("\n[Hook context truncated by resultBudget: {left_out} of {all} bytes left out]")
    };
    let shown = head_bytes(all, max.saturating_sub(mark(all.len()).len()));
    let cut = format!("{shown}{}", mark(all.len() - shown.len()));
    (head_bytes(&cut, max).to_owned(), true)
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

/// Size, place and a preview, in at most `max` bytes.
fn envelope(all: &str, file: &KeptOutput, preview: Preview, max: usize) -> String {
    let KeptOutput { inside, uri, bytes } = file;
    let place = inside.display();
    let what = match preview {
        Preview::Head => "The beginning",
        Preview::Tail => "The end",
        Preview::HeadAndTail => "The beginning and the end",
    };
    let told = format!(
        "[The output is {bytes} bytes, too large to return. All of it is in {place} ({uri}), which Read, Grep and Bash can open. \
         {what}:]\n"
    );
    let Some(left) = max.checked_sub(told.len()) else {
        // The place is what counts.
        return head_bytes(&format!("[{bytes} bytes, in {place}]"), max).to_owned();
    };
    const BETWEEN: &str = "\n[…]\n";
    let shown = match preview {
        Preview::Head => at_line_end(head_bytes(head(all, PREVIEW_CHARS), left)).to_owned(),
        Preview::Tail => tail_bytes(tail(all, PREVIEW_CHARS), left).to_owned(),
        Preview::HeadAndTail => match left.checked_sub(BETWEEN.len()) {
            None => String::new(),
            Some(left) => {
                let half = PREVIEW_CHARS / 2;
                let head = at_line_end(head_bytes(head(all, half), left / 2));
                let tail = tail_bytes(tail(all, half), left / 2);
                format!("{head}{BETWEEN}{tail}")
            }
        },
    };
    format!("{told}{shown}")
}

/// Cut to `max` bytes, without anywhere to keep the rest.
fn truncated(all: &str, preview: Preview, max: usize) -> String {
    let what = match preview {
        Preview::Head => "the beginning is shown",
        Preview::Tail => "the end is shown",
        Preview::HeadAndTail => "the beginning and the end are shown",
    };
    let note = |left_out: usize| {
        let all = all.len();
        format!(
            "[Tool output truncated by resultBudget: {left_out} of {all} bytes left out; {what}]"
        )
    };
    // As long as it can become, and the line ends around it.
    let Some(left) = max.checked_sub(note(all.len()).len() + 2) else {
        return head_bytes(&note(all.len()), max).to_owned();
    };
    match preview {
        Preview::Head => {
            let first = head_bytes(all, left);
            format!("{first}\n{}", note(all.len() - first.len()))
        }
        Preview::Tail => {
            let last = tail_bytes(all, left);
            format!("{}\n{last}", note(all.len() - last.len()))
        }
        Preview::HeadAndTail => {
            let (first, last) = (head_bytes(all, left / 2), tail_bytes(all, left - left / 2));
            format!("{first}\n{}\n{last}", note(all.len() - first.len() - last.len()))
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
