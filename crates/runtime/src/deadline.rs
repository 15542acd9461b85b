use crate::caught::{Panic, caught, caught_async};
use crate::failure::CallFailure;
use crate::held_threads::{Held, Then, WokenByBodies, in_body};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{JoinHandle, Notify, spawn};
use serde_json::Value;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
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
/// A body that is longer at work between two awaits is worth another thread for what starts beside it.
const STEP_MAX: Duration = Duration::from_micros(100);
/// After this time a body that is to be dropped is taken to hold its thread.
const DROP_PATIENCE: Duration = Duration::from_secs(1);

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
        let drain = limits.grace.unwrap_or_default().saturating_add(CLEANUP_GRACE);
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

/// How a body ended.
pub(crate) struct BodyEnd {
    /// Its output, or why there is none.
    pub(crate) outcome: Result<ToolOutput, CallFailure>,
    /// What is left of its work where it was stopped.
    pub(crate) remains: Option<Box<ToolOutput>>,
}

impl BodyEnd {
    /// One that was stopped. What a body says then counts for nothing, but what a command had written by then, and how it
    /// ended, is told all the same (spec 6.1).
    fn stopped(failure: CallFailure, said: Option<Result<ToolOutput, CallFailure>>) -> Self {
        let remains = said.and_then(Result::ok).filter(|output| output.report.outcome.is_some());
        Self { outcome: Err(failure), remains: remains.map(Box::new) }
    }
}

/// Runs a body to its end, its deadline or its cancellation. When this returns nothing of the body is left: it has ended
/// by itself, or was dropped after its drain. Only code that never gives its thread back cannot be dropped; the failure says so.
///
/// `begins` is called, perhaps more than once, when the body has to wait or holds its thread: what starts with it starts then. For one that
/// ends at once it is not called at all.
pub(crate) async fn run_body(
    body: impl Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    tool: &Arc<RegisteredTool>,
    context: &CallContext,
    clocks: Clocks,
    cancel: &CancellationToken,
    begins: Then,
) -> BodyEnd {
    let begun = Instant::now();
    // A timer costs a body that ends at once more than its run: there is none before the body waits.
    let waits: Arc<Notify> = Arc::default();
    let begins: Then = {
        let waits = Arc::clone(&waits);
        Arc::new(move || {
            begins();
            waits.notify_one();
        })
    };
    let of = Arc::clone(tool);
    let body = async move {
        let mut output = body.await.map_err(CallFailure::of_tool)?;
        // Before anything drops it: that would be the harm.
        output.value = output.value.map(bounds::hold).transpose().map_err(|excess| {
            let reason = format!("its value is {excess}");
            CallFailure::Output { tool: of.name().to_owned(), reason }
        })?;
        Ok(output)
    };
    let mut body = Body::begin(body, tool, begins);
    let watchdog = async {
        match clocks.watchdog {
            Some(time) => {
                waits.notified().await;
                context.queueing.used_up(begun, time).await
            }
            None => std::future::pending().await,
        }
    };
    let aborted = || {
        let own = caught(|| tool.tool().cancelled_message()).ok().flatten();
        CallFailure::Aborted(own)
    };
    let stopped = tokio::select! {
            biased;
            ended = body.ended() => Ok(ended),
            () = cancel.cancelled() => Err(aborted()),
            () = watchdog => Err(CallFailure::Tool(ToolError::TimedOut {
                timeout_ms: clocks.budget.map_or(0, milliseconds),
                queued_ms: milliseconds(context.queueing.queued()),
            })),
    };
    match stopped {
        // A body that sees the cancellation may be quicker than we are.
        Ok(said) if cancel.is_cancelled() => BodyEnd::stopped(aborted(), said.ok()),
        Ok(Ok(outcome)) => BodyEnd { outcome, remains: None },
        Ok(Err(Panic(message))) => {
            let failure = CallFailure::Panicked { what: tool.name().to_owned(), message };
            BodyEnd::stopped(failure, None)
        }
        Err(failure) => {
            context.cancel.cancel();
            let said = tokio::select! {
                biased;
                said = body.ended() => Some(said),
                () = tokio::time::sleep(clocks.drain) => None,
                () = too_long(&context.kill) => None,
            };
            if said.is_none() && !body.dropped().await {
                tracing::warn!(
                    tool = tool.name(),
                    "a body blocks its thread and cannot be stopped"
                );
                return BodyEnd::stopped(CallFailure::StillRuns(Box::new(failure)), None);
            }
            BodyEnd::stopped(failure, said.and_then(Result::ok))
        }
    }
}

/// Nobody waits any longer, yet what is being killed may say how it ended.
async fn too_long(kill: &CancellationToken) {
    kill.cancelled().await;
    tokio::time::sleep(CLEANUP_GRACE).await;
}

/// A body on a task of its own: whoever watches its time must not wait for the thread that it may hold.
struct Body {
    task: JoinHandle<Ended>,
    has_ended: bool,
    /// A thread is in it now.
    is_inside: Arc<AtomicBool>,
}

type Ended = Result<Result<ToolOutput, CallFailure>, Panic>;

impl Body {
    fn begin(
        body: impl Future<Output = Result<ToolOutput, CallFailure>> + Send + 'static,
        tool: &Arc<RegisteredTool>,
        begins: Then,
    ) -> Self {
        let is_inside = Arc::default();
        let (of, inside) = (Arc::clone(tool), Arc::clone(&is_inside));
        let task = spawn(apart(caught_async(body), of, Arc::clone(&begins), inside));
        if tool.has_held_its_thread() {
            // What this wakes takes the body's place as the one that this thread runs next, and alone, so that another thread is called
            // for the body at once.
            begins();
        }
        Self { task, has_ended: false, is_inside }
    }

    /// Cancel-safe. Not to be asked again after it has ended.
    async fn ended(&mut self) -> Ended {
        let ended = (&mut self.task).await;
        self.has_ended = true;
        // It is only ever aborted where nobody looks at its outcome, or by an executor that shuts down.
        ended.unwrap_or(Ok(Err(CallFailure::Aborted(None))))
    }

    /// Drops it where it waits. Whether no thread is in it any more: one that is in it already cannot be made to leave, and none enters it
    /// again, also where the executor has not come to drop it.
    async fn dropped(&mut self) -> bool {
        self.task.abort();
        tokio::time::timeout(DROP_PATIENCE, self.ended()).await.is_ok()
            || !self.is_inside.load(Ordering::Acquire)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if !self.has_ended {
            self.task.abort();
        }
    }
}

/// Runs a body on the task that is its own. It is watched: whoever waits behind it does not wait for the thread that it may hold.
fn apart(
    body: impl Future<Output = Ended> + Send + Unpin + 'static,
    tool: Arc<RegisteredTool>,
    begins: Then,
    is_inside: Arc<AtomicBool>,
) -> impl Future<Output = Ended> + Send + 'static {
    let mut body = body;
    let mut woken = WokenByBodies::default();
    let mut is_first = true;
    poll_fn(move |context| {
        let begun = std::time::Instant::now();
        let held = Held::begin(is_first.then(|| Arc::clone(&begins)));
        is_inside.store(true, Ordering::Release);
        let mut context = Context::from_waker(woken.waker(context));
        let polled = in_body(|| Pin::new(&mut body).poll(&mut context));
        is_inside.store(false, Ordering::Release);
        drop(held);
        if begun.elapsed() > STEP_MAX {
            tool.held_its_thread();
        }
        if std::mem::take(&mut is_first) && polled.is_pending() {
            begins();
        }
        polled
    })
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::tests::{Trace, probes};

    // spec 2.14: the executor's place for what runs next is one that no other thread takes anything from
    #[test]
    fn a_body_that_lies_behind_a_thread_that_another_holds_is_not_one_that_runs() {
        let executor = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let tool = probes(&Trace::default()).get("Share").unwrap();
        let (hand_over, handed_over) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let holds = executor.spawn(async move {
            let body = async { Ok(ToolOutput::text("")) };
            let _ = hand_over.send(Body::begin(body, &tool, Arc::new(|| {})));
            let _ = released.recv_timeout(Duration::from_secs(60));
        });
        let mut body = handed_over.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(executor.block_on(body.dropped()));
        assert!(!body.has_ended, "it lay there");
        release.send(()).unwrap();
        executor.block_on(holds).unwrap();
    }
}
