//! What people are shown of a result, beside what the model is given (spec 8.4). Each kind is limited by itself, so that no
//! client has to guard against a huge one.

use serde::{Deserialize, Serialize};

/// Hunks of a diff that are shown.
pub const DIFF_HUNKS_MAX: usize = 8;
/// Lines of a diff that are shown, all hunks together.
pub const DIFF_LINES_MAX: usize = 160;
/// Bytes of a command and its output that are shown.
pub const BASH_BYTES_MAX: usize = 150_000;
/// Bytes of the command among them.
pub const COMMAND_BYTES_MAX: usize = 10_000;
/// Entries of a list that are shown.
pub const LIST_ENTRIES_MAX: usize = 500;
/// Bytes of one line, path or entry that are shown.
pub const LINE_BYTES_MAX: usize = 1000;

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
                let command = cut(command, COMMAND_BYTES_MAX);
                let shown = tail(&output, BASH_BYTES_MAX - command.len());
                let left_out = (output.len() - shown.len()) as u64;
                Display::Bash {
                    command,
                    omitted_bytes: omitted_bytes.saturating_add(left_out),
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
                    hunk.lines = hunk.lines.into_iter().map(line).collect();
                    if !hunk.lines.is_empty() {
                        shown.push(hunk);
                    }
                }
                let left_out = (total - (DIFF_LINES_MAX - left)) as u64;
                let omitted_lines = omitted_lines.saturating_add(left_out);
                Display::Diff { path: line(path), hunks: shown, omitted_lines }
            }
            Display::List { mut entries, omitted } => {
                let left_out = entries.len().saturating_sub(LIST_ENTRIES_MAX) as u64;
                entries.truncate(LIST_ENTRIES_MAX);
                let entries = entries.into_iter().map(line).collect();
                Display::List { entries, omitted: omitted.saturating_add(left_out) }
            }
        }
    }
}

/// A line, path or entry within its bound.
fn line(text: String) -> String {
    cut(text, LINE_BYTES_MAX)
}

/// At most so many bytes, with a sign if there were more.
fn cut(text: String, bytes: usize) -> String {
    const SIGN: &str = "…";
    if text.len() <= bytes {
        return text;
    }
    format!("{}{SIGN}", head(&text, bytes - SIGN.len()))
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
        let bash = |command: String, output: String| match (Display::Bash {
            command,
            output,
            omitted_bytes: 1,
        })
        .limited()
        {
            Display::Bash { command, output, omitted_bytes } => {
                (command.len(), output.len(), omitted_bytes)
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(bash("x".into(), "a".repeat(100)), (1, 100, 1));
        assert_eq!(bash("x".into(), "a".repeat(200_000)), (1, 149_999, 50_002));
        assert_eq!(bash("xx".into(), format!("{}b", "ä".repeat(100_000))), (2, 149_997, 50_005));
        let (command, output, omitted) = bash("x".repeat(200_000), "a".repeat(200_000));
        assert!(command + output <= BASH_BYTES_MAX && output > 100_000);
        assert_eq!(omitted, 1 + 200_000 - output as u64);
    }

    // spec 8.4
    #[test]
    fn no_single_line_path_or_entry_is_without_a_bound_and_no_count_overflows() {
        let long = "ä".repeat(1_000_000);
        let hunk = Hunk { first_line: 1, lines: vec![long.clone(); 160] };
        for display in [
            Display::Diff { path: long.clone(), hunks: vec![hunk; 9], omitted_lines: u64::MAX },
            Display::List { entries: vec![long.clone(); 501], omitted: u64::MAX },
            Display::Bash { command: long.clone(), output: long, omitted_bytes: u64::MAX },
        ] {
            let shown = serde_json::to_string(&display.limited()).unwrap();
            assert!(shown.len() < 600_000, "{}", shown.len());
            assert!(shown.contains('ä'));
        }
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
