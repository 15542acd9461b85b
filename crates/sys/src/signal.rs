//! Signals: dispositions, masks, signalfd(2).

use crate::{check, check_int};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Sets every signal to its default action and unblocks all: Rust ignores SIGPIPE, and an ignored signal stays ignored
/// through exec. Async-signal-safe.
pub fn reset_all() {
    for signal in 1..=64 {
        // SAFETY: the default action involves no code of ours. The numbers that cannot be set (SIGKILL, SIGSTOP, the
        // C library's own) fail, and are at their default anyway.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    unblock_all();
}

fn unblock_all() {
    // SAFETY: all-zero is a valid sigset_t to be filled.
    let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `none` is a valid place for a set.
    unsafe { libc::sigemptyset(&raw mut none) };
    // SAFETY: `none` is an initialised set; the old mask is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
}

/// Blocks SIGCHLD and gives a descriptor that becomes readable when a child ends: non-blocking, close-on-exec.
pub fn child_watch() -> io::Result<OwnedFd> {
    // SAFETY: all-zero is a valid sigset_t to be filled.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a valid place for a set.
    unsafe { libc::sigemptyset(&raw mut set) };
    // SAFETY: `set` is an initialised set.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) };
    // SAFETY: `set` is an initialised set; the old mask is not asked for.
    check_int(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) })?;
    // SAFETY: `set` is an initialised set.
    let fd = check_int(unsafe {
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    })?;
    // SAFETY: the kernel has just made it; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

const TERMINAL_SIGNALS: [libc::c_int; 5] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP, libc::SIGHUP, libc::SIGPIPE];

/// Ignores the signals that a terminal sends to a whole group: a Ctrl-C is for the runtime to act on, not for the
/// launcher to die of. Async-signal-safe.
pub fn ignore_terminal_signals() {
    set_terminal_signals(libc::SIG_IGN);
}

/// Undoes [`ignore_terminal_signals`] and unblocks everything, in a child of a process that began with [`reset_all`]: all
/// others are at their default already. Async-signal-safe.
pub fn heed_terminal_signals() {
    set_terminal_signals(libc::SIG_DFL);
    unblock_all();
}

fn set_terminal_signals(action: libc::sighandler_t) {
    for signal in TERMINAL_SIGNALS {
        // SAFETY: neither ignoring nor the default action involves code of ours.
        unsafe { libc::signal(signal, action) };
    }
}

/// Stops the calling process, until somebody sends it SIGCONT.
pub fn stop_self() {
    // SIGSTOP can neither be blocked nor refused.
    let _ = nix::sys::signal::raise(nix::sys::signal::SIGSTOP);
}

/// Takes everything out of a descriptor of [`child_watch`]. Async-signal-safe.
pub fn drain(watch: BorrowedFd<'_>) {
    let mut buffer = [0u8; 512];
    loop {
        // SAFETY: the buffer is writable for its whole length.
        let read =
            unsafe { libc::read(watch.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
        if read <= 0 {
            return;
        }
    }
}

/// Waits until one of the descriptors is readable, or closed at its other end, for at most `timeout_ms` milliseconds (−1: for
/// ever). Async-signal-safe. Says for each whether it is.
pub fn wait_readable<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout_ms: i32,
) -> io::Result<[bool; N]> {
    let mut polls =
        fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    loop {
        // SAFETY: `polls` is an array of N pollfds.
        let result = unsafe { libc::poll(polls.as_mut_ptr(), N as libc::nfds_t, timeout_ms) };
        match check(result.into()) {
            Ok(_) => return Ok(polls.map(|poll| poll.revents != 0)),
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}
