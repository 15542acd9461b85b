//! Down the ladder (spec 6.1): SIGTERM to the whole tree, a grace, SIGKILL.

use crate::case::{Case, signal};
use nix::sys::signal::Signal;
use std::process::Child;
use std::time::{Duration, Instant};
use stockade_tests::{RunReport, procs};

crate::cases!(
    a_timeout_ends_a_command_with_sigterm,
    sigterm_that_is_ignored_is_followed_by_sigkill,
    sigterm_that_is_blocked_is_followed_by_sigkill,
    a_stopped_tree_is_woken_to_end,
    a_stopped_process_that_ignores_sigterm_is_killed,
    every_process_of_the_tree_gets_sigterm_at_once,
    a_slow_clean_up_is_waited_for_and_heard,
    a_clean_up_longer_than_the_grace_is_cut_off_and_what_it_said_is_kept,
    exit_traps_speak,
    a_main_process_that_ends_at_sigterm_leaves_the_others_their_grace,
    no_grace_means_at_once,
    what_is_forked_during_the_grace_is_killed_too,
    what_a_command_starts_at_sigterm_hears_none,
    a_fork_bomb_under_a_limit_is_ended,
    more_than_a_thousand_that_ignore_sigterm_are_killed_at_once,
    a_budget_of_a_millisecond_is_kept,
    the_walls_limit_is_a_timeout,
    sigint_cancels,
    sigterm_cancels,
    sighup_cancels,
    sigquit_cancels,
    sighup_that_was_ignored_cancels_nothing,
    the_second_signal_skips_the_grace,
    ctrl_z_stops_the_tree_and_its_clock,
    a_stopped_session_can_be_killed,
    a_killed_runtime_leaves_nothing;
    namespaced
    a_killed_init_is_told_and_leaves_nothing,
    a_memory_limit_ends_the_tree_and_is_named,
);

const BUDGET: [&str; 4] = ["--timeout", "700ms", "--grace", "400ms"];

fn timed_out(report: &RunReport) {
    assert_eq!((report.outcome.as_str(), report.exit_code), ("timed_out", None));
    assert_eq!(report.killed["terminated"], true, "{}", report.killed);
}

fn took_ms(report: &RunReport) -> u64 {
    report.killed["took_ms"].as_u64().expect("a number")
}

fn a_timeout_ends_a_command_with_sigterm(case: Case) {
    let report =
        case.report(&["--timeout", "700ms", "--grace", "60s"], "sleep 600 & exec sleep 600");
    timed_out(&report);
    assert_eq!(report.killed["killed"], false, "{}", report.killed);
    assert_eq!(report.killed["signalled"], 2, "{}", report.killed);
    assert_eq!(report.killed["main_signal"], 15, "{}", report.killed);
    assert!(took_ms(&report) < 20_000, "no grace was needed: {}", report.killed);
}

fn stubborn(case: &Case, line: &str) -> RunReport {
    let report = case.report(&BUDGET, line);
    timed_out(&report);
    assert_eq!(report.killed["killed"], true, "{}", report.killed);
    assert_eq!(report.killed["main_signal"], 9, "{}", report.killed);
    assert!((400..20_000).contains(&took_ms(&report)), "{}", report.killed);
    report
}

fn sigterm_that_is_ignored_is_followed_by_sigkill(case: Case) {
    let report =
        stubborn(&case, "trap '' TERM; sleep 600 & setsid sleep 600 & wait; wait; sleep 600");
    assert_eq!(report.killed["processes"], 3, "{}", report.killed);
}

fn sigterm_that_is_blocked_is_followed_by_sigkill(case: Case) {
    let line = "exec python3 -c 'import signal,time\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1,65))\nprint(\"blocked\",flush=True)\ntime.sleep(600)'";
    assert_eq!(stubborn(&case, line).stdout, "blocked\n");
}

fn a_stopped_tree_is_woken_to_end(case: Case) {
    let line = "(trap 'echo woken; exit' TERM; kill -STOP $BASHPID; sleep 600) & wait $!; kill -STOP $$; echo continued";
    let report = case.report(&["--timeout", "700ms", "--grace", "20s"], line);
    timed_out(&report);
    assert_eq!(report.killed["killed"], false, "{}", report.killed);
    assert!(report.stdout.contains("woken"), "{:?}", report.stdout);
}

fn a_stopped_process_that_ignores_sigterm_is_killed(case: Case) {
    stubborn(
        &case,
        "trap '' TERM; (kill -STOP $BASHPID; sleep 600) & while :; do wait; sleep 600; done",
    );
}

fn every_process_of_the_tree_gets_sigterm_at_once(case: Case) {
    let child = "trap 'echo heard; exit' TERM; echo ready; while :; do sleep 0.1; done";
    std::fs::write(case.work().join("child"), child).expect("a script");
    let line = "for i in $(seq 20); do (setsid bash child &); done; . ./child";
    let report = case.report(&["--timeout", "6s", "--grace", "30s"], line);
    timed_out(&report);
    assert_eq!(report.stdout.matches("ready").count(), 21, "{:?}", report.stdout);
    assert_eq!(report.stdout.matches("heard").count(), 21, "{:?}", report.stdout);
    assert_eq!(report.killed["killed"], false, "{}", report.killed);
}

fn a_slow_clean_up_is_waited_for_and_heard(case: Case) {
    let line = "trap 'for i in 1 2 3 4 5; do echo step $i; sleep 0.1; done; exit 9' TERM; echo work; while :; do sleep 0.02; done";
    let report = case.report(&["--timeout", "500ms", "--grace", "20s"], line);
    timed_out(&report);
    assert_eq!(report.stdout, "work\nstep 1\nstep 2\nstep 3\nstep 4\nstep 5\n");
    assert_eq!(report.killed["main_exit_code"], 9, "{}", report.killed);
    assert_eq!(report.killed["killed"], false, "{}", report.killed);
    assert!((500..20_000).contains(&took_ms(&report)), "{}", report.killed);
}

fn a_clean_up_longer_than_the_grace_is_cut_off_and_what_it_said_is_kept(case: Case) {
    let line =
        "trap 'echo begun; seq 3000; trap \"\" TERM; sleep 600' TERM; while :; do sleep 0.02; done";
    let report = stubborn(&case, line);
    assert!(report.stdout.starts_with("begun\n1\n2\n"), "{:?}", report.stdout);
    assert!(report.stdout.ends_with("\n3000\n"), "nothing that was written is lost");
}

fn exit_traps_speak(case: Case) {
    let line = "trap 'echo bye >&2' EXIT; trap 'exit 3' TERM; while :; do sleep 0.02; done";
    let report = case.report(&["--timeout", "500ms", "--grace", "20s"], line);
    timed_out(&report);
    assert!(report.stderr.ends_with("bye\n"), "{:?}", report.stderr);
}

fn a_main_process_that_ends_at_sigterm_leaves_the_others_their_grace(case: Case) {
    let line = "(trap 'sleep 0.7; echo last words; exit' TERM; while :; do sleep 0.02; done) & trap 'exit 5' TERM; wait";
    let report = case.report(&["--timeout", "500ms", "--grace", "20s"], line);
    timed_out(&report);
    assert_eq!(report.stdout, "last words\n");
    assert_eq!(report.killed["main_exit_code"], 5, "{}", report.killed);
}

fn no_grace_means_at_once(case: Case) {
    case.policy_with("[limits]\ngrace = \"60s\"\n");
    let line = "trap 'sleep 600' TERM; sleep 600 & wait";
    let report = case.report(&["--timeout", "300ms", "--grace", "0"], line);
    timed_out(&report);
    assert_eq!(report.killed["killed"], true, "{}", report.killed);
    assert!(took_ms(&report) < 20_000, "{}", report.killed);
}

fn what_is_forked_during_the_grace_is_killed_too(case: Case) {
    let line = "trap 'trap \"\" TERM; while :; do setsid sleep 600 & sleep 0.02; done' TERM; while :; do sleep 0.02; done";
    let report = stubborn(&case, line);
    assert!(report.killed["processes"].as_u64() > Some(3), "{}", report.killed);
}

// spec 2.10: the grace is there to tidy up in, also with processes that the signal starts.
fn what_a_command_starts_at_sigterm_hears_none(case: Case) {
    let each = "trap \"sleep 0.3 && touch tidied.$i; exit\" TERM; touch up.$i; while :; do sleep 0.05; done";
    let line = format!("for i in $(seq 100); do ({each}) & done; wait");
    let child = case.start(&["--grace", "600s"], &line);
    for i in 1..=100 {
        case.waits_for(format!("up.{i}"));
    }
    signal(&child, Signal::SIGTERM);
    let (report, _) = case.report_of_started(child);
    assert_eq!((report.outcome.as_str(), &report.killed["killed"]), ("cancelled", &false.into()));
    let untidied: Vec<_> =
        (1..=100).filter(|i| !case.work().join(format!("tidied.{i}")).exists()).collect();
    assert!(untidied.is_empty(), "{untidied:?}: {}", report.killed);
}

fn a_fork_bomb_under_a_limit_is_ended(case: Case) {
    let line = "bomb() { bomb | bomb & }; bomb 2>/dev/null; trap '' TERM; while :; do sleep 0.1; done 2>/dev/null";
    let options = ["--timeout", "1s", "--grace", "300ms", "--limit", "pids=400"];
    let started = Instant::now();
    let report = case.report(&options, line);
    timed_out(&report);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

fn more_than_a_thousand_that_ignore_sigterm_are_killed_at_once(case: Case) {
    let line = "exec python3 -c 'import os,signal,time\nsignal.signal(15,signal.SIG_IGN)\nfor i in range(1299):\n  if os.fork() == 0: break\ntime.sleep(600)'";
    let report = case.report(&["--timeout", "4s", "--grace", "200ms"], line);
    timed_out(&report);
    assert_eq!(report.killed["signalled"], 1300, "{}", report.killed);
    assert_eq!(report.killed["processes"], 1300, "{}", report.killed);
    assert!(took_ms(&report) < 20_000, "{}", report.killed);
}

fn a_budget_of_a_millisecond_is_kept(case: Case) {
    let ran = case.plain(&["--timeout", "1ms", "--grace", "0"], "sleep 600");
    assert_eq!(ran.code(), 124, "{}", ran.err());
}

fn the_walls_limit_is_a_timeout(case: Case) {
    let report = case.report(&["--limit", "wall=400ms"], "exec sleep 600");
    timed_out(&report);
}

fn cancelled_by(case: &Case, by: Signal) {
    let line = "trap 'echo asked; exit 1' TERM; touch ready; while :; do sleep 0.02; done";
    let child = case.start(&["--grace", "20s"], line);
    case.waits_for("ready");
    signal(&child, by);
    let (report, code) = case.report_of_started(child);
    assert_eq!((report.outcome.as_str(), report.stdout.as_str()), ("cancelled", "asked\n"));
    assert_eq!(code, Some(128 + by as i32));
}

fn sigint_cancels(case: Case) {
    cancelled_by(&case, Signal::SIGINT);
}

fn sigterm_cancels(case: Case) {
    cancelled_by(&case, Signal::SIGTERM);
}

fn sighup_cancels(case: Case) {
    cancelled_by(&case, Signal::SIGHUP);
}

fn sigquit_cancels(case: Case) {
    cancelled_by(&case, Signal::SIGQUIT);
}

fn sighup_that_was_ignored_cancels_nothing(case: Case) {
    let mut command = std::process::Command::new("nohup");
    let run = case.run(&["--json"], "touch ready; sleep 0.5; echo through");
    command.arg(run.get_program()).args(run.get_args()).current_dir(case.work());
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    let child = command.stderr(std::process::Stdio::piped()).spawn().expect("nohup");
    case.waits_for("ready");
    signal(&child, Signal::SIGHUP);
    let (report, _) = case.report_of_started(child);
    assert_eq!((report.outcome.as_str(), report.stdout.as_str()), ("exited", "through\n"));
}

fn the_second_signal_skips_the_grace(case: Case) {
    let line = "trap 'touch heard' TERM; touch ready; while :; do sleep 0.02; done";
    let child = case.start(&["--grace", "600s"], line);
    case.waits_for("ready");
    signal(&child, Signal::SIGTERM);
    case.waits_for("heard");
    signal(&child, Signal::SIGTERM);
    let (report, code) = case.report_of_started(child);
    assert_eq!((report.outcome.as_str(), code), ("cancelled", Some(143)));
    assert_eq!(report.killed["killed"], true, "{}", report.killed);
    assert_eq!(report.killed["main_signal"], 9, "{}", report.killed);
}

fn state_of(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    after.trim_start().chars().next().unwrap_or('?')
}

fn stopped(child: &Child) {
    let found =
        procs::until(Duration::from_secs(20), || (state_of(child.id()) == 'T').then_some(()));
    assert!(found.is_some(), "it did not stop");
}

fn ctrl_z_stops_the_tree_and_its_clock(case: Case) {
    let line = "touch ready; i=0; while [ $i -lt 20 ]; do sleep 0.05; i=$((i+1)); echo $i >count; done; echo end";
    let child = case.start(&["--timeout", "4s"], line);
    case.waits_for("count");
    signal(&child, Signal::SIGTSTP);
    stopped(&child);
    let count = || std::fs::read_to_string(case.work().join("count")).unwrap_or_default();
    let before = count();
    // Longer than the whole budget.
    std::thread::sleep(Duration::from_millis(4500));
    assert_eq!(count(), before, "the tree is stopped with it");
    signal(&child, Signal::SIGCONT);
    let (report, _) = case.report_of_started(child);
    assert_eq!((report.outcome.as_str(), report.stdout.as_str()), ("exited", "end\n"));
}

fn a_stopped_session_can_be_killed(case: Case) {
    let child = case.start(&[], "touch ready; exec sleep 600");
    case.waits_for("ready");
    signal(&child, Signal::SIGTSTP);
    stopped(&child);
    signal(&child, Signal::SIGKILL);
    child.wait_with_output().expect("it ends");
    case.nothing_is_left();
}

fn a_killed_runtime_leaves_nothing(case: Case) {
    // spec 6.3
    let line = "trap '' TERM HUP; (setsid sleep 600 &); touch ready; sleep 600";
    let child = case.start(&[], line);
    case.waits_for("ready");
    signal(&child, Signal::SIGKILL);
    child.wait_with_output().expect("it ends");
    case.nothing_is_left();
}

fn a_killed_init_is_told_and_leaves_nothing(case: Case) {
    // spec 6.3
    let child = case.start(&[], "(setsid sleep 600 &); touch ready; sleep 600");
    case.waits_for("ready");
    let inner = procs::descendants(child.id() as i32);
    let init = inner
        .iter()
        .filter_map(|p| procs::inner_pid(p.pid).map(|(depth, pid)| (depth, pid, p.pid)))
        .filter(|(_, pid, _)| *pid == 1)
        .max()
        .expect("the call has an init");
    let init = nix::unistd::Pid::from_raw(init.2);
    nix::sys::signal::kill(init, Signal::SIGKILL).expect("it can be killed");
    let (report, code) = case.report_of_started(child);
    assert_eq!((report.outcome.as_str(), code), ("lost", Some(137)));
}

fn a_memory_limit_ends_the_tree_and_is_named(case: Case) {
    let line = "sleep 600 & python3 -c 'x=bytearray(400<<20)\nimport time\ntime.sleep(600)'";
    let report = case.report(&["--limit", "memory=150M"], line);
    assert_eq!(report.outcome, "limit_exceeded");
    assert_eq!(report.killed["terminated"], false, "{}", report.killed);
    assert_eq!(report.killed["killed"], true, "{}", report.killed);
}
