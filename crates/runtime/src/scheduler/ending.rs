use super::{Scheduler, Slot};
use crate::call::QueuedCall;
use crate::failure::CallFailure;

/// Why nothing of a turn starts any more. What waits, and what still comes in, is answered with it. The order is that of the
/// reasons' priority (spec 1.13).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ending {
    /// A result asked for it (spec 1.18).
    TurnStopped,
    /// The user aborted, or an approver's no stopped the turn.
    Aborted,
    /// A sibling failed; this is what it was (spec 1.11).
    SiblingErrored(String),
    /// The stream fell back (spec 1.15).
    Discarded,
}

impl Ending {
    fn failure(&self) -> CallFailure {
        match self {
            Ending::TurnStopped => CallFailure::TurnStopped,
            Ending::Aborted => CallFailure::AbortedBeforeDispatch,
            Ending::SiblingErrored(sibling) => {
                CallFailure::SiblingErrored { sibling: sibling.clone() }
            }
            Ending::Discarded => CallFailure::Discarded,
        }
    }
}

impl Scheduler {
    /// Ends the turn, unless it is being ended for a reason of higher priority.
    pub(super) fn end_with(&mut self, ending: Ending) {
        match &self.ending {
            Some(known) if *known >= ending => {}
            _ => self.ending = Some(ending),
        }
    }

    /// Gives every waiting call that is not kept its result: it never starts, but keeps its place (spec 1.16).
    pub(super) fn settle(&mut self, keep: impl Fn(u64, &QueuedCall) -> bool, ending: &Ending) {
        if self.order.is_empty() {
            return;
        }
        let (window, first) = (&self.window, self.first);
        let gone = self.order.give_up(|number| match super::slot(window, first, number) {
            Some(Slot::Waiting(call)) => keep(number, call),
            _ => false,
        });
        for number in gone {
            let Some(slot) = self.slot_mut(number) else { continue };
            if let Slot::Waiting(queued) = std::mem::replace(slot, Slot::Busy) {
                let ended = self.pipeline.never_started(*queued, ending.failure());
                self.settled(number, Box::new(ended));
            }
        }
    }
}
