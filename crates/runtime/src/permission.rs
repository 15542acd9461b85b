//! Permission and approval: the last step of `prepare` (spec 2.3, 2.5, 2.6, 7). Everything that decides whether a call may run
//! under which policy is reached from [`Pipeline::permission`]. Nothing is decided that is not in the ledger first.

mod answer;
mod place;

use crate::approval::{ApprovalReason, ApprovalRequest, Decision};
use crate::authority::Authority;
use crate::call::{PreparedCall, QueuedCall};
use crate::caught::{caught, caught_async};
use crate::denied::Confined;
use crate::escalation::{Considered, Lease, call_digest};
use crate::failure::{CallFailure, given};
use crate::hooks::ChainVerdict;
use crate::links::resolved;
use crate::pipeline::{Pipeline, panicked};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use stockade_ledger::{DecidedBy, Event, Verdict};
use stockade_policy::{Grant, Policy};
use stockade_rules::Verdict as RuleVerdict;
use stockade_sandbox::SandboxError;
use stockade_sandbox::file::Place;
use stockade_tools::{
    ApprovalNeed, CallContext, Display, FrozenInput, RegisteredTool, SandboxPermissions,
};
use stockade_types::Refusal;

/// A call may run.
pub(crate) struct Permitted {
    /// The policy under which it runs: the session's without what rules deny, or what was granted on top of it.
    pub(crate) policy: Arc<Policy>,
    /// That policy's digest.
    pub(crate) digest: Arc<str>,
    /// For how long.
    pub(crate) lease: Lease,
    /// Where its path led when somebody was asked about it.
    pub(crate) place: Option<Box<Place>>,
}

/// What is to be decided about one call.
struct Question {
    reasons: Vec<ApprovalReason>,
    /// What it asks for beyond the policy.
    wanted: Option<Wanted>,
    /// Whether the tool itself is the only one that asks, so that it may also be the one that allows.
    tool_alone: bool,
    /// The rule that allows it.
    allowed_by: Option<String>,
}

/// What an answer comes to.
enum Allowed {
    No,
    Yes,
    /// Yes, and for as long as this grant of the session is alive.
    Under(String),
}

struct Wanted {
    permissions: SandboxPermissions,
    considered: Considered,
}

impl Pipeline {
    /// Decides whether the call may run, asking whoever must be asked. [`CallFailure::AbortedBeforeDispatch`] when the call
    /// is cancelled meanwhile, [`CallFailure::Stopped`] when the answer is no and ends the turn.
    pub(crate) async fn permission(
        &self,
        queued: &QueuedCall,
        tool: &RegisteredTool,
        call: &Arc<PreparedCall>,
        hooks: ChainVerdict,
        context: impl FnOnce(&Arc<Policy>) -> CallContext,
    ) -> Result<Permitted, CallFailure> {
        let authority = &*self.authority;
        authority.expire(Instant::now());
        let asked =
            self.authority.confine(&self.policy).map_err(CallFailure::from).and_then(|confined| {
                Ok((self.question(queued, tool, call, hooks, &confined)?, confined))
            });
        let (question, confined) = match asked {
            Err(CallFailure::Refused(refusal)) => {
                let by = if refusal.by == "rule" { DecidedBy::Rule } else { DecidedBy::Escalation };
                let digest = self.policy_digest.to_string();
                let permissions = asked_for(call);
                let (approver, rule) = (None, String::new());
                let reason = refusal.reason.clone();
                authority.record(
                    queued,
                    Event::Decided {
                        decision: Verdict::Deny,
                        by,
                        approver,
                        rule,
                        reason,
                        policy_digest: digest,
                        permissions,
                    },
                )?;
                return Err(refusal.into());
            }
            other => other?,
        };
        let run = match &question.wanted {
            Some(Wanted { considered, .. }) => Permitted {
                digest: considered.policy.digest().into(),
                policy: Arc::clone(&considered.policy),
                lease: self.authority.escalation.grants.lease(&considered.held_by),
                place: None,
            },
            None => Permitted {
                digest: confined.digest.unwrap_or_else(|| Arc::clone(&self.policy_digest)),
                policy: Arc::clone(&confined.policy),
                lease: Lease::default(),
                place: None,
            },
        };
        if question.reasons.is_empty() {
            self.allowed_without_asking(queued, &question, &run.digest)?;
            return Ok(run);
        }
        let context = context(&confined.policy);
        // In a box, or the task of every call would have room for it.
        Box::pin(self.permission_asked(queued, tool, call, question, run, context)).await
    }

    /// Asks whoever must be asked.
    async fn permission_asked(
        &self,
        queued: &QueuedCall,
        tool: &RegisteredTool,
        call: &Arc<PreparedCall>,
        question: Question,
        run: Permitted,
        context: CallContext,
    ) -> Result<Permitted, CallFailure> {
        let authority = &*self.authority;
        // Before anybody looks: what is shown is what the place holds, or the call is refused.
        let place =
            place::of(tool, call.input(), &context, &run.policy, &authority.escalation.variables);
        let place = place.await.map(Box::new);
        let run = Permitted { place, ..run };
        let mut preview = None;
        if question.reasons.iter().any(|reason| {
            matches!(
                reason,
                ApprovalReason::Tool
                    | ApprovalReason::Escalation { .. }
                    | ApprovalReason::Rule { .. }
            )
        }) {
            // Should the preview fail, the question is asked all the same, without it (spec 2.6).
            let prepared =
                caught_async(async { tool.tool().prepare_approval(call.input(), &context).await })
                    .await;
            // An error of somebody else's is not only dropped: that may panic.
            let prepared = prepared.map(|said| said.map_err(CallFailure::of_tool));
            if let Ok(Ok(prepared)) = prepared {
                if prepared.allow && question.tool_alone {
                    let reason = "the tool found that this call needs no approval".to_owned();
                    authority.decided(
                        queued,
                        Verdict::Allow,
                        DecidedBy::Tool,
                        String::new(),
                        reason,
                        run.digest.to_string(),
                    )?;
                    return Ok(run);
                }
                preview = prepared.preview.map(Display::limited);
            }
        }
        let granted_to_session = match &question.wanted {
            Some(Wanted { considered, .. })
                if !considered.always_ask && considered.held_by.is_empty() =>
            {
                considered.grants.iter().map(ToString::to_string).collect()
            }
            _ => Vec::new(),
        };
        let leads_to = run.place.as_ref().filter(|place| place.path != place.written);
        let request = ApprovalRequest {
            leads_to: leads_to.map(|place| place.path.as_path().to_owned()),
            call: Arc::clone(call),
            reasons: question.reasons,
            preview,
            evidence: question
                .wanted
                .as_ref()
                .map(|wanted| wanted.considered.evidence.clone())
                .unwrap_or_default(),
            may_hold_for_session: !granted_to_session.is_empty(),
            granted_to_session,
            call_digest: call_digest(call),
            policy_digest: run.digest.to_string(),
        };
        let answer = self.ask(queued, &request, &context.cancel).await?;
        let allowed = self.record_answer(queued, &request, &question.wanted, &answer)?;
        let run = match &allowed {
            Allowed::Under(grant) => {
                let lease = self.authority.escalation.grants.lease(std::slice::from_ref(grant));
                Permitted { lease, ..run }
            }
            _ => run,
        };
        let allowed = !matches!(allowed, Allowed::No);
        match answer.decision {
            Decision::Allow | Decision::AllowSession { .. } if allowed => Ok(run),
            Decision::Stop { reason } => {
                let reason = given(reason);
                Err(CallFailure::Stopped(Refusal { by: "approver".to_owned(), reason }))
            }
            Decision::Deny { reason } => {
                Err(Refusal { by: "approver".to_owned(), reason: given(reason) }.into())
            }
            _ => Err(Refusal {
                by: "approver".to_owned(),
                reason: "the answer allows nothing".to_owned(),
            }
            .into()),
        }
    }

    /// Whether a call with this input is sure to run without anybody being asked (spec 1.19). A hook may still ask.
    pub(crate) fn asks_nobody(&self, tool: &RegisteredTool, input: &FrozenInput) -> bool {
        let rules_ask = || {
            let opinion = self.authority.opinion(tool.name(), input);
            opinion.is_some_and(|opinion| opinion.verdict != RuleVerdict::Allow)
        };
        tool.tool().approval(input) == ApprovalNeed::None
            && matches!(input.escalation(), Ok(None))
            && !rules_ask()
    }

    /// Why the call must be approved, if it must. What needs nobody's word to be refused is refused here.
    fn question(
        &self,
        queued: &QueuedCall,
        tool: &RegisteredTool,
        call: &PreparedCall,
        hooks: ChainVerdict,
        confined: &Confined,
    ) -> Result<Question, CallFailure> {
        let mut reasons: Vec<_> = hooks
            .asks
            .into_iter()
            .map(|(name, question)| ApprovalReason::Hook { name, question })
            .collect();
        let opinion = self.authority.opinion(call.tool(), call.input());
        let mut allowed_by = None;
        if let Some(opinion) = opinion {
            let rule = opinion.rule.unwrap_or_default();
            match opinion.verdict {
                RuleVerdict::Deny => {
                    let reason = [rule, opinion.reason].into_iter().filter(|part| !part.is_empty());
                    let reason = reason.collect::<Vec<_>>().join(": ");
                    return Err(Refusal { by: "rule".to_owned(), reason }.into());
                }
                RuleVerdict::Ask => {
                    reasons.push(ApprovalReason::Rule { rule, reason: opinion.reason })
                }
                RuleVerdict::Allow => allowed_by = Some(rule),
            }
        }
        let need =
            caught(|| tool.tool().approval(call.input())).map_err(|panic| panicked(tool, panic))?;
        let spared = (hooks.allowed || allowed_by.is_some()) && reasons.is_empty();
        let mut tool_alone = false;
        match need {
            ApprovalNeed::None => {}
            ApprovalNeed::Ask if spared => {}
            ApprovalNeed::Ask | ApprovalNeed::AlwaysAsk => {
                tool_alone = reasons.is_empty() && need == ApprovalNeed::Ask;
                reasons.push(ApprovalReason::Tool);
            }
        }
        let Some((permissions, justification)) = call.input().escalation()? else {
            return Ok(Question { reasons, wanted: None, tool_alone, allowed_by });
        };
        let considered = self.consider(tool, call, &permissions, &justification, confined);
        self.authority.record(
            queued,
            Event::EscalationRequested {
                permissions: to_value(&permissions),
                justification: justification.clone(),
                evidence: considered
                    .as_ref()
                    .map(|found| found.evidence.clone())
                    .unwrap_or_default(),
            },
        )?;
        let considered = considered?;
        // What the session was granted need not be asked for again.
        if considered.held_by.is_empty() {
            let permissions = permissions.clone();
            reasons.push(ApprovalReason::Escalation { permissions, justification });
            tool_alone = false;
        }
        let wanted = Some(Wanted { permissions, considered });
        Ok(Question { reasons, wanted, tool_alone, allowed_by })
    }

    /// Whether what a call asks for may be granted at all, to a session that is confined like this.
    fn consider(
        &self,
        tool: &RegisteredTool,
        call: &PreparedCall,
        permissions: &SandboxPermissions,
        justification: &str,
        confined: &Confined,
    ) -> Result<Considered, Refusal> {
        if justification.trim().is_empty() {
            return Err(Refusal {
                by: "escalation".to_owned(),
                reason: "sandbox_permissions: say in `justification` what this call needs them for"
                    .to_owned(),
            });
        }
        let denied = &self.authority.denied;
        if permissions.full_access && !denied.is_empty() {
            return Err(Refusal {
                by: "escalation".to_owned(),
                reason: format!(
                    "sandbox_permissions: full_access confines no file, and no grant undoes what a rule denies: {}",
                    denied.in_words()
                ),
            });
        }
        let escalation = &self.authority.escalation;
        let considered = escalation.consider(
            &confined.policy,
            &self.policy_digest,
            call,
            permissions,
            Instant::now(),
        )?;
        // Nobody is asked about what the session holds already.
        if !considered.held_by.is_empty() {
            return Ok(considered);
        }
        let refused = |reason: String| Refusal {
            by: "escalation".to_owned(),
            reason: format!("sandbox_permissions: {reason}"),
        };
        let acts_on = caught(|| tool.tool().acts_on(call.input())).ok().flatten();
        if let Some(path) = &acts_on
            && !reaches(&considered.grants, path)
        {
            let path = path.display();
            return Err(refused(format!(
                "this would not help: none of it is about {path}, which is what this call acts on"
            )));
        }
        let line = call.input().value().get("command").and_then(Value::as_str);
        if call.tool() == "Bash" && line.is_some_and(stockade_rules::shell::prints_only) {
            return Err(refused(
                "this would not help: the line prints its own words and touches nothing that could be refused to it".to_owned(),
            ));
        }
        // The paths are looked at as a cell would: one that leads elsewhere by a link, or nowhere, cannot be granted by this name. Where it
        // leads is not told, since the policy may not show it.
        self.provider.would_build(&considered.policy).map_err(|error| match error {
            SandboxError::Refused(refusal) if !names_a_path(&considered.grants) => {
                refused(refusal.reason)
            }
            _ => refused(
                "this cannot be granted by this name: a path of it, or a folder on its way, is not there, or is a link, or cannot be shown in a cell: name an existing folder, or one above it that exists, by its own path".to_owned(),
            ),
        })?;
        Ok(considered)
    }

    fn allowed_without_asking(
        &self,
        queued: &QueuedCall,
        question: &Question,
        digest: &str,
    ) -> Result<(), CallFailure> {
        let authority: &Authority = &self.authority;
        if authority.ledger.is_none() {
            return Ok(());
        }
        let digest = digest.to_owned();
        if let Some(wanted) = &question.wanted {
            let held_by = wanted.considered.held_by.join(", ");
            let reason = "the session was granted this".to_owned();
            authority.decided(
                queued,
                Verdict::Allow,
                DecidedBy::Grant,
                held_by,
                reason,
                digest.clone(),
            )?;
            for grant in &wanted.considered.held_by {
                authority.record(
                    queued,
                    Event::GrantUsed { grant: grant.clone(), policy_digest: digest.clone() },
                )?;
            }
            return Ok(());
        }
        match &question.allowed_by {
            Some(rule) => authority.decided(
                queued,
                Verdict::Allow,
                DecidedBy::Rule,
                rule.clone(),
                String::new(),
                digest,
            ),
            None => authority.decided(
                queued,
                Verdict::Allow,
                DecidedBy::Policy,
                String::new(),
                "nobody objects, and the policy confines it".to_owned(),
                digest,
            ),
        }
    }
}

fn names_a_path(grants: &[Grant]) -> bool {
    grants
        .iter()
        .any(|grant| matches!(grant, Grant::Read(_) | Grant::Write(_) | Grant::UnixSocket(_)))
}

/// Whether grants are about this path, or what lies below it.
fn reaches(grants: &[Grant], path: &Path) -> bool {
    let led = resolved(path);
    grants.iter().any(|grant| match grant {
        Grant::FullAccess => true,
        Grant::Read(granted) | Grant::Write(granted) => {
            [path, &led].iter().any(|path| path.starts_with(granted) || granted.starts_with(path))
        }
        _ => false,
    })
}

fn asked_for(call: &PreparedCall) -> Value {
    match call.input().escalation() {
        Ok(Some((permissions, _))) => to_value(&permissions),
        _ => Value::Null,
    }
}

fn to_value(permissions: &SandboxPermissions) -> Value {
    // Plain data: it always can be.
    serde_json::to_value(permissions).unwrap_or(Value::Null)
}
