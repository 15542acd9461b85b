//! The scheduler of one turn (spec 1): a first-come read-write lock over the turn's calls, which nothing overtakes.
//!
//! Every call has a slot in `window`, in the model's order, from its submission to its commit; `order` says which may start
//! next. The phases run as tasks; the scheduler only ever waits for one of them, for a submission or for a signal.

mod batches;
mod dependencies;
mod ending;
mod live;

use crate::bounds;
use crate::call::{EndedCall, QueuedCall, ReadyCall, StartedCall, Submission};
use crate::cancel::{CallCancel, TurnSignals};
use crate::caught::caught;
use crate::classify::{Classified, classify};
use crate::events::Transition;
use crate::failure::CallFailure;
use crate::pipeline::{Committed, Pipeline};
use crate::settings::{EarlyStart, Settings};
use crate::sync::{JoinError, JoinSet};
use crate::turn::{Delivery, TurnFault};
use batches::Batches;
pub(crate) use batches::plan;
use dependencies::{Order, Unorderable};
use ending::Ending;
use live::Live;
use std::collections::VecDeque;
use std::sync::Arc;
use stockade_tools::{InterruptBehavior, SessionContext};
use stockade_types::{CallMode, CancelReason};
use tokio::sync::mpsc::{self, error::TryRecvError};

pub(crate) struct Scheduler {
    pipeline: Arc<Pipeline>,
    turn: u64,
    settings: Settings,
    signals: Arc<TurnSignals>,
    submissions: mpsc::UnboundedReceiver<Submission>,
    results: mpsc::UnboundedSender<Delivery>,
    order: Order,
    window: VecDeque<Slot>,
    /// The number of the window's first slot.
    first: u64,
    phases: JoinSet<Phase>,
    /// Bodies that run now.
    running: usize,
    preparing: bool,
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
    Prepared(u64, Box<Result<ReadyCall, EndedCall>>),
    Dispatched(u64, Box<EndedCall>),
    Committed(Box<Committed>),
}

/// What keeps a call from starting now.
enum Held {
    /// It alone: those after it may start, if they are parallel.
    Itself,
    /// It, and everything after it.
    All,
}

impl Scheduler {
    pub(crate) fn new(
        pipeline: Arc<Pipeline>,
        turn: u64,
        settings: Settings,
        signals: Arc<TurnSignals>,
        submissions: mpsc::UnboundedReceiver<Submission>,
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
            window: VecDeque::new(),
            first: 0,
            phases: JoinSet::new(),
            running: 0,
            preparing: false,
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
                Some(phase) = self.phases.join_next() => self.phase_ended(phase),
                submission = self.submissions.recv(), if self.submissions_open => {
                    self.take_in(submission);
                }
            }
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

    /// Takes a submission, or the end of them, and all that have come in behind it: a turn that is handed over whole is
    /// whole before any of it starts.
    fn take_in(&mut self, submission: Option<Submission>) {
        match submission {
            Some(submission) => self.enqueue(submission),
            None => return self.closed(),
        }
        self.take_in_all();
    }

    fn take_in_all(&mut self) {
        while self.submissions_open {
            match self.submissions.try_recv() {
                Ok(submission) => self.enqueue(submission),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => return self.closed(),
            }
        }
    }

    fn enqueue(&mut self, submission: Submission) {
        let mut call = QueuedCall::new(self.turn, submission);
        if self.order.knows(&call.id) {
            call.break_with(&format!(
                "InputValidationError: the id {:?} was used before in this turn, so this call was not run",
                call.id.0
            ));
        } else if let Err(excess) = bounds::check(&call.arguments) {
            call.break_with(&format!(
                "InputValidationError: the arguments are {excess}, so this call was not run: write large content in parts"
            ));
        }
        self.pipeline.events.of_call(&call, Transition::Queued);
        let number = self.first + self.window.len() as u64;
        let (window, first) = (&self.window, self.first);
        let depends_on = if call.broken.is_some() { Vec::new() } else { call.depends_on.clone() };
        self.order.add(number, call.id.clone(), depends_on, |of| {
            of < first || matches!(slot(window, first, of), Some(Slot::Ended(_)))
        });
        self.window.push_back(Slot::Waiting(Box::new(call)));
    }

    /// No more calls come: dependencies that were never met are errors, and groups can be planned.
    fn closed(&mut self) {
        self.submissions_open = false;
        for (number, why) in self.order.close() {
            if let Some(Slot::Waiting(call)) = self.slot_mut(number) {
                call.break_with(&match why {
                    Unorderable::Unknown(id) => format!(
                        "DependencyError: the call depends on {:?}, and no call of this turn has that id, so it was not run",
                        id.0
                    ),
                    Unorderable::Cycle => {
                        "DependencyError: the call depends on itself by way of others, so it was not run".to_owned()
                    }
                });
            }
        }
        if self.settings.grouped {
            let queue = self.order.queue().filter_map(|number| {
                match slot(&self.window, self.first, number) {
                    Some(Slot::Waiting(call)) => Some((number, &**call)),
                    _ => None,
                }
            });
            let batches = Batches::plan(&self.pipeline, queue, self.settings.max_parallel_calls);
            self.batches = Some(batches);
        }
    }

    /// Starts what may start now.
    fn start_next(&mut self) {
        loop {
            if self.fault.is_some() {
                return;
            }
            if let Some(ending) = &self.ending {
                let ending = ending.clone();
                self.settle(|_, _| false, &ending);
                return;
            }
            if self.is_quiet() {
                self.exclusive = false;
                if let Some(batches) = &mut self.batches {
                    batches.advance(&self.pipeline.events, self.turn);
                }
            }
            if self.preparing || self.exclusive || self.running >= self.settings.max_parallel_calls
            {
                return;
            }
            let Some((place, number, classified)) = self.next_to_start() else { return };
            self.start(place, number, classified);
        }
    }

    /// The first call of the queue that may start now. A parallel call that waits for what it depends on lets parallel ones
    /// pass; nothing passes an exclusive one (spec 1.1).
    fn next_to_start(&self) -> Option<(usize, u64, Classified)> {
        let mut passed_one = false;
        for place in 0..self.order.len() {
            let (number, met) = self.order.at(place)?;
            let Some(Slot::Waiting(call)) = slot(&self.window, self.first, number) else {
                return None;
            };
            match self.held(number, call) {
                Some(Held::All) => return None,
                Some(Held::Itself) => continue,
                None => {}
            }
            // Asked each time the call is about to start: a tool that an earlier call replaced counts (spec 1.4).
            let classified = classify(&self.pipeline, call, &self.context, self.submissions_open);
            let exclusive = classified.flags.mode == CallMode::Exclusive;
            if !met {
                if exclusive {
                    return None;
                }
                passed_one = true;
                continue;
            }
            if exclusive && (passed_one || !self.is_quiet()) {
                return None;
            }
            if !self.may_start_early(&classified) {
                return None;
            }
            return Some((place, number, classified));
        }
        None
    }

    fn held(&self, number: u64, _call: &QueuedCall) -> Option<Held> {
        if self.stop_wanted.is_some_and(|by| by < number) {
            return Some(Held::Itself);
        }
        match &self.batches {
            Some(batches) if !batches.is_current(number) => Some(Held::All),
            _ => None,
        }
    }

    fn may_start_early(&self, classified: &Classified) -> bool {
        if !self.submissions_open {
            return true;
        }
        match self.settings.early_start {
            EarlyStart::All => !self.settings.grouped,
            EarlyStart::Safe => classified.safe,
            EarlyStart::None => false,
        }
    }

    /// Nothing is under way: whatever has started is committed, or cannot be before something that has not started.
    fn is_quiet(&self) -> bool {
        let busy = self.preparing || self.running > 0 || self.committing;
        !busy && !matches!(self.window.front(), Some(Slot::Ended(_)))
    }

    fn start(&mut self, place: usize, number: u64, classified: Classified) {
        let Some(Slot::Waiting(queued)) =
            self.slot_mut(number).map(|slot| std::mem::replace(slot, Slot::Busy))
        else {
            return;
        };
        self.order.take(place);
        if let Some(batches) = &mut self.batches {
            batches.started(number, &self.pipeline.events, self.turn);
        }
        self.exclusive = classified.flags.mode == CallMode::Exclusive;
        self.preparing = true;
        let cancel = CallCancel::below(&self.signals.abort);
        self.live.add(number, &queued, &classified, cancel.clone());
        let Classified { lookup, flags, .. } = classified;
        let context = Arc::clone(&self.context);
        let started = StartedCall { queued: *queued, lookup, flags, cancel, context };
        let pipeline = Arc::clone(&self.pipeline);
        self.phases.spawn(async move {
            Phase::Prepared(number, Box::new(pipeline.prepare(started).await))
        });
    }

    /// Commits the first call of the window once it has ended: in model order, one at a time.
    fn commit_next(&mut self) {
        if self.committing || !matches!(self.window.front(), Some(Slot::Ended(_))) {
            return;
        }
        let Some(Slot::Ended(ended)) =
            self.window.front_mut().map(|s| std::mem::replace(s, Slot::Busy))
        else {
            return;
        };
        self.committing = true;
        let pipeline = Arc::clone(&self.pipeline);
        let discarded = self.signals.is_discarded();
        self.phases.spawn(async move {
            Phase::Committed(Box::new(pipeline.commit(*ended, discarded).await))
        });
    }

    fn phase_ended(&mut self, phase: Result<Phase, JoinError>) {
        match phase {
            Ok(Phase::Prepared(number, prepared)) => {
                self.preparing = false;
                match *prepared {
                    Ok(ready) => self.dispatch(number, ready),
                    Err(ended) => self.ended(number, Box::new(ended)),
                }
            }
            Ok(Phase::Dispatched(number, ended)) => {
                self.running -= 1;
                self.ended(number, ended);
            }
            Ok(Phase::Committed(committed)) => self.committed(*committed),
            // Tools, hooks and the like are caught in their phase: this is the runtime's own fault (spec 1.17).
            Err(error) => self.fault = Some(TurnFault(error.to_string())),
        }
    }

    fn dispatch(&mut self, number: u64, ready: ReadyCall) {
        self.running += 1;
        self.live.executing(number, &self.signals.interruptible);
        let pipeline = Arc::clone(&self.pipeline);
        self.phases.spawn(async move {
            Phase::Dispatched(number, Box::new(pipeline.dispatch(ready).await))
        });
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
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.window.get_mut(place)
    }

    /// The user sent a new message: what its tool lets be cancelled is, whether it runs or waits (spec 1.14).
    fn interrupted(&mut self) {
        // What was submitted before it counts.
        self.take_in_all();
        self.live.interrupt();
        let pipeline = Arc::clone(&self.pipeline);
        let blocks = move |call: &QueuedCall| {
            let tool = pipeline.registry.get(&call.name).filter(|_| call.broken.is_none());
            tool.is_none_or(|tool| {
                let asked = caught(|| tool.tool().interrupt_behavior());
                asked != Ok(InterruptBehavior::Cancel)
            })
        };
        self.settle(|_, call| blocks(call), &Ending::Aborted);
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

fn slot(window: &VecDeque<Slot>, first: u64, number: u64) -> Option<&Slot> {
    window.get(usize::try_from(number.checked_sub(first)?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{QUIET, Trace, builder, call, ids, probes};
    use std::sync::LazyLock;
    use std::time::Duration;

    // spec 1.17
    #[tokio::test(start_paused = true)]
    async fn a_fault_of_the_scheduler_itself_drains_what_runs_and_makes_up_no_results() {
        LazyLock::force(&QUIET);
        let trace = Trace::default();
        let runtime = builder(probes(&trace)).build().unwrap();
        let (submit, submissions) = mpsc::unbounded_channel();
        let (deliver, mut delivered) = mpsc::unbounded_channel();
        let signals = Arc::new(TurnSignals::default());
        let pipeline = Arc::clone(&runtime.pipeline);
        let settings = Settings::default();
        let mut scheduler = Scheduler::new(pipeline, 1, settings, signals, submissions, deliver);
        submit.send(call("Share", "a", 100).into()).unwrap();
        submit.send(call("Alone", "b", 0).into()).unwrap();
        scheduler.phases.spawn(async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            panic!("expected");
        });
        scheduler.run().await;
        let mut results = Vec::new();
        let fault = loop {
            match delivered.recv().await.unwrap() {
                Delivery::Result(delivered) => results.push(delivered.result),
                Delivery::Fault(fault) => break fault,
                Delivery::End => panic!("no fault"),
            }
        };
        assert_eq!(ids(&results), ["a"]);
        assert!(fault.to_string().contains("the scheduler failed"), "{fault}");
        assert_eq!(trace.taken(), ["start a", "end a"]);
    }
}
