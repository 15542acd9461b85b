//! The way of one call. The phases are called by the scheduler: `prepare` in model order, `dispatch` overlapping,
//! `finalize` and `finish`, one after the other in `commit`, in model order (spec 2.1).

use crate::approval::Approver;
use crate::around::{Around, run_around};
use crate::authority::Authority;
use crate::budget::Share;
use crate::call::{
    CallToken, CallTrace, EndedCall, PreparedCall, QueuedCall, ReadyCall, StartedCall,
};
use crate::cancel::{CallCancel, TurnSignals};
use crate::caught::{Panic, caught};
use crate::deadline::{BodyEnd, Clocks, run_body};
use crate::events::{Delivered, Events, Transition};
use crate::failure::CallFailure;
use crate::held_threads::{Then, hand_on_what_was_woken};
use crate::hooks::Left;
use crate::permission::Permitted;
use crate::record::{CallRecord, ResultRecord};
use crate::session_log::SessionLog;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::telemetry::{Permission, Stage, Telemetry};
use crate::{
    ApproverKind, Guard, Hook, Observer, approval, budget, escalation, guard, hooks, observer,
    render,
};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use stockade_policy::Policy;
use stockade_sandbox::SandboxProvider;
use stockade_spill::SpillStore;
use stockade_tools::{
    CallContext, ContextChange, FrozenInput, Kept, Lookup, QueueClock, RegisteredTool, Registry,
    SessionContext, Timeout, ToolError, ToolOutput, bounds,
};
use stockade_types::{CallFlags, CallMode, ContentBlock, Denial, Refusal, ToolResult};

#[derive(Clone)]
pub(crate) struct Pipeline {
    pub(crate) registry: Arc<Registry>,
    pub(crate) provider: Arc<dyn SandboxProvider>,
    pub(crate) policy: Arc<Policy>,
    /// The policy's: to make it costs more than all else that the runtime does for a call.
    pub(crate) policy_digest: Arc<str>,
    pub(crate) session: Arc<SessionContext>,
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    pub(crate) guards: Vec<Arc<dyn Guard>>,
    pub(crate) around: Vec<Arc<dyn Around>>,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) authority: Arc<Authority>,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) log: Option<Arc<SessionLog>>,
    pub(crate) spill: Option<Arc<SpillStore>>,
    pub(crate) events: Events,
    pub(crate) default_timeout: Duration,
    /// Calls that were asked for, all turns together.
    pub(crate) calls: Arc<AtomicU64>,
}

/// A call that is done with.
pub(crate) struct Committed {
    pub(crate) delivered: Delivered,
    /// What the calls after it find changed.
    pub(crate) change: Option<ContextChange>,
}

/// A call's result after its hooks.
struct Finalized {
    result: ToolResult,
    left: Left,
    /// By whom it was blocked.
    refusal: Option<Refusal>,
}

impl Pipeline {
    /// Phase 1: everything that must be known before the body may run.
    pub(crate) async fn prepare(&self, started: StartedCall) -> Result<ReadyCall, EndedCall> {
        let StartedCall { queued, lookup, flags, cancel, context } = started;
        let known = matches!(lookup, Lookup::Found(_));
        let mut trace = CallTrace::new(queued, flags, known);
        let mut seen = None;
        match self.admit(&mut trace, &mut seen, lookup, &cancel, &context).await {
            Ok((tool, call, permitted)) => {
                let Permitted { policy, lease, place, .. } = permitted;
                Ok(ReadyCall { trace, lease, place, call, tool, policy, cancel, context })
            }
            Err(failure) => {
                if let CallFailure::Refused(refusal) = &failure {
                    self.authority.refused_early(&trace.queued, refusal);
                }
                Err(EndedCall::failed(trace, seen, failure))
            }
        }
    }

    async fn admit(
        &self,
        trace: &mut CallTrace,
        seen: &mut Option<Arc<PreparedCall>>,
        lookup: Lookup,
        cancel: &CallCancel,
        context: &Arc<SessionContext>,
    ) -> Result<(Arc<RegisteredTool>, Arc<PreparedCall>, Permitted), CallFailure> {
        self.record_call(trace)?;
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.authority.requested(&trace.queued)?;
        still_wanted(cancel)?;
        let tool = look_up(trace, lookup)?;
        trace.telemetry.at(Stage::Validate);
        let input = freeze(trace, &tool, context)?;
        let call = Arc::new(PreparedCall {
            token: CallToken::next(),
            id: trace.queued.id.clone(),
            name: tool.name().to_owned(),
            input,
            flags: trace.flags,
        });
        trace.telemetry.at(Stage::Permission);
        let verdict = hooks::before(&self.hooks, &call, &mut trace.context).await?;
        still_wanted(cancel)?;
        guard::check(&self.guards, &call)?;
        let asked = tokio::time::Instant::now();
        // Only who looks at what a call would change needs it.
        let place = |policy: &Arc<Policy>| {
            self.call_context(&trace.queued, policy, cancel, Arc::clone(context))
        };
        let permitted = self.permission(&trace.queued, &tool, &call, verdict, place).await;
        trace.telemetry.permission(Permission::of(&permitted), asked.elapsed());
        // A call whose approval is cancelled still passes the post-execute hooks (spec 1.16).
        if matches!(permitted, Err(CallFailure::AbortedBeforeDispatch)) {
            *seen = Some(Arc::clone(&call));
        }
        let permitted = permitted?;
        trace.policy_digest = Arc::clone(&permitted.digest);
        Ok((tool, call, permitted))
    }

    /// Phase 2: the body. `begins`: see [`run_body`].
    pub(crate) async fn dispatch(&self, ready: ReadyCall, begins: Then) -> EndedCall {
        let ReadyCall { mut trace, lease, place, call, tool, policy, cancel, context } = ready;
        // It may have been cancelled since it was asked last.
        if let Err(failure) = still_wanted(&cancel) {
            return EndedCall::failed(trace, Some(call), failure);
        }
        let input = call.input();
        let mut context = self.call_context(&trace.queued, &policy, &cancel, context);
        context.approved_place = place.map(|place| *place);
        if !lease.is_empty() {
            let (lease, authority) = (lease.clone(), Arc::clone(&self.authority));
            context.granted = Some(Arc::new(move || {
                let (lease, authority) = (lease.clone(), Arc::clone(&authority));
                Box::pin(async move {
                    lease.over().await;
                    authority.expire(std::time::Instant::now());
                })
            }));
        }
        // What a body leaves behind may go on reporting, and a call that has completed makes no progress (spec 1.9).
        let has_ended = Arc::new(AtomicBool::new(false));
        let (report, is_over) = (context.progress, Arc::clone(&has_ended));
        context.progress = Arc::new(move |data| {
            if is_over.load(Ordering::Acquire) {
                bounds::dismantle(data);
            } else {
                report(data);
            }
        });
        let queueing = context.queueing.clone();
        let timeout = caught(|| tool.tool().timeout(input)).unwrap_or(Timeout::Default);
        let rules = tool.timeout_rules();
        let clocks = Clocks::new(timeout, rules, input, self.default_timeout, &policy.limits);
        trace.telemetry.at(Stage::Execute);
        self.events.of_call(&trace.queued, Transition::Executing(trace.flags));
        let (wrappers, context_of_body) = (self.around.clone(), context.clone());
        let body = run_around(wrappers, Arc::clone(&call), Arc::clone(&tool), context_of_body);
        // A grant that ends, ends what runs under it: the kernel takes nothing back from a process (spec 7.3).
        let stop = cancel.token().child_token();
        let (end, over) = {
            let mut body = std::pin::pin!(run_body(body, &tool, &context, clocks, &stop, begins));
            tokio::select! {
                biased;
                end = &mut body => (end, None),
                grant = lease.over() => {
                    self.authority.expire(std::time::Instant::now());
                    stop.cancel();
                    (body.await, Some(grant))
                }
            }
        };
        let BodyEnd { mut outcome, remains } = end;
        if let (Some(grant), Err(CallFailure::Aborted(message))) = (over, &mut outcome)
            && !cancel.token().is_cancelled()
        {
            *message =
                Some(format!("Cancelled: the grant {grant}, under which this call ran, has ended"));
        }
        has_ended.store(true, Ordering::Release);
        trace.telemetry.queued(queueing.queued());
        let outcome = outcome.and_then(|output| {
            trace.telemetry.at(Stage::Serialize);
            checked(&tool, trace.flags, output)
        });
        EndedCall { trace, call: Some(call), tool: Some(tool), outcome, remains }
    }

    /// Whether [`Pipeline::commit`] asks anybody who may take long: hooks, observers, the tool, or, since something was denied, the approver
    /// for its kind.
    pub(crate) fn asks_others(&self, ended: &EndedCall) -> bool {
        let tool = ended.tool.as_ref();
        let hosts = !(self.hooks.is_empty() && self.observers.is_empty());
        hosts || tool.is_some_and(|tool| tool.has_last_word()) || !ended.denials().is_empty()
    }

    /// Phases 3 and 4.
    pub(crate) async fn commit(&self, mut ended: EndedCall, turn: &TurnSignals) -> Committed {
        if ended.outcome.is_ok() {
            ended.trace.telemetry.at(Stage::Post);
        }
        let finalized = self.finalize(&mut ended).await;
        let change = match &mut ended.outcome {
            Ok(output) if finalized.refusal.is_none() => output.change.take(),
            _ => None,
        };
        Committed { delivered: self.finish(ended, finalized, turn), change }
    }

    /// Phase 3: what hooks make of the outcome.
    async fn finalize(&self, ended: &mut EndedCall) -> Finalized {
        let queued = &ended.trace.queued;
        let remains = ended.remains.as_deref();
        let mut result = render::result(queued.id.clone(), &queued.name, &ended.outcome, remains);
        let (mut left, mut refusal) = (Left::Own, None);
        if let Some(call) = &ended.call {
            let context = &mut ended.trace.context;
            let mut stops = false;
            if result.is_error {
                let failure = ended.outcome.as_ref().err();
                let interrupted = failure.is_some_and(CallFailure::is_cancellation);
                stops = hooks::failed(&self.hooks, call, &mut result, interrupted, context).await;
            }
            let tool = ended.tool.as_deref();
            match hooks::after(&self.hooks, call, tool, &mut result, context, &mut stops).await {
                Ok(what) => left = what,
                Err(by) => {
                    // Feedback, and nothing of what it is about (spec 2.12).
                    result = ToolResult::text(result.call_id, by.to_string(), true);
                    result.stop_turn = stops;
                    refusal = Some(by);
                }
            }
        }
        if (left != Left::Own || refusal.is_some())
            && let Some(output) = ended.output_mut()
        {
            // The whole of what hooks took away is not what the model is to be led to, nor to find.
            if let (Some(Kept::Whole(file)), Some(store)) = (output.kept.take(), &self.spill)
                && let Err(error) = store.remove(&file.uri)
            {
                tracing::warn!(%error, "the output that a hook took away lies where calls can read it");
            }
        }
        if let Some(call) = &ended.call {
            self.learn_from_denials(call, ended.denials(), &mut result);
        }
        if refusal.is_none()
            && let Ok(output) = &mut ended.outcome
        {
            ended.trace.context.append(&mut output.context);
        }
        Finalized { result, left, refusal }
    }

    /// What the sandbox refused is remembered for the call's retry, and said to the model as what the retry may ask for, if
    /// there is anybody to allow it (spec 5.9, 7.1).
    fn learn_from_denials(&self, call: &PreparedCall, denials: &[Denial], result: &mut ToolResult) {
        if denials.is_empty() {
            return;
        }
        let escalation = &self.authority.escalation;
        escalation.evidence.remember(escalation::retry_digest(call), denials);
        let somebody = approval::kind_of(&*self.approver) != ApproverKind::Deny
            || !self.authority.permission_hooks.is_empty();
        // What rules deny is not to be had either.
        if somebody
            && let Ok(confined) = self.authority.confine(&self.policy)
            && let Some(line) = escalation::propose(escalation, &confined.policy, denials)
        {
            result.content.push(ContentBlock::text(format!("\n{line}")));
        }
    }

    /// Phase 4: the tool's own last word, then the result is final. It is recorded, and observers see it.
    fn finish(&self, mut ended: EndedCall, finalized: Finalized, turn: &TurnSignals) -> Delivered {
        let Finalized { mut result, left, refusal } = finalized;
        if let Some(tool) = &ended.tool {
            render::finalize_content(tool, &mut result);
        }
        render::fill_empty(&ended.trace.queued.name, &mut result);
        let (call, tool) = (&result.call_id, ended.tool.as_deref());
        let kept = ended.output().and_then(|output| output.kept.as_ref());
        let share = Share::new(&result.content, &ended.trace.context, tool);
        if share.hold(&mut result.content, call, tool, self.spill.as_ref(), kept) {
            ended.trace.telemetry.truncated();
        }
        // Before the log, which has exactly what the model is given.
        if let Err(error) = self.authority.ended(&ended, &result) {
            result.is_error = true;
            let text = format!("[The end of this call is not in the ledger: {}]", error.cause());
            result.content.push(ContentBlock::text(text));
        }
        let told = matches!(ended.outcome, Err(CallFailure::NotRecorded(_)));
        if let Err(error) = self.record_result(&mut ended, &result, refusal.as_ref())
            && !told
        {
            result.is_error = true;
            let text = format!("[This result could not be recorded: {}]", error.cause());
            result.content.push(ContentBlock::text(text));
        }
        ended.trace.telemetry.finished(&result, &ended.outcome);
        // Asked here and not before the hooks, which may take their time.
        if !turn.is_discarded() {
            observer::tell(&self.observers, &result);
        }
        let output = match left {
            _ if refusal.is_some() => None,
            Left::Own => ended.outcome.ok().or(ended.remains.map(|remains| *remains)),
            // People are shown nothing of what a hook took away either.
            Left::Replaced => None,
            Left::ReplacedBy(value) => Some(ToolOutput::value(value)),
        };
        let display = render::display(ended.tool.as_deref(), output);
        Delivered { result, tool: ended.trace.queued.name, display }
    }

    /// A call that is not even prepared.
    pub(crate) fn never_started(&self, queued: QueuedCall, failure: CallFailure) -> EndedCall {
        let flags = CallFlags { mode: CallMode::Exclusive, read_only: false };
        let known = self.registry.get(&queued.name).is_some();
        let trace = CallTrace::new(queued, flags, known);
        EndedCall::failed(trace, None, failure)
    }

    fn call_context(
        &self,
        queued: &QueuedCall,
        policy: &Arc<Policy>,
        cancel: &CallCancel,
        session: Arc<SessionContext>,
    ) -> CallContext {
        let (events, turn) = (self.events.clone(), queued.turn);
        let (id, name) = (queued.id.clone(), queued.name.clone());
        let report: stockade_tools::ProgressFn = Arc::new(move |data| {
            let data = bounds::hold(data)
                .unwrap_or_else(|excess| Value::String(format!("a report that is {excess}")));
            events.emit(turn, &id, &name, Transition::Progress { data });
            // A listener may have woken somebody who is to show it.
            hand_on_what_was_woken();
        });
        CallContext {
            call_id: queued.id.clone(),
            session,
            cancel: cancel.token().child_token(),
            kill: cancel.kill().clone(),
            task_ended: Arc::clone(&report),
            progress: report,
            late_denials: self.authority.late_denials(queued),
            granted: None,
            provider: Arc::clone(&self.provider),
            policy: Arc::clone(policy),
            output_store: self.spill.clone().map(|store| Arc::new(budget::Comes(store)) as _),
            approved_place: None,
            queueing: QueueClock::default(),
        }
    }

    fn record_call(&self, trace: &mut CallTrace) -> Result<(), CallFailure> {
        if let Some(log) = &self.log {
            trace.recorded = Some(log.call(&CallRecord::of(&trace.queued, trace.flags))?);
        }
        Ok(())
    }

    fn record_result(
        &self,
        ended: &mut EndedCall,
        result: &ToolResult,
        refusal: Option<&Refusal>,
    ) -> Result<(), CallFailure> {
        let Some(log) = &self.log else { return Ok(()) };
        if ended.trace.recorded.is_none() {
            self.record_call(&mut ended.trace)?;
        }
        let call = ended.trace.recorded.unwrap_or_default();
        let store = self.spill.as_deref();
        log.result(&ResultRecord::of(call, result, ended, refusal, store))?;
        Ok(())
    }

    /// None of the turn's results is part of the history (spec 1.15).
    pub(crate) fn record_discard(&self, turn: u64) {
        if let Some(log) = &self.log
            && let Err(error) = log.discard(turn)
        {
            tracing::warn!(turn, %error, "the discarded turn stands in the log as if it were not");
        }
    }
}

fn look_up(trace: &CallTrace, lookup: Lookup) -> Result<Arc<RegisteredTool>, CallFailure> {
    if let Some(message) = &trace.queued.broken {
        return Err(CallFailure::Broken(message.clone()));
    }
    let name = || trace.queued.name.clone();
    match lookup {
        Lookup::Found(tool) => Ok(tool),
        Lookup::Unknown => Err(CallFailure::UnknownTool(name())),
        Lookup::CodeOnly => Err(CallFailure::Refused(Refusal {
            by: "registry".to_owned(),
            reason: format!("{} can only be called from a program: use run_code", name()),
        })),
    }
}

/// Validates and resolves the arguments; from here on they cannot change (spec 2.2).
fn freeze(
    trace: &CallTrace,
    tool: &RegisteredTool,
    context: &SessionContext,
) -> Result<FrozenInput, CallFailure> {
    let arguments = &trace.queued.arguments;
    caught(|| {
        let arguments = tool.validate(arguments)?;
        tool.tool().resolve_input(&arguments, context)
    })
    .map_err(|panic| panicked(tool, panic))?
    .map_err(CallFailure::of_tool)
    .and_then(|input| {
        bounds::hold(input).map(FrozenInput::new).map_err(|excess| {
            let message = format!("{}: the resolved arguments are {excess}", tool.name());
            CallFailure::Tool(ToolError::InvalidArguments(message))
        })
    })
}

/// Holds an output to what its tool declares, and gives a value its content.
fn checked(
    tool: &RegisteredTool,
    flags: CallFlags,
    mut output: ToolOutput,
) -> Result<ToolOutput, CallFailure> {
    // What says of itself that it failed owes no value.
    if !render::is_error(&output) {
        tool.check_output(output.value.as_ref())
            .map_err(|reason| CallFailure::Output { tool: tool.name().to_owned(), reason })?;
    }
    if output.change.is_some() && flags.mode == CallMode::Parallel {
        return Err(CallFailure::ParallelContextChange(tool.name().to_owned()));
    }
    if let Some(change) = &output.change {
        let declared = if tool.changes_context() {
            Ok(())
        } else {
            Err("the tool did not declare that it makes any (changes_context)".to_owned())
        };
        declared.and_then(|()| change.check()).map_err(|reason| CallFailure::ContextChange {
            tool: tool.name().to_owned(),
            reason,
        })?;
    }
    if output.content.is_empty()
        && let Some(value) = &output.value
    {
        output.content = render::value(tool, value)?;
    }
    Ok(output)
}

fn still_wanted(cancel: &CallCancel) -> Result<(), CallFailure> {
    if cancel.token().is_cancelled() { Err(CallFailure::AbortedBeforeDispatch) } else { Ok(()) }
}

pub(crate) fn panicked(tool: &RegisteredTool, panic: Panic) -> CallFailure {
    CallFailure::Panicked { what: tool.name().to_owned(), message: panic.0 }
}

impl CallTrace {
    fn new(queued: QueuedCall, flags: CallFlags, known: bool) -> Self {
        let telemetry = Telemetry::begin(&queued, flags, known);
        let (recorded, context, policy_digest) = (None, Vec::new(), Arc::default());
        let begun = std::time::Instant::now();
        Self { queued, flags, recorded, context, telemetry, policy_digest, begun }
    }
}
