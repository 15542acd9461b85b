//! What a folder holds, without what the cell hides: the init reads the folder itself, and answers the caller with what is left. No heap.
//!
//! Never by letting the call go on: another thread of the caller could put another folder under the same number meanwhile.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use stockade_plan::FileIdentity;
use stockade_sys::notify::Notification;
use stockade_sys::{errno, listing, notify};

/// A name that listings of a folder leave out.
pub struct HiddenName {
    /// The folder.
    pub folder: FileIdentity,
    /// The name in it.
    pub name: Vec<u8>,
}

/// The most that is read at once: what the C library asks for.
const BUFFER: usize = 32 * 1024;

/// Answers one getdents64(2). An error means that there is nothing to be listened to any more.
pub fn answer(
    listener: BorrowedFd<'_>,
    call: &Notification,
    hidden: &[HiddenName],
    proc: BorrowedFd<'_>,
) -> io::Result<()> {
    match list(listener, call, hidden, proc) {
        Ok(length) => notify::complete(listener, call.id, length),
        Err(error) => notify::refuse(listener, call.id, errno(&error)),
    }
}

fn list(
    listener: BorrowedFd<'_>,
    call: &Notification,
    hidden: &[HiddenName],
    proc: BorrowedFd<'_>,
) -> io::Result<u32> {
    let [number, address, count, ..] = call.arguments;
    let caller = call.pid as i32;
    let thread = listing::open_thread(caller)?;
    // From here on it is the caller's, and no other's to whom its number was given.
    if !notify::is_waiting(listener, call.id) {
        return Err(io::Error::from_raw_os_error(nix::libc::ESRCH));
    }
    let folder = listing::descriptor_of(thread.as_fd(), number as i32)?;
    let folder = folder.as_fd();
    let (device, inode) = listing::identity(folder)?;
    let identity = FileIdentity { device, inode };
    if listing::identity(proc)?.0 == device {
        not_by_our_rights(folder, proc)?;
    }
    let hides = |name: &&HiddenName| name.folder == identity;
    let hides_any = hidden.iter().any(|name| hides(&name));
    let mut buffer = [0u8; BUFFER];
    let wanted = usize::try_from(count as u32).unwrap_or(BUFFER).min(BUFFER);
    loop {
        let before = listing::position(folder);
        let read = listing::read(folder, &mut buffer[..wanted])?;
        if read == 0 {
            return Ok(0);
        }
        let left = match hides_any {
            false => read,
            true => listing::retain(&mut buffer[..read], |name| {
                !hidden.iter().filter(hides).any(|one| one.name == name.to_bytes())
            }),
        };
        // An empty answer would be the end: where all of it was hidden, what follows is read.
        if left == 0 {
            continue;
        }
        if let Err(error) = listing::write_to(caller, address, &buffer[..left]) {
            before.and_then(|before| listing::go_back(folder, before))?;
            return Err(error);
        }
        return Ok(left as u32);
    }
}

/// In /proc the kernel looks at who reads, in one place: a process's `map_files` tells addresses, to whom may trace it. An init may.
fn not_by_our_rights(folder: BorrowedFd<'_>, proc: BorrowedFd<'_>) -> io::Result<()> {
    let mut path = *b"self/fd/\0\0\0\0\0\0\0\0\0\0\0\0";
    let mut number = folder.as_raw_fd().unsigned_abs();
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    for digit in path[8..8 + digits].iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    let path = std::ffi::CStr::from_bytes_until_nul(&path).map_err(io::Error::other)?;
    let mut target = [0u8; 512];
    let length = listing::read_link(proc, path, &mut target)?;
    if target[..length].ends_with(b"/map_files") {
        return Err(io::Error::from_raw_os_error(nix::libc::EACCES));
    }
    Ok(())
}
