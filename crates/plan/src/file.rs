//! The file worker's requests and answers: what Read, Write, Edit, Glob and Grep do inside the cell.
//!
//! Frames on the stream: a little-endian `u32` length, then that many bytes of [`crate::encode`].

use crate::Bytes;
use serde::{Deserialize, Serialize};

/// The longest frame, in bytes.
pub const FRAME_MAX: usize = 32 * 1024 * 1024;

/// From the runtime to the worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileMessage {
    /// Do this; answered by a [`FileReply`] with the same id. Several may be under way at once.
    Request {
        /// The runtime's number for it.
        id: u64,
        /// What to do.
        op: FileOp,
    },
    /// Stop working on it as soon as possible; it is still answered.
    Cancel {
        /// Which.
        id: u64,
    },
}

/// One thing to do. All paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileOp {
    /// Read a text file by lines.
    Read {
        /// Which file.
        path: Bytes,
        /// The first line to return, from 1.
        offset: u64,
        /// How many lines at most.
        limit: u64,
        /// How many bytes of content at most.
        max_bytes: u64,
    },
    /// Create or replace a file, atomically (a temporary file beside it, then rename); missing parents are made.
    Write {
        /// Which file.
        path: Bytes,
        /// All of the new content.
        content: Bytes,
        /// What an existing file must still be; `None`: the file must not exist yet.
        expected: Option<Fingerprint>,
    },
    /// Replace text in a file.
    Edit {
        /// Which file.
        path: Bytes,
        /// The text to replace; not empty.
        old: Bytes,
        /// The text to put in its place.
        new: Bytes,
        /// All occurrences; otherwise there must be exactly one.
        replace_all: bool,
        /// What the file must still be.
        expected: Fingerprint,
    },
    /// Find files by a glob, newest first.
    Glob {
        /// The pattern, relative to `root`.
        pattern: String,
        /// Where to look.
        root: Bytes,
        /// How many paths at most.
        max_results: u64,
    },
    /// Search file contents by a regular expression.
    Grep(GrepOp),
    /// Say where a path leads now.
    Locate {
        /// Which path: a file, a folder, or what is not there yet.
        path: Bytes,
    },
    /// Do this, if its path still leads where it did when the call was approved.
    At {
        /// Where it led.
        place: Place,
        /// What to do.
        op: Box<FileOp>,
    },
}

/// Where a path leads at one moment: what an approval is of. Another folder or file in its place is another place, and so is a link to the
/// very same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The path, as it was written.
    pub written: Bytes,
    /// The same with every link followed.
    pub path: Bytes,
    /// The deepest folder on its way that exists; `None`: it does not count, since the file tells all.
    pub folder: Option<Folder>,
    /// The file, if it exists.
    pub file: Option<Fingerprint>,
}

/// A folder on a path's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folder {
    /// How many names of the path lead to it.
    pub depth: u64,
    /// Its device.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
}

/// A search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrepOp {
    /// The regular expression (Rust's `regex` syntax, as ripgrep).
    pub pattern: String,
    /// The file or folder to search.
    pub root: Bytes,
    /// Only files that match this glob.
    pub glob: Option<String>,
    /// What to return.
    pub mode: GrepMode,
    /// Ignore case.
    pub ignore_case: bool,
    /// Let `.` match line ends and patterns span lines.
    pub multiline: bool,
    /// Lines of context before and after each match (content mode).
    pub before: u32,
    /// See `before`.
    pub after: u32,
    /// Number the lines (content mode).
    pub line_numbers: bool,
    /// How many lines or entries at most.
    pub max_results: u64,
    /// How many bytes at most.
    pub max_bytes: u64,
}

/// What a search returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GrepMode {
    /// `path:line:text`.
    Content,
    /// Paths.
    FilesWithMatches,
    /// `path:count`.
    Count,
}

/// A file's identity and state at one moment; equal means unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Fingerprint {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    pub mtime_ns: i128,
    pub ctime_ns: i128,
}

/// From the worker to the runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReply {
    /// The request's number.
    pub id: u64,
    /// How it went.
    pub result: Result<FileDone, FileError>,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileDone {
    /// Lines of a file.
    Read {
        /// The lines asked for, with their line ends.
        content: Bytes,
        /// The number of the first of them.
        first_line: u64,
        /// How many lines `content` holds.
        lines: u64,
        /// How many lines the whole file has, where that was counted (a cut read may stop early).
        total_lines: Option<u64>,
        /// `content` stops before the lines asked for because of `max_bytes`.
        truncated: bool,
        /// The file's state when it was read.
        fingerprint: Fingerprint,
    },
    /// A file was written.
    Written {
        /// It did not exist before.
        created: bool,
        /// Its new state.
        fingerprint: Fingerprint,
    },
    /// A file was edited.
    Edited {
        /// How many places.
        replacements: u64,
        /// Its new state.
        fingerprint: Fingerprint,
        /// The new content around the first change, for the model to see.
        snippet: Bytes,
        /// The number of the snippet's first line.
        snippet_first_line: u64,
    },
    /// Where a path leads.
    Located(Place),
    /// Paths found, or lines matched: one entry each.
    Found {
        /// The entries, in order.
        entries: Vec<Bytes>,
        /// More were found than are listed.
        truncated: bool,
        /// What could not be looked at, up to some (`path: why`).
        unreadable: Vec<Bytes>,
    },
}

/// Why it was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum FileError {
    /// The kernel refused a step.
    #[error("{step} {path:?}: {message}")]
    Os {
        /// What was being done: `open`, `read`, `rename`, …
        step: String,
        /// On what.
        path: Bytes,
        /// The error number.
        errno: i32,
        /// The kernel's words.
        message: String,
    },
    /// A protected path (spec 5.4).
    #[error("{path:?} is protected by the policy ({pattern})")]
    Protected {
        /// Which path.
        path: Bytes,
        /// By which pattern.
        pattern: String,
    },
    /// Not a regular file.
    #[error("{path:?} is {kind}, not a regular file")]
    NotAFile {
        /// Which path.
        path: Bytes,
        /// What it is, with its article: `a folder`, `a pipe`, …
        kind: String,
    },
    /// The file was not read before, or has changed since.
    #[error("{path:?} has changed since it was read: read it again first")]
    Changed {
        /// Which path.
        path: Bytes,
    },
    /// A file to be created exists already, and was not read before.
    #[error("{path:?} exists already: read it first")]
    ExistsUnread {
        /// Which path.
        path: Bytes,
    },
    /// The path leads elsewhere than when the call was approved, or the file is another one, or has changed.
    #[error(
        "{path:?} has changed since this call was approved, or leads elsewhere now: nothing was done; look at it and make the call again"
    )]
    Moved {
        /// Which path, as it was written.
        path: Bytes,
    },
    /// The text to replace was not found, or more than once.
    #[error("the text to replace occurs {count} times in {path:?}")]
    Occurrences {
        /// Which path.
        path: Bytes,
        /// How often it occurs.
        count: u64,
    },
    /// Not a text file, or larger than can be edited.
    #[error("{path:?}: {reason}")]
    Unsuitable {
        /// Which path.
        path: Bytes,
        /// Why.
        reason: String,
    },
    /// A pattern cannot be understood.
    #[error("the pattern is not valid: {reason}")]
    Pattern {
        /// Why.
        reason: String,
    },
    /// It was cancelled.
    #[error("cancelled")]
    Cancelled,
}
