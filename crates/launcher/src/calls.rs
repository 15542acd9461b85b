//! The calls of a cell that run, and what those that have ended had planted at protected paths.

use crate::protect::{Extent, Protected, Start, Swept, Watch};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;
use stockade_sys::socket;

/// See the module.
#[derive(Default)]
pub struct Calls {
    by_init: HashMap<i32, Call>,
    watch: Watch,
    /// Newest last; bounded, since a runtime that gave a call up never asks.
    swept: VecDeque<(u64, Swept)>,
}

struct Call {
    id: u64,
    /// How the protected paths stood at its start; `None` once it was looked at.
    start: Option<Start>,
    /// What it planted that has been put aside already.
    swept: Swept,
    /// The init's end of the lifeline, where it is to be told of the cell's end.
    lifeline: Option<OwnedFd>,
}

/// A call that has just ended.
pub struct Ended {
    /// Its number.
    pub id: u64,
    start: Option<Start>,
    swept: Swept,
}

const SWEPT_MAX: usize = 256;

impl Calls {
    /// A call has started, under the init with this pid. With its end of the lifeline it can be given up.
    pub fn started(&mut self, init: i32, id: u64, start: Start, lifeline: Option<OwnedFd>) {
        let call = Call { id, start: Some(start), swept: Swept::default(), lifeline };
        self.by_init.insert(init, call);
        self.watch.started();
    }

    /// Tells the inits that nobody waits for their calls, as the end of the runtime would. What they have reported is read all the same.
    pub fn give_up(&self) {
        for lifeline in self.by_init.values().filter_map(|call| call.lifeline.as_ref()) {
            // One that is not connected any more has been told.
            let _ = socket::end(lifeline.as_fd());
        }
    }

    /// Whether this is the init of one that runs.
    pub fn has(&self, init: i32) -> bool {
        self.by_init.contains_key(&init)
    }

    /// What tells when to look at what they plant.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Puts aside what calls that run on have planted meanwhile, when it is time to.
    pub fn look(&mut self, has_news: bool, protected: &Protected) {
        let Some(extent) = self.watch.extent(has_news) else { return };
        let began = Instant::now();
        self.sweep_places(protected);
        if extent == Extent::All {
            self.sweep_nested(protected);
        }
        self.watch.looked(extent, began, protected);
    }

    /// Puts aside all that they have planted so far. How the protected paths stood at their starts.
    pub fn sweep_all(&mut self, protected: &Protected) -> Vec<&Start> {
        self.sweep_places(protected);
        self.sweep_nested(protected);
        self.by_init.values().filter_map(|call| call.start.as_ref()).collect()
    }

    fn sweep_places(&mut self, protected: &Protected) {
        // The oldest first: what was there when a later one started may be an earlier one's.
        let mut calls: Vec<&mut Call> = self.by_init.values_mut().collect();
        calls.sort_unstable_by_key(|call| call.id);
        for call in calls {
            if let Some(start) = &call.start {
                protected.sweep_places(start, &mut call.swept);
            }
        }
    }

    /// What lies in repositories below is found without regard to whose it is: the oldest call's.
    fn sweep_nested(&mut self, protected: &Protected) {
        let calls = self.by_init.values_mut().filter(|call| call.start.is_some());
        if let Some(call) = calls.min_by_key(|call| call.id) {
            protected.sweep_nested(&mut call.swept);
        }
    }

    /// The call of this init has ended, if it is one's.
    pub fn ended(&mut self, init: i32) -> Option<Ended> {
        let ended = self.by_init.remove(&init);
        if self.by_init.is_empty() {
            self.watch.over();
        }
        ended.map(|Call { id, start, swept, .. }| Ended { id, start, swept })
    }

    /// Puts aside what it planted, unless that was asked for already, and keeps the account of it.
    pub fn sweep_ended(&mut self, ended: Ended, protected: &Protected) {
        let Ended { id, start: Some(start), mut swept } = ended else { return };
        swept.merge(protected.sweep(&start));
        self.swept.push_back((id, swept));
        if self.swept.len() > SWEPT_MAX {
            self.swept.pop_front();
        }
    }

    /// What some ended call planted has not been asked for yet.
    pub fn has_untold(&self) -> bool {
        !self.swept.is_empty()
    }

    /// What the call with this number planted, which is put aside now if it has not been. No process of it is left but its init.
    pub fn sweep(&mut self, id: u64, protected: &Protected) -> Swept {
        let call = self.by_init.values_mut().find(|call| call.id == id);
        match call.and_then(|call| Some((call.start.take()?, std::mem::take(&mut call.swept)))) {
            Some((start, mut swept)) => {
                swept.merge(protected.sweep(&start));
                swept
            }
            None => {
                let found = self.swept.iter().position(|(swept, _)| *swept == id);
                found.and_then(|at| self.swept.remove(at)).unwrap_or_default().1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 6.3
    #[test]
    fn a_call_that_is_given_up_reads_the_end_of_its_lifeline_although_the_runtime_lives() {
        let (runtime, init) = socket::packet_pair().unwrap();
        let ours = init.try_clone().unwrap();
        let mut calls = Calls::default();
        calls.started(7, 1, Start::default(), Some(ours));
        socket::send_short(init.as_fd(), b"told before").unwrap();
        let mut buffer = [0; 16];
        assert!(matches!(socket::receive_short(init.as_fd(), &mut buffer), Ok(None)), "it waits");
        calls.give_up();
        assert!(matches!(socket::receive_short(init.as_fd(), &mut buffer), Ok(Some(0))));
        let read = socket::receive_short(runtime.as_fd(), &mut buffer).unwrap();
        assert_eq!(read, Some(11), "nothing is lost");
        assert!(matches!(socket::receive_short(runtime.as_fd(), &mut buffer), Ok(Some(0))));
    }
}
