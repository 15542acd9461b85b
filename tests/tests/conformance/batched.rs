//! B: the batch executor of ZCode. A turn runs as its planned groups, with batch events; safe calls may start early; nothing
//! cascades.

mod permission;
mod pipeline;
mod results;
mod telemetry;

use crate::probe::{Log, Probe};
use crate::world::{Events, builder, call, ids, rest, runtime, text, tools, wait, with};
use serde_json::{Value, json};
use std::sync::Arc;
use stockade_runtime::{Settings, Submission, ToolRuntime};
use stockade_sandbox::fake::{FakeProvider, Script, Step, policy};
use stockade_subprocess::{OutputSink, Stream};
use stockade_tools::{Metadata, Registry, ToolError, ToolOutput};
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

// spec 1.21
#[tokio::test(start_paused = true)]
async fn b_1_21_a_call_goes_on_under_a_task_id_and_a_task_that_was_started_elsewhere_is_adopted() {
    let provider = FakeProvider::new("/ws")
        .on_command(|_| Ok(Script::steps(vec![Step::Stdout(b"listening\n".to_vec()), Step::Hang])));
    // With the tools that ship.
    let runtime = ToolRuntime::builder()
        .provider(Arc::new(provider))
        .policy(policy("test"))
        .settings(Settings::batched())
        .build()
        .expect("a runtime");
    let one = async |name: &str, arguments: Value| {
        let results = runtime.run_groups([with(name, "a", arguments)]).await.expect("no fault");
        text(&results[0])
    };
    let serve = json!({"command": "serve", "run_in_background": true, "description": "a server"});
    assert!(one("Bash", serve).await.contains("task_1"));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stop = std::sync::Mutex::new(Some(stop));
    let ended = async {
        stopped.await.ok();
        "it was asked to end".to_owned()
    };
    let stop = move || drop(stop.lock().expect("nobody panics with it").take());
    let adopted = runtime.tasks().track_background_task("a sub-agent", ended, stop);
    let (_, mut output) = adopted.expect("there is room");
    output.write(Stream::Stdout, b"thinking").expect("its output has a place");
    wait(1000).await;
    let listed = one("TaskOutput", json!({})).await;
    assert!(listed.contains("task_1: running") && listed.contains("task_2: running"), "{listed}");
    let read = one("TaskOutput", json!({"task_id": "task_1", "offset": 7})).await;
    assert!(read.starts_with("ng\n"), "read from an offset: {read}");
    assert!(one("TaskOutput", json!({"task_id": "task_2"})).await.starts_with("thinking"));
    for task in ["task_1", "task_2"] {
        one("TaskStop", json!({ "task_id": task })).await;
    }
    let listed = one("TaskOutput", json!({})).await;
    assert!(!listed.contains("running"), "{listed}");
}

async fn one(registry: Registry, call: ToolCall) -> ToolResult {
    let runtime = builder(Settings::batched(), registry).build().expect("a runtime");
    runtime.run_turn([call]).await.expect("no fault").remove(0)
}

fn says(answer: impl Fn() -> Result<ToolOutput, ToolError> + Send + Sync + 'static) -> Registry {
    let registry = Registry::new();
    let probe = Probe::reads("Say", &Log::default()).doing(move |_, _| answer());
    registry.register(Arc::new(probe)).expect("a tool");
    registry
}
