use nix::errno::Errno;
use nix::libc;
use nix::sys::stat::FileStat;
use std::io;
use std::path::Path;
use stockade_plan::Bytes;
use stockade_plan::file::{FileError, Fingerprint};

/// The most paths that an answer lists as unreadable.
const UNREADABLE_MAX: usize = 20;

pub(super) fn os(step: &str, path: &Bytes, errno: Errno) -> FileError {
    FileError::Os {
        step: step.into(),
        path: path.clone(),
        errno: errno as i32,
        message: errno.desc().into(),
    }
}

pub(super) fn io(step: &str, path: &Bytes, error: &io::Error) -> FileError {
    match error.raw_os_error() {
        Some(errno) => os(step, path, Errno::from_raw(errno)),
        None => FileError::Os {
            step: step.into(),
            path: path.clone(),
            errno: 0,
            message: error.to_string(),
        },
    }
}

pub(super) fn unsuitable(path: &Bytes, reason: impl Into<String>) -> FileError {
    FileError::Unsuitable { path: path.clone(), reason: reason.into() }
}

pub(super) fn binary(path: &Bytes, size: u64) -> FileError {
    unsuitable(path, format!("binary file ({size} bytes)"))
}

/// `NotAFile` unless these are the mode bits of a regular file.
pub(super) fn regular(path: &Bytes, mode: libc::mode_t) -> Result<(), FileError> {
    let kind = match mode & libc::S_IFMT {
        libc::S_IFREG => return Ok(()),
        libc::S_IFDIR => "a folder",
        libc::S_IFIFO => "a pipe",
        libc::S_IFSOCK => "a socket",
        libc::S_IFCHR | libc::S_IFBLK => "a device",
        libc::S_IFLNK => "a symbolic link",
        _ => "something else",
    };
    Err(FileError::NotAFile { path: path.clone(), kind: kind.into() })
}

#[allow(clippy::useless_conversion, clippy::unnecessary_cast)] // The types differ between architectures.
pub(super) fn fingerprint(stat: &FileStat) -> Fingerprint {
    let nanos = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
    Fingerprint {
        device: stat.st_dev as u64,
        inode: stat.st_ino as u64,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime_ns: nanos(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
        ctime_ns: nanos(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
    }
}

/// Adds `path: why` to what could not be looked at, while there is room.
pub(super) fn note_unreadable(unreadable: &mut Vec<Bytes>, path: &Path, why: &str) {
    if unreadable.len() < UNREADABLE_MAX {
        let mut line = Bytes::from(path).0;
        line.extend_from_slice(b": ");
        line.extend_from_slice(why.as_bytes());
        unreadable.push(Bytes(line));
    }
}

/// The same for what a walk ran into.
pub(super) fn note_walk_error(unreadable: &mut Vec<Bytes>, root: &Path, error: &ignore::Error) {
    let path = walk_error_path(error).unwrap_or(root);
    let why = match error.io_error().and_then(kernel_error) {
        // Gone since its folder was listed, or hidden, which no listing of the kernel's leaves out.
        Some(Errno::ENOENT) => return,
        Some(errno) => errno.desc().to_string(),
        None => error.to_string(),
    };
    note_unreadable(unreadable, path, &why);
}

/// The kernel's error number, however deep a walk has wrapped it.
fn kernel_error(error: &io::Error) -> Option<Errno> {
    let mut error = error;
    loop {
        if let Some(errno) = error.raw_os_error() {
            return Some(Errno::from_raw(errno));
        }
        error = std::error::Error::source(error)?.downcast_ref()?;
    }
}

fn walk_error_path(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => {
            walk_error_path(err)
        }
        ignore::Error::Loop { child, .. } => Some(child),
        _ => None,
    }
}
