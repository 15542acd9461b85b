//! What in a git folder makes git run programs, or look for such things elsewhere.

use crate::git_config;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

/// What is protected in every git folder: git runs the first, obeys the next two, and looks elsewhere by the last.
pub const SENSITIVE: [&CStr; 4] = [c"hooks", c"config", c"config.worktree", c"commondir"];

/// A settings file of git that is larger was not written by `git init`.
const CONFIG_MAX: u64 = 64 * 1024;

/// A pointer to another folder is one path.
const POINTER_MAX: u64 = 4096 + 64;

/// Whether a settings file is one that makes git run nothing. `path` is that of its folder, below the writable root. An error is a file
/// that cannot be read.
pub fn is_harmless_config(folder: impl AsFd, name: &CStr, path: &[u8]) -> io::Result<bool> {
    let Some(text) = content(folder, name, CONFIG_MAX)? else { return Ok(false) };
    Ok(git_config::runs_nothing(&text, depth_of_module(path)))
}

/// How many folders a submodule's git folder (`.git/modules/NAME`) lies below its repository's.
fn depth_of_module(path: &[u8]) -> Option<usize> {
    let names: Vec<&[u8]> =
        path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
    let at = names.iter().position(|name| *name == b".git")?;
    (names.get(at + 1) == Some(&b"modules".as_slice())).then_some(names.len() - at)
}

/// The folder that `commondir` (or with `gitdir: ` before it, a file `.git`) leads to; `None` if it is no such pointer.
pub fn pointer(folder: impl AsFd, name: &CStr, before: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let text = content(folder, name, POINTER_MAX)?;
    Ok(text.and_then(|text| {
        let target = text.strip_prefix(before)?.trim_ascii();
        (!target.is_empty() && !target.contains(&b'\n')).then(|| target.to_vec())
    }))
}

/// What a small file of one name holds. By another name, it could be written to later however well this one is protected.
fn content(folder: impl AsFd, name: &CStr, max: u64) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let Ok(file) = openat(folder, name, flags, Mode::empty()) else { return Ok(None) };
    let file = File::from(file);
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.nlink() > 1 {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.take(max + 1).read_to_end(&mut text)?;
    Ok((text.len() as u64 <= max).then_some(text))
}

/// What in a folder of hooks git would run; `None` if it is no folder, so that it leads elsewhere.
pub fn live_hooks(folder: impl AsFd, name: &CStr) -> io::Result<Option<(Dir, Vec<CString>)>> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut hooks = match Dir::openat(folder, name, flags, Mode::empty()) {
        Ok(hooks) => hooks,
        Err(Errno::ELOOP | Errno::ENOTDIR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let live = hooks
        .iter()
        .filter_map(|entry| entry.ok().map(|entry| entry.file_name().to_owned()))
        .filter(|name| {
            let name = name.to_bytes();
            name != b"." && name != b".." && !is_sample(name)
        })
        .collect();
    Ok(Some((hooks, live)))
}

fn is_sample(name: &[u8]) -> bool {
    name.ends_with(b".sample") || name.ends_with(super::SUFFIX.as_bytes())
}
