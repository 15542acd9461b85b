//! R: the rolling tool runtime of DSH. A whole turn through a rolling pool; layers of tools; four phases, each with its hooks.

use crate::probe::{Log, Probe};
use crate::world::{Events, builder, call, ids, rest, runtime, text, timed, tools, wait, with};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use stockade_runtime::{
    Around, Guard, Hook, HookError, Next, Observer, PostDecision, PostVerdict, PreDecision,
    PreVerdict, PreparedCall, SessionLog, Settings, ToolRuntime,
};
use stockade_tools::{
    CallContext, Filter, Presentation, Registry, Structured, ToolError, ToolOutput, TypedTool,
};
use stockade_types::{ContentBlock, SessionId, ToolResult};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

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
    let calls = [call("Read", "a", 10), call("Nobody", "b", 1), call("Read", "c", 1)];
    let results = rolling(&log).run_turn(calls).await.expect("no fault");
    assert!(results[1].is_error);
    assert_eq!(log.taken(), ["start a", "end a", "start c", "end c"]);
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

// spec 2.1
#[tokio::test(start_paused = true)]
async fn r_2_1_prepare_and_finish_are_in_the_models_order_and_dispatch_overlaps() {
    struct Phases(Log);
    #[async_trait]
    impl Hook for Phases {
        fn name(&self) -> &str {
            "phases"
        }
        async fn pre_execute(&self, call: &PreparedCall) -> Result<PreDecision, HookError> {
            wait(if call.id().0 == "a" { 50 } else { 1 }).await;
            self.0.note(format!("prepare {}", call.id()));
            Ok(PreDecision::pass())
        }
        async fn post_execute(
            &self,
            call: &PreparedCall,
            _: &ToolResult,
        ) -> Result<PostDecision, HookError> {
            self.0.note(format!("finalize {}", call.id()));
            Ok(PostDecision::accept())
        }
    }
    impl Observer for Phases {
        fn committed(&self, result: &ToolResult) {
            self.0.note(format!("finish {}", result.call_id));
        }
    }
    let log = Log::default();
    let phases = Arc::new(Phases(log.clone()));
    let runtime = builder(Settings::rolling(), tools(&log)).hook(phases.clone()).observer(phases);
    let runtime = runtime.build().expect("a runtime");
    let calls = [call("Read", "a", 100), call("Read", "b", 10)];
    runtime.run_turn(calls).await.expect("no fault");
    let expected = [
        "prepare a",
        "start a",
        "prepare b",
        "start b",
        "end b",
        "end a",
        "finalize a",
        "finish a",
        "finalize b",
        "finish b",
    ];
    assert_eq!(log.taken(), expected);
}

struct Refuses(&'static str, bool);
impl Guard for Refuses {
    fn name(&self) -> &str {
        self.0
    }
    fn check(&self, _: &PreparedCall) -> Result<(), String> {
        if self.1 { Err(format!("{} says no", self.0)) } else { Ok(()) }
    }
}

// spec 2.4
#[tokio::test(start_paused = true)]
async fn r_2_4_a_guard_may_only_refuse_and_nothing_undoes_it() {
    struct Allows;
    #[async_trait]
    impl Hook for Allows {
        fn name(&self) -> &str {
            "allows"
        }
        async fn pre_execute(&self, _: &PreparedCall) -> Result<PreDecision, HookError> {
            Ok(PreVerdict::Allow.into())
        }
    }
    struct Panics;
    impl Guard for Panics {
        fn name(&self) -> &str {
            "panics"
        }
        fn check(&self, _: &PreparedCall) -> Result<(), String> {
            panic!("expected here")
        }
    }
    let log = Log::default();
    let run = async |guards: Vec<Arc<dyn Guard>>| {
        let mut builder = builder(Settings::rolling(), tools(&log)).hook(Arc::new(Allows));
        for guard in guards {
            builder = builder.guard(guard);
        }
        let runtime = builder.build().expect("a runtime");
        let results = runtime.run_turn([call("Read", "a", 1)]).await.expect("no fault");
        (results[0].is_error, text(&results[0]))
    };
    let refuses = || Arc::new(Refuses("first", true));
    let passes = || Arc::new(Refuses("second", false));
    assert!(!run(vec![passes()]).await.0);
    for guards in [vec![refuses() as Arc<dyn Guard>, passes()], vec![passes(), refuses()]] {
        let (is_error, said) = run(guards).await;
        assert!(is_error && said.contains("first says no"), "{said}");
    }
    let (is_error, said) = run(vec![Arc::new(Panics)]).await;
    assert!(is_error && said.contains("panicked"), "{said}");
}

// spec 2.7
#[tokio::test(start_paused = true)]
async fn r_2_7_no_wrapper_can_detach_a_body_from_its_caller() {
    struct Replaces(Log);
    #[async_trait]
    impl Around for Replaces {
        async fn around(
            &self,
            call: &PreparedCall,
            mut context: CallContext,
            next: Next<'_>,
        ) -> Result<ToolOutput, ToolError> {
            let own = CancellationToken::new();
            context.cancel = own.clone();
            if call.id().0 == "wrapped" {
                let cancel_soon = async {
                    wait(30).await;
                    own.cancel();
                    std::future::pending::<()>().await;
                };
                self.0.note("around");
                tokio::select! {
                    output = next.run(context) => return output,
                    () = cancel_soon => unreachable!(),
                }
            }
            next.run(context).await
        }
    }
    let log = Log::default();
    let runtime = builder(Settings::rolling(), tools(&log))
        .around(Arc::new(Replaces(log.clone())))
        .around(Arc::new(Replaces(log.clone())))
        .build()
        .expect("a runtime");
    // The wrapper's own token counts…
    runtime.run_turn([call("Read", "wrapped", 1000)]).await.expect("no fault");
    assert_eq!(log.taken(), ["around", "around", "start wrapped", "stopped wrapped"]);
    // … and the caller's counts too, though the wrapper replaced it twice.
    let mut turn = runtime.open_turn();
    turn.submit(call("Read", "a", 100_000)).expect("open");
    turn.close();
    wait(10).await;
    let begun = Instant::now();
    turn.abort();
    assert_eq!(timed(&mut turn, begun).await, [("a".to_owned(), 0)]);
    assert_eq!(log.taken(), ["start a", "stopped a"]);
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Asked {
    wrong: bool,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Counted {
    count: u32,
}

/// Declares that it returns a count, and returns text if it is asked to be wrong.
fn counts() -> Registry {
    let body = |asked: Asked, _| async move {
        Ok::<ToolOutput, ToolError>(match asked.wrong {
            true => ToolOutput::value(json!({"count": "many"})),
            false => ToolOutput::from(Structured(Counted { count: 3 })),
        })
    };
    let registry = Registry::new();
    let tool = TypedTool::new("Count", "", body).returns::<Counted>();
    registry.register(Arc::new(tool)).expect("a tool");
    registry
}

// spec 2.11
#[tokio::test(start_paused = true)]
async fn r_2_11_output_is_held_to_its_schema() {
    let runtime = builder(Settings::rolling(), counts()).build().expect("a runtime");
    let calls =
        [with("Count", "a", json!({"wrong": false})), with("Count", "b", json!({"wrong": true}))];
    let results = runtime.run_turn(calls).await.expect("no fault");
    assert_eq!(text(&results[0]), "{\n  \"count\": 3\n}");
    assert!(results[1].is_error && text(&results[1]).starts_with("ToolOutputError: Count"));
}

struct Post(Box<dyn Fn() -> PostVerdict + Send + Sync>);
#[async_trait]
impl Hook for Post {
    fn name(&self) -> &str {
        "post"
    }
    async fn post_execute(
        &self,
        _: &PreparedCall,
        _: &ToolResult,
    ) -> Result<PostDecision, HookError> {
        Ok((self.0)().into())
    }
}

// spec 2.12
#[tokio::test(start_paused = true)]
async fn r_2_12_post_hooks_accept_replace_or_block() {
    let run = async |verdict: fn() -> PostVerdict| {
        let runtime =
            builder(Settings::rolling(), counts()).hook(Arc::new(Post(Box::new(verdict))));
        let runtime = runtime.build().expect("a runtime");
        let calls = [with("Count", "a", json!({"wrong": false}))];
        runtime.run_turn(calls).await.expect("no fault").remove(0)
    };
    let replaced = run(|| PostVerdict::Replace(vec![ContentBlock::text("other")])).await;
    assert_eq!((text(&replaced).as_str(), replaced.is_error), ("other", false));
    // A new value is rendered again, and held to the schema.
    let valued = run(|| PostVerdict::ReplaceValue(json!({"count": 7}))).await;
    assert_eq!(text(&valued), "{\n  \"count\": 7\n}");
    let misfit = run(|| PostVerdict::ReplaceValue(json!({"count": "seven"}))).await;
    assert!(misfit.is_error && text(&misfit).contains("output schema"), "{misfit:?}");
    let blocked = run(|| PostVerdict::Block("count again".into())).await;
    assert!(blocked.is_error && text(&blocked).contains("count again"));
    assert!(!text(&blocked).contains("\"count\": 3"), "nothing of what was blocked");
    let stopped = run(|| PostVerdict::StopTurn).await;
    assert!(stopped.stop_turn && !stopped.is_error);
}

// spec 2.12: deferred context
#[tokio::test(start_paused = true)]
async fn r_2_12_what_the_body_adds_for_the_model_is_kept_on_accept_and_dropped_on_block() {
    for blocks in [false, true] {
        let registry = Registry::new();
        let probe = Probe::reads("Note", &Log::default()).doing(|_, _| {
            Ok(ToolOutput { context: vec!["by the way".into()], ..ToolOutput::text("done") })
        });
        registry.register(Arc::new(probe)).expect("a tool");
        let verdict =
            move || if blocks { PostVerdict::Block("no".into()) } else { PostVerdict::Accept };
        let runtime =
            builder(Settings::rolling(), registry).hook(Arc::new(Post(Box::new(verdict))));
        let runtime = runtime.build().expect("a runtime");
        let results = runtime.run_turn([call("Note", "a", 1)]).await.expect("no fault");
        assert_eq!(text(&results[0]).contains("1. by the way"), !blocks);
    }
}

// spec 2.13
#[tokio::test(start_paused = true)]
async fn r_2_13_observers_get_the_frozen_result_and_can_hurt_nothing() {
    struct Sees(Log);
    impl Observer for Sees {
        fn committed(&self, result: &ToolResult) {
            self.0.note(text(result));
        }
    }
    struct Panics;
    impl Observer for Panics {
        fn committed(&self, _: &ToolResult) {
            panic!("expected here");
        }
    }
    let log = Log::default();
    let runtime = builder(Settings::rolling(), counts())
        .hook(Arc::new(Post(Box::new(|| PostVerdict::Replace(vec![ContentBlock::text("final")])))))
        .observer(Arc::new(Panics))
        .observer(Arc::new(Sees(log.clone())))
        .build()
        .expect("a runtime");
    let calls = [with("Count", "a", json!({"wrong": false}))];
    let results = runtime.run_turn(calls).await.expect("no fault");
    assert_eq!((log.taken(), results[0].is_error), (vec![text(&results[0])], false));
}

// spec 3.1, 3.2, 3.5
#[tokio::test(start_paused = true)]
async fn r_3_scopes_shadow_and_restrict_and_their_listeners_see_their_calls_alone() {
    let log = Log::default();
    let (global_events, scope_events) = (Events::default(), Events::default());
    let global = builder(Settings::rolling(), tools(&log)).events(Arc::new(global_events.clone()));
    let global = global.build().expect("a runtime");
    let scope = global.scope().events(Arc::new(scope_events.clone())).build();
    let own = Probe::alone("Read", &log).doing(|_, _| Ok("the scope's own".into()));
    scope.registry().register(Arc::new(own)).expect("a tool");
    let restriction = scope.registry().restrict(Filter::deny(["Read", "Grep"])).expect("known");
    let results =
        scope.run_turn([call("Read", "a", 1), call("Grep", "b", 1)]).await.expect("no fault");
    assert_eq!(text(&results[0]), "the scope's own", "own tools are exempt");
    assert!(text(&results[1]).contains("No such tool available: Grep"));
    restriction.undo();
    let results = scope.run_turn([call("Grep", "c", 1)]).await.expect("no fault");
    assert!(!results[0].is_error);
    let results = global.run_turn([call("Read", "d", 1)]).await.expect("no fault");
    assert_eq!(text(&results[0]), "d in /ws");
    let calls_of = |events: &Events| -> Vec<String> {
        let all = events.all();
        let queued = all.iter().filter(|event| event["event"] == "queued");
        queued.map(|event| event["call_id"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(calls_of(&global_events), ["a", "b", "c", "d"]);
    assert_eq!(calls_of(&scope_events), ["a", "b", "c"]);
    let changes = |events: &Events| {
        events.all().iter().filter(|event| event["event"] == "tools/change").count()
    };
    let before = (changes(&global_events), changes(&scope_events));
    assert_eq!(before, (3, 3), "registered, restricted, undone: told to everyone");
    global.registry().remove("Grep");
    assert_eq!((changes(&global_events), changes(&scope_events)), (4, 4));
}

// spec 3.3
#[tokio::test(start_paused = true)]
async fn r_3_3_in_a_code_view_a_direct_call_is_refused() {
    let log = Log::default();
    let global = rolling(&log);
    let scope = global.scope().build();
    scope.registry().present(Some(Presentation::Code));
    assert!(scope.registry().view().is_err(), "nothing serves run_code");
    global.registry().provide_run_code(Arc::new(Probe::alone("run_code", &log))).expect("a tool");
    let calls = || [call("Read", "a", 1), call("run_code", "b", 1)];
    let results = scope.run_turn(calls()).await.expect("no fault");
    assert!(text(&results[0]).contains("use run_code") && results[0].is_error);
    assert_eq!(text(&results[1]), "b in /ws");
    let results = global.run_turn(calls()).await.expect("no fault");
    assert_eq!((results[0].is_error, results[1].is_error), (false, true));
}

// spec 3.4
#[test]
fn r_3_4_registration_is_checked() {
    let registry = Registry::new();
    let log = Log::default();
    registry.register(Arc::new(Probe::reads("Read", &log))).expect("a tool");
    assert!(registry.register(Arc::new(Probe::reads("Read", &log))).is_err(), "twice in a layer");
    assert!(registry.register(Arc::new(Probe::reads("run_code", &log))).is_err(), "reserved");
    assert!(registry.register(Arc::new(Probe::reads("no name", &log))).is_err(), "no name");
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
