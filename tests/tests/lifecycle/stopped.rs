//! A session of `stockade exec` that is stopped: every call that had come in has exactly one result, which says what its command
//! had written and how it was ended.

use crate::case::{Case, signal};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use stockade_tests::turn;

crate::cases!(
    a_stopped_session_tells_what_its_commands_had_written_and_how_they_ended,
    the_second_signal_skips_the_grace_and_every_call_has_its_result,
    the_second_signal_skips_the_grace_of_tasks_too,
);

/// `stockade exec` of these calls of Bash, as a whole turn, or as a stream whose end is not there yet.
fn start(case: &Case, calls: &[Value], stream: bool) -> Child {
    let state = case.state().display().to_string();
    let mut command = case.stockade(&["exec", "--state-dir", &state, "--session", "s"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("exec");
    let stdin = child.stdin.as_mut().expect("a pipe");
    let items: Vec<Value> = (1..)
        .zip(calls)
        .map(|(n, input)| json!({"type": "tool_use", "id": format!("call_{n}"), "name": "Bash", "input": input}))
        .collect();
    if stream {
        for item in items {
            writeln!(stdin, "{item}").expect("it reads");
        }
    } else {
        let mut stdin = child.stdin.take().expect("a pipe");
        let turn = json!({"role": "assistant", "content": items});
        stdin.write_all(turn.to_string().as_bytes()).expect("it reads");
    }
    child
}

fn marked(case: &Case, line: &str) -> Value {
    json!({"command": format!("export STOCKADE_TEST_MARK={}; exec 2>/dev/null; {line}", case.mark())})
}

/// Its results and exit code, once it has ended.
fn answers(case: &Case, mut child: Child) -> (Vec<turn::Answer>, Option<i32>) {
    let mut stdout = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut stdout).expect("UTF-8");
    let status = child.wait().expect("it ends");
    case.nothing_is_left();
    (turn::answers(&stdout), status.code())
}

// spec 1.16, 2.10, 6.1
fn a_stopped_session_tells_what_its_commands_had_written_and_how_they_ended(case: Case) {
    case.policy_with("[limits]\ngrace = \"60s\"\n");
    let lines =
        "trap 'echo asked; exit 3' TERM; echo before; touch ready; while :; do sleep 0.02; done";
    for (stream, by) in [(true, Signal::SIGINT), (false, Signal::SIGTERM)] {
        let child = start(&case, &[marked(&case, lines), marked(&case, "echo never")], stream);
        case.waits_for("ready");
        signal(&child, by);
        let (answers, code) = answers(&case, child);
        assert_eq!((answers.len(), code), (2, Some(128 + by as i32)), "{answers:?}");
        let text = &answers[0].text;
        assert!(text.starts_with("ABORTED: "), "{text}");
        assert!(text.contains("\nbefore\nasked\nThe command was cancelled\n["), "{text}");
        assert!(
            text.contains(
                "ended with SIGTERM; the command itself ended with exit code 3; it took "
            ),
            "{text}"
        );
        assert!(answers[1].text.starts_with("ABORTED_BEFORE_DISPATCH: "), "{answers:?}");
        std::fs::remove_file(case.work().join("ready")).expect("it was there");
    }
    let log = std::fs::read_to_string(case.state().join("sessions/s/session.jsonl"));
    assert!(
        log.expect("a log").contains(r#""outcome":{"outcome":"cancelled""#),
        "it is in the log"
    );
}

// spec 1.16, 6.1
fn the_second_signal_skips_the_grace_and_every_call_has_its_result(case: Case) {
    case.policy_with("[limits]\ngrace = \"600s\"\n");
    let line = "trap 'echo heard; touch heard' TERM; echo before; touch ready; while :; do sleep 0.02; done";
    for stream in [true, false] {
        let child = start(&case, &[marked(&case, line), marked(&case, "echo never")], stream);
        case.waits_for("ready");
        signal(&child, Signal::SIGINT);
        case.waits_for("heard");
        signal(&child, Signal::SIGINT);
        let (answers, code) = answers(&case, child);
        assert_eq!((answers.len(), code), (2, Some(130)), "{answers:?}");
        let text = &answers[0].text;
        assert!(text.starts_with("ABORTED: ") && text.contains("\nbefore\nheard\n"), "{text}");
        assert!(text.contains("ended with SIGTERM, then SIGKILL"), "{text}");
        assert!(text.contains("the command itself ended by signal 9"), "{text}");
        for name in ["ready", "heard"] {
            std::fs::remove_file(case.work().join(name)).expect("it was there");
        }
    }
}

// spec 1.21
fn the_second_signal_skips_the_grace_of_tasks_too(case: Case) {
    case.policy_with("[limits]\ngrace = \"600s\"\n");
    let mut task =
        marked(&case, "trap 'touch heard' TERM; touch ready; while :; do sleep 0.02; done");
    task["run_in_background"] = json!(true);
    let mut child = start(&case, &[task], true);
    case.waits_for("ready");
    // At the end of its input the session ends, and the task with it.
    drop(child.stdin.take());
    case.waits_for("heard");
    signal(&child, Signal::SIGINT);
    let (answers, _) = answers(&case, child);
    assert_eq!(answers.len(), 1);
    let log = case.state().join("sessions/s/tasks/task_1.json");
    let task: Value =
        serde_json::from_slice(&std::fs::read(log).expect("its record")).expect("JSON");
    assert_eq!((&task["status"], &task["killed"]["killed"]), (&json!("ended"), &json!(true)));
}
