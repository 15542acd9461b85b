//! Snapshots of file trees, so that "nothing changed" and "the same changed" can be judged.

use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a snapshot knows of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Type and permission bits, as in `st_mode`.
    pub mode: u32,
    /// What is in it: a digest, a symbolic link's target, or nothing.
    pub content: String,
    /// When its content last changed; compared only where nothing may be touched at all.
    pub modified: (i64, i64),
}

/// A tree: relative path to entry. The root is the empty path.
pub type Snapshot = BTreeMap<PathBuf, Entry>;

/// Looks at everything from `root` down. Symbolic links are not followed. What cannot be read has
/// the error as its content.
pub fn snapshot(root: &Path) -> Snapshot {
    let mut found = Snapshot::new();
    let mut next = vec![PathBuf::new()];
    while let Some(relative) = next.pop() {
        let path = root.join(&relative);
        let Ok(meta) = path.symlink_metadata() else {
            continue;
        };
        if meta.is_dir() {
            let names = fs::read_dir(&path).into_iter().flatten().flatten();
            next.extend(names.map(|name| relative.join(name.file_name())));
        }
        let content = content(&path, &meta);
        let modified = (meta.mtime(), meta.mtime_nsec());
        found.insert(relative, Entry { mode: meta.mode(), content, modified });
    }
    found
}

fn content(path: &Path, meta: &fs::Metadata) -> String {
    let said = if meta.is_symlink() {
        fs::read_link(path).map(|target| format!("-> {target:?}"))
    } else if meta.is_file() {
        fs::read(path)
            .map(|bytes| format!("{} bytes, sha256 {:x}", bytes.len(), Sha256::digest(bytes)))
    } else {
        Ok(String::new())
    };
    said.unwrap_or_else(|e| e.to_string())
}

/// What differs in names, types, modes, contents and link targets, one line each; empty when equal.
pub fn differences(left: &Snapshot, right: &Snapshot) -> Vec<String> {
    compare(left, right, |entry| (entry.mode, entry.content.clone(), (0, 0)))
}

/// The same, and times of modification as well.
pub fn touched(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    compare(before, after, |entry| (entry.mode, entry.content.clone(), entry.modified))
}

fn compare<T: PartialEq>(
    left: &Snapshot,
    right: &Snapshot,
    see: impl Fn(&Entry) -> T,
) -> Vec<String> {
    let paths: BTreeSet<&PathBuf> = left.keys().chain(right.keys()).collect();
    let mut lines = Vec::new();
    for path in paths {
        let (l, r) = (left.get(path), right.get(path));
        if l.map(&see) != r.map(&see) {
            lines.push(format!("{path:?}: {} | {}", show(l), show(r)));
        }
    }
    lines
}

fn show(entry: Option<&Entry>) -> String {
    let Some(entry) = entry else {
        return "absent".into();
    };
    let (seconds, nanos) = entry.modified;
    format!("{:o} {} modified {seconds}.{nanos:09}", entry.mode, entry.content)
}
