use super::fault;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{FileStat, fstat};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use stockade_plan::Bytes;
use stockade_plan::file::FileError;

/// The flags to open what may be anything: a pipe must not hang, a terminal not become ours.
pub(super) fn careful() -> OFlag {
    OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC
}

/// Opens a regular file for reading, as the kernel resolves its path.
pub(super) fn regular(path: &Bytes) -> Result<(File, FileStat), FileError> {
    absolute(path)?;
    // Looked at first, since merely opening a pipe wakes its writer, only to break its pipe.
    let before =
        nix::sys::stat::stat(path.as_path()).map_err(|errno| fault::os("open", path, errno))?;
    fault::regular(path, before.st_mode)?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(careful().bits())
        .open(path.as_path())
        .map_err(|error| fault::io("open", path, &error))?;
    let stat = fstat(&file).map_err(|errno| fault::os("stat", path, errno))?;
    fault::regular(path, stat.st_mode)?;
    Ok((file, stat))
}

/// Refuses a path that would count from wherever the worker happens to be.
pub(super) fn absolute(path: &Bytes) -> Result<(), FileError> {
    if path.0.contains(&0) {
        return Err(fault::os("open", path, Errno::EINVAL));
    }
    if path.0.first() != Some(&b'/') {
        return Err(fault::unsuitable(path, "not an absolute path"));
    }
    Ok(())
}

/// Whether content that begins like this is not text.
pub(super) fn looks_binary(head: &[u8]) -> bool {
    const LOOKED_AT: usize = 8 * 1024;
    memchr::memchr(0, head.get(..LOOKED_AT).unwrap_or(head)).is_some()
}
