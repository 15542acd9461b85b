//! What the main process leaves behind.

use super::*;

#[tokio::test(start_paused = true)]
async fn children_that_hold_the_pipes_are_killed_after_the_drain_and_the_outcome_is_the_main_processs()
 {
    // spec 6.2
    let cell = ScriptedCell::new(Script {
        start: vec![
            (100, exits(0, 2)),
            (300, out("from a child\n")),
            (590, Do::Err(b"and another\n".to_vec())),
            (5000, out("too late\n")),
        ],
        on_kill: vec![(1, gone())],
        ..Script::default()
    });
    let finished = run_to_end(&cell, options(60_000, 300)).await;
    assert_eq!(finished.outcome, Outcome::Exited { code: 0 });
    assert_eq!(cell.signals(), [(600, TreeSignal::Kill)]);
    let expected =
        Killed { terminated: false, killed: true, processes: 2, took_ms: 1, ..Killed::default() };
    assert_eq!(finished.killed, expected);
    assert_eq!(finished.stdout.text(), "from a child\n");
    assert_eq!(finished.stderr.text(), "and another\n");
}

#[tokio::test(start_paused = true)]
async fn children_that_hold_no_pipe_are_not_waited_for() {
    // spec 6.2
    let cell = ScriptedCell::new(Script {
        start: vec![(50, Do::CloseOutput), (100, exits(0, 2))],
        on_kill: vec![(0, gone())],
        ..Script::default()
    });
    let finished = run_to_end(&cell, RunOptions::default()).await;
    assert_eq!(cell.signals(), [(110, TreeSignal::Kill)]);
    assert_eq!(finished.outcome, Outcome::Exited { code: 0 });
}

#[tokio::test(start_paused = true)]
async fn children_that_let_go_of_the_pipes_during_the_drain_are_killed_then() {
    // spec 6.2
    let cell = ScriptedCell::new(Script {
        start: vec![(100, exits(0, 1)), (250, out("last words")), (250, Do::CloseOutput)],
        on_kill: vec![(0, gone())],
        ..Script::default()
    });
    let finished = run_to_end(&cell, RunOptions::default()).await;
    assert_eq!(cell.signals(), [(260, TreeSignal::Kill)]);
    assert_eq!(finished.stdout.text(), "last words");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_closes_its_pipes_because_it_ends_needs_no_signal() {
    // spec 6.2
    let cell = ScriptedCell::new(Script {
        start: vec![(100, exits(0, 1)), (250, out("bye")), (250, Do::CloseOutput), (252, gone())],
        ..Script::default()
    });
    let finished = run_to_end(&cell, RunOptions::default()).await;
    assert_eq!(cell.signals(), []);
    assert_eq!(finished.killed, Killed::default());
}

#[tokio::test(start_paused = true)]
async fn children_that_end_within_the_drain_need_no_signal() {
    // spec 6.2
    let cell = ScriptedCell::new(Script {
        start: vec![(100, exits(0, 1)), (200, out("tee\n")), (200, gone())],
        ..Script::default()
    });
    let finished = run_to_end(&cell, RunOptions::default()).await;
    assert_eq!(cell.signals(), []);
    assert_eq!(finished.stdout.text(), "tee\n");
    assert_eq!(finished.killed, Killed::default());
}

#[tokio::test(start_paused = true)]
async fn with_descriptors_passed_through_leftovers_have_the_drain() {
    // spec 6.2: whether they still write cannot be seen.
    let cell = ScriptedCell::new(Script {
        start: vec![(100, exits(0, 1))],
        on_kill: vec![(0, gone())],
        ..Script::default()
    });
    let null = || Stdio::Fd(std::fs::File::open("/dev/null").unwrap().into());
    let mut command = command();
    (command.stdout, command.stderr) = (null(), null());
    let finished = run(&cell, command, RunOptions::default(), CancellationToken::new()).await;
    assert_eq!(cell.signals(), [(600, TreeSignal::Kill)]);
    assert_eq!(finished.outcome, Outcome::Exited { code: 0 });
    assert_eq!(finished.stdout.total, 0);
}

#[tokio::test(start_paused = true)]
async fn a_tree_whose_end_is_not_reported_is_killed_after_the_drain_rather_than_waited_for() {
    // spec 6.2
    let cell = ScriptedCell::new(Script {
        start: vec![(100, Do::CloseOutput), (100, exits(0, 0))],
        on_kill: vec![(0, gone())],
        ..Script::default()
    });
    let finished = run_to_end(&cell, RunOptions::default()).await;
    assert_eq!(cell.signals(), [(600, TreeSignal::Kill)]);
    assert_eq!(finished.killed.processes, 0);
    assert_eq!(finished.outcome, Outcome::Exited { code: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_deadline_or_cancel_during_the_drain_ends_it_and_changes_no_outcome() {
    // spec 6.1, 6.2
    let script = || Script {
        start: vec![(900, exits(7, 1))],
        on_kill: vec![(0, gone())],
        ..Script::default()
    };
    let cell = ScriptedCell::new(script());
    let finished = run_to_end(&cell, options(1000, 300)).await;
    assert_eq!(cell.signals(), [(1000, TreeSignal::Kill)]);
    assert_eq!(finished.outcome, Outcome::Exited { code: 7 });

    let cell = ScriptedCell::new(script());
    let cancel = CancellationToken::new();
    let trigger = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(950)).await;
        trigger.cancel();
    });
    let finished = run(&cell, command(), RunOptions::default(), cancel).await;
    assert_eq!(cell.signals(), [(950, TreeSignal::Kill)]);
    assert_eq!(finished.outcome, Outcome::Exited { code: 7 });
}

#[tokio::test(start_paused = true)]
async fn leftovers_that_are_to_live_on_do_so_until_they_end_and_the_outcome_is_the_main_processs() {
    // spec 6.2, 1.21
    let cell = ScriptedCell::new(Script {
        start: vec![(100, exits(3, 2)), (9000, out("still here\n")), (90_000, gone())],
        ..Script::default()
    });
    let told = Arc::new(Mutex::new(None));
    let tell = Arc::clone(&told);
    let options = RunOptions {
        leftovers: Leftovers::Keep,
        on_main_ended: Some(Box::new(move |exit, left| *tell.lock().unwrap() = Some((exit, left)))),
        ..RunOptions::default()
    };
    let begun = Instant::now();
    let run = run(&cell, command(), options, CancellationToken::new());
    let finished = tokio::time::timeout(2 * MINUTE, run).await.expect("it must not hang");
    assert_eq!(begun.elapsed(), Duration::from_secs(90));
    assert_eq!(finished.outcome, Outcome::Exited { code: 3 });
    assert_eq!(finished.stdout.text(), "still here\n");
    assert_eq!(cell.signals(), []);
    assert_eq!(*told.lock().unwrap(), Some((Exit::Code(3), 2)));
}

#[tokio::test(start_paused = true)]
async fn leftovers_that_live_on_have_the_whole_ladder_and_what_ended_them_is_the_outcome() {
    // spec 6.1, 6.2
    let cell = ScriptedCell::new(Script {
        start: vec![(100, exits(0, 2))],
        on_terminate: vec![(50, out("bye\n"))],
        on_kill: vec![(1, gone())],
        ..Script::default()
    });
    let options = RunOptions { leftovers: Leftovers::Keep, ..options(1000, 300) };
    let finished = run_to_end(&cell, options).await;
    assert_eq!(cell.signals(), [(1000, TreeSignal::Terminate), (1300, TreeSignal::Kill)]);
    assert_eq!(finished.outcome, Outcome::TimedOut { timeout_ms: 1000 });
    assert_eq!(finished.stdout.text(), "bye\n");
}
