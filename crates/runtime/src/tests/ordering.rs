//! The scheduler's rules (spec 1).

use super::*;
use crate::{Event, EventSink, Hook, HookError, PreDecision, PreVerdict, PreparedCall};
use std::time::Instant;

async fn trace_of(calls: Vec<ToolCall>) -> (Vec<String>, Vec<ToolResult>) {
    let trace = Trace::default();
    let runtime = builder(probes(&trace)).build().unwrap();
    let results = runtime.run_turn(calls).await.unwrap();
    (trace.taken(), results)
}

// spec 1.1, 1.8
#[tokio::test(start_paused = true)]
async fn parallel_calls_overlap_and_are_committed_in_the_models_order() {
    let calls = vec![call("Share", "a", 30), call("Share", "b", 20), call("Share", "c", 10)];
    let (trace, results) = trace_of(calls).await;
    assert_eq!(trace, ["start a", "start b", "start c", "end c", "end b", "end a"]);
    assert_eq!(ids(&results), ["a", "b", "c"]);
    assert_eq!(text(&results[0]), "did a");
}

// spec 1.1
#[tokio::test(start_paused = true)]
async fn an_exclusive_call_runs_alone_and_nothing_overtakes_it_while_it_waits() {
    let calls = vec![
        call("Share", "a", 30),
        call("Alone", "b", 10),
        call("Share", "c", 20),
        call("Share", "d", 10),
        call("Alone", "e", 10),
        call("Alone", "f", 10),
    ];
    let (trace, results) = trace_of(calls).await;
    assert_eq!(
        trace,
        [
            "start a", "end a", "start b", "end b", "start c", "start d", "end d", "end c",
            "start e", "end e", "start f", "end f"
        ]
    );
    assert_eq!(ids(&results), ["a", "b", "c", "d", "e", "f"]);
}

struct SlowCommit(Trace);
#[async_trait]
impl Hook for SlowCommit {
    fn name(&self) -> &str {
        "slow"
    }
    async fn post_execute(
        &self,
        call: &PreparedCall,
        _: &ToolResult,
    ) -> Result<crate::PostDecision, HookError> {
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.0.note(format!("commit {}", call.id()));
        Ok(crate::PostDecision::accept())
    }
}

// spec 1.1
#[tokio::test(start_paused = true)]
async fn an_exclusive_call_waits_for_the_commits_before_it_and_holds_until_its_own() {
    let trace = Trace::default();
    let hook = Arc::new(SlowCommit(trace.clone()));
    let runtime = builder(probes(&trace)).hook(hook).build().unwrap();
    let calls = [
        call("Share", "a", 10),
        call("Share", "b", 0),
        call("Alone", "c", 0),
        call("Share", "d", 0),
    ];
    runtime.run_turn(calls).await.unwrap();
    assert_eq!(
        trace.taken(),
        [
            "start a", "start b", "end b", "end a", "commit a", "commit b", "start c", "end c",
            "commit c", "start d", "end d", "commit d"
        ]
    );
}

// spec 1.5
#[tokio::test(start_paused = true)]
async fn the_pool_holds_ten_and_the_next_starts_when_one_ends() {
    let trace = Trace::default();
    let probe = Probe::new("Share", &trace, true);
    let most = Arc::clone(&probe.most);
    let registry = Registry::new();
    registry.register(Arc::new(probe)).unwrap();
    let runtime = builder(Arc::new(registry)).build().unwrap();
    // The first is slow: the others roll past it.
    let calls: Vec<_> = (0..25)
        .map(|n| call("Share", &n.to_string(), if n == 0 { 1000 } else { 10 + n }))
        .collect();
    let begun = tokio::time::Instant::now();
    let results = runtime.run_turn(calls).await.unwrap();
    assert_eq!(most.load(Ordering::SeqCst), 10);
    assert_eq!(begun.elapsed(), Duration::from_millis(1000));
    assert_eq!(results.len(), 25);
    let trace = trace.taken();
    let place = |what: &str| trace.iter().position(|entry| entry == what).unwrap();
    assert_eq!(place("start 10"), place("end 1") + 1);
    assert!(place("start 24") < place("end 0"));
}

#[tokio::test(start_paused = true)]
async fn a_pool_of_one_runs_parallel_calls_one_by_one() {
    let trace = Trace::default();
    let runtime = builder(probes(&trace)).max_parallel_calls(1).build().unwrap();
    runtime.run_turn([call("Share", "a", 5), call("Share", "b", 5)]).await.unwrap();
    assert_eq!(trace.taken(), ["start a", "end a", "start b", "end b"]);
    assert!(builder(probes(&trace)).max_parallel_calls(0).build().is_err());
}

// spec 1.2
#[tokio::test(start_paused = true)]
async fn whatever_is_not_a_definite_yes_is_exclusive() {
    LazyLock::force(&QUIET);
    let trace = Trace::default();
    let registry = probes(&trace);
    let errs =
        Probe::new("Errs", &trace, true).classified(|_| Err(ToolError::Business("no idea".into())));
    let panics = Probe::new("Panics", &trace, true).classified(|_| panic!("expected"));
    registry.register(Arc::new(errs)).unwrap();
    registry.register(Arc::new(panics)).unwrap();
    let runtime = builder(registry).build().unwrap();
    for name in ["Errs", "Panics"] {
        let calls = [call("Share", "a", 10), call(name, "b", 10), call("Share", "c", 10)];
        let results = runtime.run_turn(calls).await.unwrap();
        assert_eq!(text(&results[1]), "did b");
        assert_eq!(
            trace.taken(),
            ["start a", "end a", "start b", "end b", "start c", "end c"],
            "{name}"
        );
    }
    // Neither an unknown tool nor invalid arguments let the next call overtake.
    let mut invalid = call("Share", "b", 0);
    invalid.arguments = json!({"ms": "x"});
    for broken in [call("Nobody", "b", 0), invalid] {
        runtime.run_turn([call("Share", "a", 10), broken, call("Share", "c", 0)]).await.unwrap();
        assert_eq!(trace.taken(), ["start a", "end a", "start c", "end c"]);
    }
}

// spec 1.4
#[tokio::test(start_paused = true)]
async fn a_tool_replaced_added_or_removed_by_an_earlier_call_counts_for_the_queued_ones() {
    let trace = Trace::default();
    let registry = probes(&trace);
    let (inner, shared) = (Arc::clone(&registry), trace.clone());
    let swap = Probe::new("Swap", &trace, false).doing(move |_| {
        inner.replace(Arc::new(Probe::new("Alone", &shared, true))).unwrap();
        inner.register(Arc::new(Probe::new("Added", &shared, true))).unwrap();
        inner.remove("Share");
        Ok(ToolOutput::text("swapped"))
    });
    registry.register(Arc::new(swap)).unwrap();
    let runtime = builder(registry).build().unwrap();
    let calls = [
        call("Swap", "s", 0),
        call("Alone", "a", 10),
        call("Added", "b", 5),
        call("Share", "c", 0),
    ];
    let results = runtime.run_turn(calls).await.unwrap();
    assert_eq!(trace.taken(), ["start s", "end s", "start a", "start b", "end b", "end a"]);
    assert!(text(&results[3]).contains("No such tool available: Share"));
}

// spec 2.1
#[tokio::test(start_paused = true)]
async fn calls_are_prepared_in_the_models_order_while_bodies_overlap() {
    struct Slow(Trace);
    #[async_trait]
    impl Hook for Slow {
        fn name(&self) -> &str {
            "slow"
        }
        async fn pre_execute(&self, call: &PreparedCall) -> Result<PreDecision, HookError> {
            let ms = if call.id().0 == "a" { 50 } else { 1 };
            tokio::time::sleep(Duration::from_millis(ms)).await;
            self.0.note(format!("prepared {}", call.id()));
            Ok(PreVerdict::Pass.into())
        }
    }
    let trace = Trace::default();
    let hook = Arc::new(Slow(trace.clone()));
    let runtime = builder(probes(&trace)).hook(hook).build().unwrap();
    runtime.run_turn([call("Share", "a", 100), call("Share", "b", 10)]).await.unwrap();
    assert_eq!(trace.taken(), ["prepared a", "start a", "prepared b", "start b", "end b", "end a"]);
}

// spec 1 (submit while the model streams), 1.8
#[tokio::test(start_paused = true)]
async fn a_call_starts_when_it_is_submitted_and_its_result_comes_when_it_is_due() {
    let trace = Trace::default();
    let runtime = builder(probes(&trace)).build().unwrap();
    let mut turn = runtime.open_turn();
    turn.submit(call("Share", "a", 50)).unwrap();
    turn.submit(call("Share", "b", 10)).unwrap();
    let submitter = turn.submitter();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        submitter.submit(call("Alone", "c", 10)).unwrap();
        submitter.close();
        assert!(submitter.submit(call("Alone", "d", 10)).is_err());
    });
    let begun = tokio::time::Instant::now();
    let mut times = Vec::new();
    while let Some(result) = turn.next_result().await.unwrap() {
        times.push((result.call_id.0, begun.elapsed().as_millis()));
    }
    assert_eq!(times, [("a".into(), 50), ("b".into(), 50), ("c".into(), 210)]);
    assert_eq!(turn.next_result().await, Ok(None));
}

struct Recorder(Mutex<Vec<Event>>);
impl EventSink for Recorder {
    fn emit(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

// spec 1.9
#[tokio::test(start_paused = true)]
async fn the_events_of_a_call_are_queued_executing_with_its_flags_completed_yielded() {
    let trace = Trace::default();
    let recorder = Arc::new(Recorder(Mutex::default()));
    let seen = Arc::clone(&recorder);
    let registry = Registry::new();
    let probe = Probe::new("Share", &trace, true).doing(move |input| {
        let events = seen.0.lock().unwrap();
        let started = events.iter().any(|e| {
            e.call_id.0 == id_of(input) && matches!(e.transition, crate::Transition::Executing(_))
        });
        assert!(started, "the start event was not out before the body");
        Ok(ToolOutput::text("x"))
    });
    registry.register(Arc::new(probe)).unwrap();
    let runtime = builder(Arc::new(registry)).events(recorder.clone()).build().unwrap();
    let results = runtime.run_turn([call("Share", "a", 20), call("Share", "b", 10)]).await.unwrap();
    assert!(results.iter().all(|result| !result.is_error), "{results:?}");
    let events = recorder.0.lock().unwrap();
    let lines: Vec<Value> = events.iter().map(|e| serde_json::to_value(e).unwrap()).collect();
    let of = |id: &str| -> Vec<&str> {
        let own = lines.iter().filter(|line| line["call_id"] == id);
        own.map(|line| line["event"].as_str().unwrap()).collect()
    };
    assert_eq!(of("a"), ["queued", "executing", "completed", "yielded"]);
    assert_eq!(of("b"), ["queued", "executing", "completed", "yielded"]);
    let executing = lines.iter().find(|line| line["event"] == "executing").unwrap();
    assert_eq!(executing["mode"], "parallel");
    assert_eq!(executing["read_only"], false);
    assert_eq!(executing["tool"], "Share");
    assert_eq!(executing["turn"], 1);
    assert!(humantime::parse_rfc3339(executing["time"].as_str().unwrap()).is_ok());
    // b ended first, but a's result was yielded first.
    let order = |event: &str, id: &str| {
        lines.iter().position(|l| l["event"] == event && l["call_id"] == id).unwrap()
    };
    assert!(order("completed", "b") < order("completed", "a"));
    assert!(order("yielded", "a") < order("yielded", "b"));
}

// spec 1.8
#[tokio::test(start_paused = true)]
async fn progress_is_delivered_at_once_although_an_earlier_call_still_runs() {
    struct Reports;
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| json!({"type": "object"}));
    #[async_trait]
    impl Tool for Reports {
        fn name(&self) -> &str {
            "Reports"
        }
        fn description(&self) -> &str {
            ""
        }
        fn input_schema(&self) -> &Value {
            &SCHEMA
        }
        fn concurrency_safe(&self, _: &Value) -> Result<bool, ToolError> {
            Ok(true)
        }
        async fn call(&self, _: &FrozenInput, cx: &CallContext) -> Result<ToolOutput, ToolError> {
            (cx.progress)(json!({"percent": 50}));
            Ok(ToolOutput::text("x"))
        }
    }
    let trace = Trace::default();
    let registry = probes(&trace);
    registry.register(Arc::new(Reports)).unwrap();
    let recorder = Arc::new(Recorder(Mutex::default()));
    let runtime = builder(registry).events(recorder.clone()).build().unwrap();
    runtime.run_turn([call("Share", "a", 50), call("Reports", "b", 0)]).await.unwrap();
    let events = recorder.0.lock().unwrap();
    let progress = events
        .iter()
        .position(|e| e.transition == crate::Transition::Progress { data: json!({"percent": 50}) })
        .unwrap();
    let done = events
        .iter()
        .position(|e| e.call_id.0 == "a" && e.transition == crate::Transition::Completed)
        .unwrap();
    assert!(progress < done);
}

// spec 1.10, 1.12
#[tokio::test]
async fn ten_thousand_calls_cost_no_more_each_than_a_hundred() {
    let trace = Trace::default();
    let registry = probes(&trace);
    let runtime = builder(registry).build().unwrap();
    let run = async |count: usize| {
        let calls: Vec<_> = (0..count)
            .map(|n| call(if n % 50 == 0 { "Alone" } else { "Share" }, &n.to_string(), 0))
            .collect();
        let begun = Instant::now();
        let results = runtime.run_turn(calls).await.unwrap();
        assert_eq!(results.len(), count);
        assert!(results.iter().enumerate().all(|(n, r)| r.call_id.0 == n.to_string()));
        begun.elapsed()
    };
    run(100).await;
    let few = run(1000).await;
    let many = run(10_000).await;
    // Ten times the calls; a cost that grew with the finished ones would be a hundred times.
    assert!(many < few * 40 + Duration::from_millis(200), "{few:?}, {many:?}");
    assert!(many < Duration::from_secs(60), "{many:?}");
}
