//! What comes in.

use super::batches::Batches;
use super::dependencies::Unorderable;
use super::{Scheduler, Slot, slot};
use crate::call::QueuedCall;
use crate::events::Transition;
use tokio::sync::mpsc::error::TryRecvError;

impl Scheduler {
    /// Takes a submission, or the end of them, and all that have come in behind it: a turn that is handed over whole is
    /// whole before any of it starts.
    pub(super) fn take_in(&mut self, submission: Option<QueuedCall>) {
        match submission {
            Some(submission) => self.enqueue(submission),
            None => return self.closed(),
        }
        self.take_in_all();
    }

    pub(super) fn take_in_all(&mut self) {
        while self.submissions_open {
            match self.submissions.try_recv() {
                Ok(submission) => self.enqueue(submission),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => return self.closed(),
            }
        }
    }

    fn enqueue(&mut self, mut call: QueuedCall) {
        if self.order.knows(&call.id) {
            call.break_with(&format!(
                "InputValidationError: the id {:?} was used before in this turn, so this call was not run",
                call.id.0
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
            let queue = self.order.queue().into_iter().filter_map(|number| {
                match slot(&self.window, self.first, number) {
                    Some(Slot::Waiting(call)) => Some((number, &**call)),
                    _ => None,
                }
            });
            let batches = Batches::plan(&self.pipeline, queue, self.settings.max_parallel_calls);
            self.batches = Some(batches);
        }
    }
}
