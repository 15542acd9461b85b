//! The end of a tree that no namespace holds together. What its processes leave behind becomes the child of the subreaper above
//! them, which is the caller: so the shortest look is at its own children, and it is quick enough to meet a process that forks and
//! exits without end before it has done so again. No heap.

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::os::fd::{AsFd, BorrowedFd};
use stockade_sys::process;

/// Rounds between two looks at all processes: those whose parent lives are nobody else's children.
const ROUNDS: u32 = 64;

/// The caller's children as they were seen last, as far as it takes to tell whether there are others now.
#[derive(Clone, Copy, Default, PartialEq)]
struct Seen {
    count: u32,
    sum: u64,
}

/// A hunt, round by round, for as long as the caller has children.
#[derive(Default)]
pub struct Hunt {
    round: u32,
    before: Seen,
}

impl Hunt {
    /// SIGKILL to the caller's children that are not `known`, and now and then, by `sweep`, to all that descends from them. True
    /// if others came than were there before, so that the next round is not to wait.
    pub fn round(
        &mut self,
        proc: BorrowedFd<'_>,
        known: &dyn Fn(i32) -> bool,
        sweep: &dyn Fn(),
    ) -> bool {
        let seen = kill_children(proc, known);
        let others = seen.is_some_and(|seen| seen.count > 0 && seen != self.before);
        self.before = seen.unwrap_or_default();
        self.round = self.round.wrapping_add(1);
        if !others || self.round.is_multiple_of(ROUNDS) {
            sweep();
        }
        others
    }

    /// Goes on for as long as others come, but not for ever.
    pub fn rounds(proc: BorrowedFd<'_>, known: &dyn Fn(i32) -> bool, sweep: &dyn Fn()) {
        let mut hunt = Self::default();
        for _ in 0..ROUNDS {
            if !hunt.round(proc, known, sweep) {
                return;
            }
        }
    }
}

/// `None` where the kernel does not list children (`CONFIG_PROC_CHILDREN`, proc_pid_task_children(5)).
fn kill_children(proc: BorrowedFd<'_>, known: &dyn Fn(i32) -> bool) -> Option<Seen> {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let list = openat(proc, c"thread-self/children", flags, Mode::empty()).ok()?;
    let mut seen = Seen::default();
    let mut pid = 0i32;
    let mut buffer = [0u8; 1024];
    loop {
        let read = nix::unistd::read(list.as_fd(), &mut buffer).ok()?;
        if read == 0 {
            return Some(seen);
        }
        // A number may begin in one buffer and end in the next.
        for byte in buffer.get(..read).unwrap_or_default() {
            if byte.is_ascii_digit() {
                pid = pid.saturating_mul(10).saturating_add(i32::from(byte - b'0'));
            } else if pid > 0 {
                if !known(pid) {
                    process::kill_one(pid, nix::libc::SIGKILL);
                    seen.count = seen.count.saturating_add(1);
                    seen.sum = seen.sum.wrapping_add(u64::from(pid.unsigned_abs()));
                }
                pid = 0;
            }
        }
    }
}
