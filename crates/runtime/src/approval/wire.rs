//! A request and an answer as JSON, for programs and JSON-RPC clients.

use super::{ApprovalReason, ApprovalRequest, Decision};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use stockade_types::Denial;

/// A request, as a program reads it.
pub fn describe(request: &ApprovalRequest) -> Value {
    let reasons: Vec<Value> = request
        .reasons
        .iter()
        .map(|reason| match reason {
            ApprovalReason::Hook { name, question } => json!({"by": "hook", "name": name, "question": question}),
            ApprovalReason::Rule { rule, reason } => json!({"by": "rule", "rule": rule, "question": reason}),
            ApprovalReason::Tool => json!({"by": "tool"}),
            ApprovalReason::Escalation { permissions, justification } => {
                json!({"by": "escalation", "permissions": permissions, "justification": justification})
            }
        })
        .collect();
    // Apart, so that nobody who decides takes the one for the other: a claim comes from a text that the command printed.
    let (evidence, claims): (Vec<&Denial>, Vec<&Denial>) =
        request.evidence.iter().partition(|denial| denial.is_evidence());
    json!({
        "call_id": request.call.id(),
        "tool": request.call.tool(),
        "arguments": request.call.input().value(),
        "reasons": reasons,
        "preview": request.preview,
        "evidence": evidence,
        "claims": claims,
        "may_hold_for_session": request.may_hold_for_session,
        "call_digest": request.call_digest,
        "policy_digest": request.policy_digest,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    decision: Word,
    #[serde(default)]
    scope: Scope,
    expires_in_s: Option<u64>,
    reason: Option<String>,
    /// The digest that was shown: when it is there it must be this call's.
    call_digest: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Allow,
    Deny,
    Stop,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Scope {
    #[default]
    Call,
    Session,
}

/// An answer: `{"decision": "allow", "scope": "session", "expires_in_s": 600}`. Only a definite yes is one.
pub(super) fn decision(answer: &Value, request: &ApprovalRequest, who: &str) -> Decision {
    let answer = match Written::deserialize(answer) {
        Ok(answer) => answer,
        Err(error) => {
            return Decision::Deny {
                reason: format!("{who} gave an answer that cannot be understood: {error}"),
            };
        }
    };
    if answer.call_digest.is_some_and(|digest| digest != request.call_digest) {
        return Decision::Deny { reason: format!("{who} answered for another call") };
    }
    let reason = answer.reason.unwrap_or_else(|| format!("{who} said no"));
    match (answer.decision, answer.scope) {
        (Word::Allow, Scope::Call) => Decision::Allow,
        (Word::Allow, Scope::Session) => {
            Decision::AllowSession { expires_in: answer.expires_in_s.map(Duration::from_secs) }
        }
        (Word::Deny, _) => Decision::Deny { reason },
        (Word::Stop, _) => Decision::Stop { reason },
    }
}
