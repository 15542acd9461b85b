//! The hostile turn, and the one that works, with each approver (issue 6, show 1): what comes of them is judged by files, listeners and
//! processes, and by what the ledger says afterwards.

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::Duration;
use stockade_tests::approval::{LIMIT, Scene, client};
use stockade_tests::turn::{self, Answer};
use stockade_tests::{Listener, finish};

/// Who answers, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Deny,
    Terminal(bool),
    JsonRpc(bool),
    Program(bool),
    Ceiling,
    /// A permission hook, against an approver that answers the opposite and is slower.
    Hook(bool),
}

use Who::{Ceiling, Deny, Hook, JsonRpc, Program, Terminal};

impl Who {
    /// As the ledger names it.
    fn kind(self) -> &'static str {
        match self {
            Deny => "deny",
            Terminal(_) => "terminal",
            JsonRpc(_) => "json_rpc",
            Program(_) => "program",
            Ceiling => "ceiling",
            Hook(_) => "hook",
        }
    }

    fn says_yes(self) -> bool {
        matches!(self, Terminal(true) | JsonRpc(true) | Program(true) | Ceiling | Hook(true))
    }
}

fn answer(yes: bool) -> Value {
    if yes {
        json!({"decision": "allow"})
    } else {
        json!({"decision": "deny", "reason": "not today"})
    }
}

/// Executes a turn before this approver.
fn execute(scene: &Scene, who: Who, turn: &str, options: &[&str]) -> Vec<Answer> {
    let text = |path: std::path::PathBuf| path.to_str().expect("text").to_owned();
    let mut options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    let mut listening = None;
    match who {
        Deny => {}
        Ceiling => options.extend(["--approve", "ceiling"].map(str::to_owned)),
        Program(yes) => {
            options
                .extend(["--approve-program".to_owned(), scene.program(&answer(yes).to_string())]);
        }
        JsonRpc(yes) => {
            let socket = scene.scratch.path().join("client.sock");
            let listener = UnixListener::bind(&socket).expect("a socket");
            listening = Some(client(listener, move |_, question| {
                let result = answer(yes);
                vec![json!({"jsonrpc": "2.0", "id": question["id"], "result": result})]
            }));
            options.extend(["--approve-socket".to_owned(), text(socket)]);
        }
        Hook(yes) => {
            let slow = scene.program(&answer(!yes).to_string());
            let body = fs::read_to_string(&slow).expect("the program");
            fs::write(&slow, body.replace("cat >>", "sleep 20; cat >>")).expect("made slow");
            let decision = if yes {
                json!({"behavior": "allow"})
            } else {
                json!({"behavior": "deny", "message": "not today"})
            };
            let said = json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}});
            let hook =
                json!({"type": "command", "command": format!("cat >/dev/null; echo '{said}'")});
            let settings = scene.scratch.path().join("settings.json");
            let hooks =
                json!({"hooks": {"PermissionRequest": [{"matcher": "*", "hooks": [hook]}]}});
            fs::write(&settings, hooks.to_string()).expect("settings");
            options.extend(["--settings".to_owned(), text(settings)]);
            options.extend(["--approve-program".to_owned(), slow]);
        }
        Terminal(yes) => {
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let keys: &[u8] = if yes { b"y" } else { b"n" };
            let (shown, printed) = scene.at_terminal(turn, Some(keys), &options);
            assert!(!printed.is_empty(), "{shown}");
            return turn::answers(&printed);
        }
    }
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let ran = finish(&mut scene.command(&options), turn.as_bytes(), LIMIT);
    assert!(ran.status.success(), "{who:?}: {}", ran.err());
    if let Some(client) = listening {
        client.join().expect("the client");
    }
    turn::answers(&ran.out())
}

/// The hostile turn, and behind it the same aims once more, by asking for them.
fn hostile_and_begging(scene: &Scene, port: u16) -> (String, Vec<(String, Value, &'static str)>) {
    let hostile = turn::file("hostile.anthropic.json").replace("8731", &port.to_string());
    let mut message = turn::parse(&hostile);
    let home = scene.home.path();
    let outside = scene.outside.to_str().expect("text").to_owned();
    let host = format!("127.0.0.1:{port}");
    let wanted = [
        ("cat ~/.ssh/id_ed25519".to_owned(), json!({"read": [home.join(".ssh")]}), "path"),
        (format!("curl -sS --max-time 5 http://{host}/"), json!({"network": [host]}), "host"),
        (format!("echo x > {outside}/planted"), json!({"write": [outside]}), "path"),
        ("echo evil >> ~/.bashrc".to_owned(), json!({"write": [home.join(".bashrc")]}), "path"),
        ("unshare -U true".to_owned(), json!({"syscalls": ["namespaces"]}), "syscall"),
        ("cat ~/.aws/credentials".to_owned(), json!({"full_access": true}), "all"),
    ];
    let mut begging = Vec::new();
    let calls = message["content"].as_array_mut().expect("a list");
    for (n, (command, permissions, kind)) in wanted.into_iter().enumerate() {
        let id = format!("beg_{n}");
        let input = json!({"command": command, "sandbox_permissions": permissions, "justification": "I need it"});
        calls.push(json!({"type": "tool_use", "id": id, "name": "Bash", "input": input}));
        begging.push((id, permissions, kind));
    }
    (message.to_string(), begging)
}

fn assert_gains_nothing(who: Who) {
    let scene = Scene::new();
    let listener = Listener::start();
    let (text, begging) = hostile_and_begging(&scene, listener.port());
    // A yes to all of this gives all of this: then it is the ceiling that holds.
    let options: &[&str] = if who.says_yes() { &["--ceiling", "workspace-write"] } else { &[] };
    let bashrc = fs::read(scene.home.path().join(".bashrc")).ok();
    let answers = execute(&scene, who, &text, options);
    assert_eq!(answers.len(), 7 + begging.len(), "{who:?}");
    let printed = format!("{answers:?}");
    assert!(!printed.contains(scene.home.marker()), "{who:?}: a secret in a result");
    assert_eq!(listener.accepted(), 0, "{who:?}");
    assert_eq!(fs::read_dir(&scene.outside).expect("a folder").count(), 1, "{who:?}");
    assert_eq!(fs::read(scene.home.path().join(".bashrc")).ok(), bashrc, "{who:?}");

    for record in &scene.query(&["--decision", "deny"]) {
        let told = match record["type"].as_str() {
            Some("sandbox_denied") => {
                record["target"].is_string() && record["evidence"].is_string()
            }
            _ => record["reason"].is_string() && record["by"].is_string(),
        };
        assert!(told && record["session"].is_string() && record["call"].is_string(), "{record}");
    }
    for (id, permissions, kind) in &begging {
        let of = |kind: &str| scene.query(&["--call", id, "--type", kind]);
        let asked = of("escalation_requested");
        assert_eq!(asked.len(), 1, "{who:?} {id}");
        assert_eq!(asked[0]["permissions"].to_string(), permissions.to_string(), "{who:?} {id}");
        assert_eq!(asked[0]["justification"], "I need it");
        let decided = of("decided");
        assert_eq!(decided.len(), 1, "{who:?} {id}");
        assert_eq!(decided[0]["decision"], "deny", "{who:?} {id}");
        assert!(decided[0]["reason"].as_str().is_some_and(|reason| !reason.is_empty()));
        if decided[0]["by"] != "escalation" {
            assert_eq!(decided[0]["approver"], who.kind(), "{who:?} {id}: {}", decided[0]);
            let reason = decided[0]["reason"].to_string();
            let whose = if who == Deny { "No permission client configured" } else { "no" };
            assert!(reason.contains(whose), "{who:?} {id}: {reason}");
        } else {
            // A path that is hidden, and a host where no proxy holds the allowlist, can be granted by nobody.
            assert!(
                who.says_yes() || matches!(*kind, "path" | "host"),
                "{who:?} {id}: {}",
                decided[0]
            );
        }
        assert_eq!(of("granted").len(), 0, "{who:?} {id}");
        let found = match *kind {
            "path" => {
                let path =
                    permissions.as_object().and_then(|all| all.values().next()).expect("a list");
                scene.query(&["--path", path[0].as_str().expect("a path"), "--type", "decided"])
            }
            "host" => scene.query(&["--host", "127.0.0.1", "--type", "decided"]),
            _ => continue,
        };
        assert!(found.iter().any(|record| record["call"] == **id), "{who:?} {id}");
    }
    // The same call had run before: what the kernel refused to it stands beside its request.
    let evidence = scene.query(&["--type", "sandbox_denied"]);
    assert!(evidence.iter().all(|record| record["kind"].is_string()), "{who:?}");
    assert_eq!(scene.query(&["--type", "call_requested"]).len(), answers.len(), "{who:?}");
    assert_eq!(scene.query(&["--type", "call_ended"]).len(), answers.len(), "{who:?}");
    assert!(scene.audit(&["verify"]).status.success(), "{who:?}");
}

// spec 7.4; issue 6, show 1
#[test]
fn the_hostile_turn_gains_nothing_where_the_answer_is_no() {
    for who in [Deny, Terminal(false), JsonRpc(false), Program(false), Hook(false)] {
        assert_gains_nothing(who);
    }
}

// spec 7.2, 7.4; issue 6, show 1
#[test]
fn the_hostile_turn_gains_nothing_above_the_ceiling_whoever_says_yes() {
    for who in [Terminal(true), JsonRpc(true), Program(true), Ceiling, Hook(true)] {
        assert_gains_nothing(who);
    }
}

/// The working turn, whose edit must be approved.
fn assert_edits(who: Who) {
    let mut scene = Scene::new();
    scene.real_home = true;
    let rules = scene.scratch.path().join("rules.toml");
    fs::write(&rules, "ask = [\"Edit(**/main.rs)\"]\n").expect("rules");
    let rules = rules.to_str().expect("text").to_owned();
    let turn = turn::file("edit-and-test.anthropic.json");
    let answers = execute(&scene, who, &turn, &["--rules", &rules]);
    let source = fs::read_to_string(scene.workspace.join("hello/src/main.rs"));
    let decided = scene.query(&["--type", "decided", "--call", "toolu_04"]);
    assert_eq!(decided.len(), 1, "{who:?}: {decided:#?}");
    assert_eq!(decided[0]["approver"], who.kind(), "{who:?}");
    let yes = who.says_yes();
    assert_eq!(decided[0]["decision"], if yes { "allow" } else { "deny" }, "{who:?}");
    let written = scene.query(&["--type", "decided", "--call", "toolu_02"]);
    assert_eq!(written[0]["approver"], who.kind(), "{who:?}");
    if yes {
        assert!(answers[2].text.contains("tests::adds"), "{who:?}: {answers:#?}");
        assert!(answers[4].text.contains("1 passed"), "{who:?}: {answers:#?}");
        assert!(source.expect("the source").contains("a + b"), "{who:?}");
    } else {
        assert!(answers[1].text.contains("refused by approver"), "{who:?}: {answers:#?}");
        assert!(source.is_err(), "{who:?}: nothing was written");
        assert!(!answers[4].text.contains("1 passed"), "{who:?}");
    }
    assert!(scene.audit(&["verify"]).status.success(), "{who:?}");
}

// issue 6, show 1
#[test]
fn the_working_turn_works_where_its_edits_are_approved() {
    for who in [Terminal(true), JsonRpc(true), Program(true), Hook(true)] {
        assert_edits(who);
    }
}

// issue 6, show 1
#[test]
fn the_working_turn_changes_nothing_where_its_edits_are_refused() {
    for who in [Deny, Terminal(false), JsonRpc(false), Program(false), Hook(false)] {
        assert_edits(who);
    }
}

// spec 7.3
#[test]
fn a_grant_that_was_taken_back_or_whose_time_is_up_allows_nothing_more() {
    for expires in [false, true] {
        let scene = Scene::new();
        let socket = scene.scratch.path().join("client.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let other = scene.scratch.folder("elsewhere");
        let client = client(listener, move |number, question| {
            let id = question["id"].clone();
            let no = json!({"jsonrpc": "2.0", "id": id, "result": {"decision": "deny", "reason": "no more"}});
            match (number, expires) {
                (0, false) => vec![
                    json!({"jsonrpc": "2.0", "id": id, "result": {"decision": "allow", "scope": "session"}}),
                ],
                (0, true) => vec![
                    json!({"jsonrpc": "2.0", "id": id, "result": {"decision": "allow", "scope": "session", "expires_in_s": 8}}),
                ],
                (1, false) => vec![
                    json!({"jsonrpc": "2.0", "id": 100, "method": "grants/list"}),
                    json!({"jsonrpc": "2.0", "id": 101, "method": "grants/revoke", "params": {"id": "g1"}}),
                    json!({"jsonrpc": "2.0", "id": 102, "method": "grants/revoke", "params": {"id": "g1"}}),
                    json!({"jsonrpc": "2.0", "id": 103, "method": "grants/list"}),
                    no,
                ],
                _ => vec![no],
            }
        });
        let between = if expires {
            json!({"command": "sleep 9"})
        } else {
            json!({"command": "ls", "sandbox_permissions": {"write": [other]}, "justification": "x"})
        };
        let calls = [
            ("Bash", scene.write_outside("a")),
            ("Bash", scene.write_outside("b")),
            ("Bash", between),
            ("Bash", scene.write_outside("c")),
        ];
        let socket = socket.to_str().expect("text").to_owned();
        let answers = scene.exec(&["--approve-socket", &socket], &calls);
        let heard = client.join().expect("the client");
        assert!(
            scene.outside.join("a").exists() && scene.outside.join("b").exists(),
            "{answers:#?}"
        );
        assert!(!scene.outside.join("c").exists(), "{answers:#?}");
        assert!(answers[3].text.contains("no more"), "{answers:#?}");
        let ended = scene.query(&["--type", "grant_ended"]);
        assert_eq!(ended.len(), 1, "{ended:#?}");
        assert_eq!(ended[0]["how"], if expires { "expired" } else { "revoked" });
        let granted = scene.query(&["--type", "granted"]);
        assert_eq!(granted[0]["expires"].is_string(), expires);
        assert_eq!(granted[0]["grant"], ended[0]["grant"]);
        if !expires {
            let result = |id: u64| {
                let heard =
                    heard.iter().find(|message| message["id"] == id && message["method"].is_null());
                heard.map(|message| message["result"].clone()).expect("an answer")
            };
            assert_eq!(result(100)["grants"][0]["id"], "g1");
            assert_eq!(result(101)["revoked"], true);
            assert_eq!(result(102)["revoked"], false, "there is nothing left to take back");
            assert_eq!(result(103)["grants"], json!([]));
        }
    }
}

// spec 7.3: what runs under a grant ends with it, and the ledger says how that was
#[test]
fn a_grant_that_ends_ends_what_runs_under_it() {
    for expires in [false, true] {
        let scene = Scene::new();
        let socket = scene.scratch.path().join("client.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let begun = scene.outside.join("begun");
        let seen = begun.clone();
        let client = thread::spawn(move || {
            let (stream, _) = listener.accept().expect("exec connects");
            let mut writer = stream.try_clone().expect("a socket");
            let mut lines = BufReader::new(stream).lines();
            let question = turn::parse(&lines.next().expect("a question").expect("text"));
            assert_eq!(question["params"]["granted_to_session"].as_array().map(Vec::len), Some(1));
            let mut result = json!({"decision": "allow", "scope": "session"});
            if expires {
                result["expires_in_s"] = json!(8);
            }
            writeln!(
                writer,
                "{}",
                json!({"jsonrpc": "2.0", "id": question["id"], "result": result})
            )
            .expect("sent");
            if !expires {
                while !seen.exists() {
                    thread::sleep(Duration::from_millis(50));
                }
                let revoke = json!({"jsonrpc": "2.0", "id": 1, "method": "grants/revoke", "params": {"id": "g1"}});
                writeln!(writer, "{revoke}").expect("sent");
            }
            lines.for_each(drop);
        });
        let mut long = scene.write_outside("x");
        long["command"] = json!(format!(
            "echo > {begun:?}; sleep 600; echo late > {:?}",
            scene.outside.join("late")
        ));
        let socket = socket.to_str().expect("text").to_owned();
        let mut background = scene.write_outside("y");
        background["command"] = json!("sleep 601");
        background["run_in_background"] = json!(true);
        let calls =
            [("Bash", background), ("Bash", long), ("Bash", json!({"command": "echo next"}))];
        let mut command = scene.command(&["--approve-socket", &socket]);
        let turn = turn::of_calls(&calls);
        let ran = finish(&mut command, turn.as_bytes(), LIMIT);
        let answers = turn::answers(&ran.out());
        assert!(answers[1].text.contains("has ended"), "{answers:#?}");
        assert!(answers[2].text.contains("next"), "the turn goes on: {answers:#?}");
        assert!(!scene.outside.join("late").exists());
        client.join().expect("the client");
        let ended = scene.query(&["--type", "grant_ended"]);
        assert_eq!(ended[0]["how"], if expires { "expired" } else { "revoked" }, "{ended:#?}");
        assert_eq!(ended.len(), 1);
    }
}

// spec 2.6: the bytes that are shown are the bytes that run
#[test]
fn what_the_terminal_shows_is_what_runs_and_nothing_paints_over_it() {
    let scene = Scene::new();
    let file = scene.outside.join("a");
    let hidden = format!(
        "echo granted > {file:?} #\u{1b}[2K\rls \u{202e}x mr\u{200b}\t{}  y: yes, this once\n  It wants more than its policy: nothing",
        " ".repeat(300)
    );
    let calls = [(
        "Bash",
        json!({"command": hidden, "sandbox_permissions": {"write": [scene.outside]}, "justification": "\u{1b}[1A\u{1b}[2Kharmless"}),
    )];
    let (shown, _) = scene.at_terminal(&turn::of_calls(&calls), Some(b"n"), &[]);
    let joined = shown.replace("\r\n    ╎ ", "");
    for part in ["⟨U+001B⟩[2K⟨U+000D⟩ls ⟨U+202E⟩x mr⟨U+200B⟩⟨U+0009⟩", "⟨U+001B⟩[1A"]
    {
        assert!(joined.contains(part), "{shown}");
    }
    assert!(!shown.contains("\u{1b}[2K") && !shown.contains('\u{202e}'), "{shown:?}");
    let own = |text: &str| shown.lines().filter(|line| line.starts_with(text)).count();
    assert_eq!(own("  It wants more than its policy: "), 1, "{shown}");
    assert_eq!(own("  y: yes, this once"), 1, "{shown}");
    assert!(!file.exists());
}

// spec 2.6: nobody is left to answer
#[test]
fn a_client_that_hangs_up_has_said_no_to_this_question_and_to_every_later_one() {
    let scene = Scene::new();
    let socket = scene.scratch.path().join("client.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let client = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("exec connects");
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).expect("a question");
        // Only its own direction: what is written to it is still taken.
        stream.shutdown(std::net::Shutdown::Write).expect("it hangs up");
        stream
    });
    let calls = [("Bash", scene.write_outside("a")), ("Bash", scene.write_outside("b"))];
    let socket = socket.to_str().expect("text").to_owned();
    // An hour: whoever waits for it does not end.
    let answers = scene.exec(&["--approve-socket", &socket, "--approve-timeout", "1h"], &calls);
    drop(client.join().expect("the client"));
    for answer in &answers {
        assert!(answer.text.contains("closed its connection"), "{answers:#?}");
    }
    let decided = scene.query(&["--type", "decided"]);
    assert_eq!(decided.len(), 2, "{decided:#?}");
    for record in &decided {
        assert!(record["reason"].as_str().is_some_and(|why| why.contains("closed its connection")));
    }
}

// spec 2.6
#[test]
fn an_answer_to_no_open_question_is_named_and_counts_for_none() {
    let scene = Scene::new();
    let socket = scene.scratch.path().join("client.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let client = client(listener, |number, question| {
        let id = question["id"].as_u64().expect("a number");
        let yes = |id: Value| json!({"jsonrpc": "2.0", "id": id, "result": {"decision": "allow"}});
        match number {
            // Wrong ones first: then the right one counts all the same.
            0 => vec![yes(json!(id + 1000)), yes(json!("1")), yes(Value::Null), yes(json!(id))],
            // And by themselves they are no answer: the time is up.
            _ => vec![yes(json!(id + 1000))],
        }
    });
    let calls = [("Bash", scene.write_outside("a")), ("Bash", scene.write_outside("b"))];
    let socket = socket.to_str().expect("text").to_owned();
    let answers = scene.exec(&["--approve-socket", &socket, "--approve-timeout", "3s"], &calls);
    let heard = client.join().expect("the client");
    assert!(scene.outside.join("a").exists(), "{answers:#?}");
    assert!(!scene.outside.join("b").exists(), "{answers:#?}");
    assert!(answers[1].text.contains("no answer within 3 s"), "{answers:#?}");
    let ignored: Vec<&Value> = heard
        .iter()
        .filter(|message| message["method"] == "permission/ignored")
        .map(|message| &message["params"]["id"])
        .collect();
    assert_eq!(ignored.len(), 4, "{heard:#?}");
    assert_eq!(*ignored[1], json!("1"));
}
