use super::INPUT_MAX;

/// Why an input, or a line of a stream, is no turn. Every variant names the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// Nothing but white space.
    #[error(
        "the input is empty; give a model's turn as JSON, or its calls as JSON lines, in a file or on stdin"
    )]
    Empty,
    /// Not JSON.
    #[error(
        "line {line}, column {column}: {what}; a turn is one JSON document, a stream is one JSON object a line"
    )]
    Syntax {
        /// The line of the input, from 1.
        line: usize,
        /// The byte within the line, from 1.
        column: usize,
        /// What the parser found.
        what: String,
    },
    /// JSON, but no turn.
    #[error("{place}: {what}")]
    Shape {
        /// Where: `content[2]`, or `line 4`.
        place: String,
        /// What is wrong there, and what to do about it.
        what: String,
    },
    /// Too long to be read.
    #[error("{place} is longer than {} MiB, the most that is read; split the turn", INPUT_MAX >> 20)]
    TooLong {
        /// `the turn`, or `line 4`.
        place: String,
    },
}

impl TurnError {
    /// An error of the JSON parser, whose text had `lines_before` lines before it.
    pub(super) fn syntax(error: &serde_json::Error, lines_before: usize) -> Self {
        TurnError::Syntax {
            line: lines_before + error.line(),
            column: error.column(),
            what: without_place(error),
        }
    }

    pub(super) fn shape(place: impl Into<String>, what: impl Into<String>) -> Self {
        TurnError::Shape { place: place.into(), what: what.into() }
    }
}

/// The parser's words without its own ` at line 1 column 2`, which counts from where *it* began.
pub(super) fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}
