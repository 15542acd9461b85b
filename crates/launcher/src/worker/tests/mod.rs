//! The operations on real folders, then the whole worker on a real stream.

mod edit;
mod glob;
mod grep;
mod peer;
mod protect;
mod read;
mod stream;
mod waiting;
mod write;

use super::cancel::Cancel;
use super::{Commits, Files, Protection};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use stockade_plan::file::{FileDone, FileError, FileOp, Fingerprint};
use stockade_plan::{Bytes, WorkerPlan};
use tempfile::TempDir;

type Answer = Result<FileDone, FileError>;

/// A folder that is the only writable root, and a worker for it.
struct World {
    folder: TempDir,
    files: Files,
}

impl World {
    fn new() -> World {
        World::protecting(&[".git/hooks", ".git/config", ".vscode", ".bashrc"])
    }

    fn protecting(patterns: &[&str]) -> World {
        let folder = tempfile::tempdir().unwrap();
        let root = Bytes::from(folder.path());
        World { files: files(vec![root], patterns), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Puts a file there, with its folders.
    fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    fn link(&self, name: &str, to: impl AsRef<Path>) {
        symlink(to, self.path(name)).unwrap();
    }

    fn content(&self, name: &str) -> String {
        String::from_utf8(std::fs::read(self.path(name)).unwrap()).unwrap()
    }

    fn run(&self, op: &FileOp) -> Answer {
        self.files.run(op, &Cancel::default())
    }

    fn write(&self, name: &str, content: &str, expected: Option<Fingerprint>) -> Answer {
        let path = Bytes::from(self.path(name));
        self.run(&FileOp::Write { path, content: content.into(), expected })
    }

    fn edit(&self, name: &str, old: &str, new: &str, replace_all: bool) -> Answer {
        self.run(&FileOp::Edit {
            path: Bytes::from(self.path(name)),
            old: old.into(),
            new: new.into(),
            replace_all,
            expected: self.fingerprint(name),
        })
    }

    fn read(&self, name: &str, offset: u64, limit: u64, max_bytes: u64) -> Answer {
        self.run(&read_op(&self.path(name), offset, limit, max_bytes))
    }

    /// What Read would report.
    fn fingerprint(&self, name: &str) -> Fingerprint {
        super::fault::fingerprint(&nix::sys::stat::stat(&self.path(name)).unwrap())
    }

    /// No temporary file is left anywhere.
    fn assert_tidy(&self) {
        for entry in ignore::WalkBuilder::new(self.folder.path()).standard_filters(false).build() {
            let name = entry.unwrap().file_name().to_string_lossy().into_owned();
            assert!(!name.starts_with(".stockade-"), "left behind: {name}");
        }
    }
}

fn files(write_roots: Vec<Bytes>, patterns: &[&str]) -> Files {
    let protected = patterns.iter().copied().map(Bytes::from).collect();
    let plan = WorkerPlan { write_roots, protected };
    Files { protection: Protection::new(&plan), commits: Commits::default() }
}

fn read_op(path: &Path, offset: u64, limit: u64, max_bytes: u64) -> FileOp {
    FileOp::Read { path: Bytes::from(path), offset, limit, max_bytes }
}

/// The entries below the folder, as text without the folder's path.
fn found(world: &World, answer: Answer) -> Vec<String> {
    let Ok(FileDone::Found { entries, .. }) = answer else { panic!("{answer:?}") };
    let folder = format!("{}/", world.folder.path().display());
    entries.iter().map(|entry| String::from_utf8_lossy(&entry.0).replace(&folder, "")).collect()
}

#[track_caller]
fn assert_not_a_file(answer: &Answer, expected: &str) {
    assert!(
        matches!(answer, Err(FileError::NotAFile { kind, .. }) if kind == expected),
        "{answer:?}"
    );
}

#[track_caller]
fn assert_os(answer: &Answer, expected: nix::errno::Errno) {
    let expected = expected as i32;
    assert!(matches!(answer, Err(FileError::Os { errno, .. }) if *errno == expected), "{answer:?}");
}

#[track_caller]
fn assert_unsuitable(answer: &Answer, part: &str) {
    assert!(
        matches!(answer, Err(FileError::Unsuitable { reason, .. }) if reason.contains(part)),
        "{answer:?}"
    );
}
