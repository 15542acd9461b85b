//! Terminals (pty(7)).

use crate::check_int;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::Mode;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Opens a pair by a ptmx device: our end, and the one for programs. The latter is asked of the kernel, by no name that could
/// mean another terminal (`TIOCGPTPEER`, ioctl_tty(2)).
pub fn open_pair(ptmx: &CStr) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let ours = openat(AT_FDCWD, ptmx, flags, Mode::empty())?;
    let unlock: libc::c_int = 0;
    // SAFETY: the argument points to an int that outlives the call.
    check_int(unsafe { libc::ioctl(ours.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlock) })?;
    // SAFETY: the argument is an integer: the flags to open the other end with.
    let peer =
        check_int(unsafe { libc::ioctl(ours.as_raw_fd(), libc::TIOCGPTPEER, flags.bits()) })?;
    // SAFETY: the kernel has just made it; nothing else owns it.
    Ok((ours, unsafe { OwnedFd::from_raw_fd(peer) }))
}

/// Sets a terminal's size; its foreground processes get SIGWINCH (`TIOCSWINSZ`, ioctl_tty(2)).
pub fn set_size(
    terminal: BorrowedFd<'_>,
    rows: u16,
    columns: u16,
    pixels: (u16, u16),
) -> io::Result<()> {
    let size =
        libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: pixels.0, ws_ypixel: pixels.1 };
    // SAFETY: `size` outlives the call.
    check_int(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) })?;
    Ok(())
}

/// Makes a terminal the controlling one of the calling process's session (`TIOCSCTTY`, ioctl_tty(2)); the process must be a
/// session leader. Async-signal-safe.
pub fn make_controlling(terminal: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the argument is an integer; 0 never steals the terminal from another session.
    check_int(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0) })?;
    Ok(())
}

/// setsid(2). Async-signal-safe.
pub fn new_session() -> io::Result<()> {
    // SAFETY: no memory is involved.
    check_int(unsafe { libc::setsid() })?;
    Ok(())
}
