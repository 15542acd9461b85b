//! B: the batch executor of ZCode. A turn runs as its planned groups, with batch events; safe calls may start early; nothing
//! cascades.

use crate::probe::{Log, Probe};
use crate::world::{Events, builder, call, ids, rest, runtime, text, tools, wait, with};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use stockade_runtime::{
    Hook, HookError, PreDecision, PreVerdict, PreparedCall, Settings, Submission, ToolRuntime,
};
use stockade_tools::{
    CallContext, Display, FrozenInput, Hunk, Metadata, Registry, Timeout, TimeoutRules, Tool,
    ToolError, ToolOutput, TypedTool,
};
use stockade_types::{CallId, ToolCall, ToolResult};
use tokio::time::Instant;

fn batched(log: &Log) -> ToolRuntime {
    runtime(Settings::batched(), log)
}

fn names(groups: Vec<Vec<CallId>>) -> Vec<Vec<String>> {
    groups.into_iter().map(|group| group.into_iter().map(|id| id.0).collect()).collect()
}

// spec 1.3
#[test]
fn b_1_3_flags_are_read_from_metadata_and_mcp_annotations() {
    let parallel = |annotations: Value| Metadata::from_mcp_annotations(&annotations).is_parallel();
    assert!(parallel(json!({"readOnlyHint": true})) && parallel(json!({"idempotentHint": true})));
    assert!(!parallel(json!({"idempotentHint": true, "destructiveHint": true})));
    let reads = Metadata { concurrency_safe: None, ..Metadata::READ_ONLY };
    assert!(reads.is_parallel() && reads.is_read_only());
    assert!(!Metadata { destructive: true, ..reads }.is_parallel());
}

fn example() -> [ToolCall; 6] {
    [
        call("Read", "a", 10),
        call("Read", "b", 20),
        call("Edit", "c", 10),
        call("WebFetch", "d", 10),
        call("Bash", "e", 10),
        call("Read", "f", 10),
    ]
}

// spec 1.6
#[tokio::test(start_paused = true)]
async fn b_1_6_groups_are_consecutive_parallel_calls_and_exclusive_ones_alone() {
    let log = Log::default();
    let runtime = batched(&log);
    let expected = [&["a", "b"][..], &["c"], &["d"], &["e"], &["f"]];
    assert_eq!(names(runtime.plan(example())), expected);
    let many: Vec<_> = (0..25).map(|number| call("Read", &number.to_string(), 1)).collect();
    let sizes: Vec<_> = runtime.plan(many).iter().map(Vec::len).collect();
    assert_eq!(sizes, [10, 10, 5]);
}

// spec 1.6
#[tokio::test(start_paused = true)]
async fn b_1_6_groups_run_one_after_another_with_an_event_at_each_start_and_end() {
    let log = Log::default();
    let events = Events::default();
    let runtime = builder(Settings::batched(), tools(&log)).events(Arc::new(events.clone()));
    let runtime = runtime.build().expect("a runtime");
    let results = runtime.run_groups(example()).await.expect("no fault");
    assert_eq!(ids(&results), ["a", "b", "c", "d", "e", "f"]);
    let steps: Vec<String> = events
        .all()
        .iter()
        .filter_map(|event| match event["event"].as_str() {
            Some("batch_started") => Some(format!("[{}", event["calls"])),
            Some("batch_ended") => Some(format!("{}]", event["batch"])),
            Some("executing") => Some(event["call_id"].as_str().unwrap_or_default().to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(
        steps,
        [
            "[[\"a\",\"b\"]",
            "a",
            "b",
            "0]",
            "[[\"c\"]",
            "c",
            "1]",
            "[[\"d\"]",
            "d",
            "2]",
            "[[\"e\"]",
            "e",
            "3]",
            "[[\"f\"]",
            "f",
            "4]"
        ]
    );
    // A group of parallel calls is not refilled from the next one.
    let calls = (0..11).map(|n| call("Read", &n.to_string(), if n == 0 { 100 } else { 1 }));
    let begun = Instant::now();
    runtime.run_groups(calls.collect::<Vec<_>>()).await.expect("no fault");
    assert_eq!(begun.elapsed().as_millis(), 101);
}

// spec 1.7
#[tokio::test(start_paused = true)]
async fn b_1_7_dependencies_are_honoured_live_and_errors_are_of_those_calls_alone() {
    let log = Log::default();
    let after = |name: &str, id: &str, ms, on: &[&str]| Submission::After {
        call: call(name, id, ms),
        depends_on: on.iter().map(|id| CallId((*id).to_owned())).collect(),
    };
    // As groups: a call that depends on one of its group begins a new one.
    let runtime = batched(&log);
    let calls = || [after("Read", "a", 10, &[]), after("Read", "b", 10, &["a"])];
    assert_eq!(names(runtime.plan(calls())), [["a"], ["b"]]);
    runtime.run_groups(calls()).await.expect("no fault");
    assert_eq!(log.taken(), ["start a", "end a", "start b", "end b"]);
    // Live: others pass a parallel call that waits, and it starts when what it waits for has ended.
    let live = crate::world::runtime(Settings::rolling(), &log);
    let calls =
        [after("Read", "a", 30, &[]), after("Read", "b", 10, &["a"]), after("Read", "c", 10, &[])];
    let results = live.run_turn(calls).await.expect("no fault");
    assert_eq!(log.taken(), ["start a", "start c", "end c", "end a", "start b", "end b"]);
    assert_eq!(ids(&results), ["a", "b", "c"]);
    // A later one: the order is a topological one, the results stand in the model's.
    let calls =
        [after("Read", "a", 1, &["c"]), after("Edit", "b", 5, &[]), after("Edit", "c", 5, &[])];
    let results = live.run_turn(calls).await.expect("no fault");
    assert_eq!(log.taken(), ["start b", "end b", "start c", "end c", "start a", "end a"]);
    assert_eq!(ids(&results), ["a", "b", "c"]);
    let calls = [
        after("Read", "a", 1, &["b"]),
        after("Read", "b", 1, &["a"]),
        after("Read", "c", 1, &["nobody"]),
        after("Read", "d", 1, &["c"]),
        after("Edit", "e", 1, &[]),
    ];
    let results = live.run_turn(calls).await.expect("no fault");
    let errors: Vec<_> = results.iter().map(|result| result.is_error).collect();
    assert_eq!(errors, [true, true, true, false, false]);
    assert!(
        text(&results[0]).contains("depends on itself") && text(&results[2]).contains("nobody")
    );
}

// spec 1.9
#[tokio::test(start_paused = true)]
async fn b_1_9_the_start_event_is_out_before_the_body_and_carries_the_flags_of_that_moment() {
    let log = Log::default();
    let events = Events::default();
    let registry = Arc::new(tools(&log));
    let (inner, shared) = (Arc::clone(&registry), log.clone());
    let swap = Probe::alone("Swap", &log).doing(move |_, _| {
        inner.replace(Arc::new(Probe::alone("Read", &shared))).expect("a tool");
        Ok("swapped".into())
    });
    registry.register(Arc::new(swap)).expect("a tool");
    let runtime = builder(Settings::batched(), Registry::new())
        .registry(registry)
        .events(Arc::new(events.clone()))
        .build()
        .expect("a runtime");
    runtime.run_groups([call("Swap", "a", 1), call("Read", "b", 1)]).await.expect("no fault");
    let all = events.all();
    let start = all.iter().find(|e| e["call_id"] == "b" && e["event"] == "executing");
    assert_eq!(start.expect("a start event")["mode"], "exclusive");
}

// spec 1.11
#[tokio::test(start_paused = true)]
async fn b_1_11_nothing_cascades_and_later_groups_go_on() {
    let log = Log::default();
    let calls = [with("Bash", "a", json!({"fail": true})), call("Edit", "b", 1)];
    let results = batched(&log).run_groups(calls).await.expect("no fault");
    assert_eq!((results[0].is_error, results[1].is_error), (true, false));
}

// spec 1.18
#[tokio::test(start_paused = true)]
async fn b_1_18_a_result_may_stop_the_turn_and_each_later_call_is_told() {
    let log = Log::default();
    let calls = [
        call("Read", "a", 10),
        with("Edit", "b", json!({"stop": true})),
        call("Read", "c", 1),
        call("Bash", "d", 1),
    ];
    let results = batched(&log).run_groups(calls).await.expect("no fault");
    assert!(results[1].stop_turn && !results[1].is_error);
    for result in &results[2..] {
        let expected = "Tool cancelled because a previous tool result requested a turn stop.";
        assert_eq!((text(result).as_str(), result.is_error), (expected, true));
    }
    assert_eq!(log.taken(), ["start a", "end a", "start b", "end b"]);
}

// spec 1.19
#[tokio::test(start_paused = true)]
async fn b_1_19_only_safe_calls_start_while_the_model_streams() {
    let log = Log::default();
    let registry = tools(&log);
    let asks = stockade_tools::ApprovalNeed::Ask;
    let asking = Probe { approval: asks, ..Probe::reads("Ask", &log) };
    registry.register(Arc::new(asking)).expect("a tool");
    let runtime = builder(Settings::batched(), registry).build().expect("a runtime");
    for (name, starts) in
        [("Read", true), ("WebFetch", false), ("Edit", false), ("Bash", false), ("Ask", false)]
    {
        let mut turn = runtime.open_turn();
        turn.submit(call(name, "a", 10)).expect("open");
        wait(5).await;
        assert_eq!(log.taken() == ["start a"], starts, "{name}");
        // Nothing overtakes it.
        turn.submit(call("Read", "b", 10)).expect("open");
        wait(1).await;
        assert_eq!(log.taken() == ["start b"], starts, "{name}");
        turn.close();
        assert_eq!(rest(&mut turn).await.len(), 2);
        log.taken();
    }
}

async fn one(registry: Registry, call: ToolCall) -> ToolResult {
    let runtime = builder(Settings::batched(), registry).build().expect("a runtime");
    runtime.run_turn([call]).await.expect("no fault").remove(0)
}

// spec 2.2: what is approved is what runs
#[tokio::test(start_paused = true)]
async fn b_2_2_hooks_and_body_see_the_same_frozen_arguments_and_each_call_has_a_token() {
    struct Sees(Log);
    #[async_trait]
    impl Hook for Sees {
        fn name(&self) -> &str {
            "sees"
        }
        async fn pre_execute(&self, call: &PreparedCall) -> Result<PreDecision, HookError> {
            self.0.note(format!("hook {:p} {}", call.input().value(), call.input().value()));
            self.0.note(format!("{:?}", call.token()));
            Ok(PreDecision::pass())
        }
    }
    struct Reports(Log, Value);
    #[async_trait]
    impl Tool for Reports {
        fn name(&self) -> &str {
            "Reports"
        }
        fn description(&self) -> &str {
            ""
        }
        fn input_schema(&self) -> &Value {
            &self.1
        }
        fn resolve_input(
            &self,
            _: &Value,
            session: &stockade_tools::SessionContext,
        ) -> Result<Value, ToolError> {
            Ok(json!({"path": session.cwd.join("x")}))
        }
        async fn call(
            &self,
            input: &FrozenInput,
            _: &CallContext,
        ) -> Result<ToolOutput, ToolError> {
            self.0.note(format!("hook {:p} {}", input.value(), input.value()));
            Ok("".into())
        }
    }
    let log = Log::default();
    let registry = Registry::new();
    let schema = json!({"type": "object"});
    registry.register(Arc::new(Reports(log.clone(), schema))).expect("a tool");
    let runtime = builder(Settings::batched(), registry).hook(Arc::new(Sees(log.clone())));
    let runtime = runtime.build().expect("a runtime");
    let calls = [with("Reports", "a", json!({"path": "x"})), with("Reports", "b", json!({}))];
    runtime.run_turn(calls).await.expect("no fault");
    let noted = log.taken();
    assert_eq!(noted[0], noted[2], "one value, at one place");
    assert!(noted[0].ends_with("{\"path\":\"/ws/x\"}"));
    assert_ne!(noted[1], noted[4], "tokens are unique");
}

// spec 2.3
#[tokio::test(start_paused = true)]
async fn b_2_3_an_allow_spares_a_confirmation_but_not_one_that_is_always_asked() {
    struct Says(PreVerdict);
    #[async_trait]
    impl Hook for Says {
        fn name(&self) -> &str {
            "says"
        }
        async fn pre_execute(&self, _: &PreparedCall) -> Result<PreDecision, HookError> {
            Ok(self.0.clone().into())
        }
    }
    use stockade_tools::ApprovalNeed::{AlwaysAsk, Ask, None as Never};
    let log = Log::default();
    let ask = || PreVerdict::Ask("sure?".into());
    for (need, verdicts, runs) in [
        (Ask, vec![], false),
        (Ask, vec![PreVerdict::Allow], true),
        (Ask, vec![PreVerdict::Allow, ask()], false),
        (AlwaysAsk, vec![PreVerdict::Allow], false),
        (Never, vec![], true),
        (Never, vec![ask()], false),
        (Never, vec![PreVerdict::Allow, PreVerdict::Deny("no".into())], false),
    ] {
        let registry = Registry::new();
        let probe = Probe { approval: need, ..Probe::reads("Read", &log) };
        registry.register(Arc::new(probe)).expect("a tool");
        let mut builder = builder(Settings::batched(), registry);
        for verdict in verdicts.clone() {
            builder = builder.hook(Arc::new(Says(verdict)));
        }
        let runtime = builder.build().expect("a runtime");
        let results = runtime.run_turn([call("Read", "a", 1)]).await.expect("no fault");
        assert_eq!(!results[0].is_error, runs, "{need:?} {verdicts:?}: {results:?}");
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[allow(dead_code)]
struct Timed {
    timeout_ms: Option<u64>,
}

fn hangs(rules: TimeoutRules) -> Registry {
    let registry = Registry::new();
    let body = |_: Timed, context: CallContext| async move {
        context.cancel.cancelled().await;
        Ok::<_, ToolError>("quiet")
    };
    registry.register(Arc::new(TypedTool::new("Hang", "", body).timeouts(rules))).expect("a tool");
    registry
}

// spec 2.8
#[tokio::test(start_paused = true)]
async fn b_2_8_the_calls_own_time_then_the_tools_then_the_executors_capped_and_never_nothing() {
    let seconds = |s| Some(Duration::from_secs(s));
    let rules = |call_may_choose, default, max| TimeoutRules { call_may_choose, default, max };
    let none = json!({});
    for (rules, arguments, ms) in [
        (rules(false, None, None), &none, 300_000),
        (rules(false, seconds(7), None), &none, 7_000),
        (rules(true, seconds(7), None), &json!({"timeout_ms": 50}), 50),
        (rules(false, seconds(7), None), &json!({"timeout_ms": 50}), 7_000),
        (rules(true, seconds(7), seconds(9)), &json!({"timeout_ms": 50_000}), 9_000),
        (rules(true, None, seconds(9)), &none, 9_000),
        (rules(true, None, None), &json!({"timeout_ms": 0}), 1),
    ] {
        let begun = Instant::now();
        let result = one(hangs(rules), with("Hang", "a", arguments.clone())).await;
        assert_eq!(text(&result), format!("Tool execution timed out after {ms}ms"));
        assert_eq!(begun.elapsed().as_millis(), ms);
    }
}

// spec 2.8: no timer, and a tool that times itself
#[tokio::test(start_paused = true)]
async fn b_2_8_no_timer_means_none_and_a_tools_own_word_on_its_arguments_comes_first() {
    struct Own(Timeout, Value);
    #[async_trait]
    impl Tool for Own {
        fn name(&self) -> &str {
            "Own"
        }
        fn description(&self) -> &str {
            ""
        }
        fn input_schema(&self) -> &Value {
            &self.1
        }
        fn timeout(&self, _: &FrozenInput) -> Timeout {
            self.0
        }
        async fn call(&self, _: &FrozenInput, cx: &CallContext) -> Result<ToolOutput, ToolError> {
            tokio::select! {
                () = wait(1_000_000) => Ok("at last".into()),
                () = cx.cancel.cancelled() => Ok("stopped".into()),
            }
        }
    }
    let second = Duration::from_secs(1);
    for (timeout, told, took) in [
        (Timeout::None, "at last", 1_000_000),
        (Timeout::After(second), "Tool execution timed out after 1000ms", 1000),
        (Timeout::SelfTimed(second), "Tool execution timed out after 1000ms", 7000),
    ] {
        let registry = Registry::new();
        let schema = json!({"type": "object"});
        registry.register(Arc::new(Own(timeout, schema))).expect("a tool");
        let begun = Instant::now();
        assert_eq!(text(&one(registry, with("Own", "a", json!({}))).await), told);
        assert_eq!(begun.elapsed().as_millis(), took);
    }
}

// spec 2.9
#[tokio::test(start_paused = true)]
async fn b_2_9_time_in_a_queue_does_not_count_and_the_error_says_how_long_it_was() {
    let registry = Registry::new();
    let body = |_: Timed, context: CallContext| async move {
        wait(30).await;
        context.queueing.wait(wait(5000)).await;
        wait(100_000).await;
        Ok::<_, ToolError>("done")
    };
    let rules = TimeoutRules { default: Some(Duration::from_millis(100)), ..Default::default() };
    registry.register(Arc::new(TypedTool::new("Pool", "", body).timeouts(rules))).expect("a tool");
    let begun = Instant::now();
    let result = one(registry, with("Pool", "a", json!({}))).await;
    let expected = "Tool execution timed out after 100ms (queued_ms: 5000, which did not count)";
    assert_eq!(text(&result), expected);
    // The body hears nothing of its cancellation, and is dropped after the drain of 6 s.
    assert_eq!(begun.elapsed().as_millis(), 30 + 5000 + 70 + 6000);
}

// spec 2.10
#[tokio::test(start_paused = true)]
async fn b_2_10_cancel_and_timeout_run_the_failure_hooks_and_a_cancel_is_told_as_an_interrupt() {
    struct Failures(Log);
    #[async_trait]
    impl Hook for Failures {
        fn name(&self) -> &str {
            "failures"
        }
        async fn failed(
            &self,
            call: &PreparedCall,
            _: &ToolResult,
            is_interrupt: bool,
        ) -> Result<Vec<String>, HookError> {
            self.0.note(format!("{} {is_interrupt}", call.id()));
            Ok(vec!["a note".into()])
        }
    }
    let log = Log::default();
    let rules = TimeoutRules { default: Some(Duration::from_millis(10)), ..Default::default() };
    let runtime = builder(Settings::batched(), hangs(rules)).hook(Arc::new(Failures(log.clone())));
    let runtime = runtime.build().expect("a runtime");
    runtime.run_turn([with("Hang", "timed", json!({}))]).await.expect("no fault");
    let mut turn = runtime.open_turn();
    turn.submit(with("Hang", "cancelled", json!({}))).expect("open");
    turn.close();
    wait(5).await;
    turn.abort();
    let results = rest(&mut turn).await;
    assert!(text(&results[0]).contains("[Hook additional context]\n1. a note"));
    assert_eq!(log.taken(), ["timed false", "cancelled true"]);
}

fn says(answer: impl Fn() -> Result<ToolOutput, ToolError> + Send + Sync + 'static) -> Registry {
    let registry = Registry::new();
    let probe = Probe::reads("Say", &Log::default()).doing(move |_, _| answer());
    registry.register(Arc::new(probe)).expect("a tool");
    registry
}

// spec 2.14
#[tokio::test(start_paused = true)]
async fn b_2_14_every_failure_is_a_result_in_the_words_that_are_meant_for_the_model() {
    #[derive(Debug, thiserror::Error)]
    #[error("")]
    struct Wrapper(#[source] std::io::Error);
    let said = |registry| one(registry, call("Say", "a", 1));
    let business = said(says(|| Err(ToolError::Business("no such file".into())))).await;
    assert_eq!(text(&business), "<tool_use_error>no such file</tool_use_error>");
    let cause = || std::io::Error::other("the   disk\n is on fire");
    let wrapped = said(says(move || Err(ToolError::Other(Box::new(Wrapper(cause())))))).await;
    assert_eq!(text(&wrapped), "the disk is on fire");
    let long = said(says(|| Err(ToolError::Lost("x".repeat(600))))).await;
    assert_eq!(text(&long).chars().count(), 500);
    let invalid = one(tools(&Log::default()), with("Read", "a", json!({"ms": "soon"}))).await;
    assert!(text(&invalid).starts_with("<tool_use_error>InputValidationError: Read: "));
    let itself = said(says(|| Ok(ToolOutput::value(json!({"isError": true, "why": "odd"}))))).await;
    assert!(itself.is_error && text(&itself).contains("odd"));
    for result in [business, wrapped, long, invalid] {
        assert!(result.is_error);
    }
}

// spec 2.15
#[tokio::test(start_paused = true)]
async fn b_2_15_hook_context_is_appended_numbered_to_refusals_too() {
    struct Notes(PreVerdict);
    #[async_trait]
    impl Hook for Notes {
        fn name(&self) -> &str {
            "notes"
        }
        async fn pre_execute(&self, _: &PreparedCall) -> Result<PreDecision, HookError> {
            let context = vec!["one".to_owned(), "two".to_owned()];
            Ok(PreDecision { verdict: self.0.clone(), context })
        }
    }
    for verdict in [PreVerdict::Pass, PreVerdict::Deny("no".into())] {
        let log = Log::default();
        let runtime = builder(Settings::batched(), tools(&log)).hook(Arc::new(Notes(verdict)));
        let runtime = runtime.build().expect("a runtime");
        let results = runtime.run_turn([call("Read", "a", 1)]).await.expect("no fault");
        assert!(text(&results[0]).ends_with("\n[Hook additional context]\n1. one\n2. two"));
    }
}

// spec 2.16
#[tokio::test(start_paused = true)]
async fn b_2_16_empty_output_is_said_to_be_empty() {
    for empty in ["", " \n"] {
        let result = one(says(move || Ok(empty.into())), call("Say", "a", 1)).await;
        assert_eq!(text(&result), "(Say completed with no output)");
    }
}

// spec 8.4
#[tokio::test(start_paused = true)]
async fn b_8_4_people_are_shown_a_display_of_their_own_within_its_limits() {
    let events = Events::default();
    let registry = says(|| {
        let hunk = Hunk { first_line: 1, lines: vec!["+x".into(); 50] };
        let diff = Display::Diff { path: "a".into(), hunks: vec![hunk; 10], omitted_lines: 0 };
        Ok(ToolOutput { display: Some(diff), ..ToolOutput::text("edited") })
    });
    let runtime = builder(Settings::batched(), registry).events(Arc::new(events.clone()));
    let runtime = runtime.build().expect("a runtime");
    let results = runtime.run_turn([call("Say", "a", 1)]).await.expect("no fault");
    assert_eq!(text(&results[0]), "edited");
    let all = events.all();
    let display =
        &all.iter().find(|event| event["event"] == "yielded").expect("yielded")["display"];
    assert_eq!(display["kind"], "diff");
    let lines = display["hunks"].as_array().expect("hunks").iter();
    let lines: usize = lines.map(|hunk| hunk["lines"].as_array().map_or(0, Vec::len)).sum();
    assert_eq!((lines, &display["omitted_lines"]), (160, &json!(340)));
}
