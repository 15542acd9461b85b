//! The scheduler of one turn (spec 1): a first-come read-write lock over the turn's calls, which nothing overtakes.
//!
//! Every call has a slot in `window`, in the model's order, from its submission to its commit; `order` says which may start
//! next. The phases run as tasks; the scheduler only ever waits for one of them, for a submission or for a signal.

mod batches;
mod dependencies;
mod ending;
mod feeding;
mod live;
mod passing;
mod starting;
#[cfg(test)]
mod tests;

use crate::call::{EndedCall, QueuedCall};
use crate::cancel::TurnSignals;
use crate::caught::caught;
use crate::events::Transition;
use crate::failure::CallFailure;
use crate::held_threads::watched;
use crate::pipeline::{Committed, Pipeline};
use crate::settings::Settings;
use crate::sync::{JoinError, JoinSet};
use crate::turn::{Delivery, TurnFault};
use batches::Batches;
pub(crate) use batches::plan;
use dependencies::Order;
use ending::Ending;
use live::Live;
use passing::Passing;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use stockade_tools::{InterruptBehavior, SessionContext};
use stockade_types::CancelReason;
use tokio::sync::mpsc;

pub(crate) struct Scheduler {
    pipeline: Arc<Pipeline>,
    turn: u64,
    settings: Settings,
    signals: Arc<TurnSignals>,
    submissions: mpsc::UnboundedReceiver<QueuedCall>,
    results: mpsc::UnboundedSender<Delivery>,
    order: Order,
    passing: Passing,
    window: VecDeque<Slot>,
    /// The number of the window's first slot.
    first: u64,
    phases: JoinSet<Phase>,
    /// Bodies that run now.
    running: usize,
    /// The call that is being prepared: one at a time (spec 2.1).
    preparing: Option<u64>,
    /// Which calls are prepared and go on to their bodies.
    prepared: (mpsc::UnboundedSender<u64>, mpsc::UnboundedReceiver<u64>),
    committing: bool,
    /// An exclusive call holds the lock.
    exclusive: bool,
    /// What has started and not ended.
    live: Live,
    /// The first call that ended with the wish to stop the turn and is not committed: what comes after it is held.
    stop_wanted: Option<u64>,
    /// Why nothing starts any more.
    ending: Option<Ending>,
    batches: Option<Batches>,
    /// What the next call finds (spec 1.20).
    context: Arc<SessionContext>,
    submissions_open: bool,
    /// The abort has been seen to.
    aborted: bool,
    interrupts: u64,
    fault: Option<TurnFault>,
}

enum Slot {
    Waiting(Box<QueuedCall>),
    Busy,
    Ended(Box<EndedCall>),
}

/// A phase has ended; the number is its call's.
enum Phase {
    NotDispatched(u64, Box<EndedCall>),
    Dispatched(u64, Box<EndedCall>),
    Committed(Box<Committed>),
}

impl Scheduler {
    pub(crate) fn new(
        pipeline: Arc<Pipeline>,
        turn: u64,
        settings: Settings,
        signals: Arc<TurnSignals>,
        submissions: mpsc::UnboundedReceiver<QueuedCall>,
        results: mpsc::UnboundedSender<Delivery>,
    ) -> Self {
        let context = Arc::clone(&pipeline.session);
        Self {
            pipeline,
            turn,
            settings,
            signals,
            submissions,
            results,
            order: Order::default(),
            passing: Passing::default(),
            window: VecDeque::new(),
            first: 0,
            phases: JoinSet::new(),
            running: 0,
            preparing: None,
            prepared: mpsc::unbounded_channel(),
            committing: false,
            exclusive: false,
            live: Live::default(),
            stop_wanted: None,
            ending: None,
            batches: None,
            context,
            submissions_open: true,
            aborted: false,
            interrupts: 0,
            fault: None,
        }
    }

    /// Nothing was started, and nothing is.
    pub(crate) fn cannot_run(self, fault: TurnFault) {
        let _ = self.results.send(Delivery::Fault(fault));
    }

    /// Runs until every submitted call is committed and no more can come.
    pub(crate) async fn run(mut self) {
        let signals = Arc::clone(&self.signals);
        loop {
            self.commit_next();
            self.start_next();
            self.commit_next();
            let idle = self.phases.is_empty();
            if idle && (self.fault.is_some() || (!self.submissions_open && self.order.is_empty())) {
                break;
            }
            tokio::select! {
                biased;
                () = signals.abort.cancelled(), if !self.aborted => self.abort(),
                seen = signals.interrupted(self.interrupts) => {
                    self.interrupts = seen;
                    self.interrupted();
                }
                Some(number) = self.prepared.1.recv() => self.executing(number),
                Some(phase) = self.phases.join_next() => self.phase_ended(phase),
                submission = self.submissions.recv(), if self.submissions_open => {
                    self.take_in(submission);
                }
            }
        }
        // A turn that ends early starts nothing more, and the group that had begun has ended all the same.
        if let Some(batches) = &mut self.batches {
            batches.advance(&self.pipeline.events, self.turn);
        }
        if self.signals.ended() {
            self.pipeline.record_discard(self.turn);
        }
        // A turn that was dropped takes nothing any more.
        let _ = self.results.send(match self.fault {
            Some(fault) => Delivery::Fault(fault),
            None => Delivery::End,
        });
    }

    /// Commits the first calls of the window once they have ended: in model order, one at a time.
    fn commit_next(&mut self) {
        while !self.committing && matches!(self.window.front(), Some(Slot::Ended(_))) {
            let Some(Slot::Ended(ended)) =
                self.window.front_mut().map(|s| std::mem::replace(s, Slot::Busy))
            else {
                return;
            };
            self.committing = true;
            let pipeline = Arc::clone(&self.pipeline);
            let signals = Arc::clone(&self.signals);
            let is_foreign = pipeline.asks_others(&ended);
            let mut commit = Box::pin(async move { pipeline.commit(*ended, &signals).await });
            if !is_foreign {
                // What is left is the runtime's own code: a task for it would cost more than it does.
                let mut context = Context::from_waker(Waker::noop());
                if let Poll::Ready(committed) = commit.as_mut().poll(&mut context) {
                    self.committed(committed);
                    continue;
                }
            }
            self.phases.spawn(watched(async move { Phase::Committed(Box::new(commit.await)) }));
        }
    }

    fn phase_ended(&mut self, phase: Result<Phase, JoinError>) {
        match phase {
            Ok(Phase::NotDispatched(number, ended)) => {
                self.preparing = None;
                self.ended(number, ended);
            }
            Ok(Phase::Dispatched(number, ended)) => {
                // A body may be quicker than the word that it begins.
                self.executing(number);
                self.running -= 1;
                self.ended(number, ended);
            }
            Ok(Phase::Committed(committed)) => self.committed(*committed),
            // Tools, hooks and the like are caught in their phase: this is the runtime's own fault (spec 1.17).
            Err(error) => self.fault = Some(TurnFault(error.to_string())),
        }
    }

    /// The call is prepared and its body runs: the next one may be prepared.
    fn executing(&mut self, number: u64) {
        if self.preparing == Some(number) {
            self.preparing = None;
            self.running += 1;
            self.live.executing(number, &self.signals.interruptible);
        }
    }

    /// Nothing of the call runs any more.
    fn ended(&mut self, number: u64, mut ended: Box<EndedCall>) {
        let call = self.live.remove(number, &self.signals.interruptible);
        if let (Some(call), Err(failure)) = (&call, &mut ended.outcome) {
            let plain = std::mem::replace(failure, CallFailure::AbortedBeforeDispatch);
            *failure = call.cancel.explain(plain);
        }
        match &ended.outcome {
            // The one cancellation that reaches from a call to its turn (spec 1.12).
            Err(CallFailure::Stopped(_)) => self.signals.abort.cancel(),
            Ok(output) if output.stop_turn => {
                let first = self.stop_wanted.map_or(number, |by| by.min(number));
                self.stop_wanted = Some(first);
            }
            _ => {}
        }
        if let Some(call) = call
            && call.cascades
            && ended.failed_by_itself()
            && self.settings.cascade.starts_from(ended.trace.flags.read_only)
        {
            let sibling = call.description;
            self.live.cancel_all(CancelReason::SiblingError, &sibling);
            self.end_with(Ending::SiblingErrored(sibling));
        }
        self.settled(number, ended);
    }

    fn settled(&mut self, number: u64, ended: Box<EndedCall>) {
        self.pipeline.events.of_call(&ended.trace.queued, Transition::Completed);
        self.order.ended(number);
        if let Some(batches) = &mut self.batches {
            batches.ended(number);
        }
        if let Some(slot) = self.slot_mut(number) {
            *slot = Slot::Ended(ended);
        }
    }

    fn committed(&mut self, committed: Committed) {
        let number = self.first;
        self.committing = false;
        self.window.pop_front();
        self.first += 1;
        if let Some(change) = committed.change {
            self.context = Arc::new(self.context.changed(change));
        }
        if self.stop_wanted == Some(number) {
            self.stop_wanted = None;
        }
        if committed.delivered.result.stop_turn {
            self.end_with(Ending::TurnStopped);
        }
        if !self.signals.is_discarded() {
            let _ = self.results.send(Delivery::Result(Box::new(committed.delivered)));
        }
    }

    fn slot_mut(&mut self, number: u64) -> Option<&mut Slot> {
        slot_mut(&mut self.window, self.first, number)
    }

    /// The user sent a new message: what its tool lets be cancelled is, whether it runs or waits (spec 1.14).
    fn interrupted(&mut self) {
        // What was submitted before it counts.
        self.take_in_all();
        // What came after it does not: numbers count submissions.
        let before = self.signals.interrupted_before();
        self.live.interrupt(before);
        let pipeline = Arc::clone(&self.pipeline);
        let blocks = move |call: &QueuedCall| {
            let tool = pipeline.registry.get(&call.name).filter(|_| call.broken.is_none());
            tool.is_none_or(|tool| {
                let asked = caught(|| tool.tool().interrupt_behavior());
                asked != Ok(InterruptBehavior::Cancel)
            })
        };
        self.settle(|number, call| number >= before || blocks(call), &Ending::Aborted);
    }

    fn abort(&mut self) {
        self.aborted = true;
        if self.signals.is_discarded() {
            self.live.cancel_all(CancelReason::Discarded, "");
            self.end_with(Ending::Discarded);
        } else {
            self.live.cancel_all(CancelReason::UserInterrupted, "");
            self.end_with(Ending::Aborted);
        }
    }
}

fn slot_mut(window: &mut VecDeque<Slot>, first: u64, number: u64) -> Option<&mut Slot> {
    window.get_mut(usize::try_from(number.checked_sub(first)?).ok()?)
}

fn slot(window: &VecDeque<Slot>, first: u64, number: u64) -> Option<&Slot> {
    window.get(usize::try_from(number.checked_sub(first)?).ok()?)
}
