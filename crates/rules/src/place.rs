use std::fmt;
use std::path::{Path, PathBuf};

/// What is wrong with a rule file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {problem}", file = file.display())]
pub struct RuleError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// Everything that is wrong with a rule file. None of it is in force then, and what was loaded before stays in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleErrors(pub Vec<RuleError>);

impl fmt::Display for RuleErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            let line = if at == 0 { "" } else { "\n" };
            write!(f, "{line}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for RuleErrors {}

/// Line and column of a byte of a text.
pub(crate) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset.min(text.len())).unwrap_or(text);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

pub(crate) fn error_at(
    file: &Path,
    text: &str,
    offset: usize,
    problem: impl Into<String>,
) -> RuleError {
    let (line, column) = line_and_column(text, offset);
    RuleError { file: file.to_owned(), line, column, problem: problem.into() }
}
