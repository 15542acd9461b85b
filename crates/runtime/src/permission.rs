//! Permission and approval: the last step of `prepare` (spec 2.3, 2.6, 7). Everything that decides whether a call may run
//! under which policy is reached from [`Pipeline::permission`].

use crate::approval::{ApprovalReason, ApprovalRequest, Decision};
use crate::call::PreparedCall;
use crate::caught::{Panic, caught, caught_async};
use crate::escalation;
use crate::failure::CallFailure;
use crate::hooks::ChainVerdict;
use crate::pipeline::{Pipeline, panicked};
use std::sync::Arc;
use stockade_policy::Policy;
use stockade_tools::{ApprovalNeed, FrozenInput, RegisteredTool};
use stockade_types::Refusal;
use tokio_util::sync::CancellationToken;

/// A call may run.
pub(crate) struct Permitted {
    /// The policy under which it runs: the session's, or what was granted on top of it.
    pub(crate) policy: Arc<Policy>,
}

impl Pipeline {
    /// Decides whether the call may run, asking whoever must be asked. [`CallFailure::AbortedBeforeDispatch`] when the call
    /// is cancelled meanwhile, [`CallFailure::Stopped`] when the answer is no and ends the turn.
    pub(crate) async fn permission(
        &self,
        tool: &RegisteredTool,
        call: &Arc<PreparedCall>,
        hooks: ChainVerdict,
        cancel: &CancellationToken,
    ) -> Result<Permitted, CallFailure> {
        let (reasons, policy) = self.reasons_to_ask(tool, call, hooks)?;
        if !reasons.is_empty() {
            let request = ApprovalRequest { call: Arc::clone(call), reasons };
            self.approval(&request, cancel).await?;
        }
        Ok(Permitted { policy })
    }

    /// Whether a call with this input is sure to run without anybody being asked (spec 1.19). A hook may still ask.
    pub(crate) fn asks_nobody(&self, tool: &RegisteredTool, input: &FrozenInput) -> bool {
        tool.tool().approval(input) == ApprovalNeed::None && matches!(input.escalation(), Ok(None))
    }

    /// Why the call must be approved, if it must, and the policy under which it runs.
    fn reasons_to_ask(
        &self,
        tool: &RegisteredTool,
        call: &PreparedCall,
        hooks: ChainVerdict,
    ) -> Result<(Vec<ApprovalReason>, Arc<Policy>), CallFailure> {
        let mut reasons: Vec<_> = hooks
            .asks
            .into_iter()
            .map(|(name, question)| ApprovalReason::Hook { name, question })
            .collect();
        let need =
            caught(|| tool.tool().approval(call.input())).map_err(|panic| panicked(tool, panic))?;
        match need {
            ApprovalNeed::None => {}
            ApprovalNeed::Ask if hooks.allowed && reasons.is_empty() => {}
            ApprovalNeed::Ask | ApprovalNeed::AlwaysAsk => reasons.push(ApprovalReason::Tool),
        }
        let Some((permissions, justification)) = call.input().escalation()? else {
            return Ok((reasons, Arc::clone(&self.policy)));
        };
        let policy = escalation::widen(&self.policy, &permissions)?;
        reasons.push(ApprovalReason::Escalation { permissions, justification });
        Ok((reasons, Arc::new(policy)))
    }

    async fn approval(
        &self,
        request: &ApprovalRequest,
        cancel: &CancellationToken,
    ) -> Result<(), CallFailure> {
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(CallFailure::AbortedBeforeDispatch),
            answer = caught_async(self.approver.decide(request)) => answer,
        };
        let refused = |reason| Refusal { by: "approver".to_owned(), reason };
        Err(match answer {
            Ok(Ok(Decision::Allow)) => return Ok(()),
            Ok(Ok(Decision::Deny { reason })) => refused(reason).into(),
            Ok(Ok(Decision::Stop { reason })) => CallFailure::Stopped(refused(reason)),
            Ok(Err(error)) => refused(format!("the approver failed: {error}")).into(),
            Err(Panic(message)) => refused(format!("the approver panicked: {message}")).into(),
        })
    }
}
