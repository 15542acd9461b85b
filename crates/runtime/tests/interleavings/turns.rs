//! A turn that is fed, signalled and emptied by three threads.

use crate::explore;
use crate::world::{World, call, ids, rest};
use shuttle::future::block_on;
use shuttle::thread;
use stockade_types::ToolResult;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Nothing,
    Abort,
    InterruptThenAbort,
    Discard,
    AbortThenDiscard,
}

fn numbers(results: &[ToolResult]) -> Vec<usize> {
    results.iter().filter_map(|result| result.call_id.0.parse().ok()).collect()
}

fn fed_signalled_and_emptied(signal: Signal) {
    let world = World::new();
    let mut turn = world.runtime.open_turn();
    let (feeder, signaller) = (turn.submitter(), turn.submitter());
    let feeder = thread::spawn(move || {
        // Only a signal ends a call that waits.
        let third = if signal == Signal::Nothing { "Read" } else { "Wait" };
        let names = ["Read", "Edit", third, "Read"];
        let mut accepted = 0;
        for (id, name) in names.iter().enumerate() {
            match feeder.submit(call(id, name)) {
                Ok(()) => accepted += 1,
                Err(_) => break,
            }
        }
        feeder.close();
        accepted
    });
    let signaller = thread::spawn(move || match signal {
        Signal::Nothing => {}
        Signal::Abort => signaller.abort(),
        Signal::InterruptThenAbort => {
            signaller.interrupt();
            signaller.abort();
        }
        Signal::Discard => signaller.discard(),
        Signal::AbortThenDiscard => {
            signaller.abort();
            signaller.discard();
        }
    });
    let results = block_on(rest(&mut turn));
    let accepted = feeder.join().expect("it does not panic");
    signaller.join().expect("it does not panic");
    assert!(!turn.interruptible(), "nothing runs any more");
    let all: Vec<usize> = (0..accepted).collect();
    let discarded = matches!(signal, Signal::Discard | Signal::AbortThenDiscard);
    let given = numbers(&results);
    assert!(all.starts_with(&given), "in the model's order: {given:?}");
    if !discarded {
        assert_eq!(given, all, "each has its result");
    }
    let records = world.records();
    assert_eq!(ids(&records, 1, "tool/call"), all, "each has its one call record");
    assert_eq!(ids(&records, 1, "tool/result"), all, "each has its one result record");
    let marks = ids(&records, 1, "turn/discard").len();
    assert_eq!(marks, usize::from(discarded), "told once that none of it is history");
}

// spec 1.10, 1.16
#[test]
fn a_turn_that_is_fed_while_it_runs_gives_each_call_its_result() {
    explore(|| fed_signalled_and_emptied(Signal::Nothing));
}

// spec 1.12, 1.16
#[test]
fn an_abort_at_any_moment_leaves_each_call_one_result_and_two_records() {
    explore(|| fed_signalled_and_emptied(Signal::Abort));
    explore(|| fed_signalled_and_emptied(Signal::InterruptThenAbort));
}

// spec 1.15, 9.1
#[test]
fn a_discard_at_any_moment_is_in_the_log_once_also_when_all_had_ended() {
    explore(|| fed_signalled_and_emptied(Signal::Discard));
    explore(|| fed_signalled_and_emptied(Signal::AbortThenDiscard));
}

// spec 1.14
#[test]
fn an_interrupt_is_never_lost() {
    explore(|| {
        let world = World::new();
        let mut turn = world.runtime.open_turn();
        turn.submit(call(0, "Wait")).expect("open");
        let submitter = turn.submitter();
        let interrupt = thread::spawn(move || submitter.interrupt());
        turn.close();
        // Were it lost, the call would wait for ever.
        let results = block_on(rest(&mut turn));
        assert!(results.len() == 1 && results[0].is_error, "{results:?}");
        interrupt.join().expect("it does not panic");
    });
}

// spec 1.10
#[test]
fn the_end_of_the_last_feeder_is_never_missed() {
    explore(|| {
        let world = World::new();
        let mut turn = world.runtime.open_turn();
        let (feeder, other) = (turn.submitter(), turn.submitter());
        let other = thread::spawn(move || drop(other));
        let feeder = thread::spawn(move || feeder.submit(call(0, "Read")).is_ok());
        // Were it missed, this would wait for ever.
        let results = block_on(rest(&mut turn));
        let accepted = feeder.join().expect("it does not panic");
        other.join().expect("it does not panic");
        assert!(accepted && results.len() == 1, "{results:?}");
    });
}

// spec 1.14
#[test]
fn an_interrupt_is_about_what_was_submitted_before_it_and_no_later_call() {
    explore(|| {
        let world = World::new();
        let mut turn = world.runtime.open_turn();
        let feeder = turn.submitter();
        let feeder = thread::spawn(move || {
            feeder.submit(call(0, "Wait")).expect("open");
            feeder.interrupt();
            feeder.submit(call(1, "Read")).expect("open");
            feeder.submit(call(2, "Stoppable")).expect("open");
            feeder.close();
        });
        let results = block_on(rest(&mut turn));
        feeder.join().expect("it does not panic");
        let errors: Vec<bool> = results.iter().map(|result| result.is_error).collect();
        assert_eq!(errors, [true, false, false], "{results:?}");
    });
}

// spec 1.12
#[test]
fn a_turn_that_is_dropped_at_any_moment_ends_and_is_recorded_whole() {
    explore(|| {
        let world = World::new();
        let turn = world.runtime.open_turn();
        turn.submit(call(0, "Read")).expect("open");
        turn.submit(call(1, "Wait")).expect("open");
        let submitter = turn.submitter();
        let dropped = thread::spawn(move || drop(turn));
        let accepted = 2 + usize::from(submitter.submit(call(2, "Edit")).is_ok());
        dropped.join().expect("it does not panic");
        // The next turn's records come when the log is free; this one's must be there when its tasks have ended.
        let all: Vec<usize> = (0..accepted).collect();
        while ids(&world.records(), 1, "tool/result") != all {
            thread::yield_now();
        }
        assert_eq!(ids(&world.records(), 1, "tool/call"), all);
    });
}

// spec 1.4, 3.4
#[test]
fn a_tool_that_is_removed_meanwhile_is_there_or_not_and_nothing_between() {
    explore(|| {
        let world = World::new();
        let registry = std::sync::Arc::clone(world.runtime.registry());
        let remover = thread::spawn(move || registry.remove("Read"));
        let results = block_on(world.runtime.run_turn([call(0, "Read"), call(1, "Edit")]));
        assert!(remover.join().expect("it does not panic"), "it was there");
        let results = results.expect("no fault");
        let text = serde_json::to_string(&results[0].content).expect("JSON");
        let done = text.contains("done") && !results[0].is_error;
        let unknown = text.contains("No such tool available: Read") && results[0].is_error;
        assert!(done ^ unknown, "{text}");
        assert!(!results[1].is_error);
    });
}
