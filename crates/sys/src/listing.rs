//! Reading a folder in the place of another process: pidfd_getfd(2), getdents64(2), process_vm_writev(2). All are async-signal-safe.

use crate::{check, check_int};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `PIDFD_THREAD` (pidfd_open(2), Linux 6.9): any thread, with the table of descriptors that it has.
const THREAD: libc::c_int = libc::O_EXCL;

/// Whether the kernel gives a descriptor for a thread.
pub fn is_available() -> bool {
    open_thread(std::process::id() as i32).is_ok()
}

/// A pidfd for one thread.
pub fn open_thread(thread: i32) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, thread, THREAD) })?;
    // SAFETY: the kernel has just made this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The thread's own open file under this number: its position is shared, and moves with what is read of it.
pub fn descriptor_of(thread: BorrowedFd<'_>, number: i32) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_getfd, thread.as_raw_fd(), number, 0) })?;
    // SAFETY: as above; it is made close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// getdents64(2): how many bytes of `buffer` it filled; 0 at the end.
pub fn read(folder: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is writable for its whole length.
    let read = check(unsafe {
        libc::syscall(libc::SYS_getdents64, folder.as_raw_fd(), buffer.as_mut_ptr(), buffer.len())
    })?;
    Ok(read as usize)
}

/// Takes the entries out of `entries` (as [`read`] filled it) whose names `keep` does not want. Returns how many bytes are left.
pub fn retain(entries: &mut [u8], mut keep: impl FnMut(&CStr) -> bool) -> usize {
    // struct linux_dirent64 (getdents64(2)): ino 8, off 8, reclen 2, type 1, name. Each has the position behind it, which stays
    // right whatever is left out before.
    const LENGTH_AT: usize = 16;
    const NAME_AT: usize = 19;
    let (mut from, mut to) = (0, 0);
    while let Some(entry) = entries.get(from..)
        && let Some(&[low, high]) = entry.get(LENGTH_AT..LENGTH_AT + 2)
    {
        let length = usize::from(u16::from_ne_bytes([low, high]));
        let Some(name) = entry.get(NAME_AT..length) else { break };
        if CStr::from_bytes_until_nul(name).map_or(true, &mut keep) {
            entries.copy_within(from..from + length, to);
            to += length;
        }
        from += length;
    }
    to
}

/// Where reading goes on.
pub fn position(folder: BorrowedFd<'_>) -> io::Result<i64> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::lseek(folder.as_raw_fd(), 0, libc::SEEK_CUR) })
}

/// Has reading go on where [`position`] was.
pub fn go_back(folder: BorrowedFd<'_>, position: i64) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::lseek(folder.as_raw_fd(), position, libc::SEEK_SET) }).map(drop)
}

/// Writes to the memory of another process, where that process itself could. Not all of it is an error.
pub fn write_to(thread: i32, address: u64, bytes: &[u8]) -> io::Result<()> {
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: the kernel reads the bytes, which outlive the call; the other address is one of another process, which it checks.
    let written = check(unsafe {
        libc::process_vm_writev(thread, &raw const local, 1, &raw const remote, 1, 0)
            as libc::c_long
    })?;
    if written as usize == bytes.len() {
        return Ok(());
    }
    Err(io::Error::from_raw_os_error(libc::EFAULT))
}

/// readlinkat(2): how many bytes of `target` it filled.
pub fn read_link(folder: BorrowedFd<'_>, path: &CStr, target: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the path is NUL-terminated and outlives the call, as does the buffer, which is writable for its whole length.
    let length = check(unsafe {
        libc::readlinkat(
            folder.as_raw_fd(),
            path.as_ptr(),
            target.as_mut_ptr().cast(),
            target.len(),
        ) as libc::c_long
    })?;
    Ok(length as usize)
}

/// Which folder it is: device and inode. From what the kernel knows of it, without asking a file system that may not answer.
pub fn identity(folder: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    // SAFETY: all-zero is a valid statx.
    let mut info: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a NUL-terminated literal, and `info` is a valid place for one statx.
    check_int(unsafe {
        libc::statx(
            folder.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC,
            libc::STATX_INO,
            &raw mut info,
        )
    })?;
    Ok((libc::makedev(info.stx_dev_major, info.stx_dev_minor), info.stx_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn names(entries: &mut [u8], mut keep: impl FnMut(&CStr) -> bool) -> Vec<String> {
        let left = retain(entries, &mut keep);
        let mut names = Vec::new();
        retain(&mut entries[..left], |name| {
            names.push(name.to_string_lossy().into_owned());
            true
        });
        names.sort();
        names
    }

    #[test]
    fn what_is_left_out_of_a_listing_leaves_all_others_in_it() {
        let folder = std::env::temp_dir().join(format!("stockade-listing-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        for name in ["a", "hidden", "b-with-a-longer-name", "c"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let open = std::fs::File::open(&folder).unwrap();
        let mut buffer = [0; 4096];
        let read = read(open.as_fd(), &mut buffer).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let mut entries = buffer[..read].to_vec();
        let left = names(&mut entries, |name| name != c"hidden");
        assert_eq!(left, [".", "..", "a", "b-with-a-longer-name", "c"]);
        let mut entries = buffer[..read].to_vec();
        assert!(names(&mut entries, |_| false).is_empty());
    }
}
