use super::files::{ask_cell, path_in, unexpected, whole_number};
use crate::budget::cut_line;
use crate::permissions::{EscalationInput, schema};
use crate::{
    CallContext, FrozenInput, Metadata, PathInput, SessionContext, Tool, ToolError, ToolOutput,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;
use stockade_sandbox::file::{FileDone, FileOp};
use stockade_types::DenialKind;

/// Lines that are read when the call names no limit.
const LINES_DEFAULT: u64 = 2000;
/// Content of one call, in bytes.
const BYTES_MAX: u64 = 100_000;
/// One line, in characters.
const LINE_CHARS_MAX: usize = 2000;

/// Reads a text file, with line numbers.
pub struct Read {
    schema: Value,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// The file; relative to the workspace, or absolute.
    file_path: String,
    /// The first line to read, from 1.
    #[serde(default, deserialize_with = "whole_number")]
    offset: Option<u64>,
    /// How many lines; 2000 by default.
    #[schemars(range(min = 1))]
    #[serde(default, deserialize_with = "whole_number")]
    limit: Option<u64>,
}

/// The resolved arguments.
#[derive(Serialize, Deserialize)]
struct Input {
    file_path: PathInput,
    offset: u64,
    limit: u64,
    #[serde(flatten)]
    escalation: EscalationInput,
}

impl Default for Read {
    fn default() -> Self {
        Self { schema: schema::<Arguments>() }
    }
}

#[async_trait]
impl Tool for Read {
    fn name(&self) -> &str {
        "Read"
    }

    fn description(&self) -> &str {
        "Reads a text file. Each line comes with its number and a tab before it."
    }

    fn input_schema(&self) -> &Value {
        &self.schema
    }

    fn metadata(&self) -> Metadata {
        Metadata::READ_ONLY
    }

    fn resolve_input(
        &self,
        arguments: &Value,
        session: &SessionContext,
    ) -> Result<Value, ToolError> {
        let asked: Arguments = super::parse(arguments)?;
        super::to_value(Input {
            file_path: PathInput::resolve(&asked.file_path, session)?,
            offset: asked.offset.unwrap_or(1).max(1),
            limit: asked.limit.unwrap_or(LINES_DEFAULT),
            escalation: EscalationInput::resolve(arguments, session)?,
        })
    }

    fn acts_on(&self, input: &FrozenInput) -> Option<PathBuf> {
        path_in(input, "file_path")
    }

    fn has_last_word(&self) -> bool {
        false
    }

    async fn call(
        &self,
        input: &FrozenInput,
        context: &CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let input: Input = input.parse()?;
        let op = FileOp::Read {
            path: input.file_path.0.clone().into(),
            offset: input.offset,
            limit: input.limit,
            max_bytes: BYTES_MAX,
        };
        let done = ask_cell(context, op, DenialKind::Read).await?;
        let FileDone::Read { content, first_line, lines, total_lines, truncated, fingerprint } =
            done
        else {
            return Err(unexpected(&done));
        };
        context.session.files_read.seen(&input.file_path.0, fingerprint);
        let mut text = number_lines(&content.0, first_line);
        let next = first_line.saturating_add(lines);
        let more = truncated || total_lines.is_none_or(|total| next <= total);
        let of_total = total_lines.map(|total| format!(" of {total}")).unwrap_or_default();
        if lines == 0 {
            text = match total_lines {
                Some(0) => format!("[{} is empty]", input.file_path.display()),
                Some(total) if !truncated => {
                    format!(
                        "[nothing to read from line {first_line} on: the file has {total} lines]"
                    )
                }
                _ if truncated => format!(
                    "[line {first_line}{of_total} alone is longer than the {BYTES_MAX} bytes that one call returns]"
                ),
                _ => format!("[nothing to read from line {first_line} on]"),
            };
        } else if more {
            let last = next.saturating_sub(1);
            text.push_str(&format!(
                "[lines {first_line} to {last}{of_total} are shown; go on with offset {next}]\n"
            ));
        }
        if std::str::from_utf8(&content.0).is_err() {
            text.push_str("[not valid UTF-8: bytes that are none are shown as \u{fffd}]\n");
        }
        Ok(ToolOutput::text(text))
    }
}

/// Each line with its number and a tab before it.
pub(super) fn number_lines(content: &[u8], first_line: u64) -> String {
    let mut text = String::with_capacity(content.len() + content.len() / 8);
    for (number, line) in (first_line..).zip(content.split_inclusive(|byte| *byte == b'\n')) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = cut_line(&String::from_utf8_lossy(line), LINE_CHARS_MAX);
        text.push_str(&format!("{number:>6}\t{line}\n"));
    }
    text
}
