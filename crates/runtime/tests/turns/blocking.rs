//! A body that does not give its thread back holds up itself alone, as long as another thread is left: others start, deadlines come.

use crate::scene::{Nothing, PATIENCE, builder, call, text};
use async_trait::async_trait;
use serde_json::json;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::time::Instant;
use stockade_runtime::{
    Event, EventSink, Guard, Hook, HookError, Observer, PostDecision, PreDecision, PreparedCall,
    Settings, Transition,
};
use stockade_tools::{
    CallContext, Display, FrozenInput, Registry, ResultBudget, SessionContext, TimeoutRules, Tool,
    ToolError, ToolOutput, TypedTool,
};
use stockade_types::{ContentBlock, ToolResult};

/// A channel whose receiver may be waited at by a body.
fn signal() -> (Sender<()>, impl Fn() -> Result<&'static str, ToolError> + Clone + Send + Sync) {
    let (sender, receiver) = channel();
    let receiver: Arc<Mutex<Receiver<()>>> = Arc::new(Mutex::new(receiver));
    let wait = move || {
        let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = receiver.recv_timeout(PATIENCE);
        heard.map(|()| "heard").map_err(|_| ToolError::Business("nobody came".into()))
    };
    (sender, wait)
}

fn waits_for_its_cancellation(context: &CallContext) -> Result<&'static str, ToolError> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if context.cancel.is_cancelled() {
            return Ok("heard");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(ToolError::Business("nobody came".into()))
}

// spec 1.10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_body_blocks_its_thread_others_start() {
    let (started, wait) = signal();
    let registry = Registry::new();
    let blocks = move |_: Nothing, _| {
        let wait = wait.clone();
        async move { wait() }
    };
    let starts = move |_: Nothing, _| {
        let _ = started.send(());
        async { Ok::<_, ToolError>("started") }
    };
    registry.register(Arc::new(TypedTool::new("Blocks", "", blocks).read_only())).unwrap();
    registry.register(Arc::new(TypedTool::new("Starts", "", starts).read_only())).unwrap();
    let runtime = builder(registry).build().unwrap();
    for _ in 0..50 {
        let results = runtime.run_turn([call("a", "Blocks"), call("b", "Starts")]).await.unwrap();
        assert_eq!(results.iter().map(text).collect::<Vec<_>>(), ["heard", "started"]);
    }
}

// spec 2.8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_body_blocks_its_thread_its_deadline_comes_and_so_do_those_of_others() {
    let registry = Registry::new();
    let (ended, wait) = signal();
    let rules = TimeoutRules { default: Some(Duration::from_millis(50)), ..Default::default() };
    let blocks =
        |_: Nothing, context: CallContext| async move { waits_for_its_cancellation(&context) };
    let blocks = TypedTool::new("Blocks", "", blocks).read_only().timeouts(rules);
    let other = move |_: Nothing, context: CallContext| {
        let ended = ended.clone();
        async move {
            context.cancel.cancelled().await;
            let _ = ended.send(());
            Ok::<_, ToolError>("")
        }
    };
    let waits = move |_: Nothing, _| {
        let wait = wait.clone();
        async move { wait() }
    };
    registry.register(Arc::new(blocks)).unwrap();
    registry
        .register(Arc::new(TypedTool::new("Timed", "", other).read_only().timeouts(rules)))
        .unwrap();
    registry.register(Arc::new(TypedTool::new("Waits", "", waits).read_only())).unwrap();
    let runtime = builder(registry).build().unwrap();
    for _ in 0..10 {
        let results = runtime.run_turn([call("a", "Blocks")]).await.unwrap();
        assert_eq!(text(&results[0]), "Tool execution timed out after 50ms");
        let results = runtime.run_turn([call("a", "Timed"), call("b", "Waits")]).await.unwrap();
        assert_eq!(text(&results[0]), "Tool execution timed out after 50ms");
        assert_eq!(text(&results[1]), "heard");
    }
}

// spec 2.8, 2.14
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_cannot_be_stopped_gets_its_result_which_says_that_it_may_still_run() {
    let (release, wait) = signal();
    let rules = TimeoutRules { default: Some(Duration::from_millis(50)), ..Default::default() };
    let blocks = move |_: Nothing, _| {
        let wait = wait.clone();
        async move { wait() }
    };
    let registry = Registry::new();
    registry.register(Arc::new(TypedTool::new("Blocks", "", blocks).timeouts(rules))).unwrap();
    let after = |_: Nothing, _| async { Ok::<_, ToolError>("after") };
    registry.register(Arc::new(TypedTool::new("After", "", after))).unwrap();
    let runtime = builder(registry).build().unwrap();
    let results = runtime.run_turn([call("a", "Blocks"), call("b", "After")]).await.unwrap();
    assert!(results[0].is_error);
    assert_eq!(
        text(&results[0]),
        "Tool execution timed out after 50ms\n[its code does not give its thread back, so it may still be running]"
    );
    assert_eq!(text(&results[1]), "after");
    release.send(()).unwrap();
}

// spec 1.10: even where one thread does everything
#[tokio::test]
async fn a_blocking_tool_holds_up_nobody_and_its_panic_is_its_own() {
    let (started, wait) = signal();
    let registry = Registry::new();
    let starts = move |_: Nothing, _| {
        let _ = started.send(());
        async { Ok::<_, ToolError>("started") }
    };
    let blocks = TypedTool::blocking("Blocks", "", move |_: Nothing, _| wait());
    let rules = TimeoutRules { default: Some(Duration::from_millis(50)), ..Default::default() };
    let timed = TypedTool::blocking("Timed", "", |_: Nothing, context| {
        waits_for_its_cancellation(&context)
    });
    let panics = TypedTool::blocking("Panics", "", |_: Nothing, _| -> Result<String, ToolError> {
        std::panic::resume_unwind(Box::new("gone".to_owned()))
    });
    registry.register(Arc::new(blocks.read_only())).unwrap();
    registry.register(Arc::new(timed.read_only().timeouts(rules))).unwrap();
    registry.register(Arc::new(panics.read_only())).unwrap();
    registry.register(Arc::new(TypedTool::new("Starts", "", starts).read_only())).unwrap();
    let runtime = builder(registry).build().unwrap();
    let calls = [call("a", "Blocks"), call("b", "Timed"), call("c", "Panics"), call("d", "Starts")];
    let results = runtime.run_turn(calls).await.unwrap();
    let texts: Vec<_> = results.iter().map(text).collect();
    let timed_out = "Tool execution timed out after 50ms";
    assert_eq!(texts, ["heard", timed_out, "Panics panicked: gone", "started"]);
}

/// Observers and listeners are called on the way of each result; one that takes its time holds up its own call alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn while_an_observer_blocks_other_calls_start_and_their_deadlines_come() {
    let (started, wait) = signal();
    struct Waits<W>(W, Mutex<Vec<Result<&'static str, String>>>);
    impl<W: Fn() -> Result<&'static str, ToolError> + Send + Sync> stockade_runtime::Observer
        for Waits<W>
    {
        fn committed(&self, result: &ToolResult) {
            if result.call_id.0 == "a" {
                let said = (self.0)().map_err(|error| error.to_string());
                self.1.lock().unwrap_or_else(PoisonError::into_inner).push(said);
            }
        }
    }
    let registry = Registry::new();
    let quick = |_: Nothing, _| async { Ok::<_, ToolError>("quick") };
    registry.register(Arc::new(TypedTool::new("Quick", "", quick).read_only())).unwrap();
    let rules = TimeoutRules { default: Some(Duration::from_millis(50)), ..Default::default() };
    let timed = move |_: Nothing, context: CallContext| {
        let started = started.clone();
        async move {
            context.cancel.cancelled().await;
            let _ = started.send(());
            Ok::<_, ToolError>("")
        }
    };
    registry
        .register(Arc::new(TypedTool::new("Timed", "", timed).read_only().timeouts(rules)))
        .unwrap();
    let observer = Arc::new(Waits(wait, Mutex::default()));
    let runtime = builder(registry).observer(observer.clone()).build().unwrap();
    for _ in 0..10 {
        let results = runtime.run_turn([call("a", "Quick"), call("b", "Timed")]).await.unwrap();
        assert_eq!(text(&results[1]), "Tool execution timed out after 50ms");
    }
    let said = observer.1.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert_eq!(said, vec![Ok("heard"); 10]);
}

/// Where a host's or a tool's code may hold its thread, apart from bodies.
const PLACES: [&str; 11] = [
    "classify",
    "resolve",
    "pre",
    "guard",
    "executing",
    "completed",
    "post",
    "observer",
    "finalize",
    "display",
    "oversized",
];
/// Those that are the tool's, after its body.
const LAST_WORDS: [&str; 3] = ["finalize", "display", "oversized"];

/// Waits in one place, for call `b`.
struct Holds<W> {
    at: &'static str,
    wait: W,
    heard: Mutex<Option<Result<&'static str, String>>>,
    schema: serde_json::Value,
}

impl<W: Fn() -> Result<&'static str, ToolError>> Holds<W> {
    fn pass(&self, place: &str, call: &str) {
        if place == self.at && call == "b" {
            let heard = (self.wait)().map_err(|error| error.to_string());
            self.heard.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(heard);
        }
    }
}

#[async_trait]
impl<W: Fn() -> Result<&'static str, ToolError> + Send + Sync> Tool for Holds<W> {
    fn name(&self) -> &str {
        "Holds"
    }

    fn description(&self) -> &str {
        ""
    }

    fn input_schema(&self) -> &serde_json::Value {
        &self.schema
    }

    fn concurrency_safe(&self, _: &serde_json::Value) -> Result<bool, ToolError> {
        self.pass("classify", "b");
        Ok(true)
    }

    fn resolve_input(
        &self,
        arguments: &serde_json::Value,
        _: &SessionContext,
    ) -> Result<serde_json::Value, ToolError> {
        self.pass("resolve", "b");
        Ok(arguments.clone())
    }

    async fn call(&self, _: &FrozenInput, _: &CallContext) -> Result<ToolOutput, ToolError> {
        let text = if self.at == "oversized" { "x".repeat(1000) } else { "held".to_owned() };
        Ok(ToolOutput { value: Some(json!({})), ..ToolOutput::text(text) })
    }

    fn budget(&self) -> ResultBudget {
        ResultBudget { max_inline_bytes: 500, max_model_bytes: 500, ..ResultBudget::default() }
    }

    fn oversized(&self, _: &[ContentBlock], _: Option<&str>) -> Option<Vec<ContentBlock>> {
        self.pass("oversized", "b");
        Some(vec![ContentBlock::text("held")])
    }

    fn display(&self, _: &serde_json::Value) -> Option<Display> {
        self.pass("display", "b");
        None
    }

    fn finalize_content(&self, content: Vec<ContentBlock>, _: bool) -> Vec<ContentBlock> {
        self.pass("finalize", "b");
        content
    }
}

struct Host<W>(Arc<Holds<W>>);

#[async_trait]
impl<W: Fn() -> Result<&'static str, ToolError> + Send + Sync> Hook for Host<W> {
    fn name(&self) -> &str {
        "holds"
    }

    async fn pre_execute(&self, call: &PreparedCall) -> Result<PreDecision, HookError> {
        self.0.pass("pre", &call.id().0);
        Ok(PreDecision::pass())
    }

    async fn post_execute(
        &self,
        call: &PreparedCall,
        _: &ToolResult,
    ) -> Result<PostDecision, HookError> {
        self.0.pass("post", &call.id().0);
        Ok(PostDecision::accept())
    }
}

impl<W: Fn() -> Result<&'static str, ToolError> + Send + Sync> Guard for Host<W> {
    fn name(&self) -> &str {
        "holds"
    }

    fn check(&self, call: &PreparedCall) -> Result<(), String> {
        self.0.pass("guard", &call.id().0);
        Ok(())
    }
}

impl<W: Fn() -> Result<&'static str, ToolError> + Send + Sync> Observer for Host<W> {
    fn committed(&self, result: &ToolResult) {
        self.0.pass("observer", &result.call_id.0);
    }
}

impl<W: Fn() -> Result<&'static str, ToolError> + Send + Sync> EventSink for Host<W> {
    fn emit(&self, event: &Event) {
        match event.transition {
            Transition::Executing(_) => self.0.pass("executing", &event.call_id.0),
            Transition::Completed => self.0.pass("completed", &event.call_id.0),
            _ => {}
        }
    }
}

// spec 2.8
#[test]
fn while_a_hosts_or_a_tools_code_holds_its_thread_anywhere_the_deadlines_of_bodies_come() {
    let rules = TimeoutRules { default: Some(Duration::from_millis(50)), ..Default::default() };
    for at in PLACES {
        for _ in 0..3 {
            let (ended, wait) = signal();
            let (heard, schema) = (Mutex::default(), json!({"type": "object"}));
            let holds = Arc::new(Holds { at, wait, heard, schema });
            let timed = move |_: Nothing, context: CallContext| {
                let ended = ended.clone();
                async move {
                    context.cancel.cancelled().await;
                    let _ = ended.send(());
                    Ok::<_, ToolError>("")
                }
            };
            let registry = Registry::new();
            registry
                .register(Arc::new(TypedTool::new("Timed", "", timed).read_only().timeouts(rules)))
                .unwrap();
            registry.register(holds.clone()).unwrap();
            let host = Arc::new(Host(holds.clone()));
            let mut builder = builder(registry).guard(host.clone()).events(host.clone());
            // Without them there are fewer tasks, and the tool's own word is no less its own.
            if !LAST_WORDS.contains(&at) {
                builder = builder.hook(host.clone()).observer(host);
            }
            let runtime = builder.build().unwrap();
            // What is committed comes in order: there the one that holds its thread must be first.
            let mut calls = vec![call("a", "Timed"), call("b", "Holds")];
            if matches!(at, "post" | "observer") || LAST_WORDS.contains(&at) {
                calls.reverse();
            }
            let mut executor = tokio::runtime::Builder::new_multi_thread();
            let executor = executor.worker_threads(2).enable_all().build().unwrap();
            let results = executor.block_on(runtime.run_turn(calls)).unwrap();
            let mut texts: Vec<_> = results.iter().map(text).collect();
            texts.sort();
            assert_eq!(texts, ["Tool execution timed out after 50ms", "held"], "{at}");
            let heard = holds.heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
            assert_eq!(heard, Some(Ok("heard")), "{at}");
        }
    }
}

// spec 1.10, 1.12, 2.13
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn while_a_tool_has_its_last_word_others_start_and_an_abort_is_heard() {
    for at in LAST_WORDS {
        for aborts in [false, true] {
            let (ended, wait) = signal();
            let (began, has_begun) = channel();
            let schema = json!({"type": "object"});
            let holds = Arc::new(Holds { at, wait, heard: Mutex::default(), schema });
            let other = move |_: Nothing, context: CallContext| {
                let (ended, began) = (ended.clone(), began.clone());
                async move {
                    let _ = began.send(());
                    if aborts {
                        context.cancel.cancelled().await;
                    }
                    let _ = ended.send(());
                    Ok::<_, ToolError>("other")
                }
            };
            let registry = Registry::new();
            registry.register(Arc::new(TypedTool::new("Other", "", other).read_only())).unwrap();
            registry.register(holds.clone()).unwrap();
            // One at a time: the other starts when the body of the first has ended.
            let settings = Settings { max_parallel_calls: 1, ..Settings::default() };
            let runtime = builder(registry).settings(settings).build().unwrap();
            let mut turn = runtime.open_turn();
            turn.submit(call("b", "Holds")).unwrap();
            turn.submit(call("c", "Other")).unwrap();
            turn.close();
            if aborts {
                let begun = tokio::task::spawn_blocking(move || has_begun.recv_timeout(PATIENCE));
                assert_eq!(begun.await.unwrap(), Ok(()), "{at}");
                turn.abort();
            }
            let first = turn.next_result().await.unwrap().unwrap();
            assert_eq!(text(&first), "held", "{at}");
            let heard = holds.heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
            assert_eq!(heard, Some(Ok("heard")), "{at}");
        }
    }
}

// spec 1.5: of a tool of which nobody knows yet that it holds its threads
#[test]
fn bodies_that_hold_their_threads_run_beside_each_other_from_the_first() {
    let mut executor = tokio::runtime::Builder::new_multi_thread();
    let executor = executor.worker_threads(5).enable_all().build().unwrap();
    let all = Arc::new(std::sync::Barrier::new(4));
    let meets = move |_: Nothing, _| {
        let all = all.clone();
        async move {
            all.wait();
            Ok::<_, ToolError>("met")
        }
    };
    let registry = Registry::new();
    registry.register(Arc::new(TypedTool::new("Meets", "", meets).read_only())).unwrap();
    let runtime = builder(registry).build().unwrap();
    let calls = ["a", "b", "c", "d"].map(|id| call(id, "Meets"));
    let results = executor.block_on(runtime.run_turn(calls)).unwrap();
    assert_eq!(results.iter().map(text).collect::<Vec<_>>(), ["met"; 4]);
}
