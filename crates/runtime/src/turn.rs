use crate::call::QueuedCall;
use crate::cancel::TurnSignals;
use crate::caught::caught;
use crate::events::{Delivered, Events, Transition};
use crate::held_threads::watched;
use crate::pipeline::Pipeline;
use crate::scheduler::Scheduler;
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, MutexGuard, Notify, spawn};
use crate::{Settings, Submission};
use std::convert::Infallible;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;
use stockade_types::ToolResult;
use tokio::sync::{mpsc, oneshot};

/// One turn: calls go in as the model writes them, results come out in the model's order. Dropping it aborts it.
pub struct Turn {
    submitter: Submitter,
    /// The submitters that were given out and still live; `None` if there never was one.
    feeders: Mutex<Option<Weak<Feeder>>>,
    /// Tells that the last of them is gone.
    unfed: Arc<Notify>,
    results: mpsc::UnboundedReceiver<Delivery>,
    /// Closed when the scheduler is through.
    through: oneshot::Receiver<Infallible>,
    events: Events,
    /// A turn that can still be discarded keeps its session's log open; a submitter alone does not.
    _pipeline: Arc<Pipeline>,
    ended: bool,
}

/// The way into a turn, for another task than the one that takes the results. The turn is closed when
/// [`Submitter::close`] was called or the [`Turn`] is gone; also when the last submitter was dropped, by a task that
/// died perhaps, and [`Turn::next_result`] finds that nobody is left to feed the turn.
#[derive(Clone)]
pub struct Submitter {
    inbox: Arc<Mutex<Inbox>>,
    /// Counts the submitters; the turn's own is none.
    _feeder: Option<Arc<Feeder>>,
    signals: Arc<TurnSignals>,
    pipeline: Weak<Pipeline>,
    turn: u64,
}

struct Inbox {
    /// `None` once the turn is closed.
    sender: Option<mpsc::UnboundedSender<QueuedCall>>,
    /// How many calls it has taken.
    submitted: u64,
}

/// All submitters of a turn: its end is that of the last one.
struct Feeder {
    unfed: Arc<Notify>,
}

impl Drop for Feeder {
    fn drop(&mut self) {
        self.unfed.notify_one();
    }
}

/// The turn takes no more calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the turn is closed: no more calls can be submitted")]
pub struct TurnClosed;

/// The scheduler itself failed (spec 1.17): what ran has ended, and the calls that have no result yet never get one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scheduler failed, and the turn's remaining calls have no results: {0}")]
pub struct TurnFault(pub String);

const NO_TIMERS: &str = "the tokio runtime that the turn was opened in has no timers, and calls have deadlines: build it with `enable_time` or `enable_all`";

/// Whether the executor has what deadlines need. It tells only by a panic; that there is no executor at all is told by whoever spawns.
fn has_timers() -> bool {
    tokio::runtime::Handle::try_current().is_err()
        || caught(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok()
}

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
        let (at_the_end, through) = oneshot::channel();
        let has_timers = has_timers();
        let scheduler = Scheduler::new(
            Arc::clone(&pipeline),
            turn,
            settings,
            Arc::clone(&signals),
            feeds.0,
            feeds.1,
        );
        spawn(async move {
            let _at_the_end = at_the_end;
            if has_timers {
                watched(scheduler.run()).await;
            } else {
                scheduler.cannot_run(TurnFault(NO_TIMERS.to_owned()));
            }
        });
        let inbox = Arc::new(Mutex::new(Inbox { sender: Some(sender), submitted: 0 }));
        let below = Arc::downgrade(&pipeline);
        let submitter = Submitter { inbox, _feeder: None, signals, pipeline: below, turn };
        Self {
            submitter,
            feeders: Mutex::default(),
            unfed: Arc::default(),
            results,
            through,
            events,
            _pipeline: pipeline,
            ended: false,
        }
    }

    /// The way in, for another task. As long as one lives the turn is fed by submitters: see [`Submitter`] for its end.
    pub fn submitter(&self) -> Submitter {
        let mut feeders = self.feeders.lock().unwrap_or_else(PoisonError::into_inner);
        let feeder = feeders.as_ref().and_then(Weak::upgrade).unwrap_or_else(|| {
            let feeder = Arc::new(Feeder { unfed: Arc::clone(&self.unfed) });
            *feeders = Some(Arc::downgrade(&feeder));
            feeder
        });
        Submitter { _feeder: Some(feeder), ..self.submitter.clone() }
    }

    /// There were submitters, and the last one is gone.
    fn is_unfed(&self) -> bool {
        let feeders = self.feeders.lock().unwrap_or_else(PoisonError::into_inner);
        feeders.as_ref().is_some_and(|feeders| feeders.strong_count() == 0)
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

    /// Waits until every call of a closed turn has its result.
    pub(crate) async fn through(&mut self) {
        let _ = (&mut self.through).await;
    }

    /// The next result in the model's order; `None` when the turn is closed and every call has had its result, or when the
    /// turn was discarded and nothing of it runs any more. Cancel-safe.
    pub async fn next_result(&mut self) -> Result<Option<ToolResult>, TurnFault> {
        if self.ended {
            return Ok(None);
        }
        loop {
            // While this waits nobody else can feed the turn: it would wait for ever.
            let is_unfed = self.is_unfed();
            if is_unfed {
                self.close();
            }
            let delivery = tokio::select! {
                biased;
                delivery = self.results.recv() => delivery,
                () = self.unfed.notified(), if !is_unfed => continue,
            };
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
        let submission = QueuedCall::new(self.turn, submission.into());
        let mut inbox = self.inbox();
        let sender = inbox.sender.as_ref().ok_or(TurnClosed)?;
        sender.send(submission).map_err(|_| TurnClosed)?;
        inbox.submitted += 1;
        Ok(())
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No more calls follow.
    pub fn close(&self) {
        self.inbox().sender = None;
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
    /// (spec 1.14), and so does what is submitted after it.
    pub fn interrupt(&self) {
        let submitted = self.inbox().submitted;
        self.signals.interrupt(submitted);
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
