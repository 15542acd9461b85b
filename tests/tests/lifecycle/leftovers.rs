//! What the main process leaves behind (spec 6.2): it is over when that one is, and nothing stays.

use crate::case::Case;
use std::time::Duration;
use stockade_tests::procs;

crate::cases!(
    what_forks_and_exits_without_end_is_gone_with_its_call,
    an_end_without_a_namespace_or_a_cgroup_is_labelled_best_effort,
    a_child_that_called_setsid_is_gone,
    a_daemon_that_forked_twice_is_gone,
    a_child_under_nohup_is_gone,
    a_disowned_job_is_gone,
    a_child_in_a_process_group_of_its_own_is_gone,
    a_child_that_holds_stdout_has_the_drain_and_no_more,
    a_child_that_holds_stderr_has_the_drain_and_no_more,
    a_child_that_holds_both_has_the_drain_and_no_more,
    a_child_that_holds_no_pipe_is_not_waited_for,
    a_child_that_ends_within_the_drain_is_not_killed_and_all_it_said_is_kept,
    a_child_that_floods_the_drain_is_cut_off,
    an_orphan_of_an_orphan_is_gone,
    a_coprocess_is_gone,
    a_process_substitution_that_takes_all_output_loses_none,
    a_writer_whose_reader_has_gone_ends_by_sigpipe,
    five_hundred_zombies_hold_nothing_up,
    a_tree_a_thousand_wide_is_gone,
    a_tree_two_hundred_deep_is_gone,
    a_stopped_child_is_gone;
    namespaced
    a_process_that_starts_itself_anew_is_gone,
);

/// The drain is half a second; a loaded machine adds to it.
const AFTER_DRAIN: Duration = Duration::from_secs(4);

fn daemon(case: &Case, start: &str) {
    let ran = case.plain(&[], &format!("{start}\nsleep 0.05; echo main ended"));
    assert_eq!((ran.code(), ran.out().as_str()), (0, "main ended\n"), "{}", ran.err());
    assert!(ran.took < AFTER_DRAIN, "{:?}", ran.took);
}

fn a_child_that_called_setsid_is_gone(case: Case) {
    daemon(&case, "setsid sleep 600 >/dev/null 2>&1 </dev/null &");
    daemon(&case, "setsid sleep 600 &");
}

fn a_daemon_that_forked_twice_is_gone(case: Case) {
    let twice = "import os,time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    os.chdir(\"/\")\n    for fd in range(3): os.close(fd)\n    time.sleep(600)\n  os._exit(0)\nos.wait()";
    daemon(&case, &format!("python3 -c '{twice}'"));
}

fn a_child_under_nohup_is_gone(case: Case) {
    daemon(&case, "nohup sleep 600 >/dev/null 2>&1 &");
}

fn a_disowned_job_is_gone(case: Case) {
    daemon(&case, "sleep 600 >/dev/null 2>&1 & disown -h; disown -a");
}

fn a_child_in_a_process_group_of_its_own_is_gone(case: Case) {
    daemon(&case, "set -m; sleep 600 >/dev/null 2>&1 & sleep 600 | sleep 600 >/dev/null 2>&1 &");
}

fn holds(case: &Case, streams: &str) {
    let report = case.report(&[], &format!("sleep 600 {streams} & echo done; exit 3"));
    assert_eq!((report.outcome.as_str(), report.exit_code), ("exited", Some(3)));
    assert_eq!(report.stdout, "done\n");
    assert_eq!(report.killed["killed"], true, "{}", report.killed);
    assert_eq!(report.killed["processes"], 1, "{}", report.killed);
    assert_eq!(report.killed["terminated"], false, "{}", report.killed);
    let wall = report.usage["wall_us"].as_u64().expect("a number");
    assert!((500_000..4_000_000).contains(&wall), "{wall} us");
}

fn a_child_that_holds_stdout_has_the_drain_and_no_more(case: Case) {
    holds(&case, "2>/dev/null");
}

fn a_child_that_holds_stderr_has_the_drain_and_no_more(case: Case) {
    holds(&case, ">/dev/null");
}

fn a_child_that_holds_both_has_the_drain_and_no_more(case: Case) {
    holds(&case, "");
}

fn a_child_that_holds_no_pipe_is_not_waited_for(case: Case) {
    let report = case.report(&[], "sleep 600 >/dev/null 2>&1 & echo done");
    assert_eq!(report.stdout, "done\n");
    assert_eq!(report.killed["processes"], 1, "{}", report.killed);
    let wall = report.usage["wall_us"].as_u64().expect("a number");
    assert!(wall < 400_000, "less than the drain: {wall} us");
}

fn a_child_that_ends_within_the_drain_is_not_killed_and_all_it_said_is_kept(case: Case) {
    let report = case.report(&[], "(sleep 0.2; echo late; echo err >&2) & echo early");
    assert_eq!((report.stdout.as_str(), report.stderr.as_str()), ("early\nlate\n", "err\n"));
    assert_eq!(report.killed["killed"], false, "{}", report.killed);
}

fn a_child_that_floods_the_drain_is_cut_off(case: Case) {
    let report = case.report(&["--limit", "output=1M"], "yes flood & echo start");
    assert_eq!(report.exit_code, Some(0));
    assert_eq!(report.killed["killed"], true, "{}", report.killed);
    assert!(report.stdout.starts_with("start\n") || report.stdout.starts_with("flood\n"));
}

fn an_orphan_of_an_orphan_is_gone(case: Case) {
    daemon(&case, "((((sleep 600 >/dev/null 2>&1 &) &) &) &)");
}

fn a_coprocess_is_gone(case: Case) {
    daemon(&case, "coproc cat");
}

fn a_process_substitution_that_takes_all_output_loses_none(case: Case) {
    let report = case.report(&[], "exec > >(tee f); seq 5000; echo end");
    let expected: String = (1..=5000).map(|n| format!("{n}\n")).chain(["end\n".into()]).collect();
    assert_eq!(report.stdout, expected);
    assert_eq!(std::fs::read_to_string(case.work().join("f")).expect("the copy"), expected);
}

fn a_writer_whose_reader_has_gone_ends_by_sigpipe(case: Case) {
    let report = case.report(&[], "yes | head -n 2; echo ${PIPESTATUS[0]}");
    assert_eq!(report.stdout, "y\ny\n141\n");
}

fn five_hundred_zombies_hold_nothing_up(case: Case) {
    let make = "import os,time\nfor i in range(500):\n  if os.fork() == 0: os._exit(0)\ntime.sleep(0.2)\nprint(\"done\")";
    let ran = case.plain(&[], &format!("exec python3 -c '{make}'"));
    assert_eq!(ran.out(), "done\n", "{}", ran.err());
    assert!(ran.took < Duration::from_secs(20), "{:?}", ran.took);
}

const WIDE: &str = "import os,signal,time\nfor i in range(1000):\n  if os.fork() == 0:\n    signal.pause()\nopen(\"wide\",\"w\").close()\n";

fn a_tree_a_thousand_wide_is_gone(case: Case) {
    let report = case.report(&[], &format!("exec python3 -c '{WIDE}'"));
    assert_eq!(report.exit_code, Some(0), "{}", report.stderr);
    assert_eq!(report.killed["processes"], 1000, "{}", report.killed);
}

fn a_tree_two_hundred_deep_is_gone(case: Case) {
    let deep = "import os,time\nfor i in range(200):\n  if os.fork():\n    if i: time.sleep(600)\n    while not os.path.exists(\"deep\"): time.sleep(0.01)\n    os._exit(0)\nopen(\"deep\",\"w\").close()\ntime.sleep(600)";
    let report = case.report(&[], &format!("exec python3 -c '{deep}'"));
    assert_eq!(report.exit_code, Some(0), "{}", report.stderr);
    assert_eq!(report.killed["processes"], 200, "{}", report.killed);
}

fn a_process_that_starts_itself_anew_is_gone(case: Case) {
    // Each generation lives for a moment and leaves a child: whoever looks at a list of pids is always too late.
    let runner =
        "import os,time\nos.setsid()\nwhile True:\n  if os.fork(): os._exit(0)\n  os.setsid()";
    daemon(&case, &format!("python3 -c '{runner}' >/dev/null 2>&1 &"));
}

fn a_stopped_child_is_gone(case: Case) {
    daemon(&case, "sleep 600 >/dev/null 2>&1 & kill -STOP $!");
}

/// A program that forks and goes on in the child, which may begin a session of its own; each generation counts itself in a file.
fn reforker(case: &Case) {
    let source = stockade_tests::data_dir().join("refork.c");
    let built = std::process::Command::new("cc")
        .args(["-O1", "-o"])
        .arg(case.work().join("refork"))
        .arg(source)
        .status();
    assert!(built.expect("a compiler, which Rust needs for its linker").success());
}

fn generations(case: &Case) -> u64 {
    let count = std::fs::read(case.work().join("count")).unwrap_or_default();
    count.first_chunk().copied().map_or(0, u64::from_ne_bytes)
}

fn what_forks_and_exits_without_end_is_gone_with_its_call(case: Case) {
    reforker(&case);
    // Unconfined, nothing ends it, and none of its processes is there for long.
    let mut free = std::process::Command::new(case.work().join("refork"));
    let free = free.arg(case.work().join("count")).arg("3").status();
    assert!(free.expect("it starts").success());
    let before = generations(&case);
    let grows =
        procs::until(Duration::from_secs(20), || (generations(&case) > before + 10).then_some(()));
    assert!(grows.is_some(), "it goes on without its first process");
    // Three seconds are its time.
    let ended = procs::until(Duration::from_secs(60), || {
        let before = generations(&case);
        std::thread::sleep(Duration::from_millis(700));
        (generations(&case) == before).then_some(())
    });
    assert!(ended.is_some());
    std::fs::remove_file(case.work().join("count")).expect("it was there");

    for sessions in ["", "sessions"] {
        // By a deadline, and by the end of its main process.
        for end in ["sleep 600", "sleep 0.3"] {
            let line = format!("for i in 1 2 3 4; do ./refork count 90 {sessions} & done; {end}");
            let options = ["--timeout", "1500ms", "--grace", "100ms"];
            let report = case.report(&options, &line);
            let expected = if end == "sleep 600" { "timed_out" } else { "exited" };
            assert_eq!(report.outcome, expected, "{}", report.killed);
            assert_ne!(report.killed["outrun"], true, "{}", report.killed);
            let count = generations(&case);
            assert!(count > 4, "it ran");
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(generations(&case), count, "nothing of it lives on: {}", report.killed);
        }
    }
}

// spec 6.1, 6.6
fn an_end_without_a_namespace_or_a_cgroup_is_labelled_best_effort(case: Case) {
    let report = case.report(&["--timeout", "300ms"], "exec sleep 600");
    assert_eq!(report.killed["terminated"], true);
    let layers = report.layers.to_string();
    let unheld = layers.contains("the end of every process with its call");
    assert_eq!(report.killed["best_effort"] == true, unheld, "{} {layers}", report.killed);
    let mut layers = report.layers.as_array().into_iter().flatten();
    let namespace = layers.find(|layer| layer["layer"] == "pid_namespace").expect("it is named");
    let has_namespace = namespace["state"] != "missing";
    assert_eq!(report.usage["started"].is_u64(), has_namespace, "{}", report.usage);
    assert_eq!(report.usage["started"].is_null(), !has_namespace, "unknown is not none");
    // Nothing was ended: there is nothing to label.
    assert_ne!(case.report(&[], "true").killed["best_effort"], true);
}
