//! What the file tools share: the way into the cell, and what its errors mean.

use crate::{CallContext, ToolError};
use serde::{Deserialize, Deserializer, de::Error as _};
use stockade_sandbox::file::{FileDone, FileError, FileOp};
use stockade_types::{Denial, DenialKind, Evidence};

const EPERM: i32 = 1;
const EACCES: i32 = 13;
const EROFS: i32 = 30;

/// Does file work in the call's cell. `kind` is what a refusal of it would be a refusal of.
pub(super) async fn ask_cell(
    context: &CallContext,
    op: FileOp,
    kind: DenialKind,
) -> Result<FileDone, ToolError> {
    let cell = context.cell().await?;
    cell.file(op, context.cancel.clone()).await?.map_err(|error| file_error(error, kind))
}

/// The worker answered one request with the answer to another.
pub(super) fn unexpected(done: &FileDone) -> ToolError {
    ToolError::Lost(format!("the file worker gave an answer that fits no request: {done:?}"))
}

fn file_error(error: FileError, kind: DenialKind) -> ToolError {
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
        // The kernel refused, but whether for the sandbox or for the file's own permissions is not known: named,
        // at the lowest level of evidence, and without proposing a grant.
        FileError::Os { path, errno: EPERM | EACCES | EROFS, .. } => ToolError::Denied {
            message,
            denials: vec![Denial {
                kind,
                target: path.as_path().display().to_string(),
                evidence: Evidence::Inferred,
                grant: String::new(),
                note: String::new(),
            }],
        },
        _ => ToolError::Business(message),
    }
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
