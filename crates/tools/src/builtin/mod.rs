//! The built-in tools, under the names and argument names that models know (spec 10.4).

mod bash;
mod edit;
mod file_types;
mod files;
mod glob;
mod grep;
mod preview;
mod read;
mod task_output;
mod task_stop;
#[cfg(test)]
mod tests;
mod write;

pub use bash::Bash;
pub use edit::Edit;
pub use glob::Glob;
pub use grep::Grep;
pub use read::Read;
pub use task_output::TaskOutput;
pub use task_stop::TaskStop;
pub use write::Write;

use crate::budget;
use crate::{RegistrationError, Registry, Tool, ToolError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use stockade_sandbox::Bytes;

/// Folders that could not be looked at and are named in a result.
const UNREADABLE_SHOWN: usize = 5;
/// One entry of a result, in characters.
const ENTRY_CHARS_MAX: usize = 2000;

/// A registry that holds all built-in tools.
pub fn registry() -> Result<Registry, RegistrationError> {
    let registry = Registry::new();
    let tools: [Arc<dyn Tool>; 8] = [
        Arc::new(Bash::default()),
        Arc::new(Read::default()),
        Arc::new(Write::default()),
        Arc::new(Edit::default()),
        Arc::new(Glob::default()),
        Arc::new(Grep::default()),
        Arc::new(TaskOutput::default()),
        Arc::new(TaskStop::default()),
    ];
    for tool in tools {
        registry.register(tool)?;
    }
    Ok(registry)
}

fn parse<T: DeserializeOwned>(arguments: &Value) -> Result<T, ToolError> {
    T::deserialize(arguments).map_err(|e| ToolError::InvalidArguments(e.to_string()))
}

fn to_value(input: impl Serialize) -> Result<Value, ToolError> {
    serde_json::to_value(input).map_err(|e| ToolError::Other(Box::new(e)))
}

/// What Glob and Grep found, an entry a line, and what may be missing.
fn list_found(entries: &[Bytes], truncated: bool, unreadable: &[Bytes], nothing: &str) -> String {
    let mut lines: Vec<String> = match entries {
        [] => vec![nothing.to_owned()],
        _ => entries.iter().map(shown).collect(),
    };
    if truncated {
        lines.push(format!(
            "[only the first {} are shown: narrow the search to see the others]",
            entries.len()
        ));
    }
    for place in unreadable.iter().take(UNREADABLE_SHOWN) {
        lines.push(format!("[could not look at {}]", shown(place)));
    }
    if let Some(more @ 1..) = unreadable.len().checked_sub(UNREADABLE_SHOWN) {
        lines.push(format!("[could not look at {more} more]"));
    }
    lines.join("\n")
}

/// An entry as a line, without the line end that it may come with.
fn shown(entry: &Bytes) -> String {
    let text = String::from_utf8_lossy(&entry.0);
    budget::cut_line(text.trim_end_matches('\n'), ENTRY_CHARS_MAX)
}
