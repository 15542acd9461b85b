//! The scheduler of one turn (spec 1): a first-come read-write lock over the turn's calls, which nothing overtakes.
//!
//! Calls wait in `queue`. From its start to its commit a call has a slot in `window`, in model order. The phases run as
//! tasks; the scheduler only ever waits for one of them, or for a submission.

use crate::call::{EndedCall, QueuedCall, ReadyCall, StartedCall, Submission};
use crate::classify::classify;
use crate::events::Transition;
use crate::failure::CallFailure;
use crate::pipeline::Pipeline;
use crate::turn::{Delivery, TurnFault};
use std::collections::VecDeque;
use std::sync::Arc;
use stockade_types::{CallFlags, CallMode, ToolResult};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

pub(crate) struct Scheduler {
    pipeline: Arc<Pipeline>,
    turn: u64,
    max_parallel_calls: usize,
    /// Fires when the turn is aborted.
    abort: CancellationToken,
    submissions: mpsc::UnboundedReceiver<Submission>,
    results: mpsc::UnboundedSender<Delivery>,
    queue: VecDeque<QueuedCall>,
    window: VecDeque<Slot>,
    /// The number of the window's first slot.
    first: u64,
    phases: JoinSet<Phase>,
    /// Bodies that run now.
    running: usize,
    preparing: bool,
    committing: bool,
    /// The window holds an exclusive call.
    exclusive: bool,
    submissions_open: bool,
    aborted: bool,
    fault: Option<TurnFault>,
}

enum Slot {
    Busy,
    Ended(Box<EndedCall>),
}

/// A phase has ended; the number is its call's.
enum Phase {
    Prepared(u64, Box<Result<ReadyCall, EndedCall>>),
    Dispatched(u64, Box<EndedCall>),
    Committed(ToolResult, String),
}

impl Scheduler {
    pub(crate) fn new(
        pipeline: Arc<Pipeline>,
        turn: u64,
        max_parallel_calls: usize,
        abort: CancellationToken,
        submissions: mpsc::UnboundedReceiver<Submission>,
        results: mpsc::UnboundedSender<Delivery>,
    ) -> Self {
        Self {
            pipeline,
            turn,
            max_parallel_calls,
            abort,
            submissions,
            results,
            queue: VecDeque::new(),
            window: VecDeque::new(),
            first: 0,
            phases: JoinSet::new(),
            running: 0,
            preparing: false,
            committing: false,
            exclusive: false,
            submissions_open: true,
            aborted: false,
            fault: None,
        }
    }

    /// Runs until every submitted call is committed and no more can come.
    pub(crate) async fn run(mut self) {
        loop {
            self.commit_next();
            self.start_next();
            let idle = self.phases.is_empty();
            if idle && (self.fault.is_some() || (!self.submissions_open && self.queue.is_empty())) {
                break;
            }
            tokio::select! {
                biased;
                () = self.abort.cancelled(), if !self.aborted => self.aborted = true,
                Some(phase) = self.phases.join_next() => self.phase_ended(phase),
                submission = self.submissions.recv(), if self.submissions_open => {
                    match submission {
                        Some(submission) => self.enqueue(submission),
                        None => self.submissions_open = false,
                    }
                }
            }
        }
        // A turn that was dropped takes nothing any more.
        let _ = self.results.send(match self.fault {
            Some(fault) => Delivery::Fault(fault),
            None => Delivery::End,
        });
    }

    fn enqueue(&mut self, submission: Submission) {
        let call = QueuedCall::new(self.turn, submission);
        self.pipeline.events.of_call(&call, Transition::Queued);
        self.queue.push_back(call);
    }

    /// Starts what may start now. The next call is classified each time this is asked (spec 1.4), but only when nothing
    /// else holds it back.
    fn start_next(&mut self) {
        while !self.preparing && !self.exclusive && self.fault.is_none() {
            if self.aborted {
                self.settle_queue();
                return;
            }
            if self.running >= self.max_parallel_calls {
                return;
            }
            let Some(next) = self.queue.front() else {
                return;
            };
            let (tool, flags) = classify(&self.pipeline.registry, next);
            let alone = flags.mode == CallMode::Exclusive;
            // The window empties when everything before has been committed (spec 1.1).
            if alone && !self.window.is_empty() {
                return;
            }
            let Some(queued) = self.queue.pop_front() else {
                return;
            };
            let cancel = self.abort.child_token();
            let started = StartedCall { queued, tool, flags, cancel };
            let number = self.open_slot(Slot::Busy);
            self.exclusive = alone;
            self.preparing = true;
            let pipeline = Arc::clone(&self.pipeline);
            self.phases.spawn(async move {
                Phase::Prepared(number, Box::new(pipeline.prepare(started).await))
            });
        }
    }

    /// The turn was aborted: what has not started never does, but keeps its place (spec 1.16).
    fn settle_queue(&mut self) {
        let flags = CallFlags { mode: CallMode::Exclusive, read_only: false };
        for queued in std::mem::take(&mut self.queue) {
            self.pipeline.events.of_call(&queued, Transition::Completed);
            let cancel = self.abort.clone();
            let ended = self.pipeline.aborted(StartedCall { queued, tool: None, flags, cancel });
            self.open_slot(Slot::Ended(Box::new(ended)));
        }
        self.commit_next();
    }

    fn open_slot(&mut self, slot: Slot) -> u64 {
        self.window.push_back(slot);
        self.first + self.window.len() as u64 - 1
    }

    /// Commits the first call of the window once it has ended: in model order, one at a time.
    fn commit_next(&mut self) {
        if self.committing || !matches!(self.window.front(), Some(Slot::Ended(_))) {
            return;
        }
        let Some(Slot::Ended(mut ended)) =
            self.window.front_mut().map(|s| std::mem::replace(s, Slot::Busy))
        else {
            return;
        };
        self.committing = true;
        let pipeline = Arc::clone(&self.pipeline);
        self.phases.spawn(async move {
            let result = pipeline.finalize(&mut ended).await;
            let tool = ended.trace.queued.name.clone();
            Phase::Committed(pipeline.finish(*ended, result), tool)
        });
    }

    fn phase_ended(&mut self, phase: Result<Phase, JoinError>) {
        match phase {
            Ok(Phase::Prepared(number, prepared)) => {
                self.preparing = false;
                match *prepared {
                    Ok(ready) => self.dispatch(number, ready),
                    Err(ended) => {
                        // The one cancellation that reaches from a call to its turn (spec 1.12).
                        if matches!(ended.outcome, Err(CallFailure::Stopped(_))) {
                            self.abort.cancel();
                        }
                        self.ended(number, Box::new(ended));
                    }
                }
            }
            Ok(Phase::Dispatched(number, ended)) => {
                self.running -= 1;
                self.ended(number, ended);
            }
            Ok(Phase::Committed(result, tool)) => {
                self.committing = false;
                self.window.pop_front();
                self.first += 1;
                // Whoever is committed while an exclusive call is in the window is that call.
                self.exclusive = false;
                let _ = self.results.send(Delivery::Result(result, tool));
            }
            // Tools, hooks and the like are caught in their phase: this is the runtime's own fault (spec 1.17).
            Err(error) => self.fault = Some(TurnFault(error.to_string())),
        }
    }

    fn dispatch(&mut self, number: u64, ready: ReadyCall) {
        self.running += 1;
        let pipeline = Arc::clone(&self.pipeline);
        self.phases.spawn(async move {
            Phase::Dispatched(number, Box::new(pipeline.dispatch(ready).await))
        });
    }

    fn ended(&mut self, number: u64, ended: Box<EndedCall>) {
        self.pipeline.events.of_call(&ended.trace.queued, Transition::Completed);
        let index = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        if let Some(slot) = self.window.get_mut(index) {
            *slot = Slot::Ended(ended);
        }
    }
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
        let abort = CancellationToken::new();
        let pipeline = Arc::clone(&runtime.pipeline);
        let mut scheduler = Scheduler::new(pipeline, 1, 10, abort, submissions, deliver);
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
                Delivery::Result(result, _) => results.push(result),
                Delivery::Fault(fault) => break fault,
                Delivery::End => panic!("no fault"),
            }
        };
        assert_eq!(ids(&results), ["a"]);
        assert!(fault.to_string().contains("the scheduler failed"), "{fault}");
        assert_eq!(trace.taken(), ["start a", "end a"]);
    }
}
