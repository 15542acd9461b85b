//! What the runtime itself costs a call: a tool that does nothing, through the whole pipeline, with the session log on.
//!
//! `cargo bench -p stockade-runtime`. Target: 20 µs or less a call at 10 in parallel, and no cost that grows with what has
//! finished.

use criterion::{Criterion, Throughput};
use serde_json::json;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use stockade_runtime::{SessionLog, Settings, Submission, ToolRuntime};
use stockade_sandbox::fake::{FakeProvider, policy};
use stockade_tools::{Metadata, Registry, ToolError, TypedTool};
use stockade_types::{CallId, SessionId, ToolCall};
use tokio::sync::Notify;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {
    #[allow(dead_code)]
    path: String,
}

/// A runtime whose `Read` runs beside others and whose `Edit` does not; the folder holds its log.
fn runtime() -> (ToolRuntime, tempfile::TempDir) {
    let state = tempfile::tempdir().expect("a folder");
    let session = SessionId::new("bench").expect("an id");
    let log = SessionLog::open(state.path(), &session).expect("a log");
    let registry = Registry::new();
    for (name, metadata) in [("Read", Metadata::READ_ONLY), ("Edit", Metadata::default())] {
        let body = |_: Nothing, _| async { Ok::<_, ToolError>("done") };
        let tool = TypedTool::new(name, "Does nothing.", body).metadata(metadata);
        registry.register(Arc::new(tool)).expect("a tool");
    }
    let runtime = ToolRuntime::builder()
        .provider(Arc::new(FakeProvider::new("/ws")))
        .policy(policy("bench"))
        .registry(Arc::new(registry))
        .settings(Settings::default())
        .session_log(log)
        .build()
        .expect("a runtime");
    (runtime, state)
}

fn calls(name: &str, count: usize) -> Vec<ToolCall> {
    let call = |number: usize| ToolCall {
        id: CallId(number.to_string()),
        name: name.to_owned(),
        arguments: json!({"path": "src/lib.rs"}),
    };
    (0..count).map(call).collect()
}

fn tokio_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a tokio runtime")
}

/// Time a call, in turns of 1,000 and of 10,000: the same, if nothing grows with what has finished.
fn turns(criterion: &mut Criterion) {
    let tokio = tokio_runtime();
    for (name, label) in [("Read", "parallel"), ("Edit", "exclusive")] {
        let mut group = criterion.benchmark_group(format!("a no-op call, {label}"));
        group.sample_size(10);
        for count in [1_000, 10_000] {
            group.throughput(Throughput::Elements(count as u64));
            group.bench_function(format!("in a turn of {count}"), |bencher| {
                let (runtime, _state) = runtime();
                bencher.iter_batched(
                    || calls(name, count),
                    |calls| tokio.block_on(runtime.run_turn(black_box(calls))).expect("no fault"),
                    criterion::BatchSize::PerIteration,
                );
            });
        }
        group.finish();
    }
}

/// Time a call where half of a turn waits for one call and the other half passes it, in turns of 1,000 and of 4,000: the same, if
/// nothing grows with what waits. Then the same where each call that passes changes the tools.
fn waiting(criterion: &mut Criterion) {
    let tokio = tokio_runtime();
    for (label, changes) in [("half of it waits", false), ("half of it waits, tools change", true)]
    {
        let mut group = criterion.benchmark_group(label);
        group.sample_size(10);
        for count in [1_000, 4_000] {
            let (runtime, _state) = runtime();
            let (passed, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
            let (ready, last) = (Arc::clone(&all), count / 2);
            let hold = move |_: Nothing, _| {
                let ready = Arc::clone(&ready);
                async move {
                    ready.notified().await;
                    Ok::<_, ToolError>("held")
                }
            };
            let registry = Arc::clone(runtime.registry());
            let pass = move |_: Nothing, _| {
                if changes {
                    let other = |_: Nothing, _| async { Ok::<_, ToolError>("") };
                    registry.replace(Arc::new(TypedTool::new("Other", "", other))).expect("a tool");
                }
                if passed.fetch_add(1, Ordering::Relaxed) + 1 == last {
                    passed.store(0, Ordering::Relaxed);
                    all.notify_one();
                }
                async { Ok::<_, ToolError>("passed") }
            };
            let hold = TypedTool::new("Hold", "", hold).metadata(Metadata::READ_ONLY);
            let pass = TypedTool::new("Pass", "", pass).metadata(Metadata::READ_ONLY);
            runtime.registry().register(Arc::new(hold)).expect("a tool");
            runtime.registry().register(Arc::new(pass)).expect("a tool");
            let turn = || {
                let call = |name: &str, id: String, depends_on| Submission::After {
                    call: ToolCall {
                        id: CallId(id),
                        name: name.to_owned(),
                        arguments: json!({"path": "src/lib.rs"}),
                    },
                    depends_on,
                };
                let on = || vec![CallId("hold".to_owned())];
                let mut calls = vec![call("Hold", "hold".to_owned(), Vec::new())];
                calls.extend((0..count / 2).map(|n| call("Read", format!("waits {n}"), on())));
                calls.extend(
                    (0..count / 2).map(|n| call("Pass", format!("passes {n}"), Vec::new())),
                );
                calls
            };
            group.throughput(Throughput::Elements(count as u64));
            group.bench_function(format!("in a turn of {count}"), |bencher| {
                bencher.iter_batched(
                    turn,
                    |calls| tokio.block_on(runtime.run_turn(black_box(calls))).expect("no fault"),
                    criterion::BatchSize::PerIteration,
                );
            });
        }
        group.finish();
    }
}

/// Resident memory, in bytes (proc(5), statm).
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("there is /proc");
    let pages: u64 =
        statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

/// Time that the process has had processors for, in milliseconds (proc(5), stat; a tick is 10 ms).
fn processor_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("there is /proc");
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<u64>().expect("a number") * 10).sum()
}

/// What a call costs in processor time, which other work on the machine disturbs less than it does the time that passes.
fn processor(_: &mut Criterion) {
    const TURNS: u64 = 30;
    let tokio = tokio_runtime();
    let (runtime, _state) = runtime();
    let turns: Vec<_> = (0..TURNS).map(|_| calls("Read", 10_000)).collect();
    let before = processor_ms();
    for calls in turns {
        tokio.block_on(runtime.run_turn(calls)).expect("no fault");
    }
    let used = (processor_ms() - before) * 1000;
    println!("processor time of a call, all threads together: {} µs", used / (TURNS * 10_000));
}

/// What a finished call leaves behind while its turn goes on. No time, so it is printed and not measured.
fn memory(_: &mut Criterion) {
    const CALLS: u64 = 200_000;
    let (runtime, _state) = runtime();
    let left = tokio_runtime().block_on(async move {
        let mut turn = runtime.open_turn();
        let mut before = 0;
        for number in 0..CALLS + 20_000 {
            // The first calls make what is made only once.
            if number == 20_000 {
                before = resident();
            }
            let call = ToolCall {
                id: CallId(number.to_string()),
                name: "Read".to_owned(),
                arguments: json!({"path": "src/lib.rs"}),
            };
            turn.submit(call).expect("open");
            turn.next_result().await.expect("no fault");
        }
        resident().saturating_sub(before)
    });
    println!("memory left behind by a finished call in an open turn: {} bytes", left / CALLS);
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    turns(&mut criterion);
    waiting(&mut criterion);
    processor(&mut criterion);
    memory(&mut criterion);
    criterion.final_summary();
}
