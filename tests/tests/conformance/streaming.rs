//! S: the streaming executor of Claude Code. Calls start while the model streams, and a failing shell command cancels its
//! siblings.

use crate::probe::{Log, Probe};
use crate::world::{Events, builder, call, ids, rest, runtime, text, timed, tools, wait, with};
use async_trait::async_trait;
use serde_json::json;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use stockade_runtime::{
    ApprovalRequest, Approver, Cascade, Decision, HookError, Settings, Submission, ToolRuntime,
};
use stockade_tools::{ApprovalNeed, ToolError};
use stockade_types::ToolCall;
use tokio::time::Instant;

fn streaming(log: &Log) -> ToolRuntime {
    runtime(Settings::streaming(), log)
}

async fn run(log: &Log, calls: Vec<ToolCall>) -> Vec<(String, bool)> {
    let results = streaming(log).run_turn(calls).await.expect("no fault");
    results.iter().map(|result| (text(result), result.is_error)).collect()
}

// spec 1 (submit while the model streams), 1.1, 1.10
#[tokio::test(start_paused = true)]
async fn s_1_1_a_call_starts_when_it_is_submitted_and_an_exclusive_one_runs_alone() {
    let log = Log::default();
    let mut turn = streaming(&log).open_turn();
    let begun = Instant::now();
    let submitter = turn.submitter();
    tokio::spawn(async move {
        submitter.submit(call("Read", "a", 100)).expect("open");
        wait(10).await;
        submitter.submit(call("Edit", "b", 20)).expect("open");
        submitter.submit(call("Read", "c", 5)).expect("open");
        wait(10).await;
        submitter.submit(call("Read", "d", 5)).expect("open");
        submitter.close();
    });
    let results = timed(&mut turn, begun).await;
    assert_eq!(
        log.taken(),
        ["start a", "end a", "start b", "end b", "start c", "start d", "end c", "end d"]
    );
    let times: Vec<u128> = results.iter().map(|(_, at)| *at).collect();
    assert_eq!(times, [100, 120, 125, 125], "each wakes its consumer when it is due");
}

// spec 1.2
#[tokio::test(start_paused = true)]
async fn s_1_2_what_is_not_surely_safe_with_these_arguments_runs_alone() {
    let log = Log::default();
    for doubtful in [
        with("Bash", "b", json!({"ms": 5})),
        with("Read", "b", json!({"ms": "five"})),
        call("Nobody", "b", 5),
    ] {
        let runs = doubtful.name == "Bash";
        run(&log, vec![call("Read", "a", 10), doubtful, call("Read", "c", 10)]).await;
        let mut expected = vec!["start a", "end a", "start c", "end c"];
        if runs {
            expected.splice(2..2, ["start b", "end b"]);
        }
        assert_eq!(log.taken(), expected);
    }
    let safe = json!({"ms": 10, "read_only": true});
    run(&log, vec![call("Read", "a", 20), with("Bash", "b", safe)]).await;
    assert_eq!(log.taken(), ["start a", "start b", "end b", "end a"]);
}

// spec 1.8
#[tokio::test(start_paused = true)]
async fn s_1_8_results_come_in_the_models_order_and_none_behind_a_running_exclusive_call() {
    let log = Log::default();
    let mut turn = streaming(&log).open_turn();
    let begun = Instant::now();
    for submission in [call("Read", "a", 50), call("Read", "b", 10), call("Edit", "c", 30)] {
        turn.submit(submission).expect("open");
    }
    turn.submit(call("Read", "d", 1)).expect("open");
    turn.close();
    let results = timed(&mut turn, begun).await;
    let expected = [("a", 50), ("b", 50), ("c", 80), ("d", 81)];
    assert_eq!(results, expected.map(|(id, at)| (id.to_owned(), at)));
}

// spec 1.8: progress is delivered at once
#[tokio::test(start_paused = true)]
async fn s_1_8_progress_overtakes_results() {
    let log = Log::default();
    let registry = tools(&log);
    let talks = Probe::reads("Talk", &log).doing(|_, context| {
        (context.progress)(json!("half way"));
        Ok("done".into())
    });
    registry.register(Arc::new(talks)).expect("a tool");
    let events = Events::default();
    let runtime = builder(Settings::streaming(), registry).events(Arc::new(events.clone()));
    let runtime = runtime.build().expect("a runtime");
    let mut turn = runtime.open_turn();
    turn.submit(call("Read", "slow", 1000)).expect("open");
    turn.submit(call("Talk", "b", 10)).expect("open");
    turn.close();
    wait(20).await;
    assert_eq!(events.of("b"), ["queued", "executing", "progress", "completed"]);
    rest(&mut turn).await;
    assert_eq!(events.of("b").last().map(String::as_str), Some("yielded"));
}

// spec 1.9
#[tokio::test(start_paused = true)]
async fn s_1_9_each_call_is_queued_executing_completed_yielded() {
    let log = Log::default();
    let events = Events::default();
    let runtime = builder(Settings::streaming(), tools(&log)).events(Arc::new(events.clone()));
    let runtime = runtime.build().expect("a runtime");
    runtime.run_turn([call("Read", "a", 5), call("Edit", "b", 5)]).await.expect("no fault");
    for id in ["a", "b"] {
        assert_eq!(events.of(id), ["queued", "executing", "completed", "yielded"]);
    }
    let started = |id: &str| {
        let all = events.all();
        let event = all.iter().find(|e| e["call_id"] == id && e["event"] == "executing");
        event.expect("a start event").clone()
    };
    assert_eq!(
        (&started("a")["mode"], &started("a")["read_only"]),
        (&json!("parallel"), &json!(true))
    );
    assert_eq!(started("b")["mode"], "exclusive");
}

// spec 1.10
#[tokio::test(start_paused = true)]
async fn s_1_10_whoever_waits_is_woken_by_what_happens_and_by_nothing_else() {
    let log = Log::default();
    let mut turn = streaming(&log).open_turn();
    turn.submit(call("Read", "a", 299_000)).expect("open");
    turn.close();
    let mut polls = 0;
    let next = turn.next_result();
    tokio::pin!(next);
    let result = std::future::poll_fn(|context| {
        polls += 1;
        next.as_mut().poll(context)
    });
    assert!(result.await.expect("no fault").is_some());
    assert!(polls <= 2, "once to begin to wait, once when it is there: {polls}");
}

// spec 1.11
#[tokio::test(start_paused = true)]
async fn s_1_11_a_failing_shell_command_cancels_running_and_queued_siblings_and_no_other_tool_does()
{
    let log = Log::default();
    let fails = json!({
        "ms": 10, "fail": true, "read_only": true, "command": "mkdir /tmp/x && cd /tmp/x && cmake .. -DX=1"
    });
    let calls = vec![
        call("Read", "done", 1),
        call("Read", "running", 1000),
        with("Bash", "fails", fails),
        call("Edit", "queued", 1),
        call("Read", "behind", 1),
    ];
    let results = run(&log, calls).await;
    let sibling =
        "Cancelled: parallel tool call Bash(mkdir /tmp/x && cd /tmp/x && cmake .. -D…) errored";
    assert_eq!(results[0], ("done in /ws".into(), false));
    assert_eq!(results[1], (sibling.into(), true));
    assert_eq!(results[2], ("<tool_use_error>fails failed</tool_use_error>".into(), true));
    assert_eq!(results[3..], [(sibling.into(), true), (sibling.into(), true)]);
    assert_eq!(
        log.taken(),
        ["start done", "start running", "start fails", "end done", "end fails", "stopped running"]
    );
    // The turn goes on: another tool's failure is its own.
    let calls = vec![with("Edit", "a", json!({"fail": true})), call("Read", "b", 1)];
    assert_eq!(run(&log, calls).await[1], ("b in /ws".into(), false));
}

// spec 1.11: what comes in later is a sibling too
#[tokio::test(start_paused = true)]
async fn s_1_11_what_the_model_still_adds_after_the_failure_is_cancelled() {
    let log = Log::default();
    let mut turn = streaming(&log).open_turn();
    turn.submit(with("Bash", "a", json!({"fail": true, "command": "x"}))).expect("open");
    wait(50).await;
    turn.submit(call("Read", "late", 1)).expect("open");
    turn.close();
    let results = rest(&mut turn).await;
    assert_eq!(text(&results[1]), "Cancelled: parallel tool call Bash(x) errored");
}

// spec 1.11
#[tokio::test(start_paused = true)]
async fn s_1_11_writes_spares_the_siblings_of_a_failing_reader_and_off_spares_all() {
    let log = Log::default();
    let failing = |read_only| json!({"fail": true, "command": "x", "read_only": read_only});
    for (cascade, read_only, cancelled) in [
        (Cascade::Shell, true, true),
        (Cascade::Shell, false, true),
        (Cascade::Writes, true, false),
        (Cascade::Writes, false, true),
        (Cascade::Off, false, false),
    ] {
        let settings = Settings { cascade, ..Settings::streaming() };
        let calls = [with("Bash", "a", failing(read_only)), call("Edit", "b", 1)];
        let results = runtime(settings, &log).run_turn(calls).await.expect("no fault");
        assert_eq!(results[1].is_error, cancelled, "{cascade:?} {read_only}");
    }
    assert_eq!(Settings::default().cascade, Cascade::Writes);
}

// spec 1.12
#[tokio::test(start_paused = true)]
async fn s_1_12_a_no_that_stops_reaches_the_turn_and_a_plain_no_does_not() {
    struct Says(Decision);
    #[async_trait]
    impl Approver for Says {
        async fn decide(&self, _: &ApprovalRequest) -> Result<Decision, HookError> {
            Ok(self.0.clone())
        }
    }
    let log = Log::default();
    let reason = || "not that".to_owned();
    for (decision, others_run) in
        [(Decision::Deny { reason: reason() }, true), (Decision::Stop { reason: reason() }, false)]
    {
        let registry = tools(&log);
        let asks = Probe { approval: ApprovalNeed::Ask, ..Probe::reads("Ask", &log) };
        registry.register(Arc::new(asks)).expect("a tool");
        let runtime = builder(Settings::streaming(), registry).approver(Arc::new(Says(decision)));
        let runtime = runtime.build().expect("a runtime");
        let calls = [call("Read", "running", 100), call("Ask", "asked", 1), call("Edit", "b", 1)];
        let results = runtime.run_turn(calls).await.expect("no fault");
        assert!(text(&results[1]).contains("not that"), "{results:?}");
        assert_eq!(!results[0].is_error, others_run);
        assert_eq!(!results[2].is_error, others_run);
    }
}

// spec 1.13
#[tokio::test(start_paused = true)]
async fn s_1_13_a_discard_outweighs_a_siblings_failure_and_that_outweighs_the_user() {
    let log = Log::default();
    let registry = tools(&log);
    let slow = Probe { drains_for: Duration::from_millis(100), ..Probe::reads("Slow", &log) };
    registry.register(Arc::new(slow)).expect("a tool");
    let runtime = builder(Settings::streaming(), registry).build().expect("a runtime");
    // The user first, then the sibling, which fails by itself all the same.
    let mut turn = runtime.open_turn();
    turn.submit(call("Slow", "a", 1000)).expect("open");
    let failing = json!({"ms": 10, "fail": true, "read_only": true, "command": "x"});
    turn.submit(with("Bash", "b", failing)).expect("open");
    turn.close();
    wait(20).await;
    turn.abort();
    let results = rest(&mut turn).await;
    assert_eq!(text(&results[0]), "Cancelled: parallel tool call Bash(x) errored");
    // The user alone.
    let mut turn = runtime.open_turn();
    turn.submit(call("Slow", "a", 1000)).expect("open");
    turn.close();
    wait(20).await;
    turn.abort();
    assert!(text(&rest(&mut turn).await[0]).starts_with("ABORTED: "));
    // A discard after both: nothing comes.
    let mut turn = runtime.open_turn();
    turn.submit(call("Slow", "a", 1000)).expect("open");
    wait(20).await;
    turn.abort();
    turn.discard();
    assert_eq!(rest(&mut turn).await, []);
}

// spec 1.14
#[tokio::test(start_paused = true)]
async fn s_1_14_an_interrupt_stops_only_what_can_be_cancelled_and_an_abort_stops_all() {
    let log = Log::default();
    let mut turn = streaming(&log).open_turn();
    assert!(!turn.interruptible(), "nothing runs");
    turn.submit(call("Watch", "a", 1000)).expect("open");
    wait(1).await;
    assert!(turn.interruptible());
    turn.submit(call("Read", "b", 100)).expect("open");
    wait(1).await;
    assert!(!turn.interruptible(), "one of the two runs on");
    turn.submit(call("Edit", "c", 10)).expect("open");
    turn.submit(call("Watch", "d", 10)).expect("open");
    turn.close();
    turn.interrupt();
    let results = rest(&mut turn).await;
    let texts: Vec<String> = results.iter().map(text).collect();
    assert!(texts[0].starts_with("ABORTED: "), "{texts:?}");
    assert_eq!((texts[1].as_str(), texts[2].as_str()), ("b in /ws", "c in /ws"));
    assert!(texts[3].starts_with("ABORTED_BEFORE_DISPATCH: "), "{texts:?}");
    let mut turn = streaming(&log).open_turn();
    turn.submit(call("Read", "a", 1000)).expect("open");
    turn.submit(call("Edit", "b", 10)).expect("open");
    turn.close();
    wait(1).await;
    turn.abort();
    assert!(rest(&mut turn).await.iter().all(|result| result.is_error));
}

// spec 1.15
#[tokio::test(start_paused = true)]
async fn s_1_15_after_a_discard_nothing_starts_and_no_result_is_delivered_late_ones_included() {
    let log = Log::default();
    let mut turn = streaming(&log).open_turn();
    turn.submit(call("Read", "done", 1)).expect("open");
    turn.submit(call("Read", "running", 1000)).expect("open");
    turn.submit(call("Edit", "queued", 1)).expect("open");
    wait(50).await;
    turn.discard();
    assert!(turn.submit(call("Read", "late", 1)).is_err());
    assert_eq!(rest(&mut turn).await, [], "not even the one that was ready");
    assert_eq!(log.taken(), ["start done", "start running", "end done", "stopped running"]);
}

// spec 1.19
#[tokio::test(start_paused = true)]
async fn s_1_19_every_call_starts_while_the_model_still_streams() {
    let log = Log::default();
    let turn = streaming(&log).open_turn();
    turn.submit(call("Edit", "a", 10)).expect("open");
    wait(5).await;
    assert_eq!(log.taken(), ["start a"]);
}

// spec 1.20
#[tokio::test(start_paused = true)]
async fn s_1_20_an_exclusive_call_changes_the_context_for_those_after_it_and_a_parallel_one_may_not()
 {
    let log = Log::default();
    let moves = json!({"cwd": "/ws/sub"});
    let calls = [
        call("Read", "before", 1),
        with("Edit", "moves", moves.clone()),
        call("Read", "after", 1),
        with("Read", "tries", moves),
        call("Read", "still", 1),
    ];
    let runtime = streaming(&log);
    let results = runtime.run_turn(calls).await.expect("no fault");
    let texts: Vec<String> = results.iter().map(text).collect();
    assert_eq!(texts[0], "before in /ws");
    assert_eq!(texts[2], "after in /ws/sub");
    assert!(results[3].is_error && texts[3].starts_with("ToolOutputError: Read"), "{texts:?}");
    assert_eq!(texts[4], "still in /ws/sub");
    let next = runtime.run_turn([call("Read", "next", 1)]).await.expect("no fault");
    assert_eq!(text(&next[0]), "next in /ws", "the context is the turn's");
}

// spec 1.12: nothing is left behind
#[tokio::test(start_paused = true)]
async fn s_1_12_a_thousand_finished_calls_can_be_followed_by_an_abort() {
    let log = Log::default();
    let mut turn = streaming(&log).open_turn();
    for number in 0..1000 {
        turn.submit(call("Read", &number.to_string(), 1)).expect("open");
    }
    wait(1000).await;
    turn.submit(call("Edit", "last", 60_000)).expect("open");
    wait(10).await;
    turn.abort();
    turn.close();
    let results = rest(&mut turn).await;
    assert_eq!(results.len(), 1001);
    let failed: Vec<_> = results.iter().filter(|result| result.is_error).collect();
    assert_eq!(failed.len(), 1, "those that had finished keep their results");
}

// A panic anywhere is that call's own.
#[tokio::test(start_paused = true)]
async fn s_a_tool_that_panics_has_an_error_and_the_turn_goes_on() {
    let log = Log::default();
    let registry = tools(&log);
    let panics = Probe::reads("Panic", &log).doing(|_, _| panic!("expected here"));
    let errs = Probe::reads("Err", &log).doing(|_, _| Err(ToolError::Other("no".into())));
    registry.register(Arc::new(panics)).expect("a tool");
    registry.register(Arc::new(errs)).expect("a tool");
    let runtime = builder(Settings::streaming(), registry).build().expect("a runtime");
    let calls = [call("Panic", "a", 1), call("Err", "b", 1), call("Read", "c", 1)];
    let results = runtime.run_turn(calls).await.expect("no fault");
    assert_eq!(ids(&results), ["a", "b", "c"]);
    assert!(text(&results[0]).contains("expected here"));
    assert_eq!(text(&results[2]), "c in /ws");
}

// An id that was used before is answered in its place.
#[tokio::test(start_paused = true)]
async fn s_an_id_twice_is_an_error_of_the_second_call_alone() {
    let log = Log::default();
    let calls = vec![call("Read", "a", 1), call("Read", "a", 1), call("Read", "b", 1)];
    let calls: Vec<Submission> = calls.into_iter().map(Submission::from).collect();
    let results = streaming(&log).run_turn(calls).await.expect("no fault");
    let errors: Vec<bool> = results.iter().map(|result| result.is_error).collect();
    assert_eq!(errors, [false, true, false]);
}
