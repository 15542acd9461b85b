//! What the cells share: a map of files, and a list of what was asked of them.

use crate::TreeSignal;
use std::collections::BTreeMap;
use std::ffi::OsString;
use stockade_plan::Bytes;
use stockade_plan::file::{FileDone, FileError, FileOp, Fingerprint, Place};

#[derive(Default)]
pub(super) struct State {
    pub(super) files: BTreeMap<Vec<u8>, (Vec<u8>, Fingerprint)>,
    pub(super) clock: i128,
    pub(super) argvs: Vec<Vec<OsString>>,
    pub(super) ops: Vec<FileOp>,
    pub(super) policies: Vec<String>,
    pub(super) signals: Vec<TreeSignal>,
}

impl State {
    pub(super) fn put(&mut self, path: Vec<u8>, content: Vec<u8>) -> Fingerprint {
        self.clock += 1;
        let inode = u64::try_from(self.clock).unwrap_or_default();
        let size = content.len() as u64;
        let fingerprint =
            Fingerprint { device: 1, inode, size, mtime_ns: self.clock, ctime_ns: self.clock };
        self.files.insert(path, (content, fingerprint));
        fingerprint
    }

    /// Read, Write and Edit on the map. Glob and Grep list every file below their root.
    pub(super) fn apply(&mut self, op: FileOp) -> Result<FileDone, FileError> {
        match op {
            FileOp::Read { path, offset, limit, max_bytes } => {
                let (content, fingerprint) = self.get(&path)?;
                let lines: Vec<&[u8]> = content.split_inclusive(|b| *b == b'\n').collect();
                let first = usize::try_from(offset.max(1) - 1).unwrap_or(usize::MAX);
                let mut taken = Vec::new();
                let (mut count, mut truncated) = (0, false);
                for line in lines.iter().skip(first).take(usize::try_from(limit).unwrap_or(0)) {
                    if taken.len() as u64 + line.len() as u64 > max_bytes {
                        truncated = true;
                        break;
                    }
                    taken.extend_from_slice(line);
                    count += 1;
                }
                Ok(FileDone::Read {
                    content: Bytes(taken),
                    first_line: offset.max(1),
                    lines: count,
                    total_lines: Some(lines.len() as u64),
                    truncated,
                    fingerprint,
                })
            }
            FileOp::Write { path, content, expected } => {
                let known = self.files.get(&path.0).map(|(_, fingerprint)| *fingerprint);
                match (known, expected) {
                    (Some(_), None) => return Err(FileError::ExistsUnread { path }),
                    (Some(now), Some(then)) if now != then => {
                        return Err(FileError::Changed { path });
                    }
                    (None, Some(_)) => return Err(FileError::Changed { path }),
                    _ => {}
                }
                let fingerprint = self.put(path.0, content.0);
                Ok(FileDone::Written { created: known.is_none(), fingerprint })
            }
            FileOp::Edit { path, old, new, replace_all, expected } => {
                let (content, fingerprint) = self.get(&path)?;
                if fingerprint != expected {
                    return Err(FileError::Changed { path });
                }
                let places = occurrences(&content, &old.0);
                let count = places.len() as u64;
                if count == 0 || (count > 1 && !replace_all) {
                    return Err(FileError::Occurrences { path, count });
                }
                let mut edited = Vec::new();
                let mut from = 0;
                for place in places {
                    edited.extend_from_slice(&content[from..place]);
                    edited.extend_from_slice(&new.0);
                    from = place + old.0.len();
                }
                edited.extend_from_slice(&content[from..]);
                let fingerprint = self.put(path.0, edited.clone());
                Ok(FileDone::Edited {
                    replacements: count,
                    fingerprint,
                    snippet: Bytes(edited),
                    snippet_first_line: 1,
                })
            }
            FileOp::Glob { root, .. } => Ok(self.below(&root)),
            FileOp::Grep(op) => Ok(self.below(&op.root)),
            FileOp::Locate { path } => {
                let file = self.files.get(&path.0).map(|(_, fingerprint)| *fingerprint);
                let written = path.clone();
                Ok(FileDone::Located(Place { written, path, folder: None, file }))
            }
            FileOp::At { place, op } => {
                let now = self.files.get(&place.path.0).map(|(_, fingerprint)| *fingerprint);
                if now != place.file {
                    return Err(FileError::Moved { path: place.written });
                }
                self.apply(*op)
            }
        }
    }

    fn get(&self, path: &Bytes) -> Result<(Vec<u8>, Fingerprint), FileError> {
        self.files.get(&path.0).cloned().ok_or_else(|| FileError::Os {
            step: "open".into(),
            path: path.clone(),
            errno: 2,
            message: "No such file or directory".into(),
        })
    }

    fn below(&self, root: &Bytes) -> FileDone {
        let entries = self.files.keys().filter(|path| path.starts_with(&root.0));
        FileDone::Found {
            entries: entries.map(|path| Bytes(path.clone())).collect(),
            truncated: false,
            unreadable: Vec::new(),
        }
    }
}

/// Where `needle` begins in `hay`, without overlaps.
fn occurrences(hay: &[u8], needle: &[u8]) -> Vec<usize> {
    let mut places = Vec::new();
    let mut from = 0;
    while !needle.is_empty() && from + needle.len() <= hay.len() {
        if hay[from..].starts_with(needle) {
            places.push(from);
            from += needle.len();
        } else {
            from += 1;
        }
    }
    places
}
