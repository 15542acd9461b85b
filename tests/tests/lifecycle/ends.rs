//! By what a command ends.

use crate::case::Case;

crate::cases!(
    an_exit_code_is_the_commands_own,
    each_signal_that_ends_a_process_is_named,
    kill_9_of_itself_is_signal_9,
    a_real_time_signal_is_named,
    a_signal_that_the_command_handles_ends_nothing,
    a_child_that_crashes_is_the_commands_own_affair,
    a_command_that_becomes_another_ends_as_that_one,
    an_exit_trap_decides_the_exit_code,
    a_folder_of_the_path_that_may_not_be_entered_makes_nothing_be_found,
    nothing_was_killed_where_nothing_had_to_be,
    what_is_not_measured_of_the_tree_is_said_not_to_be_known;
    namespaced
    usage_counts_the_whole_tree,
);

fn an_exit_code_is_the_commands_own(case: Case) {
    for code in [0, 1, 3, 124, 125, 126, 127, 137, 255] {
        let report = case.report(&[], &format!("exit {code}"));
        assert_eq!((report.outcome.as_str(), report.exit_code), ("exited", Some(code)));
    }
}

fn each_signal_that_ends_a_process_is_named(case: Case) {
    // By default SIGCHLD, SIGURG and SIGWINCH are ignored, the four of job control stop, SIGCONT continues.
    let harmless = [17, 18, 19, 20, 21, 22, 23, 28];
    // SIGTRAP is how a tracer would talk; it ends a process all the same.
    for signal in (1..=31).filter(|signal| !harmless.contains(signal)) {
        let report = case.report(&[], &format!("exec python3 -c 'import os,signal\nsignal.signal({signal},0) if {signal} not in (9,19) else 0\nos.kill(os.getpid(),{signal})'"));
        assert_eq!((report.outcome.as_str(), report.signal), ("signaled", Some(signal)));
    }
}

fn kill_9_of_itself_is_signal_9(case: Case) {
    let report = case.report(&[], "echo before; kill -9 $$; echo after");
    assert_eq!((report.outcome.as_str(), report.signal), ("signaled", Some(9)));
    assert_eq!(report.stdout, "before\n");
    assert_eq!(report.killed["killed"], false, "it was not Stockade: {}", report.killed);
}

fn a_real_time_signal_is_named(case: Case) {
    for signal in [34, 50, 64] {
        let report = case.report(&[], &format!("kill -{signal} $$"));
        assert_eq!((report.outcome.as_str(), report.signal), ("signaled", Some(signal)));
    }
}

fn a_signal_that_the_command_handles_ends_nothing(case: Case) {
    let report = case.report(&[], "trap 'echo handled' TERM USR1; kill $$; kill -USR1 $$; exit 4");
    assert_eq!((report.exit_code, report.stdout.as_str()), (Some(4), "handled\nhandled\n"));
}

fn a_child_that_crashes_is_the_commands_own_affair(case: Case) {
    let report = case.report(&[], "(kill -SEGV $BASHPID); echo $?; (kill -9 $BASHPID); echo $?");
    assert_eq!((report.exit_code, report.stdout.as_str()), (Some(0), "139\n137\n"));
}

fn a_command_that_becomes_another_ends_as_that_one(case: Case) {
    let report = case.report(&[], "exec bash -c 'exec sh -c \"exit 9\"'");
    assert_eq!(report.exit_code, Some(9));
}

fn an_exit_trap_decides_the_exit_code(case: Case) {
    let report = case.report(&[], "trap 'echo bye; exit 7' EXIT; false");
    assert_eq!((report.exit_code, report.stdout.as_str()), (Some(7), "bye\n"));
}

// spec 6.6
fn usage_counts_the_whole_tree(case: Case) {
    let burn = "python3 -c 'import time\nwhile time.process_time() < 0.3: pass'";
    let report = case
        .report(&[], &format!("{burn} & ({burn}) & wait; for i in $(seq 20); do /bin/true; done"));
    let usage = |key: &str| report.usage[key].as_u64().expect("a number");
    assert!(usage("user_us") + usage("system_us") >= 600_000, "{}", report.usage);
    assert!((23..80).contains(&usage("started")), "two, two and twenty: {}", report.usage);
    assert!(usage("wall_us") >= 300_000 && usage("max_rss_kib") > 1000, "{}", report.usage);
    assert!(usage("peak_memory_kib") >= usage("max_rss_kib"), "{}", report.usage);
    assert!(usage("voluntary_switches") > 0, "{}", report.usage);
    // Ten processes of 20 MiB are one tree of 200 MiB.
    let hold = "import os,time\nx=bytearray(20<<20)\ntime.sleep(4)";
    let line = format!("for i in $(seq 10); do python3 -c '{hold}' & done; wait");
    let report = case.report(&[], &line);
    let peak = report.usage["peak_memory_kib"].as_u64().expect("a number");
    assert!(peak > 190 << 10, "{}", report.usage);
}

// spec 6.6
fn what_is_not_measured_of_the_tree_is_said_not_to_be_known(case: Case) {
    let report = case.report(&[], "python3 -c 'x=bytearray(20<<20)' & wait");
    for key in ["peak_memory_kib", "started"] {
        let value = report.usage.get(key).unwrap_or_else(|| panic!("{key}: {}", report.usage));
        assert_eq!(value.is_u64(), case.has_namespaces(), "{key}: {}", report.usage);
        assert_eq!(value.is_null(), !case.has_namespaces(), "{key}: {}", report.usage);
    }
    assert!(report.usage["max_rss_kib"].as_u64() > Some(20 << 10), "{}", report.usage);
}

fn nothing_was_killed_where_nothing_had_to_be(case: Case) {
    let report = case.report(&[], "sleep 0.01 & wait");
    assert_eq!(report.killed["terminated"], false);
    assert_eq!(report.killed["killed"], false);
    assert_eq!(report.killed["processes"], 0);
}

// spec 10.2
fn a_folder_of_the_path_that_may_not_be_entered_makes_nothing_be_found(case: Case) {
    let setup = "mkdir locked folder loose && mkdir folder/nothing && chmod 000 locked && echo text >loose/plain && ln -s loop loop";
    assert_eq!(case.plain(&[], setup).code(), 0);
    let work = case.work().display().to_string();
    let path = format!("PATH={work}/locked:{work}/folder:{work}/loop:{work}/loose:/usr/bin:/bin");
    for (program, code) in [("nothing", 127), ("plain", 126), ("true", 0)] {
        let ran = case.stockade(&["run", "--env", &path, "--", program]).output().expect("it runs");
        let told = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{program}: {told}");
    }
    // A path is no search.
    let named = format!("{work}/locked/nothing");
    let ran = case.stockade(&["run", "--", &named]).output().expect("it runs");
    assert_eq!(ran.status.code(), Some(126), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(case.plain(&[], "chmod 700 locked").code(), 0);
}
