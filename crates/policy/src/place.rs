use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;

/// A place in a policy file. Lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file, as it was named.
    pub file: String,
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A file's text, with the name that people know it by.
#[derive(Debug)]
pub(crate) struct Source {
    pub label: String,
    pub text: String,
    /// The folder that a file counts from which this one names; empty for the shipped ones.
    pub folder: PathBuf,
}

impl Source {
    pub fn place(&self, offset: usize) -> Place {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Place {
            file: self.label.clone(),
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or("").chars().count() + 1,
        }
    }
}

/// A value and where it was written: kept through the merge, so that a contradiction between two
/// files can name both.
#[derive(Clone, Debug)]
pub(crate) struct Sourced<T> {
    pub value: T,
    pub source: Rc<Source>,
    pub offset: usize,
}

impl<T> Sourced<T> {
    pub fn new(spanned: toml::Spanned<T>, source: &Rc<Source>) -> Self {
        let offset = spanned.span().start;
        Self { value: spanned.into_inner(), source: Rc::clone(source), offset }
    }

    pub fn place(&self) -> Place {
        self.source.place(self.offset)
    }

    /// Whether both stand in one file.
    pub fn beside<U>(&self, other: &Sourced<U>) -> bool {
        Rc::ptr_eq(&self.source, &other.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_lines_count_from_one() {
        let source =
            Source { label: "x".into(), text: "a\né = 1\n".into(), folder: PathBuf::new() };
        assert_eq!(source.place(0).to_string(), "x:1:1");
        assert_eq!(source.place(2).to_string(), "x:2:1");
        assert_eq!(source.place(4).to_string(), "x:2:2");
        // In the middle of a character, and past the end: a place all the same, never a panic.
        assert_eq!(source.place(3).line, 3);
        assert_eq!(source.place(999).to_string(), "x:3:1");
    }
}
