//! Which of the standard descriptors were closed when the program started. Rust's runtime opens /dev/null in their places before `main`, so
//! that what is written to a closed stdout would seem to have arrived.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU8, Ordering};

/// A bit for each of 0, 1 and 2.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Run by the C library before Rust's runtime.
extern "C" fn look() {
    let mut closed = 0;
    for fd in 0..3 {
        // SAFETY: F_GETFD takes no third argument, reads no memory of ours, and does nothing but look the number up.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            closed |= 1 << fd;
        }
    }
    CLOSED.store(closed, Ordering::Relaxed);
}

// SAFETY: the section holds pointers to functions that the C library calls once each, with the program's arguments, before `main`
// (System V ABI, "Initialization and Termination Functions"); `look` has the C ABI and may be given more arguments than it takes, does not
// unwind, and uses nothing of Rust's runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK_FIRST: extern "C" fn() = look;

/// Whether this standard descriptor (0, 1 or 2) was closed when the program started.
pub fn was_closed(fd: RawFd) -> bool {
    (0..3).contains(&fd) && CLOSED.load(Ordering::Relaxed) & (1 << fd) != 0
}
