//! What comes out (spec 6.4): all of it, apart and in order, in bounded memory.

use crate::case::{Case, full};
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;
use stockade_tests::procs;

crate::cases!(
    stdout_and_stderr_are_kept_apart,
    a_burst_before_the_exit_is_whole,
    much_output_passes_in_little_memory_and_is_counted_exactly,
    one_endless_line_passes_in_little_memory,
    lines_of_fifty_children_come_whole,
    bytes_that_are_no_utf8_are_kept_at_every_border,
    a_character_is_not_split_at_any_border,
    nul_bytes_and_terminal_sequences_come_raw,
    a_reader_who_goes_away_ends_the_writer,
    a_reader_of_the_report_who_goes_away_leaves_nothing,
    output_that_is_not_wanted_goes_nowhere,
    a_slow_reader_loses_nothing,
    both_streams_at_once_in_full_flow_come_whole,
);

fn stdout_and_stderr_are_kept_apart(case: Case) {
    let report = case.report(&[], "echo 1; echo 2 >&2; echo 3; echo 4 >&2");
    assert_eq!((report.stdout.as_str(), report.stderr.as_str()), ("1\n3\n", "2\n4\n"));
}

fn a_burst_before_the_exit_is_whole(case: Case) {
    // As much as the pipe holds, written and closed in one moment.
    let line = "exec python3 -c 'import os\nos.write(1, b\"x\"*65536)\nos._exit(3)'";
    for _ in 0..5 {
        let report = case.report(&[], line);
        assert_eq!((report.exit_code, report.stdout.len()), (Some(3), 65536));
    }
}

/// Runs it with `--json` and looks meanwhile how much memory `stockade` itself takes, in KiB: first and most.
fn watched(case: &Case, options: &[&str], line: &str) -> (stockade_tests::RunReport, u64, u64) {
    let child = case.start(options, line);
    let resident = |pid: i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0)
    };
    // The user is changed by a program that becomes stockade.
    let pid = child.id() as i32;
    case.waits_for("begun");
    let first = resident(pid);
    let most = std::thread::spawn(move || {
        let mut most = 0;
        while procs::read(pid).is_some() {
            most = most.max(resident(pid));
            std::thread::sleep(Duration::from_millis(10));
        }
        most
    });
    let (report, _) = case.report_of_started(child);
    (report, first, most.join().expect("the watcher"))
}

fn much_output_passes_in_little_memory_and_is_counted_exactly(case: Case) {
    let bytes: u64 = if full() { 10 << 30 } else { 256 << 20 };
    let line = format!("echo head; touch begun; sleep 0.2; head -c {bytes} /dev/zero; echo tail");
    let (report, first, most) = watched(&case, &["--limit", "output=1M"], &line);
    assert_eq!(report.outcome, "exited");
    assert_eq!(report.bytes["stdout"], bytes + 10);
    assert_eq!(report.truncated["stdout"], true);
    assert!(report.stdout.starts_with("head\n") && report.stdout.ends_with("tail\n"));
    assert!(most - first < 32 << 10, "{first} KiB, then {most} KiB");
}

fn one_endless_line_passes_in_little_memory(case: Case) {
    let bytes: u64 = if full() { 1 << 30 } else { 64 << 20 };
    let line = format!("touch begun; sleep 0.2; head -c {bytes} /dev/zero | tr '\\0' a >&2");
    let (report, first, most) = watched(&case, &["--limit", "output=64K"], &line);
    assert_eq!(report.bytes["stderr"], bytes);
    let told = format!("… {} bytes omitted …", bytes - (64 << 10));
    assert!(report.stderr.contains(&told), "{}", report.stderr.len());
    assert!(most - first < 32 << 10, "{first} KiB, then {most} KiB");
}

fn lines_of_fifty_children_come_whole(case: Case) {
    let line = "for c in $(seq 50); do (for n in $(seq 100); do echo \"child $c line $n of 100\"; done) & done; wait";
    let report = case.report(&["--limit", "output=1M"], line);
    let mut lines: Vec<&str> = report.stdout.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<String> = (1..=50)
        .flat_map(|c| (1..=100).map(move |n| format!("child {c} line {n} of 100")))
        .collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

fn bytes_that_are_no_utf8_are_kept_at_every_border(case: Case) {
    // The limit keeps 4 and 4; the odd byte falls on every place around the cut.
    for at in 0..12 {
        let mut bytes = [b'a'; 12];
        bytes[at] = 0xff;
        let octal: String = bytes.iter().map(|byte| format!("\\{byte:03o}")).collect();
        let report = case.report(&["--limit", "output=8"], &format!("printf '{octal}'"));
        assert_eq!(report.bytes["stdout"], 12, "at {at}");
        let kept = !(4..8).contains(&at);
        assert_eq!(report.stdout.contains('\u{fffd}'), kept, "at {at}: {:?}", report.stdout);
        assert!(report.stdout.contains("4 bytes omitted"), "at {at}: {:?}", report.stdout);
    }
}

fn a_character_is_not_split_at_any_border(case: Case) {
    for limit in 8..16 {
        let option = format!("output={limit}");
        let report = case.report(&["--limit", &option], "printf 'é€😀é€😀é€😀é€😀'");
        assert!(!report.stdout.contains('\u{fffd}'), "{limit}: {:?}", report.stdout);
        assert_eq!(report.bytes["stdout"], 36);
    }
}

fn nul_bytes_and_terminal_sequences_come_raw(case: Case) {
    let report = case.report(&[], "printf 'a\\0b\\033[31mc\\007\\rd\\n'");
    assert_eq!(report.stdout, "a\0b\x1b[31mc\x07\rd\n");
}

fn a_reader_who_goes_away_ends_the_writer(case: Case) {
    let mut command = case.run(&[], "yes; echo $? >status");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("stockade starts");
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut some = [0; 4];
    stdout.read_exact(&mut some).expect("something");
    drop(stdout);
    let ended = procs::until(Duration::from_secs(20), || child.try_wait().expect("a child"));
    assert!(ended.is_some(), "it hangs on a reader who is gone");
    assert_eq!(std::fs::read_to_string(case.work().join("status")).expect("a status"), "141\n");
    case.nothing_is_left();
}

fn a_reader_of_the_report_who_goes_away_leaves_nothing(case: Case) {
    let mut child = case.start(&[], "touch ready; sleep 0.2; exit 3");
    case.waits_for("ready");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(3), "the command's own code all the same");
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be written"));
    case.nothing_is_left();
}

fn output_that_is_not_wanted_goes_nowhere(case: Case) {
    let mut command = case.run(&[], "seq 100000; seq 1000 >&2; exit 6");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    assert_eq!(command.status().expect("stockade runs").code(), Some(6));
    case.nothing_is_left();
}

fn a_slow_reader_loses_nothing(case: Case) {
    let mut command = case.run(&[], "seq 40000");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("stockade starts");
    let mut stdout = child.stdout.take().expect("a pipe");
    std::thread::sleep(Duration::from_secs(1));
    let mut text = String::new();
    stdout.read_to_string(&mut text).expect("text");
    let expected: String = (1..=40000).map(|n| format!("{n}\n")).collect();
    assert!(text == expected, "{} of {} bytes", text.len(), expected.len());
    assert!(child.wait().expect("it ends").success());
    case.nothing_is_left();
}

fn both_streams_at_once_in_full_flow_come_whole(case: Case) {
    let report =
        case.report(&["--limit", "output=1M"], "seq 50000 & seq 50000 >&2 & wait; echo end");
    let numbers: String = (1..=50000).map(|n| format!("{n}\n")).collect();
    assert_eq!(report.stderr, numbers);
    assert_eq!(report.stdout, format!("{numbers}end\n"));
}
