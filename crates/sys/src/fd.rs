//! Descriptors in their places.

use crate::{check, check_int};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Marks every descriptor from `first` up close-on-exec: close_range(2). Async-signal-safe.
pub fn cloexec_from(first: u32) -> io::Result<()> {
    // SAFETY: nothing is closed here, only marked.
    check(unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC as libc::c_uint,
        )
    })?;
    Ok(())
}

/// Closes every descriptor but those in `keep`, which must be sorted ascending: for a fresh child, which must not hold its
/// parent's sockets and pipes open. Owners of the closed numbers must never be dropped or used in this process
/// again; a fresh child that never returns into its parent's code sees to that. Async-signal-safe.
pub fn close_all_but(keep: &[RawFd]) -> io::Result<()> {
    let mut first: RawFd = 0;
    let close = |from: RawFd, to: libc::c_uint| -> io::Result<()> {
        // SAFETY: closing numbers touches no memory; see above for who may still use them.
        check(unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) })?;
        Ok(())
    };
    for &fd in keep {
        if fd > first {
            close(first, (fd - 1) as libc::c_uint)?;
        }
        if fd >= first {
            first = fd + 1;
        }
    }
    close(first, libc::c_uint::MAX)
}

/// Puts the three in places 0, 1 and 2, inheritable. Async-signal-safe.
pub fn install_stdio(fds: [BorrowedFd<'_>; 3]) -> io::Result<()> {
    // Copies first, to numbers above 2: one of them may lie where another has to go.
    let mut high = [0; 3];
    for (slot, fd) in high.iter_mut().zip(&fds) {
        // SAFETY: makes a new descriptor; no memory is involved.
        *slot =
            check_int(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) })? as RawFd;
    }
    for (target, source) in high.iter().enumerate() {
        // SAFETY: replaces descriptors 0 to 2, which are the standard streams and owned by nobody here.
        check_int(unsafe { libc::dup2(*source, target as RawFd) })?;
        // SAFETY: the copy was made above and has no owner.
        unsafe { libc::close(*source) };
    }
    Ok(())
}

/// Takes over a descriptor that this process was handed at its start, by its number.
///
/// Returns an error if it is not open. To be called once for a number: two owners would close it twice.
pub fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: only asks for the descriptor's flags.
    check_int(unsafe { libc::fcntl(fd, libc::F_GETFD) })?;
    // SAFETY: it is open, and the caller has it from its parent, so nothing else in this process owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A copy of one of the process's own standard streams (or another open number), close-on-exec.
pub fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: makes a new descriptor; no memory is involved.
    let copy = check_int(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: the kernel has just made it; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy as RawFd) })
}

/// write(2) of a short buffer, once. Async-signal-safe.
pub fn write_once(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the buffer is readable for its whole length.
    check(unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) } as _)?;
    Ok(())
}

/// A pipe: its reading and its writing end, both close-on-exec; the end that stays here can be made non-blocking.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?)
}

/// Makes reads and writes of a descriptor return instead of waiting.
pub fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: only asks for the flags.
    let flags = check_int(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: no memory is involved.
    check_int(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    Ok(())
}

/// Whether it is a folder, also one that is open as a place alone.
pub fn is_folder(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let stat = nix::sys::stat::fstat(fd)?;
    Ok(stat.st_mode & libc::S_IFMT == libc::S_IFDIR)
}
