use super::{CommandHook, HookSession, When};
use crate::{Hook, PermissionHook};
use regex::Regex;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Time of a command that names none, in seconds.
const TIMEOUT_DEFAULT: u64 = 60;

/// Why there are no hooks.
#[derive(Debug, thiserror::Error)]
pub enum HookSettingsError {
    /// The file could not be read.
    #[error("{path}: cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not what a settings file should be.
    #[error("{path}:{line}:{column}: {message}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// It asks for something that there is not.
    #[error("{path}: hooks.{place}: {message}")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// Where in it.
        place: String,
        /// What is wrong, and what there is instead.
        message: String,
    },
}

/// The part of a settings file that is about hooks.
#[derive(Deserialize)]
struct Settings {
    #[serde(default)]
    hooks: BTreeMap<String, Vec<Group>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    matcher: Option<String>,
    hooks: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    r#type: String,
    command: String,
    timeout: Option<u64>,
}

/// The hooks of a settings file in Claude Code's shape: `{"hooks": {"PreToolUse": [{"matcher": "Bash|Edit", "hooks":
/// [{"type": "command", "command": "…", "timeout": 60}]}]}}`. Its permissions are rules (`RuleSet::add_settings`), its other parts are not looked at. A hook that would never be
/// run is refused by name.
pub fn command_hooks(
    path: &Path,
    session: &HookSession,
) -> Result<Vec<Arc<dyn Hook>>, HookSettingsError> {
    let hooks = commands(path, session)?.into_iter();
    let hooks = hooks.filter(|hook| hook.when != When::PermissionRequest);
    Ok(hooks.map(|hook| Arc::new(hook) as Arc<dyn Hook>).collect())
}

/// The hooks of the same file that answer questions of permission in a person's place: `{"hooks": {"PermissionRequest": …}}`
/// (spec 2.6).
pub fn command_permission_hooks(
    path: &Path,
    session: &HookSession,
) -> Result<Vec<Arc<dyn PermissionHook>>, HookSettingsError> {
    let hooks = commands(path, session)?.into_iter();
    let hooks = hooks.filter(|hook| hook.when == When::PermissionRequest);
    Ok(hooks.map(|hook| Arc::new(hook) as Arc<dyn PermissionHook>).collect())
}

/// What is longer is no settings file, and cut here it is none either, in bytes.
const FILE_MOST: u64 = 1 << 20;

fn commands(path: &Path, session: &HookSession) -> Result<Vec<CommandHook>, HookSettingsError> {
    let mut text = Vec::new();
    stockade_types::regular::open(path)
        .and_then(|file| file.take(FILE_MOST).read_to_end(&mut text))
        .map_err(|source| HookSettingsError::Read { path: path.to_owned(), source })?;
    let settings: Settings =
        serde_json::from_slice(&text).map_err(|error| HookSettingsError::Parse {
            path: path.to_owned(),
            line: error.line(),
            column: error.column(),
            message: error.to_string(),
        })?;
    let mut hooks = Vec::new();
    for (event, groups) in settings.hooks {
        let unsupported = |place: String, message: String| HookSettingsError::Unsupported {
            path: path.to_owned(),
            place,
            message,
        };
        let when = match event.as_str() {
            "PreToolUse" => When::PreToolUse,
            "PostToolUse" => When::PostToolUse,
            "PostToolUseFailure" => When::PostToolUseFailure,
            "PermissionRequest" => When::PermissionRequest,
            _ => {
                let known =
                    "there are PreToolUse, PostToolUse, PostToolUseFailure and PermissionRequest";
                return Err(unsupported(event, format!("nothing asks such a hook; {known}")));
            }
        };
        for (number, group) in groups.into_iter().enumerate() {
            let place = format!("{event}[{number}]");
            let matcher = match group.matcher.as_deref() {
                None | Some("" | "*") => None,
                Some(tools) => {
                    Some(Regex::new(&format!("^(?:{tools})$")).map_err(|error| {
                        unsupported(format!("{place}.matcher"), error.to_string())
                    })?)
                }
            };
            for entry in group.hooks {
                if entry.r#type != "command" {
                    let message = format!("type {:?}: there is only \"command\"", entry.r#type);
                    return Err(unsupported(place, message));
                }
                hooks.push(CommandHook {
                    command: entry.command,
                    when,
                    matcher: matcher.clone(),
                    timeout: Duration::from_secs(entry.timeout.unwrap_or(TIMEOUT_DEFAULT).max(1)),
                    session: session.clone(),
                });
            }
        }
    }
    Ok(hooks)
}
