use super::cancel::Cancel;
use super::{fault, open};
use globset::GlobBuilder;
use ignore::WalkBuilder;
use nix::errno::Errno;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use stockade_plan::Bytes;
use stockade_plan::file::{FRAME_MAX, FileDone, FileError};

/// The most paths, and bytes of paths, in one answer.
const RESULTS_MAX: u64 = 100_000;
const BYTES_MAX: usize = FRAME_MAX / 2;

/// Finds regular files by a glob, newest first.
///
/// Ignore files do not count: what is asked for by name is wanted, build output included. Only the
/// inside of `.git` is left out, unless the pattern names it.
pub(super) fn glob(
    pattern: &str,
    root: &Bytes,
    max_results: u64,
    cancel: &Cancel,
) -> Result<FileDone, FileError> {
    open::absolute(root)?;
    let (base, rest) = split(root.as_path(), pattern);
    if rest.is_empty() {
        return Err(FileError::Pattern { reason: "it names no file".into() });
    }
    let matcher = GlobBuilder::new(&rest)
        .literal_separator(true)
        .build()
        .map_err(|error| FileError::Pattern { reason: error.to_string() })?
        .compile_matcher();
    is_folder(root)?;

    // A pattern without `**` reaches exactly so deep; a brace may hold a `/` or not.
    let bounded = !rest.contains("**") && !rest.contains('{');
    let names_git = pattern.split(['/', ',', '{', '}']).any(|name| name == ".git");
    let walk = WalkBuilder::new(&base)
        .standard_filters(false)
        .follow_links(false)
        .max_depth(bounded.then(|| rest.split('/').count()))
        .filter_entry(move |entry| {
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            names_git || entry.depth() == 0 || !is_folder || entry.file_name() != ".git"
        })
        .build();

    let mut newest = Newest::new(max_results.min(RESULTS_MAX));
    let mut unreadable = Vec::new();
    for entry in walk {
        cancel.check()?;
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                // A pattern whose fixed beginning does not exist matches nothing.
                if error.depth() != Some(0) && base.symlink_metadata().is_ok() {
                    fault::note_walk_error(&mut unreadable, &base, &error);
                }
                continue;
            }
        };
        let below = entry.path().strip_prefix(&base).unwrap_or(entry.path());
        if entry.depth() == 0 || !matcher.is_match(below) {
            continue;
        }
        // Through a link, so that a linked file counts as what it is; a dangling one is none.
        if let Some(metadata) = entry.path().metadata().ok().filter(std::fs::Metadata::is_file) {
            newest.add(&metadata, entry.path());
        }
    }
    let (entries, truncated) = newest.finish();
    Ok(FileDone::Found { entries, truncated, unreadable })
}

fn is_folder(root: &Bytes) -> Result<(), FileError> {
    match root.as_path().metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(fault::os("look in", root, Errno::ENOTDIR)),
        Err(error) => Err(fault::io("look in", root, &error)),
    }
}

/// The folder where the pattern's fixed beginning leads, so that nothing else need be walked, and the
/// rest of the pattern, which is relative to it.
fn split(root: &Path, pattern: &str) -> (PathBuf, String) {
    let mut base = if pattern.starts_with('/') { PathBuf::from("/") } else { root.to_path_buf() };
    let mut names = pattern.split('/').filter(|name| !name.is_empty() && *name != ".").peekable();
    let mut climbs = false;
    while let Some(name) = names.next_if(|name| is_literal(&base, name)) {
        // The last one stays in the pattern: a base is a folder.
        if names.peek().is_none() {
            return (settled(base, climbs), globset::escape(name));
        }
        climbs |= name == "..";
        base.push(name);
    }
    (settled(base, climbs), names.collect::<Vec<_>>().join("/"))
}

/// Whether a name of a pattern means just itself. `[id]` does where something bears that name, as
/// folders of web projects do.
fn is_literal(base: &Path, name: &str) -> bool {
    let exists = || base.join(name).symlink_metadata().is_ok();
    !name.contains(['*', '?', '{', '\\']) && (!name.contains('[') || exists())
}

/// The base without `.`, double slashes and `..`, so that paths come out as people write them.
fn settled(base: PathBuf, climbs: bool) -> PathBuf {
    let plain: PathBuf = base.components().collect();
    if climbs { plain.canonicalize().unwrap_or(plain) } else { plain }
}

/// A file by its age (seconds and nanoseconds of its mtime), then by its path.
type Aged = (Reverse<(i64, i64)>, Vec<u8>);

/// The newest so many files; no more than that are kept at any time.
struct Newest {
    max: usize,
    /// The oldest is on top.
    heap: BinaryHeap<Aged>,
    truncated: bool,
}

impl Newest {
    fn new(max: u64) -> Newest {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        Newest { max, heap: BinaryHeap::new(), truncated: false }
    }

    fn add(&mut self, metadata: &std::fs::Metadata, path: &Path) {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        self.heap.push((Reverse(modified), Bytes::from(path).0));
        if self.heap.len() > self.max {
            self.heap.pop();
            self.truncated = true;
        }
    }

    fn finish(mut self) -> (Vec<Bytes>, bool) {
        let mut bytes = 0;
        let mut entries = Vec::new();
        for (_, path) in std::mem::take(&mut self.heap).into_sorted_vec() {
            bytes += path.len();
            if bytes > BYTES_MAX {
                return (entries, true);
            }
            entries.push(Bytes(path));
        }
        (entries, self.truncated)
    }
}
