//! What is written, by whom, and what happens when writing stops in the middle (spec 9.2).

use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use stockade_ledger::{
    Entry, Event, Ledger, LedgerOptions, LedgerPaths, Reader, VerifyOptions, verify,
};
use stockade_types::CallId;

fn call(arguments: Value) -> Entry {
    Entry {
        session: None,
        turn: Some(1),
        call: Some(CallId("c".into())),
        tool: Some("Bash".into()),
        event: Event::CallRequested { arguments, arguments_sha256: "0".repeat(64) },
    }
}

fn records(paths: &LedgerPaths) -> Vec<Value> {
    Reader::open(paths)
        .unwrap()
        .map(|line| serde_json::from_slice(&line.unwrap().bytes).unwrap())
        .collect()
}

#[test]
fn every_line_is_json_with_time_number_and_hashes_and_what_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let paths = LedgerPaths::of_state_dir(folder.path());
    let ledger = Ledger::open(paths.clone(), LedgerOptions::default()).unwrap();
    let seq = ledger.append(&call(json!({"command": "ls \"a\"\n\u{1F600}"}))).unwrap();
    let all = records(&paths);
    let record = all.last().unwrap();
    assert_eq!(record["seq"], seq);
    assert_eq!(record["type"], "call_requested");
    assert_eq!(record["arguments"]["command"], "ls \"a\"\n\u{1F600}");
    assert_eq!(record["prev"], all[all.len() - 2]["hash"]);
    let entry: Entry = serde_json::from_value(record.clone()).unwrap();
    assert_eq!(entry, call(json!({"command": "ls \"a\"\n\u{1F600}"})));
    let mode = fs::metadata(&paths.key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else reads the key");
}

// spec 9.2: no call can keep its own record out of sight
#[test]
fn every_record_is_json_whatever_a_model_wrote_and_no_escape_hides_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    let paths = LedgerPaths::of_state_dir(folder.path());
    let ledger = Ledger::open(paths.clone(), LedgerOptions::default()).unwrap();
    let token = format!("ghp_{}", "aB3dE6gH9jK2mN5pQ8aB3dE6gH9jK2mN5pQ8");
    let parts = [
        "TOKEN=",
        "API_KEY: ",
        "\n",
        "\t",
        "\u{1}",
        "\"",
        "\\",
        "\\\"",
        "'",
        " ",
        "abcdef",
        &token,
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
        "https://u:p",
        "@h/",
        "--password ",
        "$X",
        "{",
        "}",
        ",\"type\":\"checkpoint\"",
        "ä",
        "\u{2028}",
        "=",
    ];
    let mut random: u64 = 42;
    let mut next = || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize
    };
    let mut texts = vec![format!("cat <<E\n{token}"), "TOKEN=\necho hi".to_owned()];
    for _ in 0..3000 {
        texts.push((0..1 + next() % 7).map(|_| parts[next() % parts.len()]).collect());
    }
    for text in &texts {
        ledger.append(&call(json!({"command": text, text.as_str(): text}))).unwrap();
    }
    let all = records(&paths);
    assert_eq!(all.iter().filter(|record| record["type"] == "call_requested").count(), texts.len());
    let file = fs::read_to_string(&paths.current).unwrap();
    for line in file.lines() {
        // A token that is no word of its own is none.
        for (at, _) in line.match_indices(&token) {
            let before = line[..at].chars().last();
            let escaped = line[..at].ends_with(['n', 't']) && line[..at - 1].ends_with('\\');
            assert!(before.is_some_and(char::is_alphanumeric) && !escaped, "{line}");
        }
    }
    assert!(verify(&paths, &VerifyOptions::default()).unwrap().fault.is_none());
}

#[test]
fn secrets_do_not_reach_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let paths = LedgerPaths::of_state_dir(folder.path());
    let ledger = Ledger::open(paths.clone(), LedgerOptions::default()).unwrap();
    let token = format!("ghp_{}", "aB3dE6gH9jK2mN5pQ8aB3dE6gH9jK2mN5pQ8");
    ledger
        .append(&call(json!({"command": format!("curl -H 'x: {token}' https://u:hunter2@h/")})))
        .unwrap();
    ledger
        .append(&call(
            json!({"env": {"API_TOKEN": "xyzzy\"wyxyw"}, "key": "-----BEGIN PRIVATE KEY-----\nMII"}),
        ))
        .unwrap();
    let text = fs::read_to_string(&paths.current).unwrap();
    // None of them could be a part of a hash by chance.
    for secret in [token.as_str(), "hunter2", "KEY-----\\nMII", "xyzzy", "wyxyw"] {
        assert!(!text.contains(secret), "{secret}");
    }
    assert!(text.contains("[redacted]"));
    assert_eq!(records(&paths).len(), 4, "and each line is still JSON");
    assert_eq!(verify(&paths, &VerifyOptions::default()).unwrap().fault, None);
}

#[test]
fn a_record_too_large_to_keep_is_named_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let paths = LedgerPaths::of_state_dir(folder.path());
    let ledger = Ledger::open(paths.clone(), LedgerOptions::default()).unwrap();
    ledger.append(&call(json!({"content": "x".repeat(4 << 20)}))).unwrap();
    let all = records(&paths);
    let record = all.last().unwrap();
    assert_eq!(
        (record["type"].as_str(), record["of"].as_str()),
        (Some("too_large"), Some("call_requested"))
    );
    assert_eq!(record["call"], "c");
    assert!(fs::metadata(&paths.current).unwrap().len() < 100_000);
}

#[test]
fn a_torn_last_line_is_taken_away_and_said_so_wherever_it_is_torn() {
    let folder = tempfile::tempdir().unwrap();
    let paths = LedgerPaths::of_state_dir(folder.path());
    let ledger = Ledger::open(paths.clone(), LedgerOptions::default()).unwrap();
    ledger.append(&call(json!({"n": 0}))).unwrap();
    let line = fs::read_to_string(&paths.current).unwrap().lines().last().unwrap().to_owned();
    for (n, cut) in [1, 10, 100, line.len() - 1, line.len()].into_iter().enumerate() {
        let mut file = OpenOptions::new().append(true).open(&paths.current).unwrap();
        file.write_all(&line.as_bytes()[..cut]).unwrap();
        // Half of the time the living writer finds it, half of the time a new one.
        if n % 2 == 0 {
            ledger.append(&call(json!({"n": n}))).unwrap();
        } else {
            Ledger::open(paths.clone(), LedgerOptions::default()).unwrap();
        }
        let all = records(&paths);
        let found = all.iter().filter(|record| record["type"] == "recovered").count();
        assert_eq!(found, n + 1);
        let recovered = all.iter().rfind(|record| record["type"] == "recovered").unwrap();
        assert_eq!(recovered["bytes"], cut);
        assert_eq!(verify(&paths, &VerifyOptions::default()).unwrap().fault, None);
    }
}

#[test]
fn threads_and_handles_share_one_ledger_through_rotations() {
    let folder = tempfile::tempdir().unwrap();
    let paths = LedgerPaths::of_state_dir(folder.path());
    let options = LedgerOptions {
        segment_bytes: 20_000,
        checkpoint_every: 50,
        fsync: stockade_ledger::FsyncPolicy::Never,
    };
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let paths = paths.clone();
            scope.spawn(move || {
                let ledger = Ledger::open(paths, options).unwrap();
                for n in 0..200 {
                    ledger.append(&call(json!({"writer": writer, "n": n}))).unwrap();
                }
            });
        }
    });
    assert!(paths.segments().unwrap().len() > 5);
    assert_eq!(verify(&paths, &VerifyOptions::default()).unwrap().fault, None);
    for writer in 0..4 {
        let mine: Vec<u64> = records(&paths)
            .iter()
            .filter(|record| record["arguments"]["writer"] == writer)
            .filter_map(|record| record["arguments"]["n"].as_u64())
            .collect();
        assert_eq!(mine, (0..200).collect::<Vec<_>>(), "each writer's records, all and in order");
    }
}

#[test]
fn a_start_that_died_between_any_two_steps_of_beginning_a_ledger_is_taken_up() {
    for files in [
        &["ledger.pub"][..],
        &["ledger.pub", "ledger.key"],
        &["ledger.pub", "ledger.key", "ledger.jsonl"],
    ] {
        let whole = tempfile::tempdir().unwrap();
        Ledger::open(LedgerPaths::of_state_dir(whole.path()), LedgerOptions::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            fs::copy(whole.path().join(file), folder.path().join(file)).unwrap();
        }
        let paths = LedgerPaths::of_state_dir(folder.path());
        Ledger::open(paths.clone(), LedgerOptions::default()).unwrap();
        assert_eq!(verify(&paths, &VerifyOptions::default()).unwrap().fault, None, "{files:?}");
    }
}

#[test]
fn a_rotation_that_died_in_the_middle_is_ended_by_the_next_writer() {
    let folder = tempfile::tempdir().unwrap();
    let paths = LedgerPaths::of_state_dir(folder.path());
    let living = Ledger::open(paths.clone(), LedgerOptions::default()).unwrap();
    living.append(&call(json!({"n": 1}))).unwrap();
    fs::rename(&paths.current, paths.segment(1)).unwrap();
    living.append(&call(json!({"n": 2}))).unwrap();
    fs::rename(&paths.current, paths.segment(4)).unwrap();
    let new = Ledger::open(paths.clone(), LedgerOptions::default()).unwrap();
    new.append(&call(json!({"n": 3}))).unwrap();
    assert_eq!(verify(&paths, &VerifyOptions::default()).unwrap().fault, None);
    assert_eq!(records(&paths).len(), 9);
}
