//! The loopback interface of a fresh network namespace.

use crate::check_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Brings `lo` up in the calling process's network namespace (netdevice(7)).
pub fn loopback_up() -> io::Result<()> {
    // SAFETY: no memory is involved.
    let fd = check_int(unsafe {
        libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)
    })?;
    // SAFETY: the kernel has just made it; nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads an ifreq, which `request` is.
    check_int(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) })?;
    Ok(())
}
