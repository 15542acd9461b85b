//! Who cancelled what, and why (spec 1.12, 1.13). The tree is the tokens': turn, then call, then body. Dropping a call's token
//! takes it out of its parent, so a thousand finished calls leave nothing behind.

use crate::failure::CallFailure;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use crate::sync::{Mutex, Notify};
use std::sync::{Arc, PoisonError};
use stockade_types::CancelReason;
use tokio_util::sync::CancellationToken;

/// The cancellation of one call, and its reason.
#[derive(Clone, Debug)]
pub(crate) struct CallCancel {
    token: CancellationToken,
    kill: CancellationToken,
    why: Arc<Mutex<Option<Why>>>,
}

#[derive(Clone, Debug)]
struct Why {
    reason: CancelReason,
    /// The failed sibling, described.
    sibling: String,
}

impl CallCancel {
    pub(crate) fn below(turn: &TurnSignals) -> Self {
        Self { token: turn.abort.child_token(), kill: turn.kill.clone(), why: Arc::default() }
    }

    /// Fires when what is cancelled is to be given no grace any more.
    pub(crate) fn kill(&self) -> &CancellationToken {
        &self.kill
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Cancels it. A reason of higher priority takes the place of a lower one.
    pub(crate) fn cancel(&self, reason: CancelReason, sibling: &str) {
        let mut why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        if why.as_ref().is_none_or(|known| known.reason < reason) {
            *why = Some(Why { reason, sibling: sibling.to_owned() });
        }
        drop(why);
        self.token.cancel();
    }

    /// What stopped a call, told by the reason.
    pub(crate) fn explain(&self, failure: CallFailure) -> CallFailure {
        if let CallFailure::StillRuns(stopped) = failure {
            return CallFailure::StillRuns(Box::new(self.explain(*stopped)));
        }
        if !matches!(failure, CallFailure::Aborted(_) | CallFailure::AbortedBeforeDispatch) {
            return failure;
        }
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        match why.as_ref() {
            Some(Why { reason: CancelReason::Discarded, .. }) => CallFailure::Discarded,
            Some(Why { reason: CancelReason::SiblingError, sibling }) => {
                CallFailure::SiblingErrored { sibling: sibling.clone() }
            }
            Some(Why { reason: CancelReason::UserInterrupted, .. }) | None => failure,
        }
    }
}

/// What reaches a running turn from outside.
#[derive(Debug, Default)]
pub(crate) struct TurnSignals {
    /// Fires when all of the turn is to stop.
    pub(crate) abort: CancellationToken,
    /// Fires when what is being stopped is to be given no grace any more.
    pub(crate) kill: CancellationToken,
    /// [`DISCARDED`] and [`ENDED`]: one word, so that whoever is second knows of the first.
    fate: AtomicU8,
    interrupts: AtomicU64,
    /// How many calls had been submitted at the last interrupt.
    interrupted_before: AtomicU64,
    interrupted: Notify,
    pub(crate) interruptible: AtomicBool,
}

/// The host wants none of its results.
const DISCARDED: u8 = 1;
/// The scheduler is through with it.
const ENDED: u8 = 2;

impl TurnSignals {
    /// Discards the turn. Whether the caller must write that down: the scheduler has ended, and does so no more.
    pub(crate) fn discard(&self) -> bool {
        let before = self.fate.fetch_or(DISCARDED, Ordering::AcqRel);
        self.abort.cancel();
        before == ENDED
    }

    pub(crate) fn is_discarded(&self) -> bool {
        self.fate.load(Ordering::Acquire) & DISCARDED != 0
    }

    /// The scheduler is through. Whether it must write down that the turn was discarded.
    pub(crate) fn ended(&self) -> bool {
        self.fate.fetch_or(ENDED, Ordering::AcqRel) & DISCARDED != 0
    }

    /// Interrupts the calls that were submitted up to now, which are so many.
    pub(crate) fn interrupt(&self, submitted: u64) {
        self.interrupted_before.fetch_max(submitted, Ordering::AcqRel);
        self.interrupts.fetch_add(1, Ordering::Release);
        self.interrupted.notify_one();
    }

    /// The number of the first call that no interrupt is about.
    pub(crate) fn interrupted_before(&self) -> u64 {
        self.interrupted_before.load(Ordering::Acquire)
    }

    /// Ends when there were more interrupts than `seen`, with their number.
    pub(crate) async fn interrupted(&self, seen: u64) -> u64 {
        loop {
            let now = self.interrupts.load(Ordering::Acquire);
            if now > seen {
                return now;
            }
            // A permit is kept for a notification that comes before this waits.
            self.interrupted.notified().await;
        }
    }
}
