//! All that decides what a session's calls may do, and the ledger in which every decision is written down.

use crate::approval::PermissionHook;
use crate::call::{EndedCall, QueuedCall};
use crate::denied::{Confined, DeniedPaths};
use crate::escalation::{self, Escalation};
use crate::failure::CallFailure;
use crate::links::{HostLinks, LinkedRules, resolved};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use stockade_ledger::{DecidedBy, Entry, Event, GrantEnd, Ledger, Verdict};
use stockade_policy::Policy;
use stockade_rules::{Opinion, RuleScope, Verdict as RuleVerdict};
use stockade_tools::{DenialsFn, FrozenInput};
use stockade_types::{Outcome, Refusal, SessionId, ToolResult};

/// See the module.
pub(crate) struct Authority {
    pub(crate) rules: LinkedRules,
    pub(crate) scope: RuleScope,
    pub(crate) denied: DeniedPaths,
    pub(crate) escalation: Escalation,
    pub(crate) permission_hooks: Vec<Arc<dyn PermissionHook>>,
    pub(crate) ledger: Option<(Arc<Ledger>, SessionId)>,
}

impl Authority {
    /// What the permission rules say of a call.
    pub(crate) fn opinion(&self, tool: &str, input: &FrozenInput) -> Option<Opinion> {
        if self.rules.is_empty() {
            return None;
        }
        let rules = self.rules.now();
        let written =
            rules.judge_following(tool, input.value(), &self.scope, &HostLinks::default());
        if tool == "Bash"
            && written.as_ref().is_none_or(|opinion| opinion.verdict == RuleVerdict::Allow)
            && let Some(line) = input.value().get("command").and_then(Value::as_str)
            && stockade_rules::shell::shows_worktree(line)
            && let Some(rule) = self.denied.tracked()
        {
            let reason = "git may show what it holds of a file that this rule denies".to_owned();
            return Some(Opinion { verdict: RuleVerdict::Ask, rule: Some(rule), reason });
        }
        // A link may lead to what a rule forbids: the stricter answer counts, by the path as written and by where it leads.
        let Some(led) = led(tool, input.value()) else { return written };
        let scope = RuleScope {
            workspace: resolved(&self.scope.workspace),
            home: self.scope.home.as_deref().map(resolved),
        };
        let led = rules.judge(tool, &led, &scope);
        let strictness = |opinion: &Option<Opinion>| match opinion.as_ref().map(|o| o.verdict) {
            Some(RuleVerdict::Allow) => 0,
            None => 1,
            Some(RuleVerdict::Ask) => 2,
            Some(RuleVerdict::Deny) => 3,
        };
        if strictness(&led) > strictness(&written) { led } else { written }
    }

    /// The policy under which a call may run before anything is granted: the session's, without what the rules deny.
    pub(crate) fn confine(&self, policy: &Arc<Policy>) -> Result<Confined, Refusal> {
        self.denied.confine(policy, &self.escalation.variables)
    }

    /// Writes a record of a call. A call that needs one which cannot be written is refused.
    pub(crate) fn record(&self, call: &QueuedCall, event: Event) -> Result<(), CallFailure> {
        let Some((ledger, session)) = &self.ledger else { return Ok(()) };
        let entry = Entry {
            session: Some(session.clone()),
            turn: Some(call.turn),
            call: Some(call.id.clone()),
            tool: Some(call.name.clone()),
            event,
        };
        ledger
            .append(&entry)
            .map(|_| ())
            .map_err(|error| CallFailure::NotInLedger(error.to_string()))
    }

    /// What was denied to a task, when it has ended: the records belong to the call that started it (spec 9.2). That call has had its result,
    /// so what cannot be written is told.
    pub(crate) fn late_denials(self: &Arc<Self>, call: &QueuedCall) -> DenialsFn {
        let authority = Arc::clone(self);
        let (turn, id, name) = (call.turn, call.id.clone(), call.name.clone());
        Arc::new(move |denials| {
            let Some((ledger, session)) = &authority.ledger else { return };
            for denial in denials {
                let entry = Entry {
                    session: Some(session.clone()),
                    turn: Some(turn),
                    call: Some(id.clone()),
                    tool: Some(name.clone()),
                    event: Event::SandboxDenied { denial: denial.clone(), decision: Verdict::Deny },
                };
                if let Err(error) = ledger.append(&entry) {
                    tracing::warn!(%error, "a denial could not be written to the ledger");
                }
            }
        })
    }

    /// Writes a record of the session. Nobody can be refused any more: what fails is told.
    pub(crate) fn note(&self, event: Event) {
        let Some((ledger, session)) = &self.ledger else { return };
        let entry = Entry { session: Some(session.clone()), ..Entry::of(event) };
        if let Err(error) = ledger.append(&entry) {
            tracing::warn!(%error, "a record could not be written to the ledger");
        }
    }

    pub(crate) fn requested(&self, call: &QueuedCall) -> Result<(), CallFailure> {
        if self.ledger.is_none() {
            return Ok(());
        }
        let arguments_sha256 = escalation::recorded_digest(&call.name, &call.arguments);
        self.record(
            call,
            Event::CallRequested { arguments: call.arguments.clone(), arguments_sha256 },
        )
    }

    /// A decision that no approver made.
    pub(crate) fn decided(
        &self,
        call: &QueuedCall,
        decision: Verdict,
        by: DecidedBy,
        rule: String,
        reason: String,
        policy_digest: String,
    ) -> Result<(), CallFailure> {
        let (approver, permissions) = (None, Value::Null);
        self.record(
            call,
            Event::Decided { decision, by, approver, rule, reason, policy_digest, permissions },
        )
    }

    /// A refusal by a hook or a guard, which come before permission.
    pub(crate) fn refused_early(&self, call: &QueuedCall, refusal: &Refusal) {
        let (by, rule) = match refusal.by.split_once(' ') {
            Some(("hook", name)) => (DecidedBy::Hook, name),
            Some(("guard", name)) => (DecidedBy::Guard, name),
            _ => return,
        };
        let recorded = self.decided(
            call,
            Verdict::Deny,
            by,
            rule.to_owned(),
            refusal.reason.clone(),
            String::new(),
        );
        if let Err(error) = recorded {
            tracing::warn!(%error, "a refusal could not be written to the ledger");
        }
    }

    /// A call's end, and everything that was denied to it while it ran.
    pub(crate) fn ended(&self, ended: &EndedCall, result: &ToolResult) -> Result<(), CallFailure> {
        let EndedCall { trace, outcome, .. } = ended;
        if self.ledger.is_none() || matches!(outcome, Err(CallFailure::NotInLedger(_))) {
            return Ok(());
        }
        let call = &trace.queued;
        for denial in ended.denials() {
            self.record(
                call,
                Event::SandboxDenied { denial: denial.clone(), decision: Verdict::Deny },
            )?;
        }
        let (outcome, failure) = match outcome {
            Ok(output) => (output.report.outcome.as_ref(), None),
            Err(failure) => (None, Some(failure)),
        };
        let took_ms = u64::try_from(trace.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (name, exit_code) = match (outcome, failure) {
            (Some(Outcome::Exited { code }), _) => ("exited", Some(*code)),
            (Some(outcome), _) => (outcome_name(outcome), None),
            (
                None,
                Some(
                    CallFailure::Refused(_) | CallFailure::Stopped(_) | CallFailure::NotInLedger(_),
                ),
            ) => ("refused", None),
            (None, Some(failure)) if failure.is_cancellation() => ("cancelled", None),
            (None, _) => (if result.is_error { "error" } else { "ok" }, None),
        };
        let message = failure
            .map(|failure| failure.to_string().chars().take(300).collect())
            .unwrap_or_default();
        self.record(
            call,
            Event::CallEnded {
                outcome: name.to_owned(),
                is_error: result.is_error,
                exit_code,
                policy_digest: trace.policy_digest.to_string(),
                took_ms: Some(took_ms),
                message,
            },
        )
    }

    /// Takes a grant of the session back.
    pub(crate) fn revoke(&self, id: &str) -> bool {
        let revoked = self.escalation.grants.revoke(id);
        if revoked {
            self.note(Event::GrantEnded { grant: id.to_owned(), how: GrantEnd::Revoked });
        }
        revoked
    }

    /// Writes down which grants have come to their end by themselves.
    pub(crate) fn expire(&self, now: Instant) {
        for grant in self.escalation.grants.expire(now) {
            self.note(Event::GrantEnded { grant, how: GrantEnd::Expired });
        }
    }

    /// The session is over.
    pub(crate) fn end(&self, calls: u64, reason: &str) {
        for (grant, how) in self.escalation.grants.end(Instant::now()) {
            self.note(Event::GrantEnded { grant, how });
        }
        self.note(Event::SessionEnded { calls, reason: reason.to_owned() });
        if let Some((ledger, _)) = &self.ledger
            && let Err(error) = ledger.checkpoint()
        {
            tracing::warn!(%error, "the ledger's head could not be signed");
        }
    }
}

/// The arguments of a file tool's call with its path as links lead it; `None` where no link is on the way. The host is asked, whose tree the
/// call sees, whatever else it does not.
fn led(tool: &str, arguments: &Value) -> Option<Value> {
    if tool == "Bash" {
        return None;
    }
    let key = ["file_path", "notebook_path", "path"]
        .into_iter()
        .find(|key| arguments.get(key).is_some_and(Value::is_string))?;
    let written = Path::new(arguments.get(key)?.as_str()?);
    let led = resolved(written);
    if led == written {
        return None;
    }
    let mut arguments = arguments.clone();
    *arguments.get_mut(key)? = led.to_str()?.into();
    Some(arguments)
}

fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Exited { .. } => "exited",
        Outcome::Signaled { .. } => "signaled",
        Outcome::TimedOut { .. } => "timed_out",
        Outcome::LimitExceeded { .. } => "limit_exceeded",
        Outcome::Cancelled { .. } => "cancelled",
        Outcome::SetupFailed(_) => "setup_failed",
        Outcome::NotExecutable { .. } => "not_executable",
        Outcome::Refused(_) => "refused",
        Outcome::Lost { .. } => "lost",
    }
}
