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
        // Not there where no link is on its path.
        "leads_to": request.leads_to.as_ref().map(|path| path.display().to_string()),
        "evidence": evidence,
        "claims": claims,
        "may_hold_for_session": request.may_hold_for_session,
        // To every later call of the session, whatever it runs.
        "granted_to_session": request.granted_to_session,
        "call_digest": request.call_digest,
        "policy_digest": request.policy_digest,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    decision: String,
    scope: Option<String>,
    expires_in_s: Option<u64>,
    reason: Option<String>,
    /// The digest that was shown: when it is there it must be this call's.
    call_digest: Option<String>,
}

/// An answer: `{"decision": "allow", "scope": "session", "expires_in_s": 600}`. Only a definite yes is one: an object, each of whose keys and
/// words is known, and fits the others.
pub(super) fn decision(answer: &Value, request: &ApprovalRequest, who: &str) -> Decision {
    understood(answer, request, who).unwrap_or_else(|problem| Decision::Deny {
        reason: format!("{who} gave an answer that cannot be understood: {problem}"),
    })
}

fn understood(answer: &Value, request: &ApprovalRequest, who: &str) -> Result<Decision, String> {
    // A list would be taken for the fields in their order.
    if !answer.is_object() {
        return Err("it is no object".to_owned());
    }
    let answer = Written::deserialize(answer).map_err(|error| error.to_string())?;
    if answer.call_digest.is_some_and(|digest| digest != request.call_digest) {
        return Ok(Decision::Deny { reason: format!("{who} answered for another call") });
    }
    let reason = answer.reason.unwrap_or_else(|| format!("{who} said no"));
    match (answer.decision.as_str(), answer.scope.as_deref(), answer.expires_in_s) {
        ("deny", None | Some("call" | "session"), _) => Ok(Decision::Deny { reason }),
        ("stop", None | Some("call" | "session"), _) => Ok(Decision::Stop { reason }),
        ("allow", None | Some("call"), None) => Ok(Decision::Allow),
        ("allow", None | Some("call"), Some(_)) => {
            Err("expires_in_s is for the scope \"session\"; what is allowed to a call ends with it"
                .to_owned())
        }
        ("allow", Some("session"), Some(0)) => {
            Err("expires_in_s is 0: it would be over before it began".to_owned())
        }
        ("allow", Some("session"), time) => {
            Ok(Decision::AllowSession { expires_in: time.map(Duration::from_secs) })
        }
        (decision, None | Some("call" | "session"), _) => {
            Err(format!("the decision {decision:?} (known: allow, deny, stop)"))
        }
        (_, Some(scope), _) => Err(format!("the scope {scope:?} (known: call, session)")),
    }
}
