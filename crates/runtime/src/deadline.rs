use crate::caught::{Panic, caught_async};
use crate::failure::CallFailure;
use std::time::Duration;
use stockade_policy::LimitsPolicy;
use stockade_tools::{CallContext, FrozenInput, RegisteredTool, Timeout, ToolError, ToolOutput};
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
    pub(crate) fn new(timeout: Timeout, default: Duration, limits: &LimitsPolicy) -> Self {
        let drain = limits.grace.unwrap_or_default() + CLEANUP_GRACE;
        let cap = |time: Duration| {
            limits.wall.map_or(time, |wall| time.min(wall)).max(Duration::from_millis(1))
        };
        let (budget, watchdog) = match timeout {
            Timeout::None => (None, None),
            Timeout::Default => (Some(cap(default)), Some(cap(default))),
            Timeout::After(time) => (Some(cap(time)), Some(cap(time))),
            Timeout::SelfTimed(time) => (Some(cap(time)), Some(cap(time).saturating_add(drain))),
        };
        Self { budget, watchdog, drain }
    }
}

/// Runs a body to its end, its deadline or its cancellation. When this returns nothing of the body is left: it has ended
/// by itself, or was dropped after its drain.
pub(crate) async fn run_body(
    tool: &RegisteredTool,
    input: &FrozenInput,
    context: CallContext,
    clocks: Clocks,
    cancel: &CancellationToken,
) -> Result<ToolOutput, CallFailure> {
    let body_cancel = context.cancel.clone();
    let mut body = Box::pin(caught_async(tool.tool().call(input, &context)));
    let watchdog = async {
        match clocks.watchdog {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    let stopped = tokio::select! {
        biased;
        ended = &mut body => Ok(ended),
        () = cancel.cancelled() => Err(CallFailure::Aborted),
        () = watchdog => Err(CallFailure::Tool(ToolError::TimedOut {
            timeout_ms: clocks.budget.map_or(0, |b| u64::try_from(b.as_millis()).unwrap_or(u64::MAX)),
            queued_ms: 0,
        })),
    };
    match stopped {
        // A body that sees the cancellation may be quicker than we are.
        Ok(_) if cancel.is_cancelled() => Err(CallFailure::Aborted),
        Ok(Ok(result)) => result.map_err(CallFailure::Tool),
        Ok(Err(Panic(message))) => {
            Err(CallFailure::Panicked { what: tool.name().to_owned(), message })
        }
        Err(failure) => {
            body_cancel.cancel();
            // What it still says does not count: its outcome is that it was stopped.
            let _ = tokio::time::timeout(clocks.drain, &mut body).await;
            Err(failure)
        }
    }
}
