use super::files::{ask_cell, path_in, unexpected};
use super::read::number_lines;
use crate::permissions::{EscalationInput, schema};
use crate::{
    ApprovalPreparation, CallContext, Display, FrozenInput, Hunk, PathInput, SessionContext, Tool,
    ToolError, ToolOutput,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;
use stockade_sandbox::file::{FileDone, FileOp};
use stockade_types::DenialKind;

/// Replaces text in a file that was read before and is unchanged since.
pub struct Edit {
    schema: Value,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// The file; relative to the workspace, or absolute.
    file_path: String,
    /// The text to replace: exactly as in the file, without line numbers.
    old_string: String,
    /// The text to put in its place.
    new_string: String,
    /// Replace every occurrence; otherwise there must be exactly one.
    #[serde(default)]
    replace_all: bool,
}

/// The resolved arguments.
#[derive(Serialize, Deserialize)]
struct Input {
    file_path: PathInput,
    old_string: String,
    new_string: String,
    replace_all: bool,
    #[serde(flatten)]
    escalation: EscalationInput,
}

impl Default for Edit {
    fn default() -> Self {
        Self { schema: schema::<Arguments>() }
    }
}

#[async_trait]
impl Tool for Edit {
    fn name(&self) -> &str {
        "Edit"
    }

    fn description(&self) -> &str {
        "Replaces text in a file. The file must have been read before, and be unchanged since."
    }

    fn input_schema(&self) -> &Value {
        &self.schema
    }

    fn resolve_input(
        &self,
        arguments: &Value,
        session: &SessionContext,
    ) -> Result<Value, ToolError> {
        let asked: Arguments = super::parse(arguments)?;
        if asked.old_string.is_empty() {
            return Err(ToolError::Business(
                "old_string is empty: use Write to create or replace a whole file".into(),
            ));
        }
        if asked.old_string == asked.new_string {
            return Err(ToolError::Business(
                "old_string and new_string are the same: there is nothing to change".into(),
            ));
        }
        super::to_value(Input {
            file_path: PathInput::resolve(&asked.file_path, session)?,
            old_string: asked.old_string,
            new_string: asked.new_string,
            replace_all: asked.replace_all,
            escalation: EscalationInput::resolve(arguments, session)?,
        })
    }

    async fn prepare_approval(
        &self,
        input: &FrozenInput,
        context: &CallContext,
    ) -> Result<ApprovalPreparation, ToolError> {
        let Input { file_path, old_string, new_string, replace_all, .. } = input.parse()?;
        super::preview::diff(context, &file_path, |before| {
            let places = before.matches(&old_string).count();
            match (places, replace_all) {
                (0, _) => None,
                (_, true) => Some(before.replace(&old_string, &new_string)),
                (1, false) => Some(before.replacen(&old_string, &new_string, 1)),
                (_, false) => None,
            }
        })
        .await
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
        let files_read = &context.session.files_read;
        let shown = input.file_path.display();
        let Some(expected) = files_read.last(&input.file_path.0) else {
            return Err(ToolError::Business(format!(
                "{shown} has not been read by this run: read it first"
            )));
        };
        let op = FileOp::Edit {
            path: input.file_path.0.clone().into(),
            old: input.old_string.as_str().into(),
            new: input.new_string.as_str().into(),
            replace_all: input.replace_all,
            expected,
        };
        let done = ask_cell(context, op, DenialKind::Write).await?;
        let FileDone::Edited { replacements, fingerprint, snippet, snippet_first_line } = done
        else {
            return Err(unexpected(&done));
        };
        files_read.seen(&input.file_path.0, fingerprint);
        let places = if replacements == 1 { "place" } else { "places" };
        let text = format!(
            "Edited {shown} in {replacements} {places}. Around the first:\n{}",
            number_lines(&snippet.0, snippet_first_line)
        );
        let marked = |text: &str, mark: char| -> Vec<String> {
            text.lines().map(|line| format!("{mark}{line}")).collect()
        };
        let mut lines = marked(&input.old_string, '-');
        lines.append(&mut marked(&input.new_string, '+'));
        let hunks = vec![Hunk { first_line: snippet_first_line, lines }];
        let diff = Display::Diff { path: shown.to_string(), hunks, omitted_lines: 0 };
        Ok(ToolOutput { display: Some(diff), ..ToolOutput::text(text) })
    }
}
