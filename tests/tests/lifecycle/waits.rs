//! Commands that would wait for ever.

use crate::case::{Case, signal};
use nix::sys::signal::Signal;
use std::process::Stdio;
use std::time::{Duration, Instant};

crate::cases!(
    a_reader_of_a_fifo_that_nobody_opens_ends_at_its_deadline,
    a_cat_whose_stdin_is_never_closed_ends_at_its_deadline,
    a_cat_whose_stdin_is_never_closed_can_be_cancelled,
    stdin_that_ends_ends_a_cat,
    a_read_of_nothing_ends_at_once,
    a_command_that_reads_the_terminal_finds_none,
    a_megabyte_of_stdin_comes_back_whole,
    stdin_that_nobody_reads_holds_nothing_up,
    a_process_that_waits_for_itself_ends_at_its_deadline,
    a_lock_that_a_child_keeps_ends_with_it,
);

const BUDGET: [&str; 4] = ["--timeout", "500ms", "--grace", "5s"];

fn a_reader_of_a_fifo_that_nobody_opens_ends_at_its_deadline(case: Case) {
    let report = case.report(&BUDGET, "mkfifo f; cat f; echo never");
    assert_eq!((report.outcome.as_str(), report.stdout.as_str()), ("timed_out", ""));
    assert_eq!(report.killed["killed"], false, "SIGTERM is enough: {}", report.killed);
}

fn a_cat_whose_stdin_is_never_closed_ends_at_its_deadline(case: Case) {
    let mut command = case.run(&[&["--json"], &BUDGET[..]].concat(), "exec cat");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("stockade starts");
    let held = child.stdin.take().expect("a pipe");
    let (report, _) = case.report_of_started(child);
    drop(held);
    assert_eq!(report.outcome, "timed_out");
}

fn a_cat_whose_stdin_is_never_closed_can_be_cancelled(case: Case) {
    let mut command = case.run(&["--json"], "touch ready; exec cat");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("stockade starts");
    let held = child.stdin.take().expect("a pipe");
    case.waits_for("ready");
    signal(&child, Signal::SIGINT);
    let (report, _) = case.report_of_started(child);
    drop(held);
    assert_eq!(report.outcome, "cancelled");
}

fn stdin_that_ends_ends_a_cat(case: Case) {
    let report = case.report_of(&[], "cat; echo end", b"in ");
    assert_eq!(report.stdout, "in end\n");
}

fn a_read_of_nothing_ends_at_once(case: Case) {
    let report = case.report(&BUDGET, "read x; echo $?");
    assert_eq!(report.stdout, "1\n");
}

fn a_command_that_reads_the_terminal_finds_none(case: Case) {
    // spec 5.7
    let report = case.report(&BUDGET, "read x </dev/tty; echo $?; tty; ps -o tty= $$");
    assert_eq!(report.stdout, "1\nnot a tty\n?\n", "{}", report.stderr);
}

fn a_megabyte_of_stdin_comes_back_whole(case: Case) {
    let bytes: Vec<u8> = (0..250_000u32).map(|n| b' ' + (n % 90) as u8).collect();
    let report = case.report_of(&[], "cat; cat; exec md5sum </dev/null >/dev/null", &bytes);
    assert_eq!(report.stdout.as_bytes(), bytes);
}

fn stdin_that_nobody_reads_holds_nothing_up(case: Case) {
    let started = Instant::now();
    let report = case.report_of(&[], "echo done", &vec![b'x'; 1 << 20]);
    assert_eq!(report.stdout, "done\n");
    assert!(started.elapsed() < Duration::from_secs(60));
}

fn a_process_that_waits_for_itself_ends_at_its_deadline(case: Case) {
    let line = "exec python3 -c 'import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()'";
    let report = case.report(&BUDGET, line);
    assert_eq!(report.outcome, "timed_out");
}

fn a_lock_that_a_child_keeps_ends_with_it(case: Case) {
    let ran = case.plain(&[], "exec 9>lock; flock 9; sleep 600 >/dev/null 2>&1 & echo held");
    assert_eq!(ran.out(), "held\n", "{}", ran.err());
    let mut free = std::process::Command::new("flock");
    let status = free.args(["--nonblock", "lock", "true"]).current_dir(case.work()).status();
    assert!(status.expect("flock").success(), "nobody holds it any more");
}
