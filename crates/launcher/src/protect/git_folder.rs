//! What in a git folder makes git run programs, or look for such things elsewhere.

use super::OLD;
use crate::git_config;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstatat};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use stockade_plan::QUARANTINED;

/// What is protected in every git folder: git runs the first, obeys the next two, and looks elsewhere by the last.
pub const SENSITIVE: [&CStr; 4] = [c"hooks", c"config", c"config.worktree", c"commondir"];

/// What git reads settings from in its folder.
pub const SETTINGS: [&CStr; 2] = [c"config", c"config.worktree"];

/// A settings file of git that is larger was not written by `git init`.
const CONFIG_MAX: u64 = 64 * 1024;

/// So much of the host's settings is read.
const SETTINGS_MAX: u64 = 1024 * 1024;

/// A pointer to another folder is one path.
const POINTER_MAX: u64 = 4096 + 64;

/// Whether a settings file is one that makes git run nothing. `path` is that of its folder, below the writable root. An error is a file
/// that cannot be read. What it made git run `before` is nothing new.
pub fn is_harmless_config(
    folder: impl AsFd,
    name: &CStr,
    path: &[u8],
    before: &[u8],
) -> io::Result<bool> {
    let Some(text) = content(&folder, name, CONFIG_MAX)? else { return Ok(false) };
    let depth = depth_of_module(path);
    let is_worktree = |value: &str| depth.is_some_and(|depth| climbs(&folder, value, depth));
    Ok(git_config::runs_nothing_new(&text, before, &is_worktree))
}

/// What git's settings of the host say, where that is so old that it is nobody's plant.
pub fn old_settings(folder: impl AsFd, name: &CStr) -> Option<Vec<u8>> {
    let stat = fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
    let changed = Duration::from_secs(u64::try_from(stat.st_ctime).ok()?);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    (now > changed + OLD).then(|| settings(folder, name))?
}

/// What git's settings of the host say, whatever other names the file has.
pub fn settings(folder: impl AsFd, name: &CStr) -> Option<Vec<u8>> {
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = File::from(openat(folder, name, flags, Mode::empty()).ok()?);
    let mut text = Vec::new();
    let is_file = file.metadata().ok()?.is_file();
    (is_file && file.take(SETTINGS_MAX).read_to_end(&mut text).is_ok()).then_some(text)
}

/// Whether a submodule's worktree lies there: as many folders up as its git folder lies below its repository's, then down, and through
/// no link. Anywhere else, a checkout would overwrite whatever it finds.
fn climbs(folder: impl AsFd, path: &str, depth: usize) -> bool {
    let names: Vec<&str> = path.split('/').collect();
    let (up, down) = names.split_at(names.iter().take_while(|name| **name == "..").count());
    if up.len() != depth || down.iter().any(|name| matches!(*name, "" | "." | ".." | ".git")) {
        return false;
    }
    for end in up.len()..names.len() {
        let Some(above) = names.get(..=end) else { return false };
        let flags = AtFlags::AT_SYMLINK_NOFOLLOW;
        match fstatat(&folder, above.join("/").as_str(), flags) {
            Ok(found) if super::kind(&found) == SFlag::S_IFDIR => {}
            Err(Errno::ENOENT) => return true,
            Ok(_) | Err(_) => return false,
        }
    }
    true
}

/// How many folders a submodule's git folder (`.git/modules/NAME`) lies below its repository's.
fn depth_of_module(path: &[u8]) -> Option<usize> {
    let names: Vec<&[u8]> =
        path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
    let at = names.iter().position(|name| *name == b".git")?;
    (names.get(at + 1) == Some(&b"modules".as_slice())).then_some(names.len() - at)
}

/// The folder that `commondir` (or with `gitdir: ` before it, a file `.git`) leads to; `None` if it is no such pointer, or one that
/// git and others that read it would not read alike.
pub fn pointer(folder: impl AsFd, name: &CStr, before: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let text = content(folder, name, POINTER_MAX)?;
    Ok(text.as_deref().and_then(|text| target(text, before)).map(<[u8]>::to_vec))
}

/// Git drops line ends at the end and nothing else (setup.c); libgit2 drops all white space. A folder whose name begins or ends with
/// some is another one to each of them, and what is behind a zero byte is nothing to either.
fn target<'a>(text: &'a [u8], before: &[u8]) -> Option<&'a [u8]> {
    let target = text.strip_prefix(before)?;
    let end = target.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'))?;
    let target = target.get(..=end)?;
    let is_plain =
        target == target.trim_ascii() && !target.iter().any(|byte| byte.is_ascii_control());
    is_plain.then_some(target)
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
    name.ends_with(b".sample") || name.ends_with(QUARANTINED.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test] // spec 5.4
    fn a_pointer_that_two_readers_would_read_differently_is_none() {
        assert_eq!(target(b"gitdir: ../a b\r\n\n", b"gitdir: "), Some(b"../a b".as_slice()));
        for text in [" c", "c ", "c \n", "\tc", "c\t", "c\nd", "c\0d", "c\x0b", "", "\n", "  "] {
            assert_eq!(target(text.as_bytes(), b""), None, "{text:?}");
        }
        assert_eq!(target(b"gitdir:c", b"gitdir: "), None);
    }

    #[test] // spec 5.4
    fn a_submodules_worktree_lies_above_its_git_folder_and_behind_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let module = folder.path().join("r/.git/modules/m");
        fs::create_dir_all(&module).unwrap();
        fs::create_dir_all(folder.path().join("r/lib")).unwrap();
        fs::write(folder.path().join("r/file"), "").unwrap();
        symlink("../elsewhere", folder.path().join("r/link")).unwrap();
        symlink("nowhere", folder.path().join("r/lib/dangling")).unwrap();
        let module = fs::File::open(module).unwrap();
        for path in ["../../../lib", "../../../lib/new/deep", "../../../new"] {
            assert!(climbs(&module, path, 3), "{path}");
        }
        for path in [
            "../../../link",
            "../../../link/x",
            "../../../lib/dangling",
            "../../../file",
            "../../../.git",
            "../../../../r",
            "../../x",
            "../../../lib/../../x",
            "/lib",
            "lib",
        ] {
            assert!(!climbs(&module, path, 3), "{path}");
        }
    }
}
