//! The ledger in the forms of security systems, held to what those expect (spec 9.2; OCSF's published schema is held in `approval.rs`).

use serde_json::{Value, json};
use stockade_tests::approval::Scene;
use stockade_tests::turn;

/// A session in which something of each kind happens.
fn scene() -> Scene {
    let scene = Scene::new();
    let program = scene.program(r#"{"decision":"allow"}"#);
    let calls = [
        ("Bash", scene.write_outside("a")),
        ("Bash", json!({"command": "unshare -U true; cat /etc/shadow; echo x > /usr/x"})),
        ("Bash", json!({"command": "cat /dev/null > /dev/tcp/127.0.0.1/8731"})),
        (
            "Bash",
            json!({"command": "ls", "sandbox_permissions": {"network": ["example.com:443"]}, "justification": "to fetch"}),
        ),
        ("Write", json!({"file_path": ".git/hooks/pre-commit", "content": "x"})),
    ];
    scene.exec(&["--approve-program", &program], &calls);
    scene
}

/// The types that ECS 8.17 expects of each category.
const EXPECTED: &[(&str, &[&str])] = &[
    (
        "api",
        &[
            "access", "admin", "allowed", "change", "creation", "deletion", "denied", "end",
            "info", "start", "user",
        ],
    ),
    ("configuration", &["access", "change", "creation", "deletion", "info"]),
    ("file", &["access", "change", "creation", "deletion", "info"]),
    ("iam", &["admin", "change", "creation", "deletion", "group", "info", "user"]),
    ("intrusion_detection", &["allowed", "denied", "info"]),
    ("network", &["access", "allowed", "connection", "denied", "end", "info", "protocol", "start"]),
    ("process", &["access", "change", "end", "info", "start"]),
    ("session", &["start", "end", "info"]),
];

fn words(value: &Value) -> Vec<&str> {
    value.as_array().expect("a list").iter().map(|word| word.as_str().expect("text")).collect()
}

fn assert_nothing_empty(value: &Value, line: &str) {
    match value {
        Value::String(text) => assert!(!text.is_empty(), "{line}"),
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| *key != "stockade")
            .for_each(|(_, value)| assert_nothing_empty(value, line)),
        Value::Array(items) => items.iter().for_each(|item| assert_nothing_empty(item, line)),
        _ => {}
    }
}

// spec 9.2
#[test]
fn an_event_of_ecs_has_the_types_that_its_categories_expect_and_nothing_empty() {
    let scene = scene();
    let exported = scene.audit(&["export", "--format", "ecs"]).out();
    let mut seen = std::collections::BTreeSet::new();
    for line in exported.lines() {
        let event = turn::parse(line);
        let about = &event["event"];
        let (categories, types) = (words(&about["category"]), words(&about["type"]));
        let expected: Vec<&str> = categories
            .iter()
            .flat_map(|category| {
                let known = EXPECTED.iter().find(|(name, _)| name == category);
                known.unwrap_or_else(|| panic!("{category}: {line}")).1.iter().copied()
            })
            .collect();
        assert!(types.iter().all(|kind| expected.contains(kind)), "{line}");
        let mut without_message = event.clone();
        without_message.as_object_mut().expect("an object").remove("message");
        assert_nothing_empty(&without_message, line);
        let record = &event["stockade"];
        let action = about["action"].as_str().expect("text");
        match (action, record["decision"].as_str()) {
            ("decided", Some("deny")) => {
                assert_eq!((types[0], &about["outcome"]), ("denied", &json!("failure")), "{line}");
            }
            ("decided", Some("allow")) => {
                assert_eq!((types[0], &about["outcome"]), ("allowed", &json!("success")), "{line}");
            }
            ("sandbox_denied", _) => {
                assert_eq!((types[0], &about["outcome"]), ("denied", &json!("failure")), "{line}");
                assert_eq!(about["kind"], "alert");
            }
            _ => {}
        }
        if record["permissions"]["network"][0] == "example.com:443" {
            assert_eq!(event["destination"]["domain"], "example.com", "{line}");
            assert_eq!(event["destination"]["port"], 443, "{line}");
            seen.insert("a host and its port");
        }
        seen.insert(match action {
            "decided" => "decided",
            "sandbox_denied" => "sandbox_denied",
            "granted" => "granted",
            _ => "other",
        });
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
}

// spec 9.2
#[test]
fn a_line_of_cef_names_address_and_port_apart_and_no_call_where_there_is_none() {
    let scene = scene();
    let exported = scene.audit(&["export", "--format", "cef"]).out();
    let of = |kind: &str| -> Vec<&str> {
        exported.lines().filter(|line| line.contains(&format!("|{kind}|"))).collect()
    };
    assert!(
        exported.lines().all(|line| line.starts_with("CEF:0|Stockade|Stockade|")),
        "{exported}"
    );
    assert!(of("session_started").iter().all(|line| !line.contains("cs2")), "{exported}");
    assert!(of("session_started").len() == 1 && of("call_ended").len() == 5, "{exported}");
    assert!(
        of("call_ended").iter().all(|line| line.contains(" cs2Label=call cs2=1/call_")),
        "{exported}"
    );
    let asked: Vec<&str> = exported.lines().filter(|line| line.contains("dhost=")).collect();
    assert!(!asked.is_empty(), "{exported}");
    assert!(asked.iter().all(|line| line.contains("dhost=example.com dpt=443 ")), "{asked:?}");
}

// spec 9.2: who can sign can write the verifier key again, and says so
#[test]
fn a_verifier_key_that_has_gone_is_written_again_and_recorded_and_another_one_stops_everything() {
    let scene = Scene::new();
    let calls = [("Bash", json!({"command": "echo hi"}))];
    scene.exec(&[], &calls);
    let file = scene.state.join("ledger.pub");
    let before = std::fs::read_to_string(&file).expect("a key");
    std::fs::remove_file(&file).expect("removed");
    assert_eq!(scene.audit(&["verify"]).code(), 2, "nothing to verify by");
    let answers = scene.exec(&[], &calls);
    assert!(answers[0].text.contains("hi"), "{answers:?}");
    assert_eq!(std::fs::read_to_string(&file).expect("a key"), before);
    let verified = scene.audit(&["verify"]);
    assert_eq!(verified.code(), 0, "{}{}", verified.out(), verified.err());
    assert_eq!(scene.query(&["--type", "verifier_restored"]).len(), 1);

    let other = Scene::new();
    other.exec(&[], &calls);
    std::fs::copy(other.state.join("ledger.pub"), &file).expect("exchanged");
    let text = turn::of_calls(&calls);
    let ran = stockade_tests::finish(
        &mut scene.command(&[]),
        text.as_bytes(),
        stockade_tests::approval::LIMIT,
    );
    assert!(!ran.status.success() && !ran.out().contains("hi"), "{}", ran.out());
    assert!(ran.err().contains("ledger.pub"), "{}", ran.err());
}
