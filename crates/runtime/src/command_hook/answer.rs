use super::When;
use serde::Deserialize;
use serde_json::Value;
use stockade_rules::json::unique;

/// What a hook command answered.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// `allow`, `deny` or `ask`; of a result, `deny` blocks it.
    pub(super) verdict: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) context: Vec<String>,
    /// The turn is to stop.
    pub(super) stop: bool,
}

/// Something that a hook may not say, or that nobody understands.
#[derive(Debug, thiserror::Error)]
#[error("the hook's answer is not understood: {0}")]
pub(super) struct NotUnderstood(String);

/// The JSON on stdout.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    r#continue: Option<bool>,
    stop_reason: Option<String>,
    #[serde(rename = "suppressOutput")]
    _suppress_output: Option<bool>,
    system_message: Option<String>,
    decision: Option<String>,
    reason: Option<String>,
    hook_specific_output: Option<Specific>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Specific {
    hook_event_name: String,
    permission_decision: Option<String>,
    permission_decision_reason: Option<String>,
    additional_context: Option<String>,
    /// To a question of permission.
    decision: Option<Permission>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Permission {
    behavior: Behavior,
    message: Option<String>,
    #[serde(default)]
    interrupt: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Behavior {
    Allow,
    Deny,
}

/// Of two answers in one, the one that allows less.
fn stricter(one: Option<String>, other: Option<String>) -> Option<String> {
    let rank = |word: &str| match word {
        "allow" => 0,
        "ask" => 1,
        _ => 2,
    };
    one.into_iter().chain(other).max_by_key(|word| rank(word))
}

impl Answer {
    pub(super) fn refusal(reason: String) -> Self {
        Self { verdict: Some("deny".to_owned()), reason: Some(reason), ..Self::default() }
    }

    /// Reads what a command that ended with 0 wrote: nothing, or one JSON object. Anything else is no answer, though it may hold one: a
    /// line before the object must not make a "deny" of it disappear. What is for people belongs on stderr.
    pub(super) fn parse(stdout: &[u8], when: When) -> Result<Self, NotUnderstood> {
        if stdout.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        if stdout.trim_ascii_start().first() != Some(&b'{') {
            return Err(NotUnderstood("its stdout is neither empty nor a JSON object".into()));
        }
        let not_understood = |error: serde_json::Error| NotUnderstood(error.to_string());
        let written = unique(stdout).map_err(not_understood)?;
        // A list would be taken for the fields in their order.
        let specific = written.get("hookSpecificOutput");
        let decision = specific.and_then(|specific| specific.get("decision"));
        if [specific, decision].into_iter().flatten().any(Value::is_array) {
            return Err(NotUnderstood("there is a list where an object should be".into()));
        }
        let written = Written::deserialize(written).map_err(not_understood)?;
        if let Some(message) = &written.system_message {
            tracing::warn!(hook = when.name(), "{message}");
        }
        let stop = written.r#continue == Some(false);
        let mut answer = Self { stop, reason: written.reason, ..Self::default() };
        if stop {
            answer.reason = written.stop_reason.or(answer.reason);
        }
        answer.verdict = match (written.decision.as_deref(), when) {
            (None, _) => None,
            (Some("block"), _) => Some("deny".to_owned()),
            (Some("approve"), When::PreToolUse) => Some("allow".to_owned()),
            (Some(other), _) => return Err(NotUnderstood(format!("decision {other:?}"))),
        };
        if let Some(specific) = written.hook_specific_output {
            if specific.hook_event_name != when.name() {
                let name = specific.hook_event_name;
                return Err(NotUnderstood(format!("it answers {name:?} to {:?}", when.name())));
            }
            match (specific.permission_decision.as_deref(), when) {
                (None, _) => {}
                (Some("allow" | "deny" | "ask"), When::PreToolUse) => {
                    answer.verdict = stricter(answer.verdict, specific.permission_decision);
                    answer.reason = specific.permission_decision_reason.or(answer.reason);
                }
                (Some(other), _) => {
                    return Err(NotUnderstood(format!("permissionDecision {other:?}")));
                }
            }
            match (specific.decision, when) {
                (None, _) => {}
                (Some(decision), When::PermissionRequest) => {
                    let word = match decision.behavior {
                        Behavior::Allow => "allow",
                        Behavior::Deny => "deny",
                    };
                    answer.verdict = stricter(answer.verdict, Some(word.to_owned()));
                    answer.reason = decision.message.or(answer.reason);
                    answer.stop |= decision.interrupt;
                }
                (Some(_), _) => {
                    return Err(NotUnderstood(format!("a decision to {:?}", when.name())));
                }
            }
            answer.context.extend(specific.additional_context);
        }
        Ok(answer)
    }
}
