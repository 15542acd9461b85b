//! The way of one call. The phases are called by the scheduler: `prepare` in model order, `dispatch` overlapping,
//! `finalize` and `finish` in model order (spec 2.1).

use crate::approval::Approver;
use crate::call::{CallToken, CallTrace, EndedCall, PreparedCall, ReadyCall, StartedCall};
use crate::caught::{Panic, caught};
use crate::deadline::{Clocks, run_body};
use crate::events::{Events, Transition};
use crate::failure::CallFailure;
use crate::record::{CallRecord, ResultRecord};
use crate::session_log::SessionLog;
use crate::{Guard, Hook, Observer, guard, hooks, observer, render};
use std::sync::Arc;
use std::time::Duration;
use stockade_policy::Policy;
use stockade_sandbox::SandboxProvider;
use stockade_tools::{
    CallContext, FrozenInput, QueueClock, RegisteredTool, Registry, SessionContext, Timeout,
};
use stockade_types::{ContentBlock, ToolResult};
use tokio_util::sync::CancellationToken;

pub(crate) struct Pipeline {
    pub(crate) registry: Arc<Registry>,
    pub(crate) provider: Arc<dyn SandboxProvider>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) session: Arc<SessionContext>,
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    pub(crate) guards: Vec<Arc<dyn Guard>>,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) log: Option<SessionLog>,
    pub(crate) events: Events,
    pub(crate) default_timeout: Duration,
}

impl Pipeline {
    /// Phase 1: everything that must be known before the body may run.
    pub(crate) async fn prepare(&self, started: StartedCall) -> Result<ReadyCall, EndedCall> {
        let StartedCall { queued, tool, flags, cancel } = started;
        let mut trace = CallTrace { queued, flags, recorded: None, context: Vec::new() };
        let mut seen = None;
        match self.admit(&mut trace, &mut seen, tool, &cancel).await {
            Ok((tool, call, policy)) => Ok(ReadyCall { trace, call, tool, policy, cancel }),
            Err(failure) => Err(EndedCall { trace, call: seen, outcome: Err(failure) }),
        }
    }

    async fn admit(
        &self,
        trace: &mut CallTrace,
        seen: &mut Option<Arc<PreparedCall>>,
        tool: Option<Arc<RegisteredTool>>,
        cancel: &CancellationToken,
    ) -> Result<(Arc<RegisteredTool>, Arc<PreparedCall>, Arc<Policy>), CallFailure> {
        self.record_call(trace)?;
        still_wanted(cancel)?;
        let tool = look_up(trace, tool)?;
        let input = self.freeze(trace, &tool)?;
        let call = Arc::new(PreparedCall {
            token: CallToken::next(),
            id: trace.queued.id.clone(),
            name: tool.name().to_owned(),
            input,
            flags: trace.flags,
        });
        let verdict = hooks::before(&self.hooks, &call, &mut trace.context).await?;
        still_wanted(cancel)?;
        guard::check(&self.guards, &call)?;
        // A call whose approval is cancelled still passes the post-execute hooks (spec 1.16).
        let permitted = self.permission(&tool, &call, verdict, cancel).await;
        if matches!(permitted, Err(CallFailure::AbortedBeforeDispatch)) {
            *seen = Some(Arc::clone(&call));
        }
        let policy = permitted?.policy;
        Ok((tool, call, policy))
    }

    /// Phase 2: the body.
    pub(crate) async fn dispatch(&self, ready: ReadyCall) -> EndedCall {
        let ReadyCall { trace, call, tool, policy, cancel } = ready;
        let input = call.input();
        let context = self.call_context(&trace, &policy, &cancel);
        let timeout = caught(|| tool.tool().timeout(input)).unwrap_or(Timeout::Default);
        let clocks = Clocks::new(timeout, self.default_timeout, &policy.limits);
        self.events.of_call(&trace.queued, Transition::Executing(trace.flags));
        let outcome = run_body(&tool, input, context, clocks, &cancel).await;
        EndedCall { trace, call: Some(call), outcome }
    }

    /// Phase 3: what hooks make of the outcome.
    pub(crate) async fn finalize(&self, ended: &mut EndedCall) -> ToolResult {
        let queued = &ended.trace.queued;
        let mut result = render::result(queued.id.clone(), &queued.name, &ended.outcome);
        if let Some(call) = &ended.call {
            let context = &mut ended.trace.context;
            if let Err(refusal) = hooks::after(&self.hooks, call, &mut result, context).await {
                result = ToolResult::text(result.call_id, refusal.to_string(), true);
            }
        }
        render::append_context(&mut result, &ended.trace.context);
        result
    }

    /// Phase 4: the result is final. It is recorded, and observers see it.
    pub(crate) fn finish(&self, mut ended: EndedCall, mut result: ToolResult) -> ToolResult {
        let told = matches!(ended.outcome, Err(CallFailure::NotRecorded(_)));
        if let Err(error) = self.record_result(&mut ended, &result)
            && !told
        {
            result.is_error = true;
            let text = format!("[This result could not be recorded: {error}]");
            result.content.push(ContentBlock::Text { text });
        }
        observer::tell(&self.observers, &result);
        result
    }

    /// A call that is not even prepared, because its turn was aborted.
    pub(crate) fn aborted(&self, started: StartedCall) -> EndedCall {
        let StartedCall { queued, flags, .. } = started;
        let trace = CallTrace { queued, flags, recorded: None, context: Vec::new() };
        EndedCall { trace, call: None, outcome: Err(CallFailure::AbortedBeforeDispatch) }
    }

    fn freeze(&self, trace: &CallTrace, tool: &RegisteredTool) -> Result<FrozenInput, CallFailure> {
        let arguments = &trace.queued.arguments;
        caught(|| {
            let arguments = tool.validate(arguments)?;
            tool.tool().resolve_input(&arguments, &self.session)
        })
        .map_err(|panic| panicked(tool, panic))?
        .map(FrozenInput::new)
        .map_err(CallFailure::Tool)
    }

    fn call_context(
        &self,
        trace: &CallTrace,
        policy: &Arc<Policy>,
        cancel: &CancellationToken,
    ) -> CallContext {
        let (events, turn) = (self.events.clone(), trace.queued.turn);
        let (id, name) = (trace.queued.id.clone(), trace.queued.name.clone());
        CallContext {
            call_id: id.clone(),
            session: Arc::clone(&self.session),
            cancel: cancel.child_token(),
            progress: Arc::new(move |data| {
                events.emit(turn, &id, &name, Transition::Progress { data });
            }),
            provider: Arc::clone(&self.provider),
            policy: Arc::clone(policy),
            queueing: QueueClock::default(),
        }
    }

    fn record_call(&self, trace: &mut CallTrace) -> Result<(), CallFailure> {
        if let Some(log) = &self.log {
            trace.recorded = Some(log.call(&CallRecord::of(&trace.queued, trace.flags))?);
        }
        Ok(())
    }

    fn record_result(&self, ended: &mut EndedCall, result: &ToolResult) -> Result<(), CallFailure> {
        let Some(log) = &self.log else { return Ok(()) };
        if ended.trace.recorded.is_none() {
            self.record_call(&mut ended.trace)?;
        }
        let call = ended.trace.recorded.unwrap_or_default();
        log.result(&ResultRecord::of(call, ended.trace.queued.turn, result, &ended.outcome))?;
        Ok(())
    }
}

fn look_up(
    trace: &CallTrace,
    tool: Option<Arc<RegisteredTool>>,
) -> Result<Arc<RegisteredTool>, CallFailure> {
    if let Some(message) = &trace.queued.broken {
        return Err(CallFailure::Broken(message.clone()));
    }
    tool.ok_or_else(|| CallFailure::UnknownTool(trace.queued.name.clone()))
}

fn still_wanted(cancel: &CancellationToken) -> Result<(), CallFailure> {
    if cancel.is_cancelled() { Err(CallFailure::AbortedBeforeDispatch) } else { Ok(()) }
}

pub(crate) fn panicked(tool: &RegisteredTool, panic: Panic) -> CallFailure {
    CallFailure::Panicked { what: tool.name().to_owned(), message: panic.0 }
}
