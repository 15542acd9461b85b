use super::cancel::Cancel;
use super::grep_sink::{Found, Sink};
use super::{fault, open};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::{Walk, WalkBuilder};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use stockade_plan::Bytes;
use stockade_plan::file::{FileDone, FileError, GrepMode, GrepOp};

/// The longest line, and with `multiline` the longest file, that can be searched, in bytes.
const SEARCH_MAX: usize = 32 * 1024 * 1024;

/// The most lines of context, and the most memory for a compiled expression, in bytes.
const CONTEXT_MAX: u32 = 1000;
const PATTERN_MAX: usize = 16 * 1024 * 1024;

/// Searches file contents as ripgrep does: ignore files count inside git repositories, hidden files
/// are searched, `.git` and binary files are not. In the order of paths, so that a cut answer is the same
/// each time.
pub(super) fn grep(op: &GrepOp, cancel: &Cancel) -> Result<FileDone, FileError> {
    open::absolute(&op.root)?;
    let matcher = matcher(op)?;
    let root: PathBuf = op.root.as_path().components().collect();
    let only = only(&root, op.glob.as_deref())?;
    let metadata = root.metadata().map_err(|error| fault::io("look at", &op.root, &error))?;
    let mut search = Search {
        op,
        matcher: &matcher,
        searcher: searcher(op),
        found: Found::new(op),
        unreadable: Vec::new(),
        cancel,
    };
    if metadata.is_dir() {
        search.tree(&root, &only)?;
    } else {
        fault::regular(&op.root, metadata.mode())?;
        if search.file(&root)? == Searched::Binary {
            fault::note_unreadable(&mut search.unreadable, &root, "binary file");
        }
    }
    let Search { found, unreadable, .. } = search;
    Ok(FileDone::Found { entries: found.entries, truncated: found.truncated, unreadable })
}

fn matcher(op: &GrepOp) -> Result<RegexMatcher, FileError> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .case_insensitive(op.ignore_case)
        .size_limit(PATTERN_MAX)
        .dfa_size_limit(PATTERN_MAX)
        // `$` stands before `\r\n` as well.
        .crlf(true);
    if op.multiline {
        builder.dot_matches_new_line(true).line_terminator(None);
    } else {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&op.pattern).map_err(|error| FileError::Pattern { reason: error.to_string() })
}

fn searcher(op: &GrepOp) -> Searcher {
    let context = |lines: u32| match op.mode {
        GrepMode::Content => lines.min(CONTEXT_MAX) as usize,
        GrepMode::FilesWithMatches | GrepMode::Count => 0,
    };
    SearcherBuilder::new()
        .multi_line(op.multiline)
        .before_context(context(op.before))
        .after_context(context(op.after))
        .line_number(op.line_numbers && op.mode == GrepMode::Content)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(SEARCH_MAX))
        // A mapped file that is cut off meanwhile would kill the worker.
        .memory_map(MmapChoice::never())
        .build()
}

/// The `glob` as a filter. It narrows only: unlike ripgrep's, it does not bring back ignored files.
fn only(root: &Path, glob: Option<&str>) -> Result<Override, FileError> {
    let mut builder = OverrideBuilder::new(root);
    let built = match glob {
        Some(glob) => builder.add(glob).and_then(|builder| builder.build()),
        None => builder.build(),
    };
    built.map_err(|error| FileError::Pattern { reason: error.to_string() })
}

fn walk(root: &Path, only: &Override, cancel: &Cancel) -> Walk {
    let (only, cancel) = (only.clone(), cancel.clone());
    WalkBuilder::new(root)
        .hidden(false)
        // What the user of the host ignores everywhere is no business of the cell.
        .git_global(false)
        .add_custom_ignore_filename(".rgignore")
        .follow_links(false)
        .sort_by_file_name(|a, b| a.cmp(b))
        .filter_entry(move |entry| {
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            entry.depth() == 0
                || (!cancel.is_set()
                    && entry.file_name() != ".git"
                    && !only.matched(entry.path(), is_folder).is_ignore())
        })
        .build()
}

#[derive(PartialEq, Eq)]
enum Searched {
    Whole,
    Binary,
}

struct Search<'a> {
    op: &'a GrepOp,
    matcher: &'a RegexMatcher,
    searcher: Searcher,
    found: Found,
    unreadable: Vec<Bytes>,
    cancel: &'a Cancel,
}

impl Search<'_> {
    fn tree(&mut self, root: &Path, only: &Override) -> Result<(), FileError> {
        for entry in walk(root, only, self.cancel) {
            self.cancel.check()?;
            match entry {
                Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => {
                    self.file(entry.path())?;
                }
                Ok(_) => {}
                Err(error) => fault::note_walk_error(&mut self.unreadable, root, &error),
            }
            if self.found.truncated {
                break;
            }
        }
        self.cancel.check()
    }

    /// Searches one file; what goes wrong with it is noted and stops nothing.
    fn file(&mut self, path: &Path) -> Result<Searched, FileError> {
        let mut file = match open::regular(&Bytes::from(path)) {
            Ok((file, _)) => file,
            Err(error) => {
                let why = match &error {
                    // As with folders: gone meanwhile, or hidden.
                    FileError::Os { errno: nix::libc::ENOENT, .. } => None,
                    FileError::Os { message, .. } => Some(message.clone()),
                    other => Some(other.to_string()),
                };
                if let Some(why) = why {
                    fault::note_unreadable(&mut self.unreadable, path, &why);
                }
                return Ok(Searched::Whole);
            }
        };
        match is_binary(&mut file) {
            Ok(false) => {}
            Ok(true) => return Ok(Searched::Binary),
            Err(error) => return Ok(self.failed(path, &error)),
        }
        let before = self.found.mark();
        let mut sink = Sink::new(path, self.op, self.matcher, &mut self.found);
        let reader = Cancellable { file, cancel: self.cancel };
        let searched = self.searcher.search_reader(self.matcher, reader, &mut sink);
        let binary = sink.binary;
        self.cancel.check()?;
        if binary {
            self.found.back_to(before);
            return Ok(Searched::Binary);
        }
        Ok(searched.map_or_else(|error| self.failed(path, &error), |()| Searched::Whole))
    }

    fn failed(&mut self, path: &Path, error: &io::Error) -> Searched {
        let why = match fault::io("read", &Bytes::default(), error) {
            FileError::Os { message, .. } => message,
            other => other.to_string(),
        };
        fault::note_unreadable(&mut self.unreadable, path, &why);
        Searched::Whole
    }
}

/// Whether the file begins like one that is not text; UTF-16 with its mark is.
fn is_binary(file: &mut File) -> io::Result<bool> {
    let mut head = Vec::new();
    file.by_ref().take(8 * 1024).read_to_end(&mut head)?;
    file.rewind()?;
    let utf_16 = head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]);
    Ok(!utf_16 && open::looks_binary(&head))
}

/// A file whose reading ends when the request is cancelled.
struct Cancellable<'a> {
    file: File,
    cancel: &'a Cancel,
}

impl Read for Cancellable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_set() {
            return Err(io::Error::other("cancelled"));
        }
        self.file.read(buffer)
    }
}
