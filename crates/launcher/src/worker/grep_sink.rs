use super::read::cut_to_characters;
use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, SinkContext, SinkFinish, SinkMatch};
use std::io;
use std::path::Path;
use stockade_plan::Bytes;
use stockade_plan::file::{FRAME_MAX, GrepMode, GrepOp};

/// The most entries, and bytes of entries, in one answer.
const RESULTS_MAX: u64 = 100_000;
const BYTES_MAX: u64 = FRAME_MAX as u64 / 2;

/// How much of a long line is shown, and how much of that before the match, in bytes.
const LINE_MAX: usize = 2000;
const LINE_BEFORE: usize = 200;

/// What was found so far, bounded.
pub(super) struct Found {
    pub(super) entries: Vec<Bytes>,
    pub(super) truncated: bool,
    bytes: u64,
    max_entries: u64,
    max_bytes: u64,
}

/// A moment in the search.
pub(super) struct Mark {
    entries: usize,
    bytes: u64,
}

impl Found {
    pub(super) fn new(op: &GrepOp) -> Found {
        Found {
            entries: Vec::new(),
            truncated: false,
            bytes: 0,
            max_entries: op.max_results.min(RESULTS_MAX),
            max_bytes: op.max_bytes.min(BYTES_MAX),
        }
    }

    /// Adds an entry; false, and `truncated`, if there is no room.
    fn push(&mut self, entry: Vec<u8>) -> bool {
        // With the line end that it gets when it is printed.
        let bytes = self.bytes + entry.len() as u64 + 1;
        if self.entries.len() as u64 >= self.max_entries || bytes > self.max_bytes {
            self.truncated = true;
            return false;
        }
        self.bytes = bytes;
        self.entries.push(Bytes(entry));
        true
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { entries: self.entries.len(), bytes: self.bytes }
    }

    /// Forgets what was found since.
    pub(super) fn back_to(&mut self, mark: Mark) {
        self.entries.truncate(mark.entries);
        self.bytes = mark.bytes;
        self.truncated = false;
    }
}

/// Takes what the search of one file finds.
pub(super) struct Sink<'a> {
    path: Bytes,
    op: &'a GrepOp,
    matcher: &'a RegexMatcher,
    found: &'a mut Found,
    /// Matches so far.
    count: u64,
    /// Entries of other files come before.
    follows: bool,
    /// The file turned out not to be text.
    pub(super) binary: bool,
}

impl<'a> Sink<'a> {
    pub(super) fn new(
        path: &Path,
        op: &'a GrepOp,
        matcher: &'a RegexMatcher,
        found: &'a mut Found,
    ) -> Sink<'a> {
        let follows = !found.entries.is_empty();
        Sink { path: Bytes::from(path), op, matcher, found, count: 0, follows, binary: false }
    }

    /// Adds lines as `path:number:text`, with `-` in place of `:` for context.
    fn add_lines(&mut self, lines: &[u8], first: Option<u64>, separator: u8) -> bool {
        let with_context = self.op.before > 0 || self.op.after > 0;
        if with_context && std::mem::take(&mut self.follows) && !self.found.push(b"--".to_vec()) {
            return false;
        }
        let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
        lines.split(|byte| *byte == b'\n').zip(0u64..).all(|(line, index)| {
            let mut entry = self.path.0.clone();
            entry.push(separator);
            if let Some(first) = first {
                entry.extend_from_slice((first + index).to_string().as_bytes());
                entry.push(separator);
            }
            self.add_text(&mut entry, line.strip_suffix(b"\r").unwrap_or(line));
            self.found.push(entry)
        })
    }

    /// Adds a line's text; of a long one the part around its first match.
    fn add_text(&self, entry: &mut Vec<u8>, line: &[u8]) {
        if line.len() <= LINE_MAX {
            entry.extend_from_slice(line);
            return;
        }
        let found = self.matcher.find(line).ok().flatten().map_or(0, |found| found.start());
        let mut start = found.saturating_sub(LINE_BEFORE).min(line.len() - LINE_MAX);
        while line.get(start).is_some_and(|byte| byte & 0xc0 == 0x80) {
            start += 1;
        }
        let mut shown: Vec<u8> = line.iter().skip(start).take(LINE_MAX).copied().collect();
        if start + shown.len() < line.len() {
            cut_to_characters(&mut shown);
        }
        let (before, after) = (start, line.len() - start - shown.len());
        if before > 0 {
            entry.extend_from_slice(format!("[{before} bytes] ").as_bytes());
        }
        entry.extend_from_slice(&shown);
        if after > 0 {
            entry.extend_from_slice(format!(" [{after} bytes]").as_bytes());
        }
    }

    fn matches_in(&self, lines: &[u8]) -> u64 {
        if !self.op.multiline {
            return 1;
        }
        let mut count = 0;
        let counted = self.matcher.find_iter(lines, |_| {
            count += 1;
            true
        });
        if counted.is_ok() { count.max(1) } else { 1 }
    }
}

impl grep_searcher::Sink for &mut Sink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        Ok(match self.op.mode {
            GrepMode::Content => self.add_lines(found.bytes(), found.line_number(), b':'),
            GrepMode::FilesWithMatches => {
                let path = self.path.0.clone();
                self.found.push(path);
                false
            }
            GrepMode::Count => {
                self.count += self.matches_in(found.bytes());
                true
            }
        })
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        Ok(self.add_lines(context.bytes(), context.line_number(), b'-'))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        Ok(self.found.push(b"--".to_vec()))
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, _: &SinkFinish) -> Result<(), io::Error> {
        if self.count > 0 && !self.binary {
            let mut entry = self.path.0.clone();
            entry.extend_from_slice(format!(":{}", self.count).as_bytes());
            self.found.push(entry);
        }
        Ok(())
    }
}
