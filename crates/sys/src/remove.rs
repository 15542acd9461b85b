//! Removing a folder with all that is in it, whatever its modes are.

use nix::dir::{Dir, Type};
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmodat, fstatat};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Folders nested deeper than that keep the modes they have: each level takes a descriptor.
const DEPTH_MAX: usize = 256;

/// Removes a folder and all that is in it. Folders of one's own that may not be read, entered or written are opened up first: whoever made
/// them may have meant them to stay.
///
/// # Errors
/// As rmdir(2) and unlink(2).
pub fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let name = CString::new(path.as_os_str().as_bytes())?;
            open_up(AT_FDCWD, &name, DEPTH_MAX);
            fs::remove_dir_all(path)
        }
        done => done,
    }
}

/// Gives folders the mode that removing takes. What cannot be is left to the removing to complain about.
fn open_up(within: BorrowedFd<'_>, name: &CString, depth: usize) {
    let Ok(stat) = fstatat(within, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) else { return };
    let kind = SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits());
    if kind != SFlag::S_IFDIR {
        return;
    }
    let flags = FchmodatFlags::NoFollowSymlink;
    let _ = fchmodat(within, name.as_c_str(), Mode::S_IRWXU, flags);
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let Ok(mut folder) = Dir::openat(within, name.as_c_str(), flags, Mode::empty()) else { return };
    let is_folder = |kind: Option<Type>| matches!(kind, Some(Type::Directory) | None);
    let names = folder.iter().filter_map(Result::ok).filter(|entry| is_folder(entry.file_type()));
    let names: Vec<CString> = names.map(|entry| entry.file_name().to_owned()).collect();
    let names = names.iter().filter(|name| !matches!(name.to_bytes(), b"." | b".."));
    names.take_while(|_| depth > 0).for_each(|name| open_up(folder.as_fd(), name, depth - 1));
}
