use super::{ApprovalReason, ApprovalRequest, Approver, ApproverKind, Decision};
use crate::HookError;
use async_trait::async_trait;

/// Grants what lies within the session's ceiling, which was held against the request before anybody is asked. It answers nothing else:
/// what a rule, a hook or a tool asks needs a person.
#[derive(Clone, Copy, Debug, Default)]
pub struct CeilingApprover;

#[async_trait]
impl Approver for CeilingApprover {
    async fn decide(&self, request: &ApprovalRequest) -> Result<Decision, HookError> {
        let other = request
            .reasons
            .iter()
            .find(|reason| !matches!(reason, ApprovalReason::Escalation { .. }));
        if let Some(reason) = other {
            let what = match reason {
                ApprovalReason::Hook { name, question } => {
                    format!("the hook {name} asks: {question}")
                }
                ApprovalReason::Rule { rule, reason } => format!("a rule asks: {rule}{reason}"),
                _ => "the tool asks for approval".to_owned(),
            };
            return Ok(Decision::Deny {
                reason: format!("the ceiling decides on permissions alone, and {what}"),
            });
        }
        if !request.may_hold_for_session {
            return Ok(Decision::Deny { reason: "the policy says that this must be asked for each time, and nobody is there to ask".into() });
        }
        Ok(Decision::Allow)
    }

    fn kind(&self) -> ApproverKind {
        ApproverKind::Ceiling
    }
}
