use super::files::{ask_cell, path_in, unexpected};
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

/// Paths of one call.
const PATHS_MAX: u64 = 100;

/// Finds files by a glob.
pub struct Glob {
    schema: Value,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// The glob, such as **/*.rs.
    #[schemars(length(min = 1))]
    pattern: String,
    /// The folder to look in; the workspace by default.
    path: Option<String>,
}

/// The resolved arguments.
#[derive(Serialize, Deserialize)]
struct Input {
    /// Relative to `path`.
    pattern: String,
    path: PathInput,
    #[serde(flatten)]
    escalation: EscalationInput,
}

impl Default for Glob {
    fn default() -> Self {
        Self { schema: schema::<Arguments>() }
    }
}

#[async_trait]
impl Tool for Glob {
    fn name(&self) -> &str {
        "Glob"
    }

    fn description(&self) -> &str {
        "Finds files whose path matches a glob, the newest first."
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
        // An absolute pattern says where to look by itself; of a home only we know where it is.
        let (folder, pattern) = match asked.pattern.strip_prefix("~/") {
            Some(rest) => ("~", rest),
            None => (asked.path.as_deref().unwrap_or("."), asked.pattern.as_str()),
        };
        super::to_value(Input {
            pattern: pattern.to_owned(),
            path: PathInput::resolve(folder, session)?,
            escalation: EscalationInput::resolve(arguments, session)?,
        })
    }

    fn acts_on(&self, input: &FrozenInput) -> Option<PathBuf> {
        // The folder where the search begins: the pattern's names before the first that is one.
        let pattern = input.value().get("pattern")?.as_str()?;
        let is_plain = |part: &&str| !part.contains(['*', '?', '[', '{', '\\']);
        let fixed: Vec<&str> = pattern.split('/').take_while(is_plain).collect();
        let whole = fixed.len() == pattern.split('/').count();
        let fixed = fixed.get(..fixed.len() - usize::from(whole)).unwrap_or_default().join("/");
        let fixed = if pattern.starts_with('/') { format!("/{fixed}") } else { fixed };
        Some(path_in(input, "path")?.join(fixed))
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
        let op = FileOp::Glob {
            pattern: input.pattern,
            root: input.path.0.into(),
            max_results: PATHS_MAX,
        };
        let done = ask_cell(context, op, DenialKind::Read).await?;
        let FileDone::Found { entries, truncated, unreadable } = done else {
            return Err(unexpected(&done));
        };
        Ok(ToolOutput::text(super::list_found(&entries, truncated, &unreadable, "No files found")))
    }
}
