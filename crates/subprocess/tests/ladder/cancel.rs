//! By a cancel, a signal that is passed on, and without any grace.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_cancelled_tree_gets_sigterm_the_grace_and_sigkill() {
    // spec 6.1
    let cell = ScriptedCell::new(Script { on_kill: vec![(0, gone())], ..Script::default() });
    let cancel = CancellationToken::new();
    let trigger = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        trigger.cancel();
    });
    let finished = run(&cell, command(), options(60_000, 300), cancel).await;
    let reason = CancelReason::UserInterrupted;
    assert_eq!(finished.outcome, Outcome::Cancelled { reason });
    assert_eq!(cell.signals(), [(200, TreeSignal::Terminate), (500, TreeSignal::Kill)]);
}

#[tokio::test(start_paused = true)]
async fn a_second_cancel_skips_the_grace() {
    // spec 6.1
    let cell = ScriptedCell::new(Script { on_kill: vec![(0, gone())], ..Script::default() });
    let running = RunningCommand::start(&cell, command(), options(60_000, 10_000)).await.unwrap();
    let control = running.control();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        control.cancel(CancelReason::UserInterrupted);
        tokio::time::sleep(Duration::from_millis(50)).await;
        control.cancel(CancelReason::Discarded);
    });
    let finished = running.wait(CancellationToken::new()).await;
    assert_eq!(cell.signals(), [(200, TreeSignal::Terminate), (250, TreeSignal::Kill)]);
    // spec 1.13: the reason of higher priority stays.
    assert_eq!(finished.outcome, Outcome::Cancelled { reason: CancelReason::Discarded });
}

#[tokio::test(start_paused = true)]
async fn kill_now_skips_the_grace_of_a_timeout_which_stays_the_outcome() {
    // spec 6.1
    let cell = ScriptedCell::new(Script { on_kill: vec![(0, gone())], ..Script::default() });
    let running = RunningCommand::start(&cell, command(), options(1000, 10_000)).await.unwrap();
    let control = running.control();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(1100)).await;
        control.kill_now();
    });
    let finished = running.wait(CancellationToken::new()).await;
    assert_eq!(cell.signals(), [(1000, TreeSignal::Terminate), (1100, TreeSignal::Kill)]);
    assert_eq!(finished.outcome, Outcome::TimedOut { timeout_ms: 1000 });
}

#[tokio::test(start_paused = true)]
async fn kill_now_kills_a_running_tree_at_once() {
    let cell = ScriptedCell::new(Script { on_kill: vec![(3, gone())], ..Script::default() });
    let running = RunningCommand::start(&cell, command(), RunOptions::default()).await.unwrap();
    running.control().kill_now();
    let finished = running.wait(CancellationToken::new()).await;
    let reason = CancelReason::UserInterrupted;
    assert_eq!(finished.outcome, Outcome::Cancelled { reason });
    let expected =
        Killed { terminated: false, killed: true, processes: 1, took_ms: 3, ..Killed::default() };
    assert_eq!(finished.killed, expected);
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_is_passed_on_is_the_commands_own_affair() {
    let cell = ScriptedCell::new(Script {
        on_interrupt: vec![(0, out("not now\n"))],
        on_terminate: vec![(5000, dies_by(15)), (5001, gone())],
        ..Script::default()
    });
    let running = RunningCommand::start(&cell, command(), options(60_000, 300)).await.unwrap();
    let control = running.control();
    tokio::spawn(async move {
        control.signal(TreeSignal::Interrupt);
        tokio::time::sleep(Duration::from_millis(100)).await;
        control.signal(TreeSignal::Terminate);
    });
    let finished = running.wait(CancellationToken::new()).await;
    assert_eq!(finished.outcome, Outcome::Signaled { signal: 15 });
    assert_eq!(cell.signals(), [(0, TreeSignal::Interrupt), (100, TreeSignal::Terminate)]);
    assert_eq!(finished.killed, Killed::default());
    assert_eq!(finished.stdout.text(), "not now\n");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_has_fired_already_keeps_the_command_from_starting() {
    let cell = ScriptedCell::new(Script::default());
    let cancel = CancellationToken::new();
    cancel.cancel();
    let finished = run(&cell, command(), RunOptions::default(), cancel).await;
    let reason = CancelReason::UserInterrupted;
    assert_eq!(finished, Finished::never_ran(Outcome::Cancelled { reason }));
    assert!(!cell.seen.lock().unwrap().spawned);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_tree_can_be_cancelled() {
    // spec 6.1: SIGTERM wakes it.
    let cell = ScriptedCell::new(Script {
        on_terminate: vec![(10, exits(0, 0)), (11, gone())],
        ..Script::default()
    });
    let running = RunningCommand::start(&cell, command(), options(1000, 300)).await.unwrap();
    let control = running.control();
    tokio::spawn(async move {
        control.suspend();
        tokio::time::sleep(Duration::from_secs(60)).await;
        control.cancel(CancelReason::UserInterrupted);
    });
    let finished = running.wait(CancellationToken::new()).await;
    assert_eq!(finished.killed.took_ms, 11);
    assert_eq!(finished.killed.main_exit_code, Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_command_that_runs_and_has_not_been_told_of_yet_is_led_down_the_ladder_too() {
    // spec 6.1
    let script = || Script {
        start: vec![(0, out("half"))],
        on_terminate: vec![(10, out(" and bye")), (20, exits(0, 0)), (21, gone())],
        ..Script::default()
    };
    for deadline in [false, true] {
        let mut cell = ScriptedCell::new(script());
        cell.told_after = Duration::from_millis(500);
        let cancel = CancellationToken::new();
        let early = Duration::from_millis(100);
        let (token, options) = (cancel.clone(), RunOptions::default());
        let options = RunOptions { deadline: deadline.then_some(early), ..options };
        tokio::spawn(async move {
            tokio::time::sleep(early).await;
            if !deadline {
                token.cancel();
            }
        });
        let finished = run(&cell, command(), options, cancel).await;
        let reason = CancelReason::UserInterrupted;
        let expected = match deadline {
            true => Outcome::TimedOut { timeout_ms: 100 },
            false => Outcome::Cancelled { reason },
        };
        assert_eq!(finished.outcome, expected);
        assert_eq!(finished.stdout.text(), "half and bye");
        assert!(finished.killed.terminated && !finished.killed.killed, "{:?}", finished.killed);
    }
}
