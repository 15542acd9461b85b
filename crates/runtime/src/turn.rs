use crate::Submission;
use crate::events::{Events, Transition};
use crate::pipeline::Pipeline;
use crate::scheduler::Scheduler;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use stockade_types::{CallId, ToolResult};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// One turn: calls go in as the model writes them, results come out in the model's order. Dropping it aborts it.
pub struct Turn {
    submitter: Submitter,
    results: mpsc::UnboundedReceiver<Delivery>,
    events: Events,
    turn: u64,
    ended: bool,
}

/// The way into a turn, for another task than the one that takes the results. The turn is closed when
/// [`Submitter::close`] was called or the [`Turn`] is gone.
#[derive(Clone)]
pub struct Submitter {
    inbox: Arc<Mutex<Inbox>>,
    abort: CancellationToken,
}

struct Inbox {
    sender: Option<mpsc::UnboundedSender<Submission>>,
    ids: HashSet<CallId>,
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
    /// A result, and the name of its tool for the event.
    Result(ToolResult, String),
    Fault(TurnFault),
    End,
}

impl Turn {
    pub(crate) fn open(pipeline: Arc<Pipeline>, turn: u64, max_parallel_calls: usize) -> Self {
        let (sender, submissions) = mpsc::unbounded_channel();
        let (deliveries, results) = mpsc::unbounded_channel();
        let abort = CancellationToken::new();
        let events = pipeline.events.clone();
        let scheduler = Scheduler::new(
            pipeline,
            turn,
            max_parallel_calls,
            abort.clone(),
            submissions,
            deliveries,
        );
        tokio::spawn(scheduler.run());
        let inbox = Inbox { sender: Some(sender), ids: HashSet::new() };
        Self {
            submitter: Submitter { inbox: Arc::new(Mutex::new(inbox)), abort },
            results,
            events,
            turn,
            ended: false,
        }
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

    /// The next result in the model's order; `None` when the turn is closed and every call has had its result. Cancel-safe.
    pub async fn next_result(&mut self) -> Result<Option<ToolResult>, TurnFault> {
        if self.ended {
            return Ok(None);
        }
        match self.results.recv().await {
            Some(Delivery::Result(result, tool)) => {
                let transition = Transition::Yielded { is_error: result.is_error };
                self.events.emit(self.turn, &result.call_id, &tool, transition);
                Ok(Some(result))
            }
            Some(Delivery::End) => {
                self.ended = true;
                Ok(None)
            }
            Some(Delivery::Fault(fault)) => {
                self.ended = true;
                Err(fault)
            }
            None => {
                self.ended = true;
                Err(TurnFault("it ended without a word".to_owned()))
            }
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
        let mut submission = submission.into();
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let inbox = &mut *inbox;
        let Some(sender) = &inbox.sender else {
            return Err(TurnClosed);
        };
        if let Submission::Call(call) = &submission
            && !inbox.ids.insert(call.id.clone())
        {
            submission = Submission::Broken {
                id: call.id.clone(),
                message: format!(
                    "<tool_use_error>InputValidationError: the id {:?} was used before in this turn, so this call was \
                     not run</tool_use_error>",
                    call.id.0
                ),
            };
        }
        sender.send(submission).map_err(|_| TurnClosed)
    }

    /// No more calls follow.
    pub fn close(&self) {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).sender = None;
    }

    /// Stops the turn: running bodies are cancelled and drained, queued calls never start. Every call still gets its one
    /// result, in order.
    pub fn abort(&self) {
        self.abort.cancel();
    }
}
