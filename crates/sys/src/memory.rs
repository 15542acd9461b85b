//! The process's own memory where it could betray the host.

use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Overwrites the environment that the kernel handed this process with zeroes, so that nobody who can read
/// `/proc/<pid>/environ` finds the host's secrets there, and empties `environ`. For processes that never need their
/// environment again, before they start any thread.
pub fn wipe_environment(_proof: crate::process::SingleThreaded) {
    unsafe extern "C" {
        static mut environ: *mut *mut libc::c_char;
    }
    // SAFETY: reading the pointer is sound: one thread, and the C library has set it.
    let mut entry = unsafe { environ };
    if entry.is_null() {
        return;
    }
    loop {
        // SAFETY: `environ` is an array that ends with a null pointer (environ(7)), and `entry` lies before that end.
        let text = unsafe { *entry };
        if text.is_null() {
            break;
        }
        // SAFETY: each entry is a NUL-terminated string in writable memory of the process.
        let length = unsafe { libc::strlen(text) };
        // SAFETY: `length` bytes from `text` on are that string; with one thread nobody reads it meanwhile.
        unsafe { std::ptr::write_bytes(text, 0, length) };
        // SAFETY: the end has not been reached, so the next entry lies in the array.
        entry = unsafe { entry.add(1) };
    }
    // SAFETY: clearenv with one thread; nothing holds pointers into the environment.
    unsafe { libc::clearenv() };
}

/// memfd_create(2): an anonymous file in memory, close-on-exec.
pub fn memfd(name: &str) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    // SAFETY: the name is a NUL-terminated string that outlives the call.
    let fd = crate::check_int(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: the kernel has just made it; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
