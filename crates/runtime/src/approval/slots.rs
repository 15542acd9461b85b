use super::{ApprovalRequest, Approver, Decision};
use crate::{CallToken, HookError};
use async_trait::async_trait;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tokio::sync::oneshot;

/// For a client in the same process: it hears of a request by its event, and answers by the call's token. The slot stands before the
/// event is out, so that no answer comes too early.
#[derive(Debug, Default)]
pub struct SlotApprover {
    slots: Mutex<HashMap<CallToken, Slot>>,
}

/// Where an answer goes in, and where it comes out until the question is put.
type Slot = (oneshot::Sender<Decision>, Option<oneshot::Receiver<Decision>>);

/// Nobody waits for this answer: it was given already, the call is gone, or there was never a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no question of this call is open")]
pub struct AnswerError;

impl SlotApprover {
    /// Answers. It counts once.
    pub fn answer(&self, call: CallToken, decision: Decision) -> Result<(), AnswerError> {
        let slot = self.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(&call);
        let (sender, early) = slot.ok_or(AnswerError)?;
        match early {
            // Answered between the event and the question: kept for it.
            Some(receiver) => {
                sender.send(decision).map_err(|_| AnswerError)?;
                let (spent, _) = oneshot::channel();
                self.slots
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(call, (spent, Some(receiver)));
                Ok(())
            }
            None => sender.send(decision).map_err(|_| AnswerError),
        }
    }
}

#[async_trait]
impl Approver for SlotApprover {
    fn register(&self, request: &ApprovalRequest) {
        let (sender, receiver) = oneshot::channel();
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.insert(request.call.token(), (sender, Some(receiver)));
    }

    async fn decide(&self, request: &ApprovalRequest) -> Result<Decision, HookError> {
        let receiver = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.get_mut(&request.call.token()).and_then(|(_, receiver)| receiver.take())
        };
        let receiver = receiver.ok_or("the question was never registered")?;
        let answer = receiver.await;
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(&request.call.token());
        Ok(answer.unwrap_or(Decision::Deny { reason: "the client is gone".into() }))
    }

    fn settled(&self, request: &ApprovalRequest, _by: &str) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(&request.call.token());
    }
}
