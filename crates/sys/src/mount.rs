//! The mount calls that have no safe wrapper elsewhere: mount_setattr(2), open_tree(2), move_mount(2),
//! fsopen(2), fsmount(2), openat2(2), statx(2). All are async-signal-safe.

use crate::{check, check_int};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `MOUNT_ATTR_*` bits of mount_setattr(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountAttributes(u64);

impl MountAttributes {
    /// Nothing special.
    pub const NONE: Self = Self(0);
    /// Read-only.
    pub const READ_ONLY: Self = Self(libc::MOUNT_ATTR_RDONLY);
    /// Set-user-id bits have no effect.
    pub const NO_SUID: Self = Self(libc::MOUNT_ATTR_NOSUID);
    /// Device files cannot be opened.
    pub const NO_DEV: Self = Self(libc::MOUNT_ATTR_NODEV);
    /// Nothing can be executed.
    pub const NO_EXEC: Self = Self(libc::MOUNT_ATTR_NOEXEC);

    /// Both.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

fn own(fd: libc::c_long) -> OwnedFd {
    // SAFETY: only called with a descriptor that the kernel has just returned and nothing else owns.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

/// A detached copy of the mount that `path` lies on, seen from `path`, with everything mounted below it. `path` is
/// relative to `dir`; an empty one means `dir` itself.
pub fn clone_tree(dir: BorrowedFd<'_>, path: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::OPEN_TREE_CLONE
        | libc::OPEN_TREE_CLOEXEC
        | (libc::AT_RECURSIVE | libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH) as libc::c_uint;
    // SAFETY: the path is a NUL-terminated string that outlives the call.
    check(unsafe { libc::syscall(libc::SYS_open_tree, dir.as_raw_fd(), path.as_ptr(), flags) })
        .map(own)
}

/// Sets attributes on a mount, and on all below it if `recursive`.
pub fn set_attributes(
    mount: BorrowedFd<'_>,
    attributes: MountAttributes,
    recursive: bool,
) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    let attr =
        libc::mount_attr { attr_set: attributes.0, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: the path is a NUL-terminated literal, `attr` outlives the call, and the size is its own.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            std::mem::size_of::<libc::mount_attr>(),
        )
    })?;
    Ok(())
}

/// Attaches a detached mount at the place that `target` (an `O_PATH` descriptor) names.
pub fn attach(mount: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    // MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH (move_mount(2)).
    let flags: libc::c_uint = 0x4 | 0x40;
    // SAFETY: both paths are NUL-terminated literals.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            target.as_raw_fd(),
            c"".as_ptr(),
            flags,
        )
    })?;
    Ok(())
}

/// A new file system of the given type, as a detached mount. `options` are key and value; a value that is empty is a flag.
pub fn new_filesystem(
    kind: &CStr,
    options: &[(&CStr, &CStr)],
    attributes: MountAttributes,
) -> io::Result<OwnedFd> {
    // FSOPEN_CLOEXEC, FSCONFIG_SET_FLAG, _SET_STRING, _CMD_CREATE, FSMOUNT_CLOEXEC (linux/mount.h).
    // SAFETY: the type is a NUL-terminated string that outlives the call.
    let context = check(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), 1) }).map(own)?;
    let null: *const libc::c_char = std::ptr::null();
    for (key, value) in options {
        let (command, value) = if value.is_empty() { (0, null) } else { (1, value.as_ptr()) };
        // SAFETY: key and value are NUL-terminated strings (or null for a flag) that outlive the call.
        check(unsafe {
            libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), command, key.as_ptr(), value, 0)
        })?;
    }
    // SAFETY: the create command takes neither key nor value.
    check(unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), 6, null, null, 0) })?;
    // SAFETY: no memory is involved.
    check(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1, attributes.0) })
        .map(own)
}

/// openat2(2) with `O_PATH | O_CLOEXEC | O_NOFOLLOW`, beneath `dir`, through no symbolic link at all: what it names
/// cannot be redirected by whoever can write below `dir`.
pub fn open_path_beneath(dir: BorrowedFd<'_>, path: &CStr) -> io::Result<OwnedFd> {
    openat2(
        dir,
        path,
        libc::O_PATH | libc::O_CLOEXEC | libc::O_NOFOLLOW,
        libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS,
    )
}

/// openat2(2) with `O_PATH | O_CLOEXEC`, following symbolic links as if `dir` were the root.
pub fn open_path_in_root(dir: BorrowedFd<'_>, path: &CStr) -> io::Result<OwnedFd> {
    openat2(
        dir,
        path,
        libc::O_PATH | libc::O_CLOEXEC,
        libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_MAGICLINKS,
    )
}

fn openat2(dir: BorrowedFd<'_>, path: &CStr, flags: i32, resolve: u64) -> io::Result<OwnedFd> {
    // SAFETY: all-zero is a valid open_how.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = flags as u64;
    how.resolve = resolve;
    // SAFETY: the path is NUL-terminated, `how` outlives the call, and the size is its own.
    check(unsafe {
        libc::syscall(
            libc::SYS_openat2,
            dir.as_raw_fd(),
            path.as_ptr(),
            &raw const how,
            std::mem::size_of::<libc::open_how>(),
        )
    })
    .map(own)
}

/// What statx(2) says of an open descriptor.
#[derive(Clone, Copy, Debug)]
pub struct PathInfo {
    /// It is a folder.
    pub is_folder: bool,
    /// It is a symbolic link.
    pub is_symlink: bool,
    /// A mount begins here.
    pub is_mount_root: bool,
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// statx(2) of an open descriptor.
pub fn path_info(fd: BorrowedFd<'_>) -> io::Result<PathInfo> {
    // SAFETY: all-zero is a valid statx.
    let mut info: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a NUL-terminated literal, and `info` is a valid place for one statx.
    check_int(unsafe {
        libc::statx(
            fd.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_TYPE | libc::STATX_INO,
            &raw mut info,
        )
    })?;
    let kind = u32::from(info.stx_mode) & libc::S_IFMT;
    Ok(PathInfo {
        is_folder: kind == libc::S_IFDIR,
        is_symlink: kind == libc::S_IFLNK,
        is_mount_root: info.stx_attributes & libc::STATX_ATTR_MOUNT_ROOT as u64 != 0,
        device: libc::makedev(info.stx_dev_major, info.stx_dev_minor),
        inode: info.stx_ino,
    })
}

/// pivot_root(2) of the working directory onto itself, then umount2(2) of the old root that lies on top of it: the working
/// directory becomes `/`, and nothing of the old tree remains.
pub fn pivot_into_working_directory() -> io::Result<()> {
    // SAFETY: both paths are NUL-terminated literals.
    check(unsafe { libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()) })?;
    // SAFETY: the path is a NUL-terminated literal.
    check_int(unsafe { libc::umount2(c".".as_ptr(), libc::MNT_DETACH) })?;
    // SAFETY: the path is a NUL-terminated literal.
    check_int(unsafe { libc::chdir(c"/".as_ptr()) })?;
    Ok(())
}

/// pivot_root(2) into `new_root`, the old root ending up at `put_old`.
pub fn pivot_root(new_root: &CStr, put_old: &CStr) -> io::Result<()> {
    // SAFETY: both paths are NUL-terminated strings that outlive the call.
    check(unsafe { libc::syscall(libc::SYS_pivot_root, new_root.as_ptr(), put_old.as_ptr()) })?;
    Ok(())
}

/// Makes the whole tree of the mount namespace private: nothing propagates in or out.
pub fn make_private() -> io::Result<()> {
    let null: *const libc::c_char = std::ptr::null();
    // SAFETY: the target is a NUL-terminated literal; the other pointers may be null for a change of propagation.
    check_int(unsafe {
        libc::mount(null, c"/".as_ptr(), null, libc::MS_REC | libc::MS_PRIVATE, null.cast())
    })?;
    Ok(())
}
