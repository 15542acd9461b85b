//! Answers that look like a yes and are none (spec 2.6, 10.6): a program's, a JSON-RPC client's, a permission hook's. Judged by the file that
//! the call would have written.

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::thread;
use stockade_tests::approval::Scene;

/// Whether the call ran, before this approver.
fn runs(scene: &Scene, options: &[&str]) -> bool {
    let written = scene.outside.join("a");
    fs::remove_file(&written).ok();
    scene.exec(options, &[("Bash", scene.write_outside("a"))]);
    written.exists()
}

/// The same before a client that answers each question with these lines; `ID` stands for its id.
fn runs_before(scene: &Scene, lines: &'static str) -> bool {
    let socket = scene.scratch.path().join("raw.sock");
    fs::remove_file(&socket).ok();
    let listener = UnixListener::bind(&socket).expect("a socket");
    let client = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("exec connects");
        let mut writer = stream.try_clone().expect("a socket");
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { break };
            let message: Value = serde_json::from_str(&line).expect("JSON");
            if message["method"] == "permission/request" {
                let answer = lines.replace("ID", &message["id"].to_string());
                writer.write_all(answer.as_bytes()).expect("exec listens");
            }
        }
    });
    let socket = socket.to_str().expect("text").to_owned();
    let ran = runs(scene, &["--approve-socket", &socket, "--approve-timeout", "3s"]);
    client.join().expect("the client");
    ran
}

#[test]
fn a_program_says_yes_by_one_well_formed_object_alone() {
    let scene = Scene::new();
    let before = |answer: &str| {
        let program = scene.program(answer);
        runs(&scene, &["--approve-program", &program])
    };
    assert!(before(r#"{"decision": "allow"}"#), "the yes is real");
    assert!(before(r#"{"decision": "allow", "scope": "session", "expires_in_s": 600}"#));
    for answer in [
        r#"{"decision":"deny","decision":"allow"}"#,
        r#"{"decision":"allow","decision":"allow"}"#,
        r#"{"decision":"allow","scope":"session","scope":"call"}"#,
        r#"["allow"]"#,
        r#"["allow","call",null,null,null]"#,
        r#"["allow","session",null,null,null]"#,
        r#"[{"decision":"allow"}]"#,
        r#"{"decision":{"allow":null}}"#,
        r#"{"decision":["allow"]}"#,
        r#"{"decision":"Allow"}"#,
        r#"{"decision":"allow"} no"#,
        r#"{"decision":"allow"}{"decision":"deny"}"#,
        r#"{"decision":"allow","scope":"turn"}"#,
        r#"{"decision":"allow","sure":false}"#,
        r#"{"decision":"allow","expires_in_s":600}"#,
        r#"{"decision":"allow","expires_in_s":0}"#,
        r#"{"decision":"allow","scope":"session","expires_in_s":0}"#,
        r#"{"decision":"allow","scope":"session","expires_in_s":-1}"#,
        r#"{"decision":"allow","scope":"session","expires_in_s":"600"}"#,
        r#"{"decision":"allow","call_digest":"00"}"#,
        r#""allow""#,
        "true",
        "",
    ] {
        assert!(!before(answer), "{answer}");
    }
}

#[test]
fn a_json_rpc_client_says_yes_by_one_well_formed_response_to_this_very_question() {
    let scene = Scene::new();
    let yes = "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"decision\":\"allow\"}}\n";
    assert!(runs_before(&scene, yes), "the yes is real");
    for lines in [
        "{\"id\":ID,\"result\":{\"decision\":\"allow\"}}\n",
        "{\"jsonrpc\":\"1.0\",\"id\":ID,\"result\":{\"decision\":\"allow\"}}\n",
        "{\"jsonrpc\":2.0,\"id\":ID,\"result\":{\"decision\":\"allow\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":\"ID\",\"result\":{\"decision\":\"allow\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":ID.0,\"result\":{\"decision\":\"allow\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":7ID,\"result\":{\"decision\":\"allow\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"result\":{\"decision\":\"allow\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":ID,\"id\":ID,\"result\":{\"decision\":\"allow\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"decision\":\"allow\"},\"error\":{\"code\":1,\"message\":\"x\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"decision\":\"allow\"},\"error\":null}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"decision\":\"deny\"},\"result\":{\"decision\":\"allow\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"decision\":\"deny\",\"decision\":\"allow\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":[\"allow\"]}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":ID,\"method\":\"x\",\"result\":{\"decision\":\"allow\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":ID,\"method\":null,\"result\":{\"decision\":\"allow\"}}\n",
        "[{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"decision\":\"allow\"}}]\n",
        // What cannot be read may have been the no.
        "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"decision\":\"deny\"\n{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"decision\":\"allow\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"decision\":\"deny\"}}\n{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"decision\":\"allow\"}}\n",
    ] {
        assert!(!runs_before(&scene, lines), "{lines}");
    }
}

#[test]
fn a_permission_hook_says_yes_by_one_well_formed_object_alone() {
    let scene = Scene::new();
    let before = |answer: &str| {
        let program = scene.program(answer);
        let settings = scene.scratch.path().join("settings.json");
        let hooks = json!({"hooks": {"PermissionRequest": [{"hooks": [{"type": "command", "command": program}]}]}});
        fs::write(&settings, hooks.to_string()).expect("settings");
        runs(&scene, &["--settings", settings.to_str().expect("text")])
    };
    let event = r#""hookEventName":"PermissionRequest""#;
    let yes = r#"{"behavior":"allow"}"#;
    assert!(before(&format!(r#"{{"hookSpecificOutput":{{{event},"decision":{yes}}}}}"#)));
    for answer in [
        format!(
            r#"{{"hookSpecificOutput":{{{event},"decision":{{"behavior":"deny","behavior":"allow"}}}}}}"#
        ),
        format!(
            r#"{{"hookSpecificOutput":{{{event},"decision":{{"behavior":"deny"}},"decision":{yes}}}}}"#
        ),
        format!(r#"{{"hookSpecificOutput":{{{event},"decision":["allow",null,false]}}}}"#),
        format!(r#"{{"hookSpecificOutput":["PermissionRequest",null,null,null,{yes}]}}"#),
        format!(r#"[{{"hookSpecificOutput":{{{event},"decision":{yes}}}}}]"#),
    ] {
        assert!(!before(&answer), "{answer}");
    }
}
