//! Refused system calls that somebody is told of: seccomp's user notifications (seccomp_unotify(2)). None is ever continued, so
//! nothing depends on memory that the caller could change meanwhile.

use crate::confine::BpfProgram;
use crate::{check, check_int};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A caller that was heard waits for its answer whatever signals come, but for one that kills it (Linux 5.19). Without it,
/// a signal to a caller restarts the call, and a program with a timer would go round for ever. libc does not name it yet.
const WAIT_KILLABLE: libc::c_ulong = 1 << 5;

const FLAGS: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | WAIT_KILLABLE;

/// Room for a notification: the kernel's own may grow (seccomp_unotify(2), `SECCOMP_GET_NOTIF_SIZES`).
const ROOM: usize = 256;

/// A system call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    /// What the answer is given to.
    pub id: u64,
    /// The calling thread, in the pid namespace of whoever listens.
    pub pid: u32,
    /// The system call's number.
    pub number: u32,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// Whether the kernel can tell of refused calls, and make their callers wait through signals.
pub fn is_available() -> bool {
    let mut sizes = [0u16; 3];
    // SAFETY: struct seccomp_notif_sizes is three u16, which `sizes` has room for.
    let asked = check(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_NOTIF_SIZES, 0, sizes.as_mut_ptr())
    });
    if asked.is_err() || usize::from(sizes[0]) > ROOM {
        return false;
    }
    let null: *const libc::sock_fprog = std::ptr::null();
    // SAFETY: the kernel looks at the flags, then answers a null program with EFAULT and changes nothing.
    let tried = check(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, FLAGS, null)
    });
    tried.is_err_and(|error| error.raw_os_error() == Some(libc::EFAULT))
}

/// seccomp(2) with a program that notifies; returns the listener's number, close-on-exec. A number and no owner, since it is made
/// in the table of descriptors that a command stage shares with its init, which is who takes it. Needs no_new_privs first.
/// Fails with `EBUSY` where an earlier filter of the process has a listener already. Async-signal-safe.
pub fn install(program: &BpfProgram) -> io::Result<i32> {
    let program = program.as_fprog()?;
    // SAFETY: the kernel copies the program and checks it; it writes nothing. The slice that it points to is borrowed for the
    // whole of this function.
    Ok(check(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, FLAGS, &raw const program)
    })? as i32)
}

/// Takes over the listener that [`install`] made, by its number. `None` where that is no open descriptor.
pub fn listener(number: i32) -> Option<OwnedFd> {
    // SAFETY: only asks for the descriptor's flags.
    check_int(unsafe { libc::fcntl(number, libc::F_GETFD) }).ok()?;
    // SAFETY: it is open, and whoever made it has handed it over and is another program by now, or gone.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Has whoever answers and whoever waits run one after the other on one processor (Linux 6.6): 4 µs instead of 75. A kernel
/// without it goes on without. Async-signal-safe.
pub fn answer_at_once(listener: BorrowedFd<'_>) {
    // SECCOMP_IOCTL_NOTIF_SET_FLAGS with SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (linux/seccomp.h).
    const SET_FLAGS: libc::c_ulong = 0x4008_2104;
    // SAFETY: the argument is a number; no memory is involved.
    unsafe { libc::ioctl(listener.as_raw_fd(), SET_FLAGS, 1u64) };
}

/// Takes one notification, which poll(2) has announced. `None`: whoever called has been ended meanwhile. Async-signal-safe.
pub fn receive(listener: BorrowedFd<'_>) -> io::Result<Option<Notification>> {
    // SECCOMP_IOCTL_NOTIF_RECV (linux/seccomp.h).
    const RECEIVE: libc::c_ulong = 0xc050_2100;
    // The kernel wants it to be zero.
    let mut room = [0u64; ROOM / 8];
    // SAFETY: the kernel writes one struct seccomp_notif, which `is_available` has found to fit; u64 is its alignment.
    let received =
        check_int(unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, room.as_mut_ptr()) });
    match received {
        Ok(_) => {}
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::EINTR) => return Ok(None),
            _ => return Err(error),
        },
    }
    // id u64; pid u32, flags u32; then struct seccomp_data: nr s32, arch u32; instruction pointer u64; six arguments.
    let [id, pid_and_flags, number_and_architecture, _, a, b, c, d, e, f, ..] = room;
    let low = |word: u64| u32::from_ne_bytes(first_half(word.to_ne_bytes()));
    let arguments = [a, b, c, d, e, f];
    Ok(Some(Notification {
        id,
        pid: low(pid_and_flags),
        number: low(number_and_architecture),
        arguments,
    }))
}

fn first_half(bytes: [u8; 8]) -> [u8; 4] {
    let [a, b, c, d, ..] = bytes;
    [a, b, c, d]
}

/// Whether whoever made the call still waits for its answer: then its pid is no other's yet. Async-signal-safe.
pub fn is_waiting(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SECCOMP_IOCTL_NOTIF_ID_VALID (linux/seccomp.h).
    const ID_VALID: libc::c_ulong = 0x4008_2102;
    // SAFETY: the kernel reads one u64, which outlives the call.
    check_int(unsafe { libc::ioctl(listener.as_raw_fd(), ID_VALID, &raw const id) }).is_ok()
}

/// Has the call return this value, having done what it asks. That its caller is gone is no error. Async-signal-safe.
pub fn complete(listener: BorrowedFd<'_>, id: u64, value: u32) -> io::Result<()> {
    send(listener, [id, u64::from(value), 0])
}

/// Has the call fail with this error. That its caller is gone is no error. Async-signal-safe.
pub fn refuse(listener: BorrowedFd<'_>, id: u64, errno: i32) -> io::Result<()> {
    let error = (-errno).to_ne_bytes();
    let error = u64::from_ne_bytes([error[0], error[1], error[2], error[3], 0, 0, 0, 0]);
    send(listener, [id, 0, error])
}

/// struct seccomp_notif_resp: id u64, value s64, error s32, flags u32; always without the flag to continue.
fn send(listener: BorrowedFd<'_>, mut response: [u64; 3]) -> io::Result<()> {
    // SECCOMP_IOCTL_NOTIF_SEND (linux/seccomp.h).
    const SEND: libc::c_ulong = 0xc018_2101;
    // SAFETY: `response` has the layout of struct seccomp_notif_resp and outlives the call.
    let sent = check_int(unsafe { libc::ioctl(listener.as_raw_fd(), SEND, response.as_mut_ptr()) });
    match sent {
        Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confine;
    use std::os::fd::AsFd;
    use std::sync::mpsc;
    use std::thread;

    /// A filter is a thread's own: this one's getppid asks whoever listens.
    fn asking() -> BpfProgram {
        const NUMBER: u32 = 0;
        const NOTIFY: u32 = 0x7fc0_0000;
        const ALLOW: u32 = 0x7fff_0000;
        let getppid = libc::SYS_getppid as u32;
        BpfProgram::new(
            [
                (0x20, 0, 0, NUMBER),
                (0x15, 0, 1, getppid),
                (0x06, 0, 0, NOTIFY),
                (0x06, 0, 0, ALLOW),
            ]
            .into_iter(),
        )
    }

    fn getppid() -> Option<i32> {
        // SAFETY: no memory is involved.
        check(unsafe { libc::syscall(libc::SYS_getppid) }).err().and_then(|e| e.raw_os_error())
    }

    /// What a thread with the filter gets from getppid, first while somebody listens, then when nobody does any more.
    fn with_listener(listen: impl FnOnce(OwnedFd)) -> (Option<i32>, Option<i32>) {
        let (send, receive) = mpsc::channel();
        let (go_on, wait) = mpsc::channel();
        let caller = thread::spawn(move || {
            confine::no_new_privs().unwrap();
            send.send(install(&asking()).unwrap()).unwrap();
            let first = getppid();
            wait.recv().unwrap();
            (first, getppid())
        });
        listen(listener(receive.recv().unwrap()).unwrap());
        go_on.send(()).unwrap();
        caller.join().unwrap()
    }

    #[test]
    fn a_refused_call_fails_with_the_answer_and_with_enosys_when_nobody_listens() {
        assert!(is_available());
        let answers = with_listener(|listener| {
            answer_at_once(listener.as_fd());
            let call = receive(listener.as_fd()).unwrap().unwrap();
            assert_eq!(i64::from(call.number), libc::SYS_getppid);
            refuse(listener.as_fd(), call.id, libc::EPERM).unwrap();
        });
        assert_eq!(answers, (Some(libc::EPERM), Some(libc::ENOSYS)));
    }

    #[test]
    fn a_call_that_waits_when_its_listener_goes_gets_enosys() {
        let answers = with_listener(|listener| {
            receive(listener.as_fd()).unwrap().unwrap();
        });
        assert_eq!(answers, (Some(libc::ENOSYS), Some(libc::ENOSYS)));
    }

    #[test]
    fn a_number_that_is_no_descriptor_is_no_listener() {
        assert!(listener(-1).is_none());
    }
}
