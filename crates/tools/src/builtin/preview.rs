//! What a file call would change, shown before somebody is asked (spec 2.6). Read in the cell of the session's own policy: a file that
//! the session may not read has no preview.

use crate::display::{Display, Hunk};
use crate::{ApprovalPreparation, CallContext, PathInput, ToolError};
use similar::{ChangeTag, TextDiff};
use stockade_sandbox::file::{FileDone, FileError, FileOp};

/// Larger files have no preview.
const BYTES_MAX: u64 = 256 * 1024;
const ENOENT: i32 = 2;

/// The diff from a file as it is to what `change` makes of it; `None` from `change`: it makes nothing of it.
pub(super) async fn diff(
    context: &CallContext,
    path: &PathInput,
    change: impl FnOnce(&str) -> Option<String> + Send,
) -> Result<ApprovalPreparation, ToolError> {
    let op = FileOp::Read {
        path: path.0.clone().into(),
        offset: 1,
        limit: u64::MAX,
        max_bytes: BYTES_MAX,
    };
    let cell = context.cell().await?;
    let before = match cell.file(op, context.cancel.clone()).await? {
        Ok(FileDone::Read { content, .. }) if (content.0.len() as u64) < BYTES_MAX => content.0,
        Err(FileError::Os { errno: ENOENT, .. }) => Vec::new(),
        _ => return Ok(ApprovalPreparation::default()),
    };
    let Ok(before) = String::from_utf8(before) else {
        return Ok(ApprovalPreparation::default());
    };
    let Some(after) = change(&before) else {
        return Ok(ApprovalPreparation::default());
    };
    let preview = Display::Diff {
        path: path.display().to_string(),
        hunks: hunks(&before, &after),
        omitted_lines: 0,
    };
    Ok(ApprovalPreparation { allow: false, preview: Some(preview) })
}

fn hunks(before: &str, after: &str) -> Vec<Hunk> {
    let diff = TextDiff::from_lines(before, after);
    let groups = diff.grouped_ops(3);
    let hunk = |group: &Vec<similar::DiffOp>| {
        let first = group.first().map_or(0, |op| op.old_range().start);
        let changes = group.iter().flat_map(|op| diff.iter_changes(op));
        let lines = changes.map(|change| {
            let mark = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            format!("{mark}{}", change.value().trim_end_matches('\n'))
        });
        Hunk { first_line: first as u64 + 1, lines: lines.collect() }
    };
    groups.iter().map(hunk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 2.6
    #[test]
    fn a_preview_shows_what_changes_with_what_stands_around_it() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n";
        let shown = hunks(before, &before.replace("5\n", "five\n"));
        assert_eq!(shown.len(), 1);
        assert_eq!(shown[0].first_line, 2);
        assert_eq!(shown[0].lines, [" 2", " 3", " 4", "-5", "+five", " 6", " 7", " 8"]);
        assert_eq!(hunks("", "a\n")[0].lines, ["+a"]);
        assert!(hunks("a", "a").is_empty());
    }
}
