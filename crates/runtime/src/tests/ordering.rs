//! The scheduler's rules (spec 1) that want a look from inside; all others are in tests/tests/conformance.

use super::*;
use crate::{Cascade, Event, EventSink, Settings, Submission};

#[tokio::test(start_paused = true)]
async fn a_pool_of_one_runs_parallel_calls_one_by_one() {
    let trace = Trace::default();
    let runtime = builder(probes(&trace)).max_parallel_calls(1).build().unwrap();
    runtime.run_turn([call("Share", "a", 5), call("Share", "b", 5)]).await.unwrap();
    assert_eq!(trace.taken(), ["start a", "end a", "start b", "end b"]);
    assert!(builder(probes(&trace)).max_parallel_calls(0).build().is_err());
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

fn after(name: &str, id: &str, ms: u64, on: &[&str]) -> Submission {
    let depends_on = on.iter().map(|id| CallId((*id).to_owned())).collect();
    Submission::After { call: call(name, id, ms), depends_on }
}

// spec 1.7, 1.11: what a call depends on must have ended; whether it failed is the cascade's business alone
#[tokio::test(start_paused = true)]
async fn a_call_whose_dependency_failed_runs_unless_the_cascade_cancels_it() {
    let trace = Trace::default();
    let fails = |name, cascades| {
        let probe = Probe { cascades, ..Probe::new(name, &trace, false) };
        probe.doing(|_| Err(ToolError::Business("failed".into())))
    };
    let registry = probes(&trace);
    registry.register(Arc::new(fails("Fails", false))).unwrap();
    registry.register(Arc::new(fails("Shell", true))).unwrap();
    for (name, cascade, runs) in [
        ("Fails", Cascade::Shell, true),
        ("Fails", Cascade::Writes, true),
        ("Shell", Cascade::Shell, false),
        ("Shell", Cascade::Writes, false),
        ("Shell", Cascade::Off, true),
        // An error that is found before anything runs is its call's alone, too.
        ("Nobody", Cascade::Writes, true),
    ] {
        let settings = Settings { cascade, ..Settings::default() };
        let runtime = builder(Arc::clone(&registry)).settings(settings).build().unwrap();
        let calls = [after(name, "a", 1, &[]), after("Share", "b", 1, &["a"])];
        let results = runtime.run_turn(calls).await.unwrap();
        assert_eq!((results[0].is_error, !results[1].is_error), (true, runs), "{name} {cascade:?}");
    }
}

// spec 1.4, 1.7
#[tokio::test(start_paused = true)]
async fn a_chain_of_thousands_that_each_wait_for_the_one_before_asks_each_a_few_times() {
    const CALLS: usize = 3_000;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let probe = Probe::new("Share", &Trace::default(), true).classified(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(true)
    });
    let registry = Registry::new();
    registry.register(Arc::new(probe)).unwrap();
    let runtime = builder(Arc::new(registry)).build().unwrap();
    let calls = (0..CALLS).map(|number| {
        let on = number.checked_sub(1).map(|on| on.to_string());
        after("Share", &number.to_string(), 0, &Vec::from_iter(on.as_deref()))
    });
    let results = runtime.run_turn(calls.collect::<Vec<_>>()).await.unwrap();
    assert!(results.len() == CALLS && results.iter().all(|result| !result.is_error));
    // Not all that wait again for each that ends.
    assert!(asked.load(Ordering::SeqCst) <= 4 * CALLS, "{asked:?}");
}

// spec 1.4, 1.7
#[tokio::test(start_paused = true)]
async fn a_change_of_the_tools_asks_those_that_wait_again_only_where_it_is_their_tool_that_changed()
{
    const CALLS: usize = 600;
    let asked = Arc::new(AtomicUsize::new(0));
    let share = |exclusive: bool| {
        let count = Arc::clone(&asked);
        Arc::new(Probe::new("Share", &Trace::default(), true).classified(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(!exclusive)
        }))
    };
    let trace = Trace::default();
    let registry = Arc::new(Registry::new());
    registry.register(share(false)).unwrap();
    let weak = Arc::downgrade(&registry);
    let other = trace.clone();
    let changes = Probe::new("Changes", &trace, true).doing(move |_| {
        let registry = weak.upgrade().unwrap();
        registry.replace(Arc::new(Probe::new("Other", &other, true))).unwrap();
        Ok(ToolOutput::text("changed"))
    });
    registry.register(Arc::new(changes)).unwrap();
    registry.register(Arc::new(Probe::new("Slow", &trace, true))).unwrap();
    let runtime = builder(Arc::clone(&registry)).build().unwrap();
    let mut calls = vec![after("Slow", "slow", 1000, &[])];
    calls.extend((0..CALLS).map(|n| after("Share", &format!("waits {n}"), 0, &["slow"])));
    calls.extend((0..CALLS).map(|n| after("Changes", &format!("changes {n}"), 0, &[])));
    let results = runtime.run_turn(calls).await.unwrap();
    assert!(results.iter().all(|result| !result.is_error));
    // Once while they wait, and once when each is about to start.
    assert!(asked.load(Ordering::SeqCst) <= 4 * CALLS, "{asked:?}");
    // Their own tool counts: what waits now runs alone, so that nothing passes it any more.
    trace.taken();
    let mut turn = runtime.open_turn();
    turn.submit(after("Slow", "slow", 1000, &[])).unwrap();
    turn.submit(after("Share", "waits", 0, &["slow"])).unwrap();
    turn.submit(after("Slow", "passes", 1, &[])).unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    registry.replace(share(true)).unwrap();
    turn.submit(after("Slow", "does not pass", 1, &[])).unwrap();
    turn.close();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let early: Vec<_> = trace.taken().into_iter().filter(|n| n.starts_with("start")).collect();
    assert_eq!(early, ["start slow", "start passes"]);
    while turn.next_result().await.unwrap().is_some() {}
    let started: Vec<_> = trace.taken().into_iter().filter(|n| n.starts_with("start")).collect();
    assert_eq!(started, ["start does not pass"]);
}
