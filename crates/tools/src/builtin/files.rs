//! What the file tools share: the way into the cell, and what its errors mean.

use crate::{CallContext, FrozenInput, PathInput, ToolError};
use serde::{Deserialize, Deserializer, de::Error as _};
use std::path::{Path, PathBuf};
use stockade_policy::{Grant, Variables};
use stockade_sandbox::file::{FileDone, FileError, FileOp};
use stockade_types::{Denial, DenialKind, Evidence};

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const EROFS: i32 = 30;

/// What a cell has of its own: what is not there need not be the host's.
const OWN: [&str; 4] = ["/tmp", "/var/tmp", "/dev", "/proc"];

/// Does file work in the call's cell. `kind` is what a refusal of it would be a refusal of.
pub(super) async fn ask_cell(
    context: &CallContext,
    op: FileOp,
    kind: DenialKind,
) -> Result<FileDone, ToolError> {
    let cell = context.cell().await?;
    let op = match context.approved_place.clone() {
        Some(place) => FileOp::At { place, op: Box::new(op) },
        None => op,
    };
    let done = cell.file(op, context.cancel.clone()).await?;
    done.map_err(|error| file_error(error, kind, context))
}

/// The path in this argument.
pub(super) fn path_in(input: &FrozenInput, key: &str) -> Option<PathBuf> {
    PathInput::deserialize(input.value().get(key)?).ok().map(|path| path.0)
}

/// The worker answered one request with the answer to another.
pub(super) fn unexpected(done: &FileDone) -> ToolError {
    ToolError::Lost(format!("the file worker gave an answer that fits no request: {done:?}"))
}

fn file_error(error: FileError, kind: DenialKind, context: &CallContext) -> ToolError {
    let message = error.to_string();
    match error {
        FileError::Cancelled => ToolError::Cancelled,
        FileError::Protected { path, .. } => ToolError::Denied {
            message,
            denials: vec![Denial {
                kind,
                target: path.as_path().display().to_string(),
                evidence: Evidence::Observed,
                grant: String::new(),
                note: String::new(),
            }],
        },
        // The kernel said so to Stockade's own worker. Whether it was for the sandbox or for the file's own permissions, the policy tells: where
        // it gives no access, nobody's words are needed to know that.
        FileError::Os { path, errno, .. } if matches!(errno, EPERM | EACCES | EROFS | ENOENT) => {
            let target = path.as_path();
            match refusal(target, kind, context) {
                _ if errno == ENOENT && is_own(target, context) => ToolError::Business(message),
                None if errno == ENOENT => ToolError::Business(message),
                found => {
                    let (evidence, grant) = found
                        .map_or((Evidence::Inferred, String::new()), |grant| {
                            (Evidence::Observed, grant)
                        });
                    let target = target.display().to_string();
                    let note = String::new();
                    let denials = vec![Denial { kind, target, evidence, grant, note }];
                    ToolError::Denied { message, denials }
                }
            }
        }
        _ => ToolError::Business(message),
    }
}

fn is_own(path: &Path, context: &CallContext) -> bool {
    let in_home = context.session.home.as_ref().is_some_and(|home| path.starts_with(home));
    !in_home && OWN.iter().any(|own| path.starts_with(own))
}

/// Whether the policy gives no access to a path; then the grant that would, or nothing where none can.
fn refusal(path: &Path, kind: DenialKind, context: &CallContext) -> Option<String> {
    let home = context.session.home.clone();
    let variables = Variables {
        workspace: context.provider.workspace(),
        home: home.unwrap_or_else(|| PathBuf::from("/nonexistent")),
        session: None,
    };
    let access = context.policy.access(path, &variables).ok()?;
    let (given, grant) = match kind {
        DenialKind::Write => (access.write, Grant::Write(path.to_owned())),
        _ => (access.read, Grant::Read(path.to_owned())),
    };
    if given {
        return None;
    }
    let grantable = context.policy.widen(std::slice::from_ref(&grant), None, &variables).is_ok();
    Some(if grantable { format!("--{grant}") } else { String::new() })
}

/// A whole number that may be written `40.0`, as some models do; JSON Schema calls both an integer.
pub(super) fn whole_number<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else {
        return Ok(None);
    };
    if let Some(whole) = number.as_u64() {
        return Ok(Some(whole));
    }
    match number.as_f64() {
        // Below 2^53 every whole f64 is exact.
        Some(float) if float >= 0.0 && float.fract() == 0.0 && float < 9_007_199_254_740_992.0 => {
            Ok(Some(float as u64))
        }
        _ => Err(D::Error::custom(format!("{number} is no whole number from 0 up"))),
    }
}
