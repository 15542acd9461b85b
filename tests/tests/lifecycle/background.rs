//! Background tasks (spec 1.21), in a session of `stockade exec`, and from another process.

use crate::case::{Case, signal};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;
use stockade_tests::procs;

crate::cases!(
    a_task_goes_on_is_read_from_an_offset_and_ends,
    what_a_task_leaves_lives_on_until_it_is_stopped,
    a_task_that_ignores_sigterm_is_stopped,
    a_task_has_a_deadline_of_its_own,
    all_tasks_are_gone_when_the_session_ends,
    all_tasks_are_gone_when_the_session_is_killed,
    another_process_lists_reads_waits_for_and_stops_tasks,
    tasks_of_a_session_that_was_killed_are_lost_and_their_output_is_not,
    a_seventeenth_task_is_refused_and_named,
    an_end_is_told_as_an_event,
    programs_read_the_output_as_lines_of_json,
    beginning_and_end_of_a_long_output_are_kept_and_the_rest_is_named;
    namespaced
    a_limit_that_a_task_ran_up_against_is_named,
    a_full_disk_under_a_tasks_output_fails_no_call,
);

struct Session<'a> {
    case: &'a Case,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    calls: u32,
}

impl<'a> Session<'a> {
    fn start(case: &'a Case) -> Self {
        let state = case.state();
        let events = state.join("events");
        let (state, events) = (state.display().to_string(), events.display().to_string());
        let arguments = ["exec", "--state-dir", &state, "--session", "s", "--events", &events];
        let mut command = case.stockade(&arguments);
        // One session, one turn: what fails on purpose is not to cancel what follows.
        command.args(["--cascade", "off"]);
        Self::of(case, command)
    }

    fn of(case: &'a Case, mut command: std::process::Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("stockade starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { case, child, stdin, stdout, calls: 0 }
    }

    /// The text of a call's result.
    fn call(&mut self, name: &str, input: Value) -> String {
        self.calls += 1;
        let call = json!({"type": "tool_use", "id": format!("c{}", self.calls), "name": name, "input": input});
        let stdin = self.stdin.as_mut().expect("the session is open");
        writeln!(stdin, "{call}").expect("stockade reads");
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("stockade answers");
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
        let result = &answer["content"][0];
        let result = if result["content"].is_array() { &result["content"][0] } else { result };
        result["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Starts a line of bash in the background; its processes carry the case's mark.
    fn background(&mut self, line: &str) -> String {
        let line = format!("export STOCKADE_TEST_MARK={}; {line}", self.case.mark());
        self.call("Bash", json!({"command": line, "run_in_background": true}))
    }

    fn end(mut self) {
        drop(self.stdin.take());
        let limit = Duration::from_secs(60);
        let status = procs::until(limit, || self.child.try_wait().expect("a child"));
        assert_eq!(status.and_then(|status| status.code()), Some(0), "the session ends well");
        self.case.nothing_is_left();
    }

    /// `stockade tasks`: its exit code and stdout.
    fn tasks(&self, arguments: &[&str]) -> (Option<i32>, String) {
        tasks(self.case, arguments)
    }
}

fn tasks(case: &Case, arguments: &[&str]) -> (Option<i32>, String) {
    let state = case.state().display().to_string();
    let mut command = case.stockade(&["tasks", "--state-dir", &state]);
    let output = command.args(arguments).output().expect("stockade runs");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn marked(case: &Case) -> usize {
    procs::marked(case.mark()).len()
}

fn a_task_goes_on_is_read_from_an_offset_and_ends(case: Case) {
    let mut session = Session::start(&case);
    let started =
        session.background("echo one; while [ ! -e go ]; do sleep 0.02; done; echo two; exit 3");
    assert!(started.contains("task_1"), "{started}");
    let read = |session: &mut Session, input| session.call("TaskOutput", input);
    let shown = procs::until(Duration::from_secs(20), || {
        let text = read(&mut session, json!({"task_id": "task_1"}));
        text.starts_with("one\n").then_some(text)
    });
    assert_eq!(shown.as_deref(), Some("one\n[task_1: running; read on with offset 4]"));
    session.call("Bash", json!({"command": "touch go"}));
    let input = json!({"task_id": "task_1", "offset": 4, "block": true});
    assert_eq!(read(&mut session, input), "two\n[task_1: exit code 3; the output ends here]");
    session.end();
}

fn what_a_task_leaves_lives_on_until_it_is_stopped(case: Case) {
    let mut session = Session::start(&case);
    session.background("setsid sleep 600 & sleep 600 >/dev/null 2>&1 & echo main ends");
    let lives = procs::until(Duration::from_secs(20), || {
        session
            .call("TaskOutput", json!({"task_id": "task_1"}))
            .contains("2 others live on")
            .then_some(())
    });
    assert!(lives.is_some());
    std::thread::sleep(Duration::from_millis(800));
    assert_eq!(marked(&case), 2, "longer than any drain");
    assert_eq!(session.call("TaskStop", json!({"task_id": "task_1"})), "task_1: stopped.");
    assert_eq!(marked(&case), 0);
    session.end();
}

fn a_task_that_ignores_sigterm_is_stopped(case: Case) {
    let mut session = Session::start(&case);
    session.background("trap '' TERM; touch ready; while :; do sleep 600; done");
    case.waits_for("ready");
    let stopped = session.call("TaskStop", json!({"task_id": "task_1"}));
    assert!(stopped.starts_with("task_1: stopped. ") && stopped.contains("SIGKILL"), "{stopped}");
    assert_eq!(marked(&case), 0);
    session.end();
}

fn a_task_has_a_deadline_of_its_own(case: Case) {
    let mut session = Session::start(&case);
    let line = format!("export STOCKADE_TEST_MARK={}; sleep 600", case.mark());
    session.call("Bash", json!({"command": line, "run_in_background": true, "timeout": 400}));
    let read = session.call("TaskOutput", json!({"task_id": "task_1", "block": true}));
    assert_eq!(read, "[task_1: timed out after 400ms; the output ends here]");
    assert_eq!(marked(&case), 0);
    session.end();
}

fn all_tasks_are_gone_when_the_session_ends(case: Case) {
    let mut session = Session::start(&case);
    for n in 0..5 {
        session.background(&format!(
            "trap 'echo asked >asked{n}; exit' TERM; touch r{n}; while :; do sleep 0.02; done"
        ));
        case.waits_for(format!("r{n}"));
    }
    session.background("sleep 600 & disown; setsid sleep 600 &");
    session.end();
    for n in 0..5 {
        assert!(
            case.work().join(format!("asked{n}")).exists(),
            "by the ladder, not by SIGKILL alone"
        );
    }
}

fn all_tasks_are_gone_when_the_session_is_killed(case: Case) {
    let mut session = Session::start(&case);
    session.background("trap '' TERM; setsid sleep 600 & touch ready; sleep 600");
    case.waits_for("ready");
    signal(&session.child, Signal::SIGKILL);
    session.child.wait().expect("it ends");
    case.nothing_is_left();
}

fn another_process_lists_reads_waits_for_and_stops_tasks(case: Case) {
    let mut session = Session::start(&case);
    session.background("echo hello; touch ready; sleep 600");
    case.waits_for("ready");
    let (code, listed) = session.tasks(&["--json"]);
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(
        (code, &listed[0]["status"], &listed[0]["session"]),
        (Some(0), &json!("running"), &json!("s"))
    );
    assert_eq!(session.tasks(&["output", "task_1", "--offset", "1"]), (Some(0), "ello\n".into()));
    assert_eq!(session.tasks(&["wait", "task_1", "--timeout", "100ms"]).0, Some(124));
    let (code, told) = session.tasks(&["stop", "task_1"]);
    assert!(code == Some(0) && told.contains("stopped"), "{told}");
    assert_eq!(marked(&case), 0);
    assert_eq!(session.tasks(&["wait", "task_1"]).0, Some(1), "it did not succeed");
    assert_eq!(session.tasks(&["stop", "task_7"]).0, Some(1), "there is none");
    session.end();
}

fn tasks_of_a_session_that_was_killed_are_lost_and_their_output_is_not(case: Case) {
    let mut session = Session::start(&case);
    session.background("echo kept; sleep 600");
    // What is still in the pipe when the runtime is killed is lost with it.
    let read = procs::until(Duration::from_secs(20), || {
        tasks(&case, &["output", "task_1"]).1.contains("kept").then_some(())
    });
    assert!(read.is_some());
    signal(&session.child, Signal::SIGKILL);
    session.child.wait().expect("it ends");
    case.nothing_is_left();
    let (code, listed) = tasks(&case, &[]);
    assert!(code == Some(0) && listed.contains("lost (its session is gone"), "{listed}");
    assert_eq!(tasks(&case, &["wait", "task_1"]).0, Some(1), "nobody knows that it succeeded");
    assert_eq!(tasks(&case, &["stop", "task_1"]).0, Some(0), "nothing of it is left");
    assert_eq!(tasks(&case, &["--session", "nobodys"]), (Some(1), String::new()));
    assert_eq!(tasks(&case, &["output", "task_1", "--offset", "5"]), (Some(0), String::new()));
    assert_eq!(tasks(&case, &["output", "task_1", "--offset", "6"]), (Some(1), String::new()));
    assert_eq!(tasks(&case, &["output", "task_1", "--follow"]), (Some(0), "kept\n".into()));
    let mut again = Session::start(&case);
    assert!(again.background("true").contains("task_2"), "no name is used twice");
    again.end();
}

fn a_seventeenth_task_is_refused_and_named(case: Case) {
    let mut session = Session::start(&case);
    for _ in 0..16 {
        session.background("exec sleep 600");
    }
    let refused = session.background("exec sleep 600");
    assert!(refused.contains("16 background tasks are running"), "{refused}");
    session.call("TaskStop", json!({"task_id": "task_3"}));
    let started = session.background("exec sleep 600");
    assert!(started.contains("task_17"), "{started}");
    session.end();
}

fn an_end_is_told_as_an_event(case: Case) {
    let mut session = Session::start(&case);
    session.background("exit 9");
    session.call("TaskOutput", json!({"task_id": "task_1", "block": true}));
    session.end();
    let events = std::fs::read_to_string(case.state().join("events")).expect("events");
    let told = events.lines().any(|line| {
        let event: Value = serde_json::from_str(line).expect("JSON");
        event["data"]["task"]["id"] == "task_1" && event["data"]["task"]["outcome"]["code"] == 9
    });
    assert!(told, "{events}");
}

fn beginning_and_end_of_a_long_output_are_kept_and_the_rest_is_named(case: Case) {
    case.policy_with("[limits]\ntask_output = \"64K\"\n");
    let mut session = Session::start(&case);
    session.background("echo begins; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo ends");
    let read = json!({"task_id": "task_1", "offset": 5_000_007, "block": true});
    let end = "\nends\n[task_1: exit code 0; the output ends here]";
    assert_eq!(session.call("TaskOutput", read), end);
    let gap = session.call("TaskOutput", json!({"task_id": "task_1", "offset": 32_768}));
    let said = gap.lines().next().unwrap_or_default();
    assert!(said.starts_with("[bytes 32768 to 49") && said.ends_with("are not kept]"), "{said}");
    let listed = session.call("TaskOutput", json!({}));
    assert!(listed.contains("5000013 bytes of output, bytes 32768 to "), "{listed}");
    // The same from another process, while the session lives and when it is over.
    let look = || {
        let state = case.state().display().to_string();
        let mut command = case.stockade(&["tasks", "--state-dir", &state, "output", "task_1"]);
        command.output().expect("stockade runs")
    };
    let alive = look();
    session.end();
    let over = look();
    assert_eq!((&alive.stdout, &alive.stderr), (&over.stdout, &over.stderr));
    let kept = over.stdout.len();
    assert!((48 << 10..=64 << 10).contains(&kept), "{kept}");
    assert!(over.stdout.starts_with(b"begins\nxxx") && over.stdout.ends_with(b"x\nends\n"));
    let said = String::from_utf8_lossy(&over.stderr);
    assert!(said.contains("bytes 32768 to ") && said.contains("task_1 are not kept"), "{said}");
    let folder = std::fs::read_dir(case.state().join("sessions/s/tasks")).expect("a folder");
    let sizes = folder.map(|entry| entry.and_then(|e| e.metadata()).expect("a file").len());
    assert!(sizes.sum::<u64>() < 80 << 10, "on disk");
}

// spec 10.1
fn programs_read_the_output_as_lines_of_json(case: Case) {
    let mut session = Session::start(&case);
    session.background("printf 'one \\344\\n'; printf '\\303\\244 two'");
    session.call("TaskOutput", json!({"task_id": "task_1", "block": true}));
    let (code, printed) = tasks(&case, &["--json", "output", "task_1"]);
    let (_, rest) = tasks(&case, &["--json", "output", "task_1", "--offset", "6"]);
    session.end();
    let line = |printed: &str| serde_json::from_str::<Value>(printed).expect("one line of JSON");
    assert_eq!(code, Some(0));
    let whole = line(&printed);
    assert_eq!(whole["task"], "task_1");
    assert_eq!((&whole["offset"], &whole["bytes"]), (&json!(0), &json!(12)), "{whole}");
    assert_eq!(
        (&whole["text"], &whole["base64"]),
        (&json!("one \u{fffd}\n\u{e4} two"), &json!("b25lIOQKw6QgdHdv"))
    );
    let rest = line(&rest);
    assert_eq!((&rest["offset"], &rest["text"]), (&json!(6), &json!("\u{e4} two")), "{rest}");
    assert!(rest.get("base64").is_none(), "{rest}");
}

// spec 6.6
fn a_limit_that_a_task_ran_up_against_is_named(case: Case) {
    case.policy_with("[limits]\npids = 301\n");
    let mut session = Session::start(&case);
    let fills = "import os, time\nfor i in range(450):\n  try:\n    if os.fork() == 0: time.sleep(600)\n  except OSError: time.sleep(2); os._exit(1)";
    session.background(&format!("python3 -c '{fills}'"));
    let read = |session: &mut Session| session.call("TaskOutput", json!({"task_id": "task_1"}));
    let lives_on = procs::until(Duration::from_secs(60), || {
        read(&mut session).contains("others live on").then_some(())
    });
    assert!(lives_on.is_some(), "{}", read(&mut session));
    session.call("TaskStop", json!({"task_id": "task_1"}));
    let read = read(&mut session);
    assert!(read.contains("having run up against the limit pids"), "{read}");
    session.end();
}

fn a_full_disk_under_a_tasks_output_fails_no_call(case: Case) {
    // A file system of 1 MB, in a namespace of the test's own, holds the sessions.
    let state = case.state().display().to_string();
    let mount = format!("mount -t tmpfs -o size=1m none '{state}' && exec \"$@\"");
    let stockade = case.argv(&["exec", "--state-dir", &state, "--session", "s"]);
    // The user is changed before the namespace is made.
    let at = stockade.iter().position(|word| word == "env").expect("env is how it is started");
    let (user, stockade) = stockade.split_at(at);
    let mut argv = user.to_vec();
    argv.extend(
        ["unshare", "--user", "--map-current-user", "--mount", "--keep-caps"].map(String::from),
    );
    argv.extend(["sh", "-c", &mount, "sh"].map(String::from));
    argv.extend(stockade.to_vec());
    let mut command = std::process::Command::new(&argv[0]);
    command.args(&argv[1..]).current_dir(case.work());
    let mut session = Session::of(&case, command);
    session.background("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo ran on; exit 5");
    let read = json!({"task_id": "task_1", "offset": 2_999_990, "block": true});
    let task_end = "xxxxxxxxxx\nran on\n[task_1: exit code 5; the output ends here]";
    assert_eq!(session.call("TaskOutput", read.clone()), task_end, "the end is what counts");
    let gap = session.call("TaskOutput", json!({"task_id": "task_1", "offset": 900_000}));
    assert!(gap.starts_with("[bytes 900000 to "), "{}", &gap[..gap.len().min(300)]);
    // A result that finds no room in the spill store is cut, and leaves the log its room too.
    let large = session.call("Bash", json!({"command": "yes | head -c 3000000; echo; echo last"}));
    let end = &large[large.len().saturating_sub(300)..];
    assert!(
        large.len() < 100_000 && end.contains("\nlast\n[The output is not kept whole: "),
        "{end}"
    );
    assert!(end.contains("kept for the session log and the ledger"), "{end}");
    // The log had room for those, and has it for what comes after.
    for _ in 0..3 {
        assert_eq!(session.call("Bash", json!({"command": "echo goes on"})), "goes on");
    }
    assert_eq!(session.call("TaskOutput", read), task_end);
    // How it ended is on that disk all the same, in the place that the record of its start took.
    let record = case.state().join("sessions/s/tasks/task_1.json");
    let record = format!("/proc/{}/root{}", session.child.id(), record.display());
    let record: Value =
        serde_json::from_slice(&std::fs::read(record).expect("it is there")).expect("JSON");
    assert_eq!(
        (&record["status"], &record["outcome"]["code"]),
        (&json!("ended"), &json!(5)),
        "{record}"
    );
    drop(session.stdin.take());
    session.child.wait().expect("it ends");
    case.nothing_is_left();
}
