//! The ledger under many processes (spec 9.2). `scripts/ledger` runs the same at full size.

use std::path::Path;
use stockade_tests::ledger;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ledger");

// spec 9.2
#[test]
fn eight_processes_append_together_and_every_record_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    ledger::together(Path::new(PROGRAM), folder.path(), 8, 500).expect("all there, chain whole");
}

// spec 9.2
#[test]
fn writers_that_are_killed_at_any_moment_leave_a_ledger_that_is_whole_up_to_its_last_record() {
    let folder = tempfile::tempdir().expect("a folder");
    let kills = ledger::killed(Path::new(PROGRAM), folder.path(), 50).expect("chain whole");
    assert!(kills.records > 0, "the writers did write");
}

// spec 9.2: `run` and `shell` write down what they ran where that is asked for
#[test]
fn run_keeps_a_ledger_where_one_is_asked_for_and_runs_nothing_where_it_cannot() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::process::Command;
    use std::time::Duration;
    use stockade_tests::{Scratch, finish, stockade_bin, turn};
    let scratch = Scratch::new();
    let (workspace, state) = (scratch.folder("work"), scratch.folder("work/state"));
    let run = |options: &[&OsStr], words: &[&OsStr]| {
        let mut command = Command::new(stockade_bin());
        command.arg("run").arg("--workspace").arg(&workspace).args(options);
        finish(command.arg("--").args(words), &[], Duration::from_secs(120))
    };
    let odd = OsStr::from_bytes(b"\xffodd");
    let shell = ["sh".as_ref(), "-c".as_ref()];
    // Without the option nothing is kept.
    let ran = run(&[], &[shell[0], shell[1], "true".as_ref()]);
    assert_eq!((ran.code(), std::fs::read_dir(&state).expect("a folder").count()), (0, 0));
    let keep = ["--state-dir".as_ref(), state.as_os_str()];
    let line = "unshare -U true; ls state; echo forged >> state/ledger.jsonl; exit 7";
    let ran = run(&keep, &[shell[0], shell[1], line.as_ref(), odd]);
    assert_eq!(ran.code(), 7, "{}", ran.err());
    assert!(!ran.out().contains("ledger"), "the ledger is hidden from the command: {}", ran.out());
    let audit = |args: &[&str]| {
        let mut command = Command::new(stockade_bin());
        finish(
            command.arg("audit").args(args).arg("--state-dir").arg(&state),
            &[],
            Duration::from_secs(120),
        )
    };
    assert_eq!(audit(&["verify"]).code(), 0, "{}", audit(&["verify"]).out());
    for (lines, shown) in [("0", 0), ("1", 1)] {
        let tail = audit(&["tail", "--json", "-n", lines]);
        assert_eq!((tail.code(), tail.out().lines().count()), (0, shown), "{}", tail.err());
    }
    let records: Vec<_> = audit(&["query", "--json"]).out().lines().map(turn::parse).collect();
    let of = |kind: &str| {
        let found: Vec<_> = records.iter().filter(|record| record["type"] == kind).collect();
        assert_eq!(found.len(), 1, "{kind}: {records:#?}");
        found[0].clone()
    };
    assert_eq!(of("session_started")["policy"], "workspace-write");
    assert_eq!(of("call_requested")["arguments"]["argv"][2], line);
    assert_eq!(of("call_requested")["arguments"]["argv"][3]["bytes"], "\\xffodd");
    assert_eq!(of("decided")["decision"], "allow");
    assert_eq!(of("call_ended")["exit_code"], 7);
    assert_eq!(of("session_ended")["calls"], 1);
    let denied = |record: &&serde_json::Value| {
        record["type"] == "sandbox_denied" && record["evidence"] == "kernel"
    };
    assert!(records.iter().any(|record| denied(&record)), "{records:#?}");
    // No ledger, no run.
    let key = state.join("ledger.key");
    std::fs::remove_file(&key).expect("the key");
    let ran = run(&keep, &["touch".as_ref(), "here".as_ref()]);
    assert_eq!(ran.code(), 125, "{}", ran.err());
    assert!(ran.err().contains("ledger.key") && !workspace.join("here").exists(), "{}", ran.err());
    let above = scratch.path();
    let inside = ["--state-dir".as_ref(), above.as_os_str()];
    let ran = run(&inside, &["touch".as_ref(), "here".as_ref()]);
    assert!(matches!(ran.code(), 125 | 126) && !workspace.join("here").exists(), "{}", ran.err());
}

/// A ledger that can no longer be written in the middle of a session, as the kernel has it.
fn assert_refused_once(how: &str) {
    use serde_json::json;
    use std::os::unix::net::UnixListener;
    use std::process::Command;
    use stockade_tests::approval::{LIMIT, Scene, client};
    use stockade_tests::{finish, turn};
    let scene = Scene::new();
    let mounted = scene.scratch.folder("mounted");
    let socket = scene.scratch.path().join("client.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    // The second call's question comes to a client that spoils the ledger's file system from inside the mount namespace.
    let spoil = scene.scratch.path().join("spoil");
    let trigger = spoil.clone();
    let done = scene.scratch.path().join("spoilt");
    let waits = done.clone();
    let client = client(listener, move |_, question| {
        std::fs::write(&trigger, "").expect("a trigger");
        let started = std::time::Instant::now();
        while !waits.exists() && started.elapsed() < LIMIT {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        vec![json!({"jsonrpc": "2.0", "id": question["id"], "result": {"decision": "allow"}})]
    });
    let exec = scene.command(&["--approve-socket", socket.to_str().expect("text")]);
    let mut words: Vec<String> =
        exec.get_args().map(|word| word.to_str().expect("text").to_owned()).collect();
    let state = words.iter().position(|word| word == "--state-dir").expect("the state folder");
    words[state + 1] = mounted.join("state").to_str().expect("text").to_owned();
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let line = format!(
        "mount -t tmpfs -o size=256k tmpfs {mounted:?} && mkdir {mounted:?}/state || exit 9\n\
         (while [ ! -e {spoil:?} ]; do sleep 0.02; done; {how}; touch {done:?}) &\n\
         {:?} {}",
        exec.get_program(),
        quoted.join(" ")
    )
    .replace("MOUNTED", mounted.to_str().expect("text"));
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &line]);
    scene.dress(&mut command);
    let calls = [
        ("Bash", json!({"command": "touch before"})),
        ("Bash", scene.write_outside("a")),
        ("Bash", json!({"command": "touch after"})),
    ];
    let ran = finish(&mut command, turn::of_calls(&calls).as_bytes(), LIMIT);
    client.join().expect("the client");
    let answers = turn::answers(&ran.out());
    assert!(scene.workspace.join("before").exists(), "{how}: {answers:#?} {}", ran.err());
    for answer in &answers[1..] {
        assert!(answer.text.contains("the ledger cannot be written"), "{how}: {}", answer.text);
    }
    assert!(!scene.outside.join("a").exists() && !scene.workspace.join("after").exists(), "{how}");
}

// spec 9.2; issue 6: a disk that fills up while a session runs
#[test]
fn calls_are_refused_from_the_moment_at_which_the_ledger_can_no_longer_be_written() {
    assert_refused_once("head -c 1000000 /dev/zero > MOUNTED/fill 2>/dev/null");
    assert_refused_once("rm MOUNTED/state/ledger.jsonl");
    assert_refused_once(
        "mv MOUNTED/state/ledger.jsonl MOUNTED/x; cp MOUNTED/x MOUNTED/state/ledger.jsonl",
    );
}

// spec 9.2; issue 6: a file system that is read-only, with and without a ledger on it
#[test]
fn nothing_runs_where_the_ledger_lies_on_a_file_system_that_is_read_only() {
    use std::process::Command;
    use stockade_tests::approval::{LIMIT, Scene};
    use stockade_tests::{finish, turn};
    for begun in [false, true] {
        let scene = Scene::new();
        let mounted = scene.scratch.folder("mounted");
        let exec = scene.command(&[]);
        let words: Vec<String> = exec
            .get_args()
            .map(|word| {
                let word = word.to_str().expect("text");
                let state = scene.state.to_str().expect("text");
                format!("'{}'", word.replace(state, mounted.join("state").to_str().expect("text")))
            })
            .collect();
        let stockade = format!("{:?} {}", exec.get_program(), words.join(" "));
        let first = turn::of_commands(&["touch first"]);
        let begin = if begun {
            format!("echo '{first}' | {stockade} >/dev/null || exit 9; ")
        } else {
            String::new()
        };
        let line = format!(
            "mount -t tmpfs tmpfs {mounted:?} && mkdir {mounted:?}/state || exit 9; {begin}mount -o remount,ro tmpfs {mounted:?} || exit 9; exec {stockade}"
        );
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &line]);
        scene.dress(&mut command);
        let ran = finish(&mut command, turn::of_commands(&["touch here"]).as_bytes(), LIMIT);
        assert_eq!(ran.code(), 125, "{begun}: {}", ran.err());
        assert!(ran.err().contains("Read-only file system"), "{begun}: {}", ran.err());
        assert_eq!(scene.workspace.join("first").exists(), begun);
        assert!(!scene.workspace.join("here").exists(), "{begun}");
    }
}

// spec 9.2, 1.21: every denial is in the ledger, those of background tasks too, as the call's that started the task
#[test]
fn what_is_denied_to_a_background_task_is_in_the_ledger() {
    use serde_json::json;
    use std::process::Command;
    use std::time::Duration;
    use stockade_tests::{Scratch, finish, stockade_bin, turn};
    let attack = "unshare -U true; mkdir .vscode; echo '{}' > .vscode/tasks.json";
    // It ends by itself, or with the session; no other call ends in between, which would find what is planted first.
    let by_itself = (attack.to_owned(), "sleep 2");
    let with_the_session = (
        format!("trap '{}; exit' TERM; touch done; sleep 600 & wait", attack.replace('\'', "\"")),
        "until [ -e done ]; do sleep 0.1; done",
    );
    for (line, meanwhile) in [by_itself, with_the_session] {
        let scratch = Scratch::new();
        let (workspace, state) = (scratch.folder("work"), scratch.folder("state"));
        let calls = turn::of_calls(&[
            ("Bash", json!({"command": line, "run_in_background": true})),
            ("Bash", json!({"command": meanwhile})),
        ]);
        let mut exec = turn::exec_command(&workspace, &state);
        let ran = finish(exec.args(["--session", "s"]), calls.as_bytes(), Duration::from_secs(120));
        assert_eq!(ran.code(), 0, "{}", ran.err());
        assert!(!workspace.join(".vscode").exists(), "it was put aside");
        let mut audit = Command::new(stockade_bin());
        audit.args(["audit", "query", "--json", "--state-dir"]).arg(&state);
        let records = finish(&mut audit, &[], Duration::from_secs(120)).out();
        let records: Vec<_> = records.lines().map(turn::parse).collect();
        let denied: Vec<_> = records
            .iter()
            .filter(|record| record["type"] == "sandbox_denied")
            .map(|record| {
                (record["call"].as_str(), record["kind"].as_str(), record["evidence"].as_str())
            })
            .collect();
        let call = Some("call_1");
        assert_eq!(
            denied,
            [(call, Some("syscall"), Some("kernel")), (call, Some("write"), Some("observed"))],
            "{records:#?}"
        );
        let last = records.iter().rfind(|record| record["type"] != "checkpoint");
        let last = last.map(|record| &record["type"]);
        assert_eq!(last, Some(&json!("session_ended")), "nothing comes after the session's end");
        let task =
            std::fs::read_to_string(state.join("sessions/s/tasks/task_1.json")).expect("a record");
        let note = turn::parse(&task)["note"].as_str().unwrap_or_default().to_owned();
        assert!(note.contains("put aside as ") && !note.contains("refused Write"), "{note}");
        assert!(note.contains("refused the system call unshare"), "{note}");
    }
}
