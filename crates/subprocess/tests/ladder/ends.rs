//! By itself, by a limit, or by what went wrong.

use super::*;

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
