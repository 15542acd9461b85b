use super::files::{ask_cell, path_in, unexpected};
use crate::permissions::{EscalationInput, schema};
use crate::{
    ApprovalPreparation, CallContext, FrozenInput, PathInput, SessionContext, Tool, ToolError,
    ToolOutput,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;
use stockade_sandbox::file::{FileDone, FileOp};
use stockade_types::DenialKind;

/// Creates a file, or replaces one that was read before and is unchanged since.
pub struct Write {
    schema: Value,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// The file; relative to the workspace, or absolute.
    file_path: String,
    /// All of the file's new content.
    content: String,
}

/// The resolved arguments.
#[derive(Serialize, Deserialize)]
struct Input {
    file_path: PathInput,
    content: String,
    #[serde(flatten)]
    escalation: EscalationInput,
}

impl Default for Write {
    fn default() -> Self {
        Self { schema: schema::<Arguments>() }
    }
}

#[async_trait]
impl Tool for Write {
    fn name(&self) -> &str {
        "Write"
    }

    fn description(&self) -> &str {
        "Creates a file with its missing folders, or replaces a file that was read before."
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
        super::to_value(Input {
            file_path: PathInput::resolve(&asked.file_path, session)?,
            content: asked.content,
            escalation: EscalationInput::resolve(arguments, session)?,
        })
    }

    async fn prepare_approval(
        &self,
        input: &FrozenInput,
        context: &CallContext,
    ) -> Result<ApprovalPreparation, ToolError> {
        let Input { file_path, content, .. } = input.parse()?;
        super::preview::diff(context, &file_path, |_| Some(content)).await
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
        let bytes = input.content.len();
        let op = FileOp::Write {
            path: input.file_path.0.clone().into(),
            content: input.content.as_str().into(),
            expected: files_read.last(&input.file_path.0),
        };
        let done = ask_cell(context, op, DenialKind::Write).await?;
        let FileDone::Written { created, fingerprint } = done else {
            return Err(unexpected(&done));
        };
        files_read.seen(&input.file_path.0, fingerprint);
        let what = if created { "Created" } else { "Replaced" };
        Ok(ToolOutput::text(format!("{what} {} ({bytes} bytes)", input.file_path.display())))
    }
}
