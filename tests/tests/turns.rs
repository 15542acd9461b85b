//! Turns in every dialect, whole and broken, through `stockade exec` (spec 10.1).

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use stockade_tests::turn::{self, Answer};
use stockade_tests::{Finished, Scratch, cargo, finish, procs, unique};

fn exec(scratch: &Scratch, workspace: &Path, turn: &str) -> Finished {
    let ran = turn::exec(workspace, &scratch.folder("state"), turn);
    assert!(!ran.err().contains("panicked"), "it panicked: {}", ran.err());
    ran
}

/// The results of a turn that must succeed as a whole.
fn answers(ran: &Finished) -> Vec<Answer> {
    assert_eq!(ran.code(), 0, "{}", ran.err());
    turn::answers(&ran.out())
}

fn texts(answers: &[Answer]) -> Vec<&str> {
    answers.iter().map(|answer| answer.text.as_str()).collect()
}

/// The items of a whole OpenAI turn, one a line.
fn as_lines(turn: &str) -> String {
    let turn: Value = turn::parse(turn);
    let items = turn.as_array().or(turn["tool_calls"].as_array()).expect("a list of calls");
    items.iter().map(|item| format!("{item}\n")).collect()
}

// spec 10.1, 1.8
#[test]
fn explore_gives_the_same_contents_in_every_dialect_each_answered_in_its_own() {
    let scratch = Scratch::new();
    let workspace = scratch.repository("work");
    let anthropic = turn::file("explore.anthropic.json");
    let responses = turn::file("explore.openai-responses.json");
    let chat = turn::file("explore.openai-chat.json");

    let reference = answers(&exec(&scratch, &workspace, &anthropic));
    let expected = texts(&reference);
    assert_eq!(reference.len(), 5);
    assert!(expected[0].contains("Cargo.toml") && expected[0].contains("config/deep/limits.toml"));
    assert!(expected[1].contains("A crate that adds two numbers."), "{}", expected[1]);
    assert!(expected[2].contains("src/main.rs") && !expected[2].contains("lib.rs"));
    assert!(expected[3].contains("Write down the limits"), "{}", expected[3]);
    assert!(expected[4].contains("40 docs/table.txt"), "{}", expected[4]);
    assert!(reference.iter().all(|answer| answer.is_error == Some(false)), "{reference:#?}");

    let shapes = [
        ("stream", turn::file("explore.stream.jsonl"), "toolu_0", "tool_result"),
        ("responses", responses.clone(), "call_0", "function_call_output"),
        ("chat", chat.clone(), "call_0", "tool_call_id"),
        ("stream of responses", as_lines(&responses), "call_0", "function_call_output"),
        ("stream of chat", as_lines(&chat), "call_0", "tool_call_id"),
    ];
    for (shape, turn, prefix, mark) in shapes {
        let ran = exec(&scratch, &workspace, &turn);
        let got = answers(&ran);
        assert_eq!(texts(&got), expected, "{shape}");
        let ids: Vec<&str> = got.iter().map(|answer| answer.id.as_str()).collect();
        let in_order: Vec<String> = (1..=5).map(|n| format!("{prefix}{n}")).collect();
        assert_eq!(ids, in_order, "{shape}");
        assert_eq!(ran.out().matches(mark).count(), 5, "{shape} in its dialect: {}", ran.out());
        let lines = ran.out().lines().count();
        assert!(
            !shape.contains("stream") || lines == 5,
            "{shape}: one result a line: {}",
            ran.out()
        );
    }
}

#[test]
fn a_turn_in_a_file_is_the_same_as_one_on_stdin() {
    let scratch = Scratch::new();
    let workspace = scratch.repository("work");
    let turn = turn::of_commands(&["echo from a file"]);
    let path = scratch.path().join("turn.json");
    std::fs::write(&path, &turn).expect("a file");
    let mut command = turn::exec_command(&workspace, &scratch.folder("state"));
    let ran = finish(command.arg(&path), &[], Duration::from_secs(120));
    assert_eq!(ran.stdout, exec(&scratch, &workspace, &turn).stdout);
    assert!(ran.out().contains("from a file"), "{}", ran.err());
}

#[test]
fn a_result_is_an_error_when_the_command_fails_and_exec_still_ends_with_0() {
    let scratch = Scratch::new();
    let workspace = scratch.repository("work");
    let turn = turn::of_commands(&["exit 3", "echo after"]);
    let got = answers(&exec(&scratch, &workspace, &turn));
    assert_eq!(got[0].is_error, Some(true));
    assert!(got[0].text.contains('3'), "the exit code is said: {:?}", got[0].text);
}

// spec 1.1, 1.5, 1.8
#[test]
fn results_keep_the_order_of_the_calls_whichever_ends_first() {
    let scratch = Scratch::new();
    let workspace = scratch.repository("work");
    let commands: Vec<String> =
        (0..10).map(|n| format!("sleep 0.{}; echo result {n}", 9 - n)).collect();
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let got = answers(&exec(&scratch, &workspace, &turn::of_commands(&commands)));
    let expected: Vec<String> = (0..10).map(|n| format!("result {n}")).collect();
    assert_eq!(texts(&got).iter().map(|text| text.trim()).collect::<Vec<_>>(), expected);
}

// spec 5.8: one and the same world
#[test]
fn bash_and_the_file_tools_see_one_world() {
    let scratch = Scratch::new();
    let workspace = scratch.repository("work");
    // Names that nobody else has on the host, where none of them may appear.
    let (shared, written) = (format!("/tmp/shared-{}", unique()), format!("/tmp/w-{}", unique()));
    let got = answers(&exec(
        &scratch,
        &workspace,
        &turn::of_calls(&[
            ("Bash", json!({"command": format!("echo of bash > {shared}; echo of bash > here")})),
            ("Read", json!({"file_path": shared})),
            ("Write", json!({"file_path": written, "content": "of the tool\n"})),
            ("Bash", json!({"command": format!("cat {written} here")})),
            ("Glob", json!({"pattern": "her*"})),
        ]),
    ));
    assert!(got.iter().all(|answer| answer.is_error == Some(false)), "{got:#?}");
    assert!(got[1].text.contains("of bash"), "{got:#?}");
    assert_eq!(got[3].text.trim(), "of the tool\nof bash");
    assert!(got[4].text.contains("here"), "{got:#?}");
    for path in [shared, written] {
        assert!(!std::path::Path::new(&path).exists(), "/tmp inside is the session's own");
    }
}

#[test]
fn bad_json_is_refused_with_its_line() {
    let scratch = Scratch::new();
    let workspace = scratch.repository("work");
    let broken = turn::file("explore.anthropic.json").replacen("\"input\": {", "\"input\": [[", 1);
    let ran = exec(&scratch, &workspace, &broken);
    assert_ne!(ran.code(), 0);
    let line = broken.lines().position(|line| line.contains("[[")).expect("the broken line") + 2;
    assert!(ran.err().contains(&format!("line {line}")), "line {line}: {}", ran.err());
    assert_eq!(ran.out(), "", "nothing ran");
}

// spec 10.1
#[test]
fn a_turn_gives_the_same_answers_however_it_is_laid_out() {
    let scratch = Scratch::new();
    let workspace = scratch.repository("work");
    for name in
        ["explore.anthropic.json", "explore.openai-responses.json", "explore.openai-chat.json"]
    {
        let document: Value = turn::parse(&turn::file(name));
        let compact = document.to_string();
        let pretty = serde_json::to_string_pretty(&document).expect("JSON");
        let call_a_line =
            compact.replace("[{", "[\n{").replace("},{", "},\n{").replace("}]", "}\n]");
        let expected = exec(&scratch, &workspace, &compact).out();
        assert_eq!(turn::answers(&expected).len(), 5, "{name}");
        for text in [
            pretty.clone(),
            pretty.replace("\n", "\r\n"),
            pretty.lines().map(|line| format!("{}\n", line.trim_start())).collect(),
            call_a_line.clone(),
            call_a_line.replace('\n', "\r\n"),
            format!("\u{feff}{call_a_line}"),
            format!("\n\r\n \n{call_a_line}\n\n"),
        ] {
            let ran = exec(&scratch, &workspace, &text);
            assert_eq!((ran.code(), ran.out()), (0, expected.clone()), "{text}");
        }
        // Cut off behind a whole call: nothing of it may run.
        let cut = call_a_line.rsplit_once("\n]").expect("a list").0;
        let ran = exec(&scratch, &workspace, cut);
        assert_eq!((ran.code(), ran.out().as_str()), (2, ""), "{}", ran.err());
        assert!(ran.err().contains("line "), "the place: {}", ran.err());
    }
}

#[test]
fn a_bad_line_of_a_stream_is_named_and_the_calls_before_it_are_answered() {
    let scratch = Scratch::new();
    let workspace = scratch.repository("work");
    let good =
        json!({"type": "tool_use", "id": "one", "name": "Bash", "input": {"command": "echo 1"}});
    let ran = exec(&scratch, &workspace, &format!("{good}\n{{\"type\": \"tool_use\", \"id\n"));
    assert!(ran.out().contains("\"one\""), "the call before is answered: {}", ran.out());
    let said = format!("{}{}", ran.err(), ran.out());
    assert!(said.contains("line 2"), "the place is named: {said}");
}

#[test]
fn an_unknown_tool_and_a_missing_argument_are_error_results_and_the_others_run() {
    let scratch = Scratch::new();
    let workspace = scratch.repository("work");
    let got = answers(&exec(
        &scratch,
        &workspace,
        &turn::of_calls(&[
            ("Teleport", json!({"to": "the moon"})),
            ("Read", json!({"limit": 3})),
            ("Bash", json!({"command": 7})),
            ("Bash", json!({"command": "echo still running"})),
        ]),
    ));
    let errors: Vec<_> = got.iter().map(|answer| answer.is_error).collect();
    assert_eq!(errors, [Some(true), Some(true), Some(true), Some(false)], "{got:#?}");
    assert!(got[0].text.contains("Teleport"), "{got:#?}");
    assert!(got[1].text.contains("file_path"), "{got:#?}");
    assert!(got[2].text.contains("command"), "{got:#?}");
    assert_eq!(got[3].text.trim(), "still running");
}

#[test]
fn a_call_without_an_id_is_named_by_its_place() {
    let scratch = Scratch::new();
    let workspace = scratch.repository("work");
    let content = json!([
        {"type": "tool_use", "id": "first", "name": "Bash", "input": {"command": "echo 1"}},
        {"type": "tool_use", "name": "Bash", "input": {"command": "echo 2"}},
    ]);
    let ran =
        exec(&scratch, &workspace, &json!({"role": "assistant", "content": content}).to_string());
    let said = format!("{}{}", ran.err(), ran.out());
    let places = ["content[1]", "content.1", "/content/1", "call 2", "item 2", "block 2"];
    assert!(said.contains("id") && places.iter().any(|place| said.contains(place)), "{said}");
}

#[test]
fn an_id_that_stands_twice_is_named() {
    let scratch = Scratch::new();
    let workspace = scratch.repository("work");
    let content = json!([
        {"type": "tool_use", "id": "same_one", "name": "Bash", "input": {"command": "echo 1"}},
        {"type": "tool_use", "id": "same_one", "name": "Bash", "input": {"command": "echo 2"}},
    ]);
    let ran =
        exec(&scratch, &workspace, &json!({"role": "assistant", "content": content}).to_string());
    let said = format!("{}{}", ran.err(), ran.out());
    assert!(said.contains("same_one"), "{said}");
    assert!(ran.code() != 0 || said.contains("\"is_error\":true"), "it is an error: {said}");
}

#[test]
fn input_that_is_no_turn_at_all_is_refused_without_a_panic() {
    let scratch = Scratch::new();
    let workspace = scratch.repository("work");
    for nonsense in
        ["[[[[", "null", "17", "\"text\"", "{}", "{\"role\": \"assistant\"}", "\u{0}\u{1}"]
    {
        let ran = exec(&scratch, &workspace, nonsense);
        assert!(ran.code() != 0 || !ran.out().contains("panicked"), "{nonsense:?}");
        assert!(ran.code() == 0 || ran.err().len() > 10, "{nonsense:?} is refused with a message");
    }
}

// spec 10.1: each call starts when its line has arrived, its result leaves when it is due
#[test]
fn a_stream_answers_a_call_before_the_next_one_has_arrived() {
    use std::io::{BufRead, BufReader, Write};
    let scratch = Scratch::new();
    let workspace = scratch.repository("work");
    let mut child = turn::exec_command(&workspace, &scratch.folder("state"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("stockade starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    for n in 1..=3 {
        let input = json!({"command": format!("echo number {n}")});
        let call =
            json!({"type": "tool_use", "id": format!("s{n}"), "name": "Bash", "input": input});
        writeln!(stdin, "{call}").expect("stockade reads");
        let line = lines.next().expect("an answer").expect("a line");
        let got = turn::answer(&turn::parse(&line));
        assert_eq!((got.id, got.text.trim()), (format!("s{n}"), format!("number {n}").as_str()));
    }
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn edit_and_test_builds_a_real_crate_offline_sees_its_test_fail_and_mends_it() {
    let scratch = Scratch::new();
    let workspace = scratch.repository("work");
    let unconfined = finish(cargo().arg("--version"), &[], Duration::from_secs(120));
    assert!(unconfined.status.success(), "this host has a cargo");

    let mut command: Command = turn::exec_command(&workspace, &scratch.folder("state"));
    // What cargo and rustup tell their children would lead the cell's cargo astray.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_") || name == "RUSTUP_TOOLCHAIN" {
            command.env_remove(name);
        }
    }
    let turn = turn::file("edit-and-test.anthropic.json");
    let ran = finish(&mut command, turn.as_bytes(), Duration::from_secs(280));
    let got = answers(&ran);
    assert_eq!(got.len(), 5);
    assert!(got[2].text.contains("tests::adds") && got[2].text.contains("FAILED"), "{got:#?}");
    assert!(got[4].text.contains("1 passed"), "{got:#?}");
    assert!(got[4].text.trim_end().ends_with('5'), "the program adds: {got:#?}");
    assert_eq!(got[4].is_error, Some(false));
    let source = workspace.join("hello/src/main.rs");
    assert!(std::fs::read_to_string(source).expect("the source").contains("a + b"));
}

// spec 9.1: what is recorded of a session is out of the reach of its calls
#[test]
fn a_command_cannot_reach_the_log_of_its_session_where_the_state_is_kept_in_the_workspace() {
    let scratch = Scratch::new();
    let workspace = scratch.folder("work");
    let turn = turn::of_commands(&[
        "for f in $(find . -name session.jsonl) state/sessions/s/session.jsonl; do echo forged >> $f; done; \
         mkdir -p state/sessions/s && echo forged >> state/sessions/s/session.jsonl; \
         rm -rf state; mv state moved; ls -R state moved",
    ]);
    for state in ["state", "."] {
        let mut command = turn::exec_command(&workspace, &workspace.join(state));
        let ran =
            finish(command.args(["--session", "s"]), turn.as_bytes(), Duration::from_secs(120));
        assert_eq!(ran.code(), 0, "{state}: {}", ran.err());
        let log = workspace.join(state).join("sessions/s/session.jsonl");
        let log = std::fs::read_to_string(&log).unwrap_or_else(|e| panic!("{log:?}: {e}"));
        assert_eq!(log.lines().count(), 2, "{state}: {log}");
        for (line, kind) in log.lines().zip(["tool/call", "tool/result"]) {
            assert!(turn::parse(line).to_string().contains(kind), "{state}: {line}");
        }
        let answer = &answers(&ran)[0].text;
        // Of the session's folder nothing is seen but what is kept for the model to read (spec 8.5).
        let seen = answer.lines().any(|line| line == "session.jsonl");
        assert!(!seen, "{state}: it is not even seen: {answer}");
    }
}

// spec 10.1: the exit codes of exec's help
#[test]
fn exec_tells_a_session_that_cannot_be_set_up_from_a_turn_that_cannot_be_read() {
    let scratch = Scratch::new();
    let workspace = scratch.folder("work");
    let state = scratch.path().join("plain");
    std::fs::write(&state, "a file").expect("a file");
    let ran = turn::exec(&workspace, &state, &turn::of_commands(&["true"]));
    assert_eq!((ran.code(), ran.out().as_str()), (125, ""), "{}", ran.err());
    assert!(ran.err().contains("plain"), "{}", ran.err());

    for (input, named) in
        [(scratch.path().join("absent.json"), "absent.json"), (workspace.clone(), "work")]
    {
        let mut command = turn::exec_command(&workspace, &scratch.folder("state"));
        let ran = finish(command.arg(&input), &[], Duration::from_secs(120));
        assert_eq!((ran.code(), ran.out().as_str()), (2, ""), "{}", ran.err());
        assert!(ran.err().contains(named), "{}", ran.err());
    }
}

// spec 10.1, 1.14
#[test]
fn a_whole_turn_that_a_signal_stopped_is_answered_and_says_so_by_its_code() {
    let scratch = Scratch::new();
    let workspace = scratch.folder("work");
    let turn_file = scratch.path().join("turn.json");
    std::fs::write(&turn_file, turn::of_commands(&["touch started; sleep 600", "true"]))
        .expect("a file");
    let mut command = turn::exec_command(&workspace, &scratch.folder("state"));
    let child =
        command.arg(&turn_file).stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let started =
        procs::until(Duration::from_secs(30), || workspace.join("started").exists().then_some(()));
    assert!(started.is_some());
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("a signal can be sent");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(128 + 15));
    let results = turn::answers(std::str::from_utf8(&output.stdout).expect("UTF-8"));
    assert_eq!(results.len(), 2, "{results:?}");
    assert!(results.iter().all(|result| result.is_error == Some(true)), "{results:?}");
}
