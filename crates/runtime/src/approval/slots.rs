use super::{ApprovalRequest, Approver, Decision};
use crate::sync::{Mutex, MutexGuard};
use crate::{CallToken, HookError};
use async_trait::async_trait;
use std::collections::HashMap;
use std::sync::PoisonError;
use tokio::sync::oneshot;

/// For a client in the same process: it hears of a request by its event, finds it among the open [`SlotApprover::questions`], and
/// answers by the call's token. The slot stands before the event is out, so that no answer comes too early.
#[derive(Debug, Default)]
pub struct SlotApprover {
    slots: Mutex<HashMap<CallToken, Open>>,
}

#[derive(Debug)]
struct Open {
    request: ApprovalRequest,
    slot: Slot,
}

#[derive(Debug)]
enum Slot {
    /// The question is not put yet.
    Registered,
    /// Somebody waits for the answer.
    Asked(oneshot::Sender<Decision>),
    /// The answer came between the event and the question: kept for it.
    Answered(Decision),
}

/// Nobody waits for this answer: it was given already, the call is gone, or there was never a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no question of this call is open")]
pub struct AnswerError;

impl SlotApprover {
    /// The questions that wait for an answer, in no order.
    pub fn questions(&self) -> Vec<ApprovalRequest> {
        let slots = self.lock();
        let open = slots.values().filter(|open| !matches!(open.slot, Slot::Answered(_)));
        open.map(|open| open.request.clone()).collect()
    }

    /// Answers. It counts once.
    pub fn answer(&self, call: CallToken, decision: Decision) -> Result<(), AnswerError> {
        let mut slots = self.lock();
        let open = slots.get_mut(&call).ok_or(AnswerError)?;
        match &open.slot {
            Slot::Registered => {
                open.slot = Slot::Answered(decision);
                Ok(())
            }
            Slot::Answered(_) => Err(AnswerError),
            Slot::Asked(_) => match slots.remove(&call).map(|open| open.slot) {
                Some(Slot::Asked(waiting)) => waiting.send(decision).map_err(|_| AnswerError),
                _ => Err(AnswerError),
            },
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallToken, Open>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Approver for SlotApprover {
    fn register(&self, request: &ApprovalRequest) {
        let open = Open { request: request.clone(), slot: Slot::Registered };
        self.lock().insert(request.call.token(), open);
    }

    async fn decide(&self, request: &ApprovalRequest) -> Result<Decision, HookError> {
        let call = request.call.token();
        let answer = {
            let mut slots = self.lock();
            let mut open = slots.remove(&call).ok_or("the question was never registered")?;
            if let Slot::Answered(decision) = open.slot {
                return Ok(decision);
            }
            let (sender, answer) = oneshot::channel();
            open.slot = Slot::Asked(sender);
            slots.insert(call, open);
            answer
        };
        Ok(answer.await.unwrap_or(Decision::Deny { reason: "the client is gone".into() }))
    }

    fn settled(&self, request: &ApprovalRequest, _by: &str) {
        self.lock().remove(&request.call.token());
    }
}
