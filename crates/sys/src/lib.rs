//! Every system call that needs `unsafe`; no other crate has any.
//!
//! Each function here is safe to call: what it needs to be sound is either checked, or carried by a type
//! ([`process::SingleThreaded`]), or has no influence on memory. Functions marked *async-signal-safe*
//! use no heap and no locks, so they may be called between a clone and an exec.

pub mod audit;
pub mod caps;
pub mod cgroup;
pub mod confine;
pub mod exec;
pub mod fd;
pub mod host;
pub mod listing;
pub mod memory;
pub mod mount;
pub mod net;
pub mod notify;
pub mod process;
pub mod remove;
pub mod signal;
pub mod socket;
pub mod stdio;
pub mod tty;
pub mod watched;

use std::io;

/// The result of a raw system call: −1 becomes the error that errno holds.
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The same for the calls of the C library that return an int.
fn check_int(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The error number of an error from this crate; 0 if the kernel did not give one.
pub fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}
