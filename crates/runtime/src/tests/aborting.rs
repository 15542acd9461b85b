//! How calls are stopped (spec 1.16, 2.8, 2.10).

use super::*;
use crate::{Hook, HookError, PostDecision, PreDecision, PreparedCall};
use stockade_sandbox::TreeSignal;
use stockade_sandbox::fake::{Script, Step};

async fn all_results(turn: &mut crate::Turn) -> Vec<ToolResult> {
    let mut results = Vec::new();
    while let Some(result) = turn.next_result().await.unwrap() {
        results.push(result);
    }
    results
}

// spec 1.16
#[tokio::test(start_paused = true)]
async fn after_an_abort_every_call_still_has_its_one_result_in_order() {
    let trace = Trace::default();
    let runtime = builder(probes(&trace)).build().unwrap();
    let mut turn = runtime.open_turn();
    for submission in [
        call("Share", "done", 1),
        call("Share", "running", 60_000),
        call("Alone", "waiting", 1),
        call("Nobody", "unknown", 1),
        call("Share", "queued", 1),
    ] {
        turn.submit(submission).unwrap();
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    turn.abort();
    turn.submit(call("Share", "late", 1)).unwrap();
    turn.close();
    let results = all_results(&mut turn).await;
    assert_eq!(ids(&results), ["done", "running", "waiting", "unknown", "queued", "late"]);
    let texts: Vec<_> = results.iter().map(text).collect();
    assert_eq!(texts[0], "did done");
    assert!(texts[1].starts_with("ABORTED: "), "{texts:?}");
    for aborted in &texts[2..] {
        assert!(aborted.starts_with("ABORTED_BEFORE_DISPATCH: "), "{texts:?}");
    }
    assert!(results[1..].iter().all(|result| result.is_error));
    assert_eq!(trace.taken(), ["start done", "start running", "end done", "end running"]);
}

// spec 1.16, 2.10
#[tokio::test(start_paused = true)]
async fn an_aborted_command_is_really_gone_before_its_result_comes() {
    let provider = FakeProvider::new("/ws").on_command(|_| Ok(Script::steps(vec![Step::Hang])));
    let runtime = ToolRuntime::builder()
        .provider(Arc::new(provider.clone()))
        .policy(policy("test"))
        .build()
        .unwrap();
    let mut turn = runtime.open_turn();
    let arguments = json!({"command": "sleep 1000"});
    turn.submit(ToolCall { id: CallId("a".into()), name: "Bash".into(), arguments }).unwrap();
    turn.close();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(provider.running(), 1);
    turn.abort();
    let result = turn.next_result().await.unwrap().unwrap();
    assert!(text(&result).starts_with("ABORTED: "), "{result:?}");
    assert_eq!(provider.running(), 0);
    assert_eq!(provider.signals().first(), Some(&TreeSignal::Terminate));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_dropped_stops_what_it_started() {
    let trace = Trace::default();
    let runtime = builder(probes(&trace)).build().unwrap();
    let turn = runtime.open_turn();
    turn.submit(call("Share", "a", 3_600_000)).unwrap();
    turn.submit(call("Alone", "b", 1)).unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    drop(turn);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(trace.taken(), ["start a", "end a"]);
}

struct Chain(Trace);
#[async_trait]
impl Hook for Chain {
    fn name(&self) -> &str {
        "chain"
    }
    async fn pre_execute(&self, _: &PreparedCall) -> Result<PreDecision, HookError> {
        self.0.note("hook begins");
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.0.note("hook ends");
        Ok(PreDecision::pass())
    }
    async fn post_execute(
        &self,
        _: &PreparedCall,
        _: &ToolResult,
    ) -> Result<PostDecision, HookError> {
        self.0.note("post hook");
        Ok(PostDecision::accept())
    }
}

// spec 1.16
#[tokio::test(start_paused = true)]
async fn a_chain_of_hooks_that_has_begun_is_never_abandoned() {
    let trace = Trace::default();
    let runtime = builder(probes(&trace)).hook(Arc::new(Chain(trace.clone()))).build().unwrap();
    let mut turn = runtime.open_turn();
    turn.submit(call("Share", "a", 1)).unwrap();
    turn.close();
    tokio::time::sleep(Duration::from_millis(50)).await;
    turn.abort();
    let results = all_results(&mut turn).await;
    assert!(text(&results[0]).starts_with("ABORTED_BEFORE_DISPATCH"));
    assert_eq!(trace.taken(), ["hook begins", "hook ends"]);
}

// spec 1.16
#[tokio::test(start_paused = true)]
async fn a_call_whose_approval_is_cancelled_never_runs_but_passes_the_post_execute_hooks() {
    struct Asks;
    #[async_trait]
    impl Hook for Asks {
        fn name(&self) -> &str {
            "asks"
        }
        async fn pre_execute(&self, _: &PreparedCall) -> Result<PreDecision, HookError> {
            Ok(crate::PreVerdict::Ask("sure?".into()).into())
        }
    }
    struct Absent;
    #[async_trait]
    impl crate::Approver for Absent {
        async fn decide(&self, _: &crate::ApprovalRequest) -> Result<crate::Decision, HookError> {
            std::future::pending().await
        }
    }
    let trace = Trace::default();
    let runtime = builder(probes(&trace))
        .hook(Arc::new(Chain(trace.clone())))
        .hook(Arc::new(Asks))
        .approver(Arc::new(Absent))
        .build()
        .unwrap();
    let mut turn = runtime.open_turn();
    turn.submit(call("Share", "a", 1)).unwrap();
    turn.close();
    tokio::time::sleep(Duration::from_secs(1)).await;
    turn.abort();
    let results = all_results(&mut turn).await;
    assert!(text(&results[0]).starts_with("ABORTED_BEFORE_DISPATCH"));
    assert_eq!(trace.taken(), ["hook begins", "hook ends", "post hook"]);
}

// spec 2.8
#[tokio::test(start_paused = true)]
async fn a_tool_that_says_nothing_of_time_has_300_seconds() {
    let trace = Trace::default();
    let runtime = builder(probes(&trace)).build().unwrap();
    let begun = tokio::time::Instant::now();
    let results = runtime
        .run_turn([call("Share", "a", 299_999), call("Share", "b", 3_600_000)])
        .await
        .unwrap();
    assert_eq!(text(&results[0]), "did a");
    assert_eq!(text(&results[1]), "Tool execution timed out after 300000ms");
    assert!(results[1].is_error);
    // It ignores its cancellation, so it is dropped after the drain.
    assert_eq!(begun.elapsed(), Duration::from_secs(306));
    assert_eq!(trace.taken(), ["start a", "start b", "end a", "end b"]);
}

// spec 2.6
#[tokio::test(start_paused = true)]
async fn waiting_for_a_person_does_not_count_as_run_time() {
    struct Slow;
    #[async_trait]
    impl crate::Approver for Slow {
        async fn decide(&self, _: &crate::ApprovalRequest) -> Result<crate::Decision, HookError> {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Ok(crate::Decision::Allow)
        }
    }
    struct Asks;
    #[async_trait]
    impl Hook for Asks {
        fn name(&self) -> &str {
            "asks"
        }
        async fn pre_execute(&self, _: &PreparedCall) -> Result<PreDecision, HookError> {
            Ok(crate::PreVerdict::Ask("sure?".into()).into())
        }
    }
    let trace = Trace::default();
    let runtime =
        builder(probes(&trace)).hook(Arc::new(Asks)).approver(Arc::new(Slow)).build().unwrap();
    let results = runtime.run_turn([call("Share", "a", 299_000)]).await.unwrap();
    assert_eq!(text(&results[0]), "did a");
}

// spec 2.8
#[tokio::test(start_paused = true)]
async fn bash_times_itself_and_says_what_became_of_its_processes() {
    let provider = FakeProvider::new("/ws").on_command(|_| Ok(Script::steps(vec![Step::Hang])));
    let runtime =
        ToolRuntime::builder().provider(Arc::new(provider)).policy(policy("test")).build().unwrap();
    let arguments = json!({"command": "x", "timeout": 1000});
    let call = ToolCall { id: CallId("a".into()), name: "Bash".into(), arguments };
    let results = runtime.run_turn([call]).await.unwrap();
    let text = text(&results[0]);
    assert!(text.starts_with("Tool execution timed out after 1000ms\n[the process tree"), "{text}");
}

// spec 2.8
#[tokio::test(start_paused = true)]
async fn the_watchdog_of_a_tool_that_times_itself_comes_a_grace_later() {
    struct Forgets;
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| json!({"type": "object"}));
    #[async_trait]
    impl Tool for Forgets {
        fn name(&self) -> &str {
            "Forgets"
        }
        fn description(&self) -> &str {
            ""
        }
        fn input_schema(&self) -> &Value {
            &SCHEMA
        }
        fn timeout(&self, _: &FrozenInput) -> stockade_tools::Timeout {
            stockade_tools::Timeout::SelfTimed(Duration::from_secs(1))
        }
        async fn call(&self, _: &FrozenInput, cx: &CallContext) -> Result<ToolOutput, ToolError> {
            cx.cancel.cancelled().await;
            Ok(ToolOutput::text("quiet"))
        }
    }
    let registry = Registry::new();
    registry.register(Arc::new(Forgets)).unwrap();
    let runtime = builder(Arc::new(registry)).build().unwrap();
    let begun = tokio::time::Instant::now();
    let results = runtime.run_turn([call("Forgets", "a", 0)]).await.unwrap();
    assert_eq!(text(&results[0]), "Tool execution timed out after 1000ms");
    assert_eq!(begun.elapsed(), Duration::from_secs(7));
}

/// Bash, of which several may run at once.
#[derive(Default)]
struct BesideOthers(stockade_tools::builtin::Bash);

#[async_trait]
impl Tool for BesideOthers {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn description(&self) -> &str {
        self.0.description()
    }
    fn input_schema(&self) -> &Value {
        self.0.input_schema()
    }
    fn concurrency_safe(&self, _: &Value) -> Result<bool, ToolError> {
        Ok(true)
    }
    fn cascades_on_error(&self) -> bool {
        true
    }
    async fn call(&self, input: &FrozenInput, cx: &CallContext) -> Result<ToolOutput, ToolError> {
        self.0.call(input, cx).await
    }
}

// spec 1.11, 1.16, 6.1: the reason first, then what is known of the command
#[tokio::test(start_paused = true)]
async fn what_a_stopped_command_had_written_is_in_its_result_whoever_stopped_it() {
    let provider = FakeProvider::new("/ws").on_command(|command| {
        let failing = command.argv.last().is_some_and(|line| line == "grep x y");
        let mut script = Script::steps(match failing {
            true => vec![Step::Sleep(Duration::from_secs(1))],
            false => vec![Step::Stdout(b"half\n".to_vec()), Step::Hang],
        });
        if failing {
            script.exit = stockade_sandbox::Exit::Code(1);
        }
        Ok(script)
    });
    let results = async |commands: &[&str], stop: fn(&crate::Turn)| {
        let registry = Registry::new();
        registry.register(Arc::new(BesideOthers::default())).unwrap();
        let runtime = ToolRuntime::builder()
            .provider(Arc::new(provider.clone()))
            .registry(Arc::new(registry))
            .policy(policy("test"))
            .settings(crate::Settings { cascade: crate::Cascade::Shell, ..Default::default() })
            .build()
            .unwrap();
        let mut turn = runtime.open_turn();
        for (number, line) in commands.iter().enumerate() {
            let id = CallId(format!("c{number}"));
            let arguments = json!({"command": line});
            turn.submit(ToolCall { id, name: "Bash".into(), arguments }).unwrap();
        }
        turn.close();
        tokio::time::sleep(Duration::from_secs(10)).await;
        stop(&turn);
        all_results(&mut turn).await
    };
    let told = |result: &ToolResult, why: &str| {
        let text = text(result);
        let (reason, rest) = text.split_once('\n').unwrap_or((text.as_str(), ""));
        assert!(reason.starts_with(why), "{text}");
        assert!(rest.starts_with("half\nThe command was cancelled\n["), "{text}");
        assert!(rest.ends_with(" ms]"), "{text}");
    };
    for stop in [crate::Turn::abort, crate::Turn::kill] {
        told(&results(&["cat a"], stop).await[0], "ABORTED: ");
    }
    let siblings = results(&["cat a", "grep x y"], |_| {}).await;
    told(&siblings[0], "Cancelled: parallel tool call Bash(grep x y) errored");
    assert_eq!(text(&siblings[1]), "Exit code 1");
}

// spec 1.14
#[tokio::test(start_paused = true)]
async fn an_interrupt_stops_what_was_submitted_before_it_and_nothing_that_comes_after() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Arguments {
        #[allow(dead_code)]
        id: String,
        ms: u64,
    }
    let waits = |arguments: Arguments, _| async move {
        tokio::time::sleep(Duration::from_millis(arguments.ms)).await;
        Ok::<_, ToolError>("ran")
    };
    let registry = Registry::new();
    for (name, parallel) in [("Share", true), ("Alone", false)] {
        let tool = stockade_tools::TypedTool::new(name, "", waits).cancel_on_interrupt();
        let tool = if parallel { tool.read_only() } else { tool };
        registry.register(Arc::new(tool)).unwrap();
    }
    let runtime = builder(Arc::new(registry)).build().unwrap();
    // All at once, and with time between.
    for pause in [0, 10] {
        let mut turn = runtime.open_turn();
        turn.submit(call("Share", "running", 1000)).unwrap();
        turn.submit(call("Alone", "waiting", 1000)).unwrap();
        tokio::time::sleep(Duration::from_millis(pause)).await;
        turn.interrupt();
        turn.submit(call("Share", "after", 5)).unwrap();
        turn.submit(call("Alone", "after that", 5)).unwrap();
        tokio::time::sleep(Duration::from_millis(pause)).await;
        turn.close();
        let results = all_results(&mut turn).await;
        let stopped: Vec<_> = results.iter().map(|r| (r.call_id.0.as_str(), r.is_error)).collect();
        let expected =
            [("running", true), ("waiting", true), ("after", false), ("after that", false)];
        assert_eq!(stopped, expected, "{pause}: {results:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_feeder_that_dies_without_a_word_closes_the_turn() {
    let trace = Trace::default();
    let runtime = builder(probes(&trace)).build().unwrap();
    for fed in [0, 2] {
        let mut turn = runtime.open_turn();
        turn.submit(call("Share", "own", 1)).unwrap();
        let (feeder, other) = (turn.submitter(), turn.submitter());
        tokio::spawn(async move {
            for id in ["a", "b"].iter().take(fed) {
                feeder.submit(call("Share", id, 1)).unwrap();
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
            // A stream that fails: the task ends here.
            drop(feeder);
        });
        drop(other);
        let rest = tokio::time::timeout(Duration::from_secs(3600), all_results(&mut turn));
        assert_eq!(rest.await.expect("it does not wait for ever").len(), 1 + fed);
        assert!(turn.submit(call("Share", "late", 1)).is_err());
    }
    // One that was never given out is not missed, and a turn is its host's to feed.
    let mut turn = runtime.open_turn();
    let waits = tokio::time::timeout(Duration::from_secs(3600), turn.next_result());
    assert!(waits.await.is_err());
    turn.submit(call("Share", "a", 1)).unwrap();
    turn.close();
    assert_eq!(all_results(&mut turn).await.len(), 1);
}
