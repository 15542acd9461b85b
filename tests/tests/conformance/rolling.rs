//! R: the rolling tool runtime of DSH. A whole turn through a rolling pool; layers of tools; four phases, each with its hooks.

mod authority;
mod pipeline;
mod registry;
mod results;

use crate::probe::{Log, Probe};
use crate::world::{Events, builder, call, ids, rest, runtime, text, timed, tools, wait, with};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use stockade_runtime::{
    Hook, HookError, PostDecision, PostVerdict, PreDecision, PreparedCall, SessionLog, Settings,
    ToolRuntime,
};
use stockade_tools::{Registry, ToolError};
use stockade_types::{SessionId, ToolResult};
use tokio::time::Instant;

fn rolling(log: &Log) -> ToolRuntime {
    runtime(Settings::rolling(), log)
}

// spec 1 (hand over a whole turn)
#[tokio::test(start_paused = true)]
async fn r_1_nothing_starts_before_the_turn_is_whole() {
    let log = Log::default();
    let mut turn = rolling(&log).open_turn();
    turn.submit(call("Read", "a", 10)).expect("open");
    wait(100).await;
    assert_eq!(log.taken(), [""; 0]);
    turn.close();
    assert_eq!(rest(&mut turn).await.len(), 1);
}

// spec 1.1: also until it is committed
#[tokio::test(start_paused = true)]
async fn r_1_1_an_exclusive_call_waits_for_commits_and_holds_until_its_own() {
    struct SlowCommit(Log);
    #[async_trait]
    impl Hook for SlowCommit {
        fn name(&self) -> &str {
            "slow"
        }
        async fn post_execute(
            &self,
            call: &PreparedCall,
            _: &ToolResult,
        ) -> Result<PostDecision, HookError> {
            wait(100).await;
            self.0.note(format!("commit {}", call.id()));
            Ok(PostDecision::accept())
        }
    }
    let log = Log::default();
    let hook = Arc::new(SlowCommit(log.clone()));
    let runtime = builder(Settings::rolling(), tools(&log)).hook(hook).build().expect("a runtime");
    let calls =
        [call("Read", "a", 10), call("Read", "b", 1), call("Edit", "c", 1), call("Read", "d", 1)];
    runtime.run_turn(calls).await.expect("no fault");
    let expected = [
        "start a", "start b", "end b", "end a", "commit a", "commit b", "start c", "end c",
        "commit c", "start d", "end d", "commit d",
    ];
    assert_eq!(log.taken(), expected);
}

// spec 1.2
#[tokio::test(start_paused = true)]
async fn r_1_2_classification_fails_closed() {
    let log = Log::default();
    let registry = tools(&log);
    let errs = |_: &Value| Err(ToolError::Business("no idea".into()));
    let panics = |_: &Value| panic!("expected here");
    registry.register(Arc::new(Probe::reads("Errs", &log).classified(errs))).expect("a tool");
    registry.register(Arc::new(Probe::reads("Panics", &log).classified(panics))).expect("a tool");
    let runtime = builder(Settings::rolling(), registry).build().expect("a runtime");
    for (name, runs) in [("Errs", true), ("Panics", true), ("Nobody", false)] {
        let calls = [call("Read", "a", 10), call(name, "b", 1), call("Read", "c", 1)];
        let results = runtime.run_turn(calls).await.expect("no fault");
        assert_eq!(!results[1].is_error, runs, "{name}: {results:?}");
        let mut expected = vec!["start a", "end a", "start c", "end c"];
        if runs {
            expected.splice(2..2, ["start b", "end b"]);
        }
        assert_eq!(log.taken(), expected, "{name}");
    }
}

// spec 1.4
#[tokio::test(start_paused = true)]
async fn r_1_4_a_tool_replaced_added_or_removed_counts_for_what_is_still_queued() {
    let log = Log::default();
    let registry = Arc::new(tools(&log));
    let (inner, shared) = (Arc::clone(&registry), log.clone());
    let swap = Probe::alone("Swap", &log).doing(move |_, _| {
        inner.replace(Arc::new(Probe::reads("Edit", &shared))).expect("a tool");
        inner.register(Arc::new(Probe::reads("Added", &shared))).expect("a tool");
        inner.remove("Grep");
        Ok("swapped".into())
    });
    registry.register(Arc::new(swap)).expect("a tool");
    let runtime = builder(Settings::rolling(), Registry::new()).registry(registry).build();
    let calls =
        [call("Swap", "s", 1), call("Edit", "a", 10), call("Added", "b", 5), call("Grep", "c", 1)];
    let results = runtime.expect("a runtime").run_turn(calls).await.expect("no fault");
    assert_eq!(log.taken(), ["start s", "end s", "start a", "start b", "end b", "end a"]);
    assert!(text(&results[3]).contains("No such tool available: Grep"));
}

// spec 1.5, 1.8
#[tokio::test(start_paused = true)]
async fn r_1_5_ten_run_at_once_and_when_one_ends_the_next_starts_at_once() {
    let log = Log::default();
    let calls: Vec<_> = (0..30_u64)
        .map(|n| call("Read", &n.to_string(), if n == 0 { 1000 } else { 10 + n }))
        .collect();
    let runtime = rolling(&log);
    let mut turn = runtime.open_turn();
    let begun = Instant::now();
    for call in calls {
        turn.submit(call).expect("open");
    }
    turn.close();
    let results = timed(&mut turn, begun).await;
    assert!(results.iter().all(|(_, at)| *at == 1000), "all stand behind the slow first one");
    let (mut running, mut most) = (0, 0);
    let noted = log.taken();
    for step in &noted {
        running += if step.starts_with("start") { 1 } else { -1 };
        most = most.max(running);
    }
    assert_eq!(most, 10);
    let place = |what: &str| noted.iter().position(|step| step == what);
    assert_eq!(place("start 10"), place("end 1").map(|place| place + 1));
}

// spec 1.8
#[tokio::test(start_paused = true)]
async fn r_1_8_results_are_committed_in_the_models_order_and_progress_is_not_held() {
    let log = Log::default();
    let registry = tools(&log);
    let talks = Probe::reads("Talk", &log).doing(|_, context| {
        (context.progress)(json!("half way"));
        Ok("done".into())
    });
    registry.register(Arc::new(talks)).expect("a tool");
    let events = Events::default();
    let runtime = builder(Settings::rolling(), registry).events(Arc::new(events.clone()));
    let calls = [call("Read", "a", 30), call("Talk", "b", 10), call("Read", "c", 20)];
    let results = runtime.build().expect("a runtime").run_turn(calls).await.expect("no fault");
    assert_eq!(ids(&results), ["a", "b", "c"]);
    assert_eq!(log.taken()[3..], ["end b", "end c", "end a"]);
    let all = events.all();
    let place = |what: &str, id: &str| {
        all.iter().position(|event| event["event"] == what && event["call_id"] == id)
    };
    assert!(place("progress", "b") < place("completed", "a"), "at once");
    assert!(place("yielded", "a") < place("yielded", "b"), "behind the first");
}

// spec 1.16
#[tokio::test(start_paused = true)]
async fn r_1_16_every_call_has_one_call_record_and_one_result_record_in_order_whatever_happens() {
    let state = tempfile::tempdir().expect("a folder");
    let session = SessionId::new("s").expect("an id");
    let session_log = SessionLog::open(state.path(), &session).expect("a log");
    let path = session_log.path().to_owned();
    let log = Log::default();
    let runtime = builder(Settings::default(), tools(&log)).session_log(session_log);
    let runtime = runtime.build().expect("a runtime");
    let mut turn = runtime.open_turn();
    let turns = [
        call("Read", "done", 1),
        call("Read", "running", 1000),
        call("Edit", "queued", 1),
        call("Nobody", "unknown", 1),
    ];
    for call in turns {
        turn.submit(call).expect("open");
    }
    turn.close();
    wait(50).await;
    turn.abort();
    let results = rest(&mut turn).await;
    let texts: Vec<String> = results.iter().map(text).collect();
    assert!(texts[1].starts_with("ABORTED: "), "{texts:?}");
    assert!(texts[2].starts_with("ABORTED_BEFORE_DISPATCH"), "{texts:?}");
    let records: Vec<Value> = std::fs::read_to_string(path)
        .expect("a log")
        .lines()
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect();
    let of = |kind: &str| -> Vec<&str> {
        let own = records.iter().filter(|record| record["type"] == kind);
        own.map(|record| record["call_id"].as_str().unwrap_or_default()).collect()
    };
    let all = ["done", "running", "queued", "unknown"];
    assert_eq!((of("tool/call"), of("tool/result")), (all.to_vec(), all.to_vec()));
    for result in records.iter().filter(|record| record["type"] == "tool/result") {
        let call = records.iter().find(|record| record["seq"] == result["call"]);
        assert_eq!(call.expect("its call")["call_id"], result["call_id"]);
    }
}

// spec 1.16: a chain that has begun is never abandoned; a drained body's outcome is replaced
#[tokio::test(start_paused = true)]
async fn r_1_16_hooks_end_before_a_cancellation_counts_and_bodies_are_drained() {
    struct Slow(Log);
    #[async_trait]
    impl Hook for Slow {
        fn name(&self) -> &str {
            "slow"
        }
        async fn pre_execute(&self, call: &PreparedCall) -> Result<PreDecision, HookError> {
            if call.id().0 == "b" {
                wait(100).await;
            }
            self.0.note(format!("hook {}", call.id()));
            Ok(PreDecision::pass())
        }
    }
    let log = Log::default();
    let registry = tools(&log);
    let drains = Probe { drains_for: Duration::from_millis(500), ..Probe::reads("Slow", &log) };
    registry.register(Arc::new(drains)).expect("a tool");
    let runtime = builder(Settings::default(), registry).hook(Arc::new(Slow(log.clone())));
    let mut turn = runtime.build().expect("a runtime").open_turn();
    turn.submit(call("Slow", "a", 10_000)).expect("open");
    turn.submit(call("Read", "b", 1)).expect("open");
    turn.close();
    wait(50).await;
    let begun = Instant::now();
    turn.abort();
    let results = timed(&mut turn, begun).await;
    assert_eq!(log.taken(), ["hook a", "start a", "hook b", "stopped a"]);
    assert_eq!(results, [("a".to_owned(), 500), ("b".to_owned(), 500)]);
}

// spec 1.18
#[tokio::test(start_paused = true)]
async fn r_1_18_a_stop_holds_what_comes_after_it_until_its_hooks_have_spoken() {
    struct Takes(bool);
    #[async_trait]
    impl Hook for Takes {
        fn name(&self) -> &str {
            "takes"
        }
        async fn post_execute(
            &self,
            call: &PreparedCall,
            _: &ToolResult,
        ) -> Result<PostDecision, HookError> {
            wait(10).await;
            let blocks = self.0 && call.id().0 == "stops";
            let verdict =
                if blocks { PostVerdict::Block("no".into()) } else { PostVerdict::Accept };
            Ok(verdict.into())
        }
    }
    for blocked in [false, true] {
        let log = Log::default();
        let runtime =
            builder(Settings { max_parallel_calls: 2, ..Settings::rolling() }, tools(&log));
        let runtime = runtime.hook(Arc::new(Takes(blocked))).build().expect("a runtime");
        let calls = [
            call("Read", "runs", 50),
            with("Read", "stops", json!({"ms": 10, "stop": true})),
            call("Read", "held", 1),
        ];
        let results = runtime.run_turn(calls).await.expect("no fault");
        assert_eq!(text(&results[0]), "runs in /ws");
        // A block takes the stop back with the success.
        assert_eq!(results[2].is_error, !blocked);
        let before_commit = ["start runs", "start stops", "end stops", "end runs"];
        assert_eq!(log.taken()[..4], before_commit);
    }
}

// Ten thousand calls, deep and huge arguments: bounded and clear.
#[tokio::test(start_paused = true)]
async fn r_a_turn_of_ten_thousand_calls_and_one_of_absurd_arguments_are_answered() {
    let log = Log::default();
    let runtime = rolling(&log);
    let many: Vec<_> = (0..10_000).map(|n| call("Read", &n.to_string(), 1)).collect();
    let begun = Instant::now();
    let results = runtime.run_turn(many).await.expect("no fault");
    assert_eq!((results.len(), begun.elapsed().as_millis()), (10_000, 1000));
    let mut deep = json!(1);
    for _ in 0..200_000 {
        deep = Value::Array(vec![deep]);
    }
    let mut arguments = serde_json::Map::new();
    arguments.insert("ms".to_owned(), deep);
    let deep = with("Read", "deep", Value::Object(arguments));
    let huge = with("Read", "huge", json!({"command": "x".repeat(70_000_000)}));
    let results = runtime.run_turn([deep, huge, call("Read", "c", 1)]).await.expect("no fault");
    assert_eq!(ids(&results), ["deep", "huge", "c"]);
    assert!(text(&results[0]).contains("levels deep") && text(&results[1]).contains("larger than"));
    assert!(!results[2].is_error);
}
