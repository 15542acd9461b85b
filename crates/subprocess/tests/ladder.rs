//! How commands end: by themselves, by deadline, by cancel, by limits, and with what they leave behind.
#![allow(missing_docs)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;
use stockade_policy::LimitsPolicy;
use stockade_sandbox::{ChildEvent, Exit, SandboxError, Stdio, TreeSignal};
use stockade_subprocess::{Finished, Leftovers, RunOptions, RunningCommand, run};
use stockade_types::{
    CancelReason, Denial, DenialKind, Evidence, Killed, LimitName, Outcome, Refusal, SetupFailure,
    Usage,
};
use support::*;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const MINUTE: Duration = Duration::from_secs(60);

fn options(deadline_ms: u64, grace_ms: u64) -> RunOptions {
    RunOptions {
        deadline: Some(Duration::from_millis(deadline_ms)),
        grace: Duration::from_millis(grace_ms),
        ..RunOptions::default()
    }
}

async fn run_to_end(cell: &ScriptedCell, options: RunOptions) -> Finished {
    let run = run(cell, command(), options, CancellationToken::new());
    tokio::time::timeout(MINUTE, run).await.expect("it must not hang")
}

#[tokio::test(start_paused = true)]
async fn a_command_that_ends_by_itself_reports_its_exit_code_at_once_and_nothing_is_killed() {
    let cell = ScriptedCell::new(Script {
        start: vec![(10, out("hello\n")), (10, Do::CloseOutput), (20, exits(3, 0)), (21, gone())],
        ..Script::default()
    });
    let begun = Instant::now();
    let finished = run_to_end(&cell, RunOptions::default()).await;
    assert_eq!(finished.outcome, Outcome::Exited { code: 3 }); // spec 6.6
    assert_eq!(finished.stdout.text(), "hello\n");
    assert_eq!(finished.killed, Killed::default());
    assert_eq!(cell.signals(), []);
    assert!(begun.elapsed() < Duration::from_millis(50), "{:?}", begun.elapsed());
}

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
async fn a_start_that_hangs_ends_at_the_deadline() {
    let mut cell = ScriptedCell::new(Script::default());
    cell.spawn_hangs = true;
    let finished = run_to_end(&cell, options(1000, 300)).await;
    assert_eq!(finished, Finished::never_ran(Outcome::TimedOut { timeout_ms: 1000 }));
}

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
async fn a_process_that_survives_sigkill_in_the_kernel_is_said_to_and_does_not_hang_the_call() {
    let cell = ScriptedCell::new(Script::default());
    let finished = run_to_end(&cell, options(1000, 300)).await;
    assert!(
        matches!(&finished.outcome, Outcome::Lost { detail } if detail.contains("SIGKILL")),
        "{:?}",
        finished.outcome
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_init_is_reported_as_lost_and_what_was_written_is_kept() {
    // spec 6.3
    let detail = "the init was killed".to_owned();
    let lost = Do::Tell(ChildEvent::Lost { detail: detail.clone() });
    let cell = ScriptedCell::new(Script {
        start: vec![(10, out("half")), (20, lost)],
        ..Script::default()
    });
    let finished = run_to_end(&cell, RunOptions::default()).await;
    assert_eq!(finished.outcome, Outcome::Lost { detail });
    assert_eq!(finished.stdout.text(), "half");
}

#[tokio::test(start_paused = true)]
async fn an_end_without_a_report_is_lost_and_never_a_success() {
    let cell = ScriptedCell::new(Script { start: vec![(10, gone())], ..Script::default() });
    let finished = run_to_end(&cell, RunOptions::default()).await;
    assert!(matches!(finished.outcome, Outcome::Lost { .. }), "{:?}", finished.outcome);
}

fn failure() -> SetupFailure {
    SetupFailure {
        step: "mount-proc".into(),
        subject: None,
        errno: Some(1),
        detail: "not permitted".into(),
        remedy: String::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_set_up_a_program_that_cannot_be_executed_and_a_failed_command_are_told_apart() {
    let never_executed = [
        (ChildEvent::SetupFailed(failure()), Outcome::SetupFailed(failure())),
        (
            ChildEvent::NotExecutable { program: "nope".into(), errno: 2 },
            Outcome::NotExecutable { program: "nope".into(), errno: 2 },
        ),
    ];
    for (event, expected) in never_executed {
        let start = vec![(10, Do::Tell(event)), (11, gone())];
        let cell = ScriptedCell::new(Script { start, ..Script::default() });
        let finished = run_to_end(&cell, RunOptions::default()).await;
        assert_eq!(finished.outcome, expected);
        assert_eq!(cell.signals(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_sandbox_answers_instead_of_a_start_keeps_its_meaning() {
    let refusal = Refusal { by: "host".into(), reason: "no user namespaces".into() };
    let lost = |error: &SandboxError| Outcome::Lost { detail: error.to_string() };
    let over = SandboxError::SessionOver("launcher killed".into());
    let cell_lost = SandboxError::CellLost("killed".into());
    for (error, expected) in [
        (SandboxError::Setup(failure()), Outcome::SetupFailed(failure())),
        (SandboxError::Refused(refusal.clone()), Outcome::Refused(refusal)),
        (over.clone(), lost(&over)),
        (cell_lost.clone(), lost(&cell_lost)),
    ] {
        let mut cell = ScriptedCell::new(Script::default());
        cell.error = Some(error);
        let finished = run_to_end(&cell, RunOptions::default()).await;
        assert_eq!(finished, Finished::never_ran(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_limits_signal_is_a_limit_only_where_that_limit_was_set() {
    // spec 6.6
    let cpu = LimitsPolicy { cpu: Some(5), ..LimitsPolicy::default() };
    let file_size = LimitsPolicy { file_size: Some(1), ..LimitsPolicy::default() };
    let exceeded = |limit| Outcome::LimitExceeded { limit };
    for (limits, signal, expected) in [
        (cpu.clone(), libc::SIGXCPU, exceeded(LimitName::Cpu)),
        (file_size.clone(), libc::SIGXFSZ, exceeded(LimitName::FileSize)),
        (file_size, libc::SIGXCPU, Outcome::Signaled { signal: libc::SIGXCPU }),
        (cpu.clone(), libc::SIGXFSZ, Outcome::Signaled { signal: libc::SIGXFSZ }),
        (cpu, libc::SIGSEGV, Outcome::Signaled { signal: libc::SIGSEGV }),
    ] {
        let start = vec![(10, dies_by(signal)), (11, gone())];
        let mut cell = ScriptedCell::new(Script { start, ..Script::default() });
        cell.limits = limits;
        let finished = run_to_end(&cell, RunOptions::default()).await;
        assert_eq!(finished.outcome, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn usage_and_denials_are_those_of_the_whole_tree() {
    // spec 6.6, 5.9
    let denial = Denial {
        kind: DenialKind::Write,
        target: "/etc/hosts".into(),
        evidence: Evidence::Kernel,
        grant: "/etc/hosts".into(),
        note: String::new(),
    };
    let usage = |user_us, max_rss_kib| Usage { user_us, max_rss_kib, ..Usage::default() };
    let ended = ChildEvent::MainEnded {
        exit: stockade_sandbox::Exit::Code(0),
        left: 1,
        usage: usage(700, 10),
    };
    let cell = ScriptedCell::new(Script {
        start: vec![(100, Do::Tell(ended))],
        // After a SIGKILL the report knows only what was reaped before.
        on_kill: vec![(50, Do::Tell(ChildEvent::Gone { usage: usage(200, 90) }))],
        denials: vec![denial.clone()],
        ..Script::default()
    });
    let finished = run_to_end(&cell, RunOptions::default()).await;
    let expected = Usage { wall_us: 650_000, ..usage(700, 90) };
    assert_eq!(finished.usage, expected);
    assert_eq!(finished.denials, [denial]);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_drops_the_handle_which_kills_the_tree() {
    // spec 6.1
    let cell = ScriptedCell::new(Script::default());
    let run = run(&cell, command(), RunOptions::default(), CancellationToken::new());
    assert!(tokio::time::timeout(Duration::from_secs(1), run).await.is_err());
    assert!(cell.seen.lock().unwrap().dropped);
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
