use super::When;
use serde::Deserialize;
use serde_json::Value;
use std::cmp::Ordering;
use stockade_rules::json::unique;

/// What a hook command answered.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// `allow`, `deny` or `ask`; of a result, `deny` blocks it.
    pub(super) verdict: Option<String>,
    /// The verdict's own.
    pub(super) reason: Option<String>,
    pub(super) context: Vec<String>,
    /// The turn is to stop.
    pub(super) stop: bool,
    pub(super) stop_reason: Option<String>,
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

/// Two reasons in one text.
fn both(one: Option<String>, other: Option<String>) -> Option<String> {
    let mut said: Vec<String> = one.into_iter().chain(other).collect();
    said.retain(|reason| !reason.trim().is_empty());
    said.dedup();
    if said.is_empty() { None } else { Some(said.join("; ")) }
}

impl Answer {
    pub(super) fn refusal(reason: String) -> Self {
        Self { verdict: Some("deny".to_owned()), reason: Some(reason), ..Self::default() }
    }

    /// Of two verdicts in one answer the one counts that allows less, with its own reason; of two alike both reasons do.
    fn says(&mut self, word: Option<&str>, reason: Option<String>) {
        let rank = |word: Option<&str>| match word {
            None => 0,
            Some("allow") => 1,
            Some("ask") => 2,
            Some(_) => 3,
        };
        match rank(word).cmp(&rank(self.verdict.as_deref())) {
            Ordering::Less => {}
            Ordering::Equal => self.reason = both(self.reason.take(), reason),
            Ordering::Greater => {
                let to_nothing = self.reason.take().filter(|_| self.verdict.is_none());
                self.verdict = word.map(str::to_owned);
                self.reason = reason.or(to_nothing);
            }
        }
    }

    /// Why something is refused: what blocks it, and what stops the turn.
    pub(super) fn why(&self) -> Option<String> {
        let blocks = self.reason.clone().filter(|_| self.verdict.as_deref() == Some("deny"));
        match both(blocks, self.stop_reason.clone().filter(|_| self.stop)) {
            None if self.stop && self.verdict.is_none() => self.reason.clone(),
            why => why,
        }
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
        let mut answer = Self {
            stop: written.r#continue == Some(false),
            stop_reason: written.stop_reason,
            ..Self::default()
        };
        let word = match (written.decision.as_deref(), when) {
            (None, _) => None,
            (Some("block"), _) => Some("deny"),
            (Some("approve"), When::PreToolUse) => Some("allow"),
            (Some(other), _) => return Err(NotUnderstood(format!("decision {other:?}"))),
        };
        answer.says(word, written.reason);
        if let Some(specific) = written.hook_specific_output {
            if specific.hook_event_name != when.name() {
                let name = specific.hook_event_name;
                return Err(NotUnderstood(format!("it answers {name:?} to {:?}", when.name())));
            }
            let word = match (specific.permission_decision.as_deref(), when) {
                (None, _) => None,
                (Some(word @ ("allow" | "deny" | "ask")), When::PreToolUse) => Some(word),
                (Some(other), _) => {
                    return Err(NotUnderstood(format!("permissionDecision {other:?}")));
                }
            };
            answer.says(word, specific.permission_decision_reason);
            match (specific.decision, when) {
                (None, _) => {}
                (Some(decision), When::PermissionRequest) => {
                    let word = match decision.behavior {
                        Behavior::Allow => "allow",
                        Behavior::Deny => "deny",
                    };
                    answer.says(Some(word), decision.message);
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
