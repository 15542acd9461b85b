//! By a deadline.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_tree_that_ignores_sigterm_is_killed_after_the_grace() {
    // spec 6.1
    let cell = ScriptedCell::new(Script { on_kill: vec![(5, gone())], ..Script::default() });
    let finished = run_to_end(&cell, options(1000, 300)).await;
    assert_eq!(finished.outcome, Outcome::TimedOut { timeout_ms: 1000 });
    assert_eq!(cell.signals(), [(1000, TreeSignal::Terminate), (1300, TreeSignal::Kill)]);
    let expected =
        Killed { terminated: true, killed: true, processes: 1, took_ms: 305, ..Killed::default() };
    assert_eq!(finished.killed, expected);
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_ends_within_the_grace_is_not_killed() {
    // spec 6.1
    let cell = ScriptedCell::new(Script {
        on_terminate: vec![(50, exits(0, 0)), (51, gone())],
        ..Script::default()
    });
    let finished = run_to_end(&cell, options(1000, 300)).await;
    assert_eq!(finished.outcome, Outcome::TimedOut { timeout_ms: 1000 });
    assert_eq!(cell.signals(), [(1000, TreeSignal::Terminate)]);
    let expected =
        Killed { terminated: true, took_ms: 51, main_exit_code: Some(0), ..Killed::default() };
    assert_eq!(finished.killed, expected);
}

#[tokio::test(start_paused = true)]
async fn when_the_main_process_ends_within_the_grace_the_others_keep_the_rest_of_it() {
    // spec 6.1
    let cell = ScriptedCell::new(Script {
        on_terminate: vec![(50, exits(0, 4)), (60, Do::CloseOutput)],
        on_kill: vec![(0, gone())],
        ..Script::default()
    });
    let finished = run_to_end(&cell, options(1000, 300)).await;
    assert_eq!(cell.signals(), [(1000, TreeSignal::Terminate), (1300, TreeSignal::Kill)]);
    let expected = Killed {
        terminated: true,
        killed: true,
        processes: 4,
        took_ms: 300,
        main_exit_code: Some(0),
        ..Killed::default()
    };
    assert_eq!(finished.killed, expected);
    assert_eq!(finished.outcome, Outcome::TimedOut { timeout_ms: 1000 });
}

#[tokio::test(start_paused = true)]
async fn output_during_the_grace_is_kept() {
    // spec 6.1
    let cell = ScriptedCell::new(Script {
        start: vec![(0, out("working\n"))],
        on_terminate: vec![(100, out("cleaning up\n")), (290, Do::Err(b"done\n".to_vec()))],
        on_kill: vec![(0, gone())],
        ..Script::default()
    });
    let finished = run_to_end(&cell, options(1000, 300)).await;
    assert_eq!(finished.stdout.text(), "working\ncleaning up\n");
    assert_eq!(finished.stderr.text(), "done\n");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_exits_just_as_the_deadline_fires_has_exited() {
    // spec 6.1: whichever came first decides.
    let cell = ScriptedCell::new(Script {
        start: vec![(1000, exits(0, 0)), (1001, gone())],
        ..Script::default()
    });
    let finished = run_to_end(&cell, options(1000, 300)).await;
    assert_eq!(finished.outcome, Outcome::Exited { code: 0 });
    assert_eq!(cell.signals(), []);
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_was_gone_before_the_signal_reports_its_own_end() {
    // spec 6.1: its report was on the way when the deadline fired.
    let cell = ScriptedCell::new(Script {
        start: vec![(1010, exits(0, 0)), (1011, gone())],
        gone_before_signals: true,
        ..Script::default()
    });
    let finished = run_to_end(&cell, options(1000, 300)).await;
    assert_eq!(finished.outcome, Outcome::Exited { code: 0 });
    assert_eq!(finished.killed, Killed::default(), "no signal reached it");
}

#[tokio::test(start_paused = true)]
async fn a_start_that_hangs_ends_at_the_deadline() {
    let mut cell = ScriptedCell::new(Script::default());
    cell.spawn_hangs = true;
    let finished = run_to_end(&cell, options(1000, 300)).await;
    assert_eq!(finished, Finished::never_ran(Outcome::TimedOut { timeout_ms: 1000 }));
}

#[tokio::test(start_paused = true)]
async fn durations_beyond_the_clock_mean_for_ever_and_do_not_panic() {
    let cell = ScriptedCell::new(Script {
        start: vec![(10, exits(0, 0)), (11, gone())],
        ..Script::default()
    });
    let options = RunOptions {
        deadline: Some(Duration::MAX),
        grace: Duration::MAX,
        leftovers: Leftovers::End { drain: Duration::MAX },
        ..RunOptions::default()
    };
    assert_eq!(run_to_end(&cell, options).await.outcome, Outcome::Exited { code: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_suspended_tree_keeps_exactly_the_time_that_it_had_left() {
    // spec 2.9
    let cell = ScriptedCell::new(Script { on_kill: vec![(0, gone())], ..Script::default() });
    let running = RunningCommand::start(&cell, command(), options(1000, 300)).await.unwrap();
    let control = running.control();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(400)).await;
        control.suspend();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        control.resume();
    });
    let finished = running.wait(CancellationToken::new()).await;
    assert_eq!(
        cell.signals(),
        [
            (400, TreeSignal::Stop),
            (3_600_400, TreeSignal::Continue),
            (3_601_000, TreeSignal::Terminate),
            (3_601_300, TreeSignal::Kill),
        ]
    );
    assert_eq!(finished.outcome, Outcome::TimedOut { timeout_ms: 1000 });
}
