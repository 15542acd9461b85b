//! The system calls that the filter refuses: an init answers them, and reports each kind of attempt once. No heap.

use crate::filter::Filter;
use crate::listing;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use stockade_plan::record::Record;
use stockade_sys::{notify, socket};

/// The most kinds of attempts that are reported of one call.
const KINDS_MAX: usize = 64;

/// What an init knows of its call's refused system calls.
pub struct Refused<'a> {
    listener: OwnedFd,
    filter: &'a Filter,
    reported: [Option<(u32, [u64; 6])>; KINDS_MAX],
    heard_any: bool,
}

impl<'a> Refused<'a> {
    /// Listens.
    pub fn new(listener: OwnedFd, filter: &'a Filter) -> Self {
        Self { listener, filter, reported: [None; KINDS_MAX], heard_any: false }
    }

    /// What becomes readable when a call waits for its answer.
    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Answers one call. An error means that there is nothing to be listened to any more; the kernel then refuses with `ENOSYS`.
    pub fn answer_one(&mut self, lifeline: BorrowedFd<'_>, proc: BorrowedFd<'_>) -> io::Result<()> {
        if !self.heard_any {
            // Not before: most commands never try anything that is refused.
            notify::answer_at_once(self.listener());
            self.heard_any = true;
        }
        let Some(call) = notify::receive(self.listener())? else { return Ok(()) };
        if let Some(hidden) = self.filter.hidden(call.number) {
            return listing::answer(self.listener(), &call, hidden, proc);
        }
        notify::refuse(self.listener(), call.id, nix::libc::EPERM)?;
        let kind = (call.number, self.filter.telling(call.number, call.arguments));
        for slot in &mut self.reported {
            match slot {
                Some(known) if *known == kind => return Ok(()),
                Some(_) => {}
                None => {
                    *slot = Some(kind);
                    let record =
                        Record::Denied { number: kind.0, pid: call.pid, arguments: kind.1 };
                    return socket::send_short(lifeline, &record.encode());
                }
            }
        }
        Ok(())
    }
}
