//! Controlling terminals.

use crate::check_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

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
