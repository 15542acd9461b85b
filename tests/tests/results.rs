//! What `exec` makes of calls and their results: which failures stop others, what becomes of large output, and what external
//! hooks may say.

use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use stockade_tests::turn::{self, Answer};
use stockade_tests::{Scratch, finish, stockade_bin};

fn exec(scratch: &Scratch, options: &[&str], turn: &str) -> Vec<Answer> {
    let mut command = Command::new(stockade_bin());
    command.arg("exec").args(options).arg("--workspace").arg(scratch.folder("work"));
    command.arg("--state-dir").arg(scratch.folder("state"));
    let ran = finish(&mut command, turn.as_bytes(), Duration::from_secs(120));
    assert!(ran.status.success(), "{}", ran.err());
    turn::answers(&ran.out())
}

// spec 1.11
#[test]
fn a_failing_command_cancels_what_waits_behind_it_unless_the_cascade_is_off() {
    let scratch = Scratch::new();
    let line = "mkdir -p made; mkdir /nonexistent/a/b/c/d/e/f/g/h/i/j";
    let calls = turn::of_commands(&[line, "echo still here", "echo and here"]);
    for options in [&[][..], &["--cascade", "writes"], &["--cascade", "shell"]] {
        let answers = exec(&scratch, options, &calls);
        assert_eq!(answers.len(), 3);
        assert!(answers[0].text.contains("No such file"), "its own error only: {answers:?}");
        for answer in &answers[1..] {
            let text = "Cancelled: parallel tool call Bash(mkdir -p made; mkdir /nonexistent/a/b/c/…) errored";
            assert_eq!((answer.text.as_str(), answer.is_error), (text, Some(true)), "{options:?}");
        }
    }
    let answers = exec(&scratch, &["--cascade", "off"], &calls);
    assert_eq!((answers[1].text.trim(), answers[2].text.trim()), ("still here", "and here"));
    // Other tools' failures cancel nobody.
    let read = json!({"file_path": "nothing.txt"});
    let calls = turn::of_calls(&[("Read", read), ("Bash", json!({"command": "echo here"}))]);
    let answers = exec(&scratch, &[], &calls);
    assert_eq!((answers[0].is_error, answers[1].text.trim()), (Some(true), "here"));
}

// spec 8.2, 8.5
#[test]
fn large_output_is_kept_whole_where_the_cell_can_read_it_and_cannot_write_it() {
    let scratch = Scratch::new();
    let session = ["--session", "s1", "--cascade", "off"];
    let large = "for n in $(seq 1 20000); do echo line $n; done; exit 3";
    let answers = exec(&scratch, &session, &turn::of_commands(&[large]));
    let text = &answers[0].text;
    assert!(text.contains("too large to return") && text.ends_with("Exit code 3"), "{text}");
    assert!(text.len() < 3000, "{}", text.len());
    let path = kept_at(text);
    assert!(fs::metadata(path).expect("the file is there").len() > 200_000);
    let log = Path::new(path).ancestors().nth(3).expect("a session").join("session.jsonl");
    assert!(log.exists());
    let looks = [
        ("Bash", json!({"command": format!("grep -c '' {path:?}; sed -n 12345p {path:?}")})),
        ("Read", json!({"file_path": path, "offset": 19_999, "limit": 2})),
        ("Grep", json!({"pattern": "^line 777$", "path": path, "output_mode": "content"})),
        ("Bash", json!({"command": format!("echo x >> {path:?}")})),
        ("Bash", json!({"command": format!("rm -f {path:?}")})),
        ("Bash", json!({"command": format!("cat {log:?}")})),
    ];
    let answers = exec(&scratch, &session, &turn::of_calls(&looks));
    assert!(answers[0].text.contains("20000\nline 12345"), "the output alone: {answers:#?}");
    assert!(answers[1].text.contains("line 20000"), "{answers:#?}");
    assert!(answers[2].text.contains("line 777"), "{answers:#?}");
    let refused: Vec<_> = answers[3..].iter().map(|answer| answer.is_error).collect();
    assert_eq!(refused, [Some(true); 3], "the store can be read, and nothing else: {answers:#?}");
    assert!(fs::metadata(path).expect("it is still there").len() > 200_000);
}

/// The path that a result names.
fn kept_at(text: &str) -> &Path {
    let path =
        text.split_once("All of it is in ").and_then(|(_, rest)| rest.split_once(" (spill://"));
    Path::new(path.unwrap_or_else(|| panic!("no path in {text}")).0)
}

// spec 6.4, 8.2: far more than is held in memory
#[test]
fn all_of_an_output_goes_to_the_spill_as_it_comes() {
    let scratch = Scratch::new();
    // Two pipes carry no time: each stream has bytes of its own, and is held to its own order alone.
    let line = "seq 1 400000; seq 1 400000 | tr '0-9\\n' 'a-jx' >&2; printf '.\\xff'";
    let answers = exec(&scratch, &[], &turn::of_commands(&[line]));
    let mut numbers: Vec<u8> = (1..=400_000).flat_map(|n| format!("{n}\n").into_bytes()).collect();
    let letters = numbers.iter().map(|byte| if *byte == b'\n' { b'x' } else { byte - b'0' + b'a' });
    let letters: Vec<u8> = letters.collect();
    numbers.extend(b".\xff");
    let kept = fs::read(kept_at(&answers[0].text)).expect("the file is there");
    assert_eq!(kept.len(), numbers.len() + letters.len());
    assert!(answers[0].text.contains(&format!("The output is {} bytes", kept.len())));
    let (stderr, stdout): (Vec<u8>, Vec<u8>) =
        kept.iter().partition(|byte| byte.is_ascii_lowercase());
    assert!(stdout == numbers, "all of stdout, in its order");
    assert!(stderr == letters, "all of stderr, in its order");
}

// spec 8.2: a store that is full fails no call, and nothing is said to be there that is not
#[test]
fn where_the_spill_is_full_the_result_says_that_not_all_of_it_is_kept() {
    let scratch = Scratch::new();
    let state = scratch.folder("state");
    let mount = "mount -t tmpfs -o size=400k none \"$0\" && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-current-user", "--mount", "--keep-caps", "sh", "-c", mount]);
    command.arg(&state).arg(stockade_bin()).arg("exec").arg("--workspace");
    command.arg(scratch.folder("work")).arg("--state-dir").arg(&state);
    let line = "seq 1 200000; exit 4";
    let turn = turn::of_commands(&[line, "echo next"]);
    let ran = finish(&mut command, turn.as_bytes(), Duration::from_secs(120));
    let answers = turn::answers(&ran.out());
    let text = &answers[0].text;
    assert!(
        text.contains("The output is not kept whole:") && text.contains("Exit code 4"),
        "{text}"
    );
    assert!(!text.contains("All of it is in"), "{text}");
    assert!(text.len() < 40_000, "{}", text.len());
}

// spec 2.3
#[test]
fn a_hook_command_of_a_settings_file_refuses_a_call_and_sees_what_would_run() {
    let scratch = Scratch::new();
    let seen = scratch.folder("outside").join("seen.json");
    let hook =
        format!("tee {seen:?} | grep -q forbidden && {{ echo not that >&2; exit 2; }}; exit 0");
    let settings = json!({"hooks": {"PreToolUse": [
        {"matcher": "Bash", "hooks": [{"type": "command", "command": hook}]}
    ]}});
    let file = scratch.folder("outside").join("settings.json");
    fs::write(&file, settings.to_string()).expect("a settings file");
    let file = file.to_str().expect("a plain path");
    let options = ["--settings", file, "--cascade", "off"];
    let turn = turn::of_commands(&["echo forbidden > made", "echo fine"]);
    let answers = exec(&scratch, &options, &turn);
    assert!(
        answers[0].text.contains("not that") && answers[0].is_error == Some(true),
        "{answers:?}"
    );
    assert!(!scratch.path().join("work/made").exists());
    assert_eq!(answers[1].text.trim(), "fine");
    let seen = turn::parse(&fs::read_to_string(seen).expect("the hook saw a call"));
    assert_eq!(seen["tool_input"]["command"], "echo fine");
}

// spec 9.1
#[test]
fn replay_prints_what_exec_answered_byte_for_byte() {
    let turns =
        ["explore.anthropic.json", "hostile.anthropic.json", "edit-and-test.anthropic.json"];
    for (number, name) in turns.iter().enumerate() {
        let scratch = Scratch::new();
        let workspace = scratch.repository("work");
        let session = format!("s{number}");
        let state = scratch.folder("state");
        let mut answered = Vec::new();
        // Two turns of one session.
        for text in [turn::file(name), turn::of_commands(&["echo 'ä \u{1b}[31m'", "exit 3"])] {
            let mut command = turn::exec_command(&workspace, &state);
            command.args(["--session", &session]);
            let ran = finish(&mut command, text.as_bytes(), Duration::from_secs(300));
            assert!(ran.status.success(), "{}", ran.err());
            answered.extend_from_slice(&ran.stdout);
        }
        let mut command = Command::new(stockade_bin());
        command.arg("replay").arg("--state-dir").arg(&state).arg(&session);
        let replayed = finish(&mut command, b"", Duration::from_secs(120));
        assert!(replayed.status.success(), "{}", replayed.err());
        assert_eq!(replayed.stdout, answered, "{name}");
    }
}
