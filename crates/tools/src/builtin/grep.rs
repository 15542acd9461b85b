use super::file_types;
use super::files::{ask_cell, path_in, unexpected, whole_number};
use crate::permissions::{EscalationInput, schema};
use crate::{
    CallContext, FrozenInput, Metadata, PathInput, SessionContext, Tool, ToolError, ToolOutput,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;
use stockade_sandbox::file::{FileDone, FileOp, GrepMode, GrepOp};
use stockade_types::DenialKind;

/// Entries of one call when it names no `head_limit`.
const ENTRIES_DEFAULT: u64 = 250;
/// Content of one call, in bytes.
const BYTES_MAX: u64 = 30_000;

/// Searches file contents.
pub struct Grep {
    schema: Value,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// The regular expression, as ripgrep takes it.
    pattern: String,
    /// The file or folder to search; the workspace by default.
    path: Option<String>,
    /// Only files that match this glob.
    glob: Option<String>,
    /// Only files of this type, by ripgrep's names: rust, py, js, ts, go, java, …
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Paths (the default), matching lines, or the number of matches of each file.
    output_mode: Option<OutputMode>,
    /// Lines after each match (content).
    #[serde(rename = "-A", default, deserialize_with = "whole_number")]
    after: Option<u64>,
    /// Lines before each match (content).
    #[serde(rename = "-B", default, deserialize_with = "whole_number")]
    before: Option<u64>,
    /// Lines around each match (content).
    #[serde(rename = "-C", default, deserialize_with = "whole_number")]
    around: Option<u64>,
    /// Number the lines (content); true by default.
    #[serde(rename = "-n")]
    line_numbers: Option<bool>,
    /// Ignore case.
    #[serde(rename = "-i", default)]
    ignore_case: bool,
    /// Let the pattern span lines.
    #[serde(default)]
    multiline: bool,
    /// How many lines or entries; 250 by default.
    #[schemars(range(min = 1))]
    #[serde(default, deserialize_with = "whole_number")]
    head_limit: Option<u64>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OutputMode {
    #[default]
    FilesWithMatches,
    Content,
    Count,
}

/// The resolved arguments.
#[derive(Serialize, Deserialize)]
struct Input {
    pattern: String,
    path: PathInput,
    #[serde(skip_serializing_if = "Option::is_none")]
    glob: Option<String>,
    output_mode: OutputMode,
    #[serde(rename = "-A")]
    after: u32,
    #[serde(rename = "-B")]
    before: u32,
    #[serde(rename = "-n")]
    line_numbers: bool,
    #[serde(rename = "-i")]
    ignore_case: bool,
    multiline: bool,
    head_limit: u64,
    #[serde(flatten)]
    escalation: EscalationInput,
}

impl Default for Grep {
    fn default() -> Self {
        Self { schema: schema::<Arguments>() }
    }
}

#[async_trait]
impl Tool for Grep {
    fn name(&self) -> &str {
        "Grep"
    }

    fn description(&self) -> &str {
        "Searches file contents by a regular expression."
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
        let lines =
            |own: Option<u64>| u32::try_from(own.or(asked.around).unwrap_or(0)).unwrap_or(u32::MAX);
        super::to_value(Input {
            path: PathInput::resolve(asked.path.as_deref().unwrap_or("."), session)?,
            after: lines(asked.after),
            before: lines(asked.before),
            pattern: asked.pattern,
            glob: match asked.kind {
                Some(kind) => Some(file_types::glob(&kind, asked.glob.as_deref())?),
                None => asked.glob,
            },
            output_mode: asked.output_mode.unwrap_or_default(),
            line_numbers: asked.line_numbers.unwrap_or(true),
            ignore_case: asked.ignore_case,
            multiline: asked.multiline,
            head_limit: asked.head_limit.unwrap_or(ENTRIES_DEFAULT),
            escalation: EscalationInput::resolve(arguments, session)?,
        })
    }

    fn acts_on(&self, input: &FrozenInput) -> Option<PathBuf> {
        path_in(input, "path")
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
        let (mode, nothing) = match input.output_mode {
            OutputMode::FilesWithMatches => (GrepMode::FilesWithMatches, "No files found"),
            OutputMode::Content => (GrepMode::Content, "No matches found"),
            OutputMode::Count => (GrepMode::Count, "No matches found"),
        };
        let op = FileOp::Grep(GrepOp {
            pattern: input.pattern,
            root: input.path.0.into(),
            glob: input.glob,
            mode,
            ignore_case: input.ignore_case,
            multiline: input.multiline,
            before: input.before,
            after: input.after,
            line_numbers: input.line_numbers,
            max_results: input.head_limit,
            max_bytes: BYTES_MAX,
        });
        let done = ask_cell(context, op, DenialKind::Read).await?;
        let FileDone::Found { entries, truncated, unreadable } = done else {
            return Err(unexpected(&done));
        };
        Ok(ToolOutput::text(super::list_found(&entries, truncated, &unreadable, nothing)))
    }
}
