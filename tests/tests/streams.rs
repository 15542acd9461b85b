//! Stockade's own standard streams, closed, full, without a reader, or at their end; and what it says on stderr of names that others
//! chose. Judged from outside.

#![forbid(unsafe_code)]

use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use stockade_tests::{Finished, Scratch, finish, procs, stockade_bin, turn};

const LIMIT: Duration = Duration::from_secs(120);

/// `stockade` with these arguments, its streams redirected by bash.
fn redirected(words: &[&str], state: &Path, redirection: &str, stdin: &str) -> Finished {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("set -o pipefail; \"$@\" {redirection}"), "bash"]);
    command.arg(stockade_bin()).args(words).env("XDG_STATE_HOME", state);
    finish(&mut command, stdin.as_bytes(), LIMIT)
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

// spec 10.2: nothing has run, and that is said
#[test]
fn with_stdout_closed_nothing_runs() {
    let scratch = Scratch::new();
    let (work, state) = (scratch.folder("work"), scratch.folder("state"));
    let w = utf8(&work);
    let turn = turn::of_commands(&["touch ran"]);
    for words in [
        &["run", "--workspace", w, "--", "touch", "ran"][..],
        &["run", "--json", "--workspace", w, "--", "touch", "ran"],
        &["run", "--tty", "--workspace", w, "--", "touch", "ran"],
        &["shell", "--workspace", w],
        &["exec", "--workspace", w],
        &["doctor"],
    ] {
        for closed in [">&-", ">&- <&-"] {
            let ran = redirected(words, &state, closed, &turn);
            assert_eq!(ran.code(), 125, "{words:?} {closed}: {}", ran.err());
            assert!(ran.err().contains("stdout is closed"), "{words:?}: {}", ran.err());
        }
        assert!(!work.join("ran").exists(), "{words:?}");
    }
    let status = ["run", "--status-fd", "2", "--workspace", w, "--", "touch", "ran"];
    assert_eq!(redirected(&status, &state, "2>&-", "").code(), 125);
    assert!(!work.join("ran").exists(), "its status would be lost");
    // /dev/null is a place to write to, however it was opened.
    for open in [">/dev/null", "1<>/dev/null", "<&- >/dev/null"] {
        let ran = redirected(&["exec", "--workspace", w, "-"], &state, open, &turn);
        assert!(ran.err().is_empty() || open.contains("<&-"), "{open}: {}", ran.err());
        assert!(ran.code() == 0 || open.contains("<&-"), "{open}: {}", ran.code());
    }
    assert!(work.join("ran").exists());
}

// spec 9.1, 10.1
#[test]
fn results_that_cannot_be_written_are_an_error_and_stand_in_the_session_log() {
    let scratch = Scratch::new();
    let (work, state) = (scratch.folder("work"), scratch.folder("state"));
    let (w, s) = (utf8(&work), utf8(&state));
    let call = |n: usize| json!({"type": "tool_use", "id": format!("c{n}"), "name": "Bash", "input": {"command": format!("echo n{n}; echo {n} >> ran")}});
    let whole = turn::of_commands(&["echo n1; echo 1 >> ran", "echo n2; echo 2 >> ran"]);
    let stream = format!("{}\n{}\n", call(1), call(2));
    for (n, input) in [whole, stream].iter().enumerate() {
        for (m, to) in [">/dev/full", "| true"].iter().enumerate() {
            let id = format!("s{n}{m}");
            fs::write(work.join("ran"), "").expect("a file");
            let words = ["exec", "--workspace", w, "--state-dir", s, "--session", &id];
            let ran = redirected(&words, &state, to, input);
            assert_ne!(ran.code(), 0, "{to}: {}", ran.err());
            assert!(ran.err().contains("results cannot be written"), "{to}: {}", ran.err());
            let log = fs::read_to_string(state.join("sessions").join(&id).join("session.jsonl"))
                .expect("a log");
            for line in fs::read_to_string(work.join("ran")).expect("a file").lines() {
                let kept = log.lines().any(|record| {
                    record.contains("tool/result")
                        && record.contains(&format!("{line}\",\"is_error"))
                });
                assert!(kept, "{to}: call {line} has run: {log}");
            }
        }
    }
    for to in [">/dev/full", "| true"] {
        let ran =
            redirected(&["run", "--json", "--workspace", w, "--", "sleep", "0.3"], &state, to, "");
        assert_ne!(ran.code(), 0, "{to}");
        assert!(ran.err().contains("the report cannot be written"), "{to}: {}", ran.err());
    }
    let tty = ["run", "--tty", "--workspace", w, "--", "echo", "shown"];
    assert_ne!(redirected(&tty, &state, ">/dev/full", "").code(), 0);
    let help = redirected(&["run", "--help"], &state, ">/dev/full", "");
    assert_ne!(help.code(), 0, "help that did not arrive");
}

// spec 6.6
#[test]
fn the_end_of_stdin_is_the_end_of_the_terminals_input() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let w = utf8(&work);
    let ends = |words: &[&str], input: &str| {
        let mut command = Command::new(stockade_bin());
        finish(command.args(words).env("INPUTRC", "/dev/null"), input.as_bytes(), LIMIT)
    };
    let shell = ["shell", "--workspace", w];
    assert_eq!(ends(&shell, "").code(), 0, "a shell at the end of its input ends");
    for (input, code) in [("echo hi; exit 3\n", 3), ("exit 4", 4), ("cat\nsome text\n", 0)] {
        let ran = ends(&shell, input);
        assert_eq!(ran.code(), code, "{input:?}: {}", ran.out());
    }
    let run = |line: &str, input: &str| {
        let ran = ends(&["run", "--tty", "--workspace", w, "--", "bash", "-c", line], input);
        assert_eq!(ran.code(), 0, "{line}: {}", ran.out());
        ran.out()
    };
    assert_eq!(run("cat", ""), "");
    assert!(run("sleep 0.5; cat", "no line end").ends_with("no line end"));
    assert!(run("stty -icanon -echo; sleep 0.3; head -c 2 | od -An -c", "").contains("004"));
    // Each read finds the end, as it does in a pipe.
    assert!(run("cat; cat; read x; echo all three", "").contains("all three"));
    assert!(run("python3 -c 'print(input(), 6 * 7)'", "and\n").contains("and 42"));
}

// spec 10.7: what is foreign in a line of ours makes no other
// Whoever reads what a terminal shows may go, as from a pipe.
#[test]
fn a_command_at_a_terminal_ends_when_nobody_reads_it_any_more() {
    let scratch = Scratch::new();
    for line in ["exec yes", "while :; do echo y; sleep 0.05; done"] {
        let mut command = Command::new("bash");
        command.args(["-c", "\"$0\" run --tty -- bash -c \"$1\" | head -n 1"]);
        command.arg(stockade_bin()).arg(line).current_dir(scratch.folder("work"));
        let ran = finish(&mut command, &[], Duration::from_secs(120));
        assert_eq!((ran.code(), ran.out().trim()), (0, "y"), "{line}: {}", ran.err());
    }
}

#[test]
fn no_name_forges_a_line_on_stderr() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let w = utf8(&work);
    let odd = "x\nstockade: everything is fine\u{1b}[2K\u{202e}\u{2028}";
    let planted = format!("git init -q '{odd}'; echo evil > '{odd}/.git/hooks/post-commit'");
    let path = format!("/absent/{odd}");
    let variable = format!("A{odd}");
    for words in [
        &["run", "--workspace", w, "--", "bash", "-c", &planted][..],
        &["run", "--workspace", w, "--", odd],
        &["run", "--workspace", &path, "--", "true"],
        &["run", "--workspace", w, "--policy", odd, "--", "true"],
        &["run", "--workspace", w, "--read", &path, "--", "true"],
        &["run", "--workspace", w, "--env", &variable, "--", "true"],
        &["run", "--workspace", w, "--limit", odd, "--", "true"],
        &["exec", "--workspace", w, &path],
        &["exec", "--workspace", w, "--state-dir", w, "--session", odd],
        &["exec", "--workspace", w, "--rules", &path],
        &["exec", "--workspace", w, "--settings", &path],
        &["tasks", "show", odd],
        &["policy", "show", &path],
        &[odd],
    ] {
        let ran = redirected(words, &work, "", "");
        let err = ran.err();
        assert!(err.contains("stockade: "), "{words:?} says something: {err}");
        let forged = |line: &str| line.starts_with("stockade: everything");
        assert!(!err.lines().any(forged), "{words:?}: {err}");
        for c in ['\u{1b}', '\r', '\u{202e}', '\u{2028}'] {
            assert!(!err.contains(c), "{words:?}: {err:?}");
        }
    }
}

// spec 5.9, 9.2
#[test]
fn what_is_planted_by_the_hundred_is_counted_and_not_told_one_by_one() {
    let scratch = Scratch::new();
    let (work, state) = (scratch.folder("work"), scratch.folder("state"));
    let line = "unshare -U true; git init -q t; \
        for n in $(seq 150); do cp -r t r$n; echo evil > r$n/.git/hooks/post-commit; done";
    let words =
        ["run", "--workspace", utf8(&work), "--state-dir", utf8(&state), "--", "bash", "-c", line];
    let ran = redirected(&words, &state, "", "");
    let ours = ran.err().lines().filter(|line| line.starts_with("stockade: ")).count();
    assert!((50..100).contains(&ours), "{ours} lines: {}", ran.err());
    assert!(ran.err().contains("(100 more)"), "the number of the rest: {}", ran.err());
    let mut audit = Command::new(stockade_bin());
    audit.args(["audit", "query", "--json", "--state-dir"]).arg(&state);
    let records = finish(&mut audit, &[], LIMIT).out();
    let denied: Vec<_> = records.lines().filter(|line| line.contains("sandbox_denied")).collect();
    assert!((50..100).contains(&denied.len()), "{} records", denied.len());
    assert!(denied.iter().any(|line| line.contains("unshare")), "another kind is not crowded out");
}

// spec 1.14
#[test]
fn sigquit_is_answered_like_sigterm() {
    let scratch = Scratch::new();
    let (work, state) = (scratch.folder("work"), scratch.folder("state"));
    let file = scratch.path().join("turn.json");
    fs::write(&file, turn::of_commands(&["touch started; sleep 600", "true"])).expect("a file");
    let mut command = turn::exec_command(&work, &state);
    let child = command.arg(&file).stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let started = || work.join("started").exists().then_some(());
    procs::until(LIMIT, started).expect("the call runs");
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGQUIT).expect("a signal can be sent");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(128 + 3));
    let results = turn::answers(std::str::from_utf8(&output.stdout).expect("UTF-8"));
    assert_eq!(results.len(), 2, "{results:?}");
}

// spec 1.21: what a killed session has left goes with the next, and by `doctor --repair`
#[test]
fn the_socket_of_a_killed_session_goes_and_that_of_a_live_one_stays() {
    let scratch = Scratch::new();
    let (work, state) = (scratch.folder("work"), scratch.folder("state"));
    let file = scratch.path().join("turn.json");
    let calls = [
        ("Bash", json!({"command": "sleep 600", "run_in_background": true})),
        ("Bash", json!({"command": "touch started-$$; sleep 600"})),
    ];
    fs::write(&file, turn::of_calls(&calls)).expect("a file");
    let socket = |id: &str| state.join("sessions").join(id).join("tasks/control.sock");
    let start = |id: &str| {
        let mut command = turn::exec_command(&work, &state);
        let child = command.args(["--session", id]).arg(&file).stdout(std::process::Stdio::null());
        let child = child.spawn().expect("it starts");
        procs::until(LIMIT, || socket(id).exists().then_some(())).expect("its tasks are served");
        child
    };
    let mut live = start("live");
    let doctor = || {
        let mut command = Command::new(stockade_bin());
        command.args(["doctor", "--repair", "--state-dir"]).arg(&state);
        let ran = finish(&mut command, &[], LIMIT);
        assert_eq!(ran.code(), 0, "{}", ran.err());
        ran.out()
    };
    let next = || {
        let ran = turn::exec(&work, &state, &turn::of_commands(&["true"]));
        assert_eq!(ran.code(), 0, "{}", ran.err());
        String::new()
    };
    for (id, remove) in [("one", &doctor as &dyn Fn() -> String), ("two", &next)] {
        let mut killed = start(id);
        killed.kill().expect("killed");
        killed.wait().expect("gone");
        assert!(socket(id).exists(), "a killed session cannot clean up");
        let said = remove();
        assert!(id == "two" || said.contains("control.sock"), "{said}");
        assert!(!socket(id).exists(), "{id}");
        assert!(socket("live").exists(), "the live session's stays");
    }
    let pid = nix::unistd::Pid::from_raw(live.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("a signal can be sent");
    live.wait().expect("it ends");
    assert!(!socket("live").exists(), "a session that ends takes its socket along");
}
