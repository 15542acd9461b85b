use crate::cancel::TurnSignals;
use crate::events::{Delivered, Events, Transition};
use crate::pipeline::Pipeline;
use crate::scheduler::Scheduler;
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, spawn};
use crate::{Settings, Submission};
use std::sync::{Arc, PoisonError, Weak};
use stockade_types::ToolResult;
use tokio::sync::mpsc;

/// One turn: calls go in as the model writes them, results come out in the model's order. Dropping it aborts it.
pub struct Turn {
    submitter: Submitter,
    results: mpsc::UnboundedReceiver<Delivery>,
    events: Events,
    /// A turn that can still be discarded keeps its session's log open; a submitter alone does not.
    _pipeline: Arc<Pipeline>,
    ended: bool,
}

/// The way into a turn, for another task than the one that takes the results. The turn is closed when
/// [`Submitter::close`] was called or the [`Turn`] is gone.
#[derive(Clone)]
pub struct Submitter {
    /// Empty once the turn is closed.
    inbox: Arc<Mutex<Option<mpsc::UnboundedSender<Submission>>>>,
    signals: Arc<TurnSignals>,
    pipeline: Weak<Pipeline>,
    turn: u64,
}

/// The turn takes no more calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the turn is closed: no more calls can be submitted")]
pub struct TurnClosed;

/// The scheduler itself failed (spec 1.17): what ran has ended, and the calls that have no result yet never get one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scheduler failed, and the turn's remaining calls have no results: {0}")]
pub struct TurnFault(pub String);

/// From the scheduler to the turn.
pub(crate) enum Delivery {
    Result(Box<Delivered>),
    Fault(TurnFault),
    End,
}

impl Turn {
    pub(crate) fn open(pipeline: Arc<Pipeline>, turn: u64, settings: Settings) -> Self {
        let (sender, submissions) = mpsc::unbounded_channel();
        let (deliveries, results) = mpsc::unbounded_channel();
        let signals = Arc::new(TurnSignals::default());
        let events = pipeline.events.clone();
        let feeds = (submissions, deliveries);
        let scheduler = Scheduler::new(
            Arc::clone(&pipeline),
            turn,
            settings,
            Arc::clone(&signals),
            feeds.0,
            feeds.1,
        );
        spawn(scheduler.run());
        let inbox = Arc::new(Mutex::new(Some(sender)));
        let below = Arc::downgrade(&pipeline);
        let submitter = Submitter { inbox, signals, pipeline: below, turn };
        Self { submitter, results, events, _pipeline: pipeline, ended: false }
    }

    /// The way in, for another task.
    pub fn submitter(&self) -> Submitter {
        self.submitter.clone()
    }

    /// See [`Submitter::submit`].
    pub fn submit(&self, submission: impl Into<Submission>) -> Result<(), TurnClosed> {
        self.submitter.submit(submission)
    }

    /// See [`Submitter::close`].
    pub fn close(&self) {
        self.submitter.close();
    }

    /// See [`Submitter::abort`].
    pub fn abort(&self) {
        self.submitter.abort();
    }

    /// See [`Submitter::kill`].
    pub fn kill(&self) {
        self.submitter.kill();
    }

    /// See [`Submitter::interrupt`].
    pub fn interrupt(&self) {
        self.submitter.interrupt();
    }

    /// See [`Submitter::discard`].
    pub fn discard(&self) {
        self.submitter.discard();
    }

    /// See [`Submitter::interruptible`].
    pub fn interruptible(&self) -> bool {
        self.submitter.interruptible()
    }

    /// The next result in the model's order; `None` when the turn is closed and every call has had its result, or when the
    /// turn was discarded and nothing of it runs any more. Cancel-safe.
    pub async fn next_result(&mut self) -> Result<Option<ToolResult>, TurnFault> {
        if self.ended {
            return Ok(None);
        }
        loop {
            let delivery = self.results.recv().await;
            match delivery {
                Some(Delivery::Result(_)) if self.submitter.signals.is_discarded() => continue,
                Some(Delivery::Result(delivered)) => {
                    let Delivered { result, tool, display } = *delivered;
                    let transition = Transition::Yielded { is_error: result.is_error, display };
                    self.events.emit(self.submitter.turn, &result.call_id, &tool, transition);
                    return Ok(Some(result));
                }
                _ => self.ended = true,
            }
            return match delivery {
                Some(Delivery::Fault(fault)) => Err(fault),
                None => Err(TurnFault("it ended without a word".to_owned())),
                _ => Ok(None),
            };
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.close();
        self.abort();
    }
}

impl Submitter {
    /// Adds the next call of the model's reply. It may start at once. An id that the turn has seen before makes it a broken
    /// one.
    pub fn submit(&self, submission: impl Into<Submission>) -> Result<(), TurnClosed> {
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = inbox.as_ref().ok_or(TurnClosed)?;
        sender.send(submission.into()).map_err(|_| TurnClosed)
    }

    /// No more calls follow.
    pub fn close(&self) {
        *self.inbox.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Stops the turn: running bodies are cancelled and drained, queued calls never start. Every call still gets its one
    /// result, in order.
    pub fn abort(&self) {
        self.signals.abort.cancel();
    }

    /// Aborts, and gives no grace to what is being stopped: commands get SIGKILL at once. Every call still gets its one result,
    /// in order.
    pub fn kill(&self) {
        self.signals.abort.cancel();
        self.signals.kill.cancel();
    }

    /// The user sent a new message: calls of tools that say so are stopped, whether they run or wait; the others go on
    /// (spec 1.14).
    pub fn interrupt(&self) {
        self.signals.interrupt();
    }

    /// Whether an interrupt would stop all that runs now: true only while something runs and all of it can be cancelled.
    pub fn interruptible(&self) -> bool {
        self.signals.interruptible.load(Ordering::Acquire)
    }

    /// The stream fell back: nothing that waits starts, what runs is cancelled, and no result is delivered any more, not even
    /// one that was on its way (spec 1.15). The turn takes no more calls. The session log tells that none of it is part of the
    /// history, also when all of it had ended.
    pub fn discard(&self) {
        if self.signals.discard()
            && let Some(pipeline) = self.pipeline.upgrade()
        {
            pipeline.record_discard(self.turn);
        }
        self.close();
    }
}
