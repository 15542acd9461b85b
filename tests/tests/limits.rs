//! Limits on a whole tree (spec 5.1, 6.6), judged from outside: the process that outgrew its limit is gone, and the outcome names
//! the limit. All of them run unlimited first, to show that without the limit nothing would have ended them.

#![forbid(unsafe_code)]

use stockade_tests::{Confined, RunReport, Scratch};

const GROWS: &str = "import time\nx = bytearray(150 << 20)\nprint('grown', flush=True)\ny = bytearray(150 << 20)\ntime.sleep(1)\nprint('done')";
const FORKS: &str = "import os, time\nx = bytearray(120 << 20)\nfor i in range(4):\n  if os.fork() == 0:\n    time.sleep(0.5)\n    os._exit(0)\ntime.sleep(0.7)\nprint('fine')";

fn report(limit: &[&str], program: &str) -> RunReport {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    Confined::new("workspace-write", &work).options(limit).report(&["python3", "-c", program])
}

// spec 6.6
#[test]
fn a_tree_that_outgrows_its_memory_limit_is_ended_and_the_limit_is_named() {
    assert_eq!(report(&[], GROWS).outcome, "exited");
    let ran = report(&["--limit", "memory=200M"], GROWS);
    assert_eq!(ran.outcome, "limit_exceeded");
    assert_eq!(ran.stdout, "grown\n");
}

// spec 6.6
#[test]
fn memory_that_a_fork_shares_counts_once() {
    let ran = report(&["--limit", "memory=200M"], FORKS);
    assert_eq!((ran.outcome.as_str(), ran.stdout.as_str()), ("exited", "fine\n"));
}

// spec 6.6
#[test]
fn a_process_that_uses_up_its_cpu_time_is_ended_and_the_limit_is_named() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let line = ["bash", "-c", "while :; do :; done"];
    let confined = || Confined::new("workspace-write", &work);
    let unlimited = confined().options(&["--timeout", "2500ms"]).report(&line);
    assert_eq!(unlimited.outcome, "timed_out");
    let ran = confined().options(&["--timeout", "60s", "--limit", "cpu=1"]).report(&line);
    assert_eq!(ran.outcome, "limit_exceeded");
}

// spec 5.3: what cannot be enforced is refused by its name
#[test]
fn a_process_limit_below_what_the_kernel_can_hold_is_refused() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let ran =
        Confined::new("workspace-write", &work).options(&["--limit", "pids=5"]).run(&["true"]);
    assert_eq!(ran.code(), 126);
    assert!(ran.err().contains("pids=5"), "{}", ran.err());
}

/// Forks children that stay, gives up when it cannot, and leaves them.
const FILLS: &str = "import os, sys, time
for i in range(450):
  try:
    if os.fork() == 0: time.sleep(600)
  except OSError as error: sys.exit('%d' % error.errno)
sys.exit(3)";

fn met(ran: &RunReport) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().expect("a word").to_owned();
    let met = ran.limits_met.as_array().into_iter().flatten();
    met.map(|met| (text(&met["limit"]), text(&met["evidence"]))).collect()
}

fn named(limit: &str, evidence: &str) -> Vec<(String, String)> {
    vec![(limit.to_owned(), evidence.to_owned())]
}

// spec 6.6
#[test]
fn the_limit_on_processes_is_named_by_who_could_fork_no_more() {
    let ran = report(&["--limit", "pids=4000"], FILLS);
    assert_eq!((ran.exit_code, met(&ran)), (Some(3), vec![]), "there was room for all");
    let ran = report(&["--limit", "pids=400"], FILLS);
    assert_eq!((ran.exit_code, ran.stderr.as_str()), (Some(1), "11\n"), "{ran:?}");
    assert_eq!(met(&ran), named("pids", "observed"), "it was tried");
}

// spec 6.6
#[test]
fn a_file_that_outgrows_its_limit_is_named_by_the_signal_and_else_by_what_was_printed() {
    let ignored = "open('big', 'wb').write(bytes(2 << 20))";
    assert_eq!(report(&[], ignored).exit_code, Some(0));
    let limit = ["--limit", "file_size=1M"];
    let ran = report(&limit, ignored);
    assert_eq!(met(&ran), named("file_size", "inferred"), "{ran:?}");
    let ran =
        report(&limit, &format!("import signal; signal.signal(signal.SIGXFSZ, 0); {ignored}"));
    assert_eq!((ran.outcome.as_str(), met(&ran)), ("limit_exceeded", vec![]));
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let line = ["bash", "-c", "head -c 2M /dev/zero >big; exit $?"];
    let ran = Confined::new("workspace-write", &work).options(&limit).report(&line);
    assert_eq!(met(&ran), named("file_size", "inferred"), "a child's: {ran:?}");
    let printed = "import sys; print('File too large', file=sys.stderr)";
    assert_eq!(met(&report(&limit, printed)), vec![], "it did not fail");
}

// spec 6.6: a limit that ends a child and not the command has ended something, and is named all the same
#[test]
fn a_childs_cpu_time_that_is_used_up_is_named_by_the_code_that_the_shell_gives_it() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let line = ["bash", "-c", "(while :; do :; done); code=$?; echo went on; exit $code"];
    let ran = Confined::new("workspace-write", &work)
        .options(&["--timeout", "60s", "--limit", "cpu=1"])
        .report(&line);
    assert_eq!((ran.outcome.as_str(), ran.stdout.as_str()), ("exited", "went on\n"), "{ran:?}");
    assert_eq!((ran.exit_code, met(&ran)), (Some(152), named("cpu", "inferred")));
}
