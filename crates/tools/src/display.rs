//! What people are shown of a result, beside what the model is given (spec 8.4). Each kind is limited by itself, so that no
//! client has to guard against a huge one.

use serde::{Deserialize, Serialize};

/// Hunks of a diff that are shown.
pub const DIFF_HUNKS_MAX: usize = 8;
/// Lines of a diff that are shown, all hunks together.
pub const DIFF_LINES_MAX: usize = 160;
/// Bytes of a command's output that are shown.
pub const BASH_BYTES_MAX: usize = 150_000;
/// Entries of a list that are shown.
pub const LIST_ENTRIES_MAX: usize = 500;

/// A result for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Display {
    /// What a command wrote.
    Bash {
        /// The command.
        command: String,
        /// Its output, or the end of it.
        output: String,
        /// Bytes left out.
        omitted_bytes: u64,
    },
    /// What became of a file.
    Diff {
        /// The file.
        path: String,
        /// The changed places.
        hunks: Vec<Hunk>,
        /// Lines left out.
        omitted_lines: u64,
    },
    /// Paths that were found.
    List {
        /// The entries.
        entries: Vec<String>,
        /// Entries left out.
        omitted: u64,
    },
}

/// One changed place of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hunk {
    /// Where it begins, from line 1.
    pub first_line: u64,
    /// Its lines, each with ` `, `-` or `+` before it.
    pub lines: Vec<String>,
}

impl Display {
    /// The same within the limits of its kind.
    pub fn limited(self) -> Self {
        match self {
            Display::Bash { command, output, omitted_bytes } => {
                let shown = tail(&output, BASH_BYTES_MAX);
                Display::Bash {
                    command: head(&command, BASH_BYTES_MAX).to_owned(),
                    omitted_bytes: omitted_bytes + (output.len() - shown.len()) as u64,
                    output: shown.to_owned(),
                }
            }
            Display::Diff { path, hunks, omitted_lines } => {
                let total: usize = hunks.iter().map(|hunk| hunk.lines.len()).sum();
                let mut left = DIFF_LINES_MAX;
                let mut shown = Vec::new();
                for mut hunk in hunks.into_iter().take(DIFF_HUNKS_MAX) {
                    hunk.lines.truncate(left);
                    left -= hunk.lines.len();
                    if !hunk.lines.is_empty() {
                        shown.push(hunk);
                    }
                }
                let cut = total - (DIFF_LINES_MAX - left);
                Display::Diff { path, hunks: shown, omitted_lines: omitted_lines + cut as u64 }
            }
            Display::List { mut entries, omitted } => {
                let cut = entries.len().saturating_sub(LIST_ENTRIES_MAX);
                entries.truncate(LIST_ENTRIES_MAX);
                Display::List { entries, omitted: omitted + cut as u64 }
            }
        }
    }
}

/// The longest beginning of at most so many bytes that ends between characters.
fn head(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.split_at(end).0
}

/// The longest end of at most so many bytes that begins between characters.
fn tail(text: &str, bytes: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.split_at(start).1
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 8.4
    #[test]
    fn a_display_of_a_command_holds_at_most_150_000_bytes() {
        let bash = |output: String| {
            let command = "x".into();
            match (Display::Bash { command, output, omitted_bytes: 1 }).limited() {
                Display::Bash { output, omitted_bytes, .. } => (output.len(), omitted_bytes),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(bash("a".repeat(100)), (100, 1));
        assert_eq!(bash("a".repeat(200_000)), (150_000, 50_001));
        assert_eq!(bash(format!("{}b", "ä".repeat(100_000))), (149_999, 50_003));
    }

    // spec 8.4
    #[test]
    fn a_diff_shows_at_most_8_hunks_and_160_lines() {
        let hunk = |lines| Hunk { first_line: 1, lines: vec!["+x".into(); lines] };
        let shown =
            |hunks: Vec<Hunk>| match (Display::Diff { path: "a".into(), hunks, omitted_lines: 0 })
                .limited()
            {
                Display::Diff { hunks, omitted_lines, .. } => {
                    let lines: Vec<_> = hunks.iter().map(|hunk| hunk.lines.len()).collect();
                    (lines, omitted_lines)
                }
                other => panic!("{other:?}"),
            };
        assert_eq!(shown(vec![hunk(1); 10]), (vec![1; 8], 2));
        assert_eq!(shown(vec![hunk(100); 3]), (vec![100, 60], 140));
    }
}
