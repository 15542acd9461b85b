//! The answer to a question: how it is got, and what is written down of it.

use super::{Allowed, Wanted, to_value};
use crate::approval::{Answer, ApprovalReason, ApprovalRequest, Decision, race, settled};
use crate::authority::Authority;
use crate::call::QueuedCall;
use crate::caught::caught;
use crate::escalation::{Considered, Scope, recorded_digest};
use crate::events::Transition;
use crate::failure::CallFailure;
use crate::pipeline::Pipeline;
use serde_json::Value;
use std::time::Instant;
use stockade_ledger::{ApproverKind, DecidedBy, Event, GrantEnd, GrantScope, Verdict};
use stockade_types::Refusal;
use tokio_util::sync::CancellationToken;

impl Pipeline {
    pub(super) async fn ask(
        &self,
        queued: &QueuedCall,
        request: &ApprovalRequest,
        cancel: &CancellationToken,
    ) -> Result<Answer, CallFailure> {
        if let Err(panic) = caught(|| self.approver.register(request)) {
            let reason = format!("the approver panicked: {}", panic.0);
            return Err(Refusal { by: "approver".to_owned(), reason }.into());
        }
        self.events.of_call(
            queued,
            Transition::PermissionRequested { request: crate::approval::describe(request) },
        );
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                let hooks = &self.authority.permission_hooks;
                settled(&*self.approver, hooks, request, "a cancellation");
                Err(CallFailure::AbortedBeforeDispatch)
            }
            answer = race(&*self.approver, &self.authority.permission_hooks, request) => Ok(answer),
        }
    }

    /// Writes down who decided what, and the grant that comes of it. Whether it is a yes.
    pub(super) fn record_answer(
        &self,
        queued: &QueuedCall,
        request: &ApprovalRequest,
        wanted: &Option<Wanted>,
        answer: &Answer,
    ) -> Result<Allowed, CallFailure> {
        let authority: &Authority = &self.authority;
        let (decision, reason, scope) = match &answer.decision {
            Decision::Allow => (Verdict::Allow, String::new(), Scope::Call),
            Decision::AllowSession { expires_in } if request.may_hold_for_session => (
                Verdict::Allow,
                "for the session".to_owned(),
                Scope::Session { expires_in: *expires_in },
            ),
            // There is nothing that could hold for longer.
            Decision::AllowSession { .. } => (Verdict::Allow, String::new(), Scope::Call),
            Decision::Deny { reason } | Decision::Stop { reason } => {
                (Verdict::Deny, reason.clone(), Scope::Call)
            }
        };
        let permissions =
            wanted.as_ref().map_or(Value::Null, |wanted| to_value(&wanted.permissions));
        let by =
            if answer.kind == ApproverKind::Hook { DecidedBy::Hook } else { DecidedBy::Approver };
        authority.record(
            queued,
            Event::Decided {
                decision,
                by,
                approver: Some(answer.kind),
                rule: answer.name.clone(),
                reason: [reason, reasons_in_words(request)]
                    .into_iter()
                    .filter(|part| !part.is_empty())
                    .collect::<Vec<_>>()
                    .join("; asked because "),
                policy_digest: request.policy_digest.clone(),
                permissions: permissions.clone(),
            },
        )?;
        if decision != Verdict::Allow {
            return Ok(Allowed::No);
        }
        let Some(wanted) = wanted.as_ref().filter(|wanted| wanted.considered.held_by.is_empty())
        else {
            return Ok(Allowed::Yes);
        };
        let Considered { grants, always_ask, .. } = &wanted.considered;
        let given = authority.escalation.grants.give(
            &self.policy_digest,
            grants,
            scope,
            *always_ask,
            answer.kind,
            Instant::now(),
        );
        let for_session = matches!(given.scope, Scope::Session { .. });
        let recorded = authority.record(
            queued,
            Event::Granted {
                grant: given.id.clone(),
                permissions,
                scope: if for_session { GrantScope::Session } else { GrantScope::Call },
                policy_digest: self.policy_digest.to_string(),
                call_digest: recorded_digest(request.call.tool(), request.call.input().value()),
                expires: given.expires,
                approver: answer.kind,
            },
        );
        let recorded = recorded.and_then(|()| {
            let policy_digest = request.policy_digest.clone();
            authority
                .record(queued, Event::GrantUsed { grant: given.id.clone(), policy_digest })?;
            if for_session {
                Ok(())
            } else {
                authority.record(
                    queued,
                    Event::GrantEnded { grant: given.id.clone(), how: GrantEnd::Used },
                )
            }
        });
        if let Err(failure) = recorded {
            // A grant that is not in the ledger was never given.
            authority.escalation.grants.revoke(&given.id);
            return Err(failure);
        }
        Ok(if for_session { Allowed::Under(given.id) } else { Allowed::Yes })
    }
}

fn reasons_in_words(request: &ApprovalRequest) -> String {
    let words = request.reasons.iter().map(|reason| match reason {
        ApprovalReason::Hook { name, question } => format!("the hook {name} asks: {question}"),
        ApprovalReason::Rule { rule, reason } if rule.is_empty() => reason.clone(),
        ApprovalReason::Rule { rule, .. } => format!("the rule {rule} asks"),
        ApprovalReason::Tool => "the tool asks".to_owned(),
        ApprovalReason::Escalation { .. } => "it wants more than the policy".to_owned(),
    });
    words.collect::<Vec<_>>().join("; ")
}
