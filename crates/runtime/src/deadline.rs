use crate::caught::{Panic, caught, caught_async};
use crate::failure::CallFailure;
use serde_json::Value;
use std::time::Duration;
use stockade_policy::LimitsPolicy;
use stockade_tools::bounds;
use stockade_tools::{
    CallContext, FrozenInput, RegisteredTool, Timeout, TimeoutRules, ToolError, ToolOutput,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A call's clocks (spec 2.8).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    /// The budget, as the timeout's message tells it.
    budget: Option<Duration>,
    /// When the watchdog bites; later than the budget for a tool that times itself.
    watchdog: Option<Duration>,
    /// How long a cancelled body may take to become quiet before it is dropped.
    drain: Duration,
}

/// The time that a tool which ends its own work is given for it, on top of the policy's own grace.
const CLEANUP_GRACE: Duration = Duration::from_secs(6);

impl Clocks {
    /// The order of spec 2.8: the tool's own word on these arguments, the call's choice where it has one, the tool's default,
    /// the executor's. Never more than the tool's maximum and the policy's wall time.
    pub(crate) fn new(
        timeout: Timeout,
        rules: TimeoutRules,
        input: &FrozenInput,
        executor: Duration,
        limits: &LimitsPolicy,
    ) -> Self {
        let drain = limits.grace.unwrap_or_default() + CLEANUP_GRACE;
        let cap = |time: Duration| {
            let most = [rules.max, limits.wall].into_iter().flatten().min();
            most.map_or(time, |most| time.min(most)).max(Duration::from_millis(1))
        };
        let chosen = || if rules.call_may_choose { chosen(input) } else { None };
        let (budget, watchdog) = match timeout {
            Timeout::None => (None, None),
            Timeout::Default => {
                let time = cap(chosen().or(rules.default).unwrap_or(executor));
                (Some(time), Some(time))
            }
            Timeout::After(time) => (Some(cap(time)), Some(cap(time))),
            Timeout::SelfTimed(time) => (Some(cap(time)), Some(cap(time).saturating_add(drain))),
        };
        Self { budget, watchdog, drain }
    }
}

/// The time that a call chooses, in milliseconds, as hosts write it.
fn chosen(input: &FrozenInput) -> Option<Duration> {
    let ms = ["timeout_ms", "timeout"].iter().find_map(|key| input.value().get(*key));
    ms.and_then(Value::as_u64).map(Duration::from_millis)
}

/// Runs a body to its end, its deadline or its cancellation. When this returns nothing of the body is left: it has ended
/// by itself, or was dropped after its drain.
pub(crate) async fn run_body(
    body: impl Future<Output = Result<ToolOutput, ToolError>> + Send,
    tool: &RegisteredTool,
    context: &CallContext,
    clocks: Clocks,
    cancel: &CancellationToken,
) -> Result<ToolOutput, CallFailure> {
    let begun = Instant::now();
    let body = async {
        let mut output = body.await.map_err(CallFailure::of_tool)?;
        // Before anything drops it: that would be the harm.
        output.value = output.value.map(bounds::hold).transpose().map_err(|excess| {
            let reason = format!("its value is {excess}");
            CallFailure::Output { tool: tool.name().to_owned(), reason }
        })?;
        Ok(output)
    };
    let mut body = Box::pin(caught_async(body));
    let watchdog = async {
        match clocks.watchdog {
            Some(time) => context.queueing.used_up(begun, time).await,
            None => std::future::pending().await,
        }
    };
    let aborted = || {
        let own = caught(|| tool.tool().cancelled_message()).ok().flatten();
        CallFailure::Aborted(own)
    };
    let stopped = tokio::select! {
        biased;
        ended = &mut body => Ok(ended),
        () = cancel.cancelled() => Err(aborted()),
        () = watchdog => Err(CallFailure::Tool(ToolError::TimedOut {
            timeout_ms: clocks.budget.map_or(0, milliseconds),
            queued_ms: milliseconds(context.queueing.queued()),
        })),
    };
    match stopped {
        // A body that sees the cancellation may be quicker than we are.
        Ok(_) if cancel.is_cancelled() => Err(aborted()),
        Ok(Ok(result)) => result,
        Ok(Err(Panic(message))) => {
            Err(CallFailure::Panicked { what: tool.name().to_owned(), message })
        }
        Err(failure) => {
            context.cancel.cancel();
            // What it still says does not count: its outcome is that it was stopped.
            let _ = tokio::time::timeout(clocks.drain, &mut body).await;
            Err(failure)
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
