//! The shell parser over lines that people and models wrote: most are understood, none is allowed by a doubt, and nothing panics.
//! `scripts/corpus shell` prints the figures.

use std::fs;
use std::path::Path;
use stockade_rules::shell::{analyze, is_read_only};

fn lines() -> Vec<String> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    let one_liners = fs::read_to_string(data.join("one-liners/commands.txt")).unwrap();
    let mut lines: Vec<String> = one_liners.lines().map(str::to_owned).collect();
    let models = fs::read_to_string(data.join("model-commands/fs1/commands.jsonl")).unwrap();
    for entry in models.lines() {
        let entry: serde_json::Value = serde_json::from_str(entry).unwrap();
        lines.extend(
            entry["commands"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|line| Some(line.as_str()?.to_owned())),
        );
    }
    lines
}

// spec 2.5
#[test]
fn nearly_every_line_of_the_corpora_is_read_and_none_makes_it_panic() {
    let lines = lines();
    assert!(lines.len() > 5000);
    let unread = lines
        .iter()
        .filter(|line| {
            analyze(line).doubts.iter().any(|doubt| doubt.contains("cannot be read as bash"))
        })
        .count();
    assert!(unread * 100 < lines.len() * 4, "{unread} of {} cannot be read", lines.len());
    assert!(
        !lines
            .iter()
            .any(|line| analyze(line).doubts.iter().any(|doubt| doubt == "the parser failed"))
    );
}

// spec 1.23
#[test]
fn no_line_with_a_writing_command_is_taken_for_reading() {
    let writes = [
        "rm", "mv", "cp", "touch", "mkdir", "rmdir", "chmod", "chown", "ln", "dd", "tee", "kill",
        "mkfs", "truncate", "shred", "wget", "curl", "tar", "gzip", "unzip", "rsync", "scp", "ssh",
        "sudo", "install", "rename", "crontab",
    ];
    for line in lines() {
        if is_read_only(&line) {
            let quoted = line.contains(['\'', '"']);
            let found = line
                .split(|c: char| c.is_whitespace() || "|;&(){}`$".contains(c))
                .find(|word| writes.contains(word));
            assert!(
                found.is_none()
                    || quoted
                    || line.contains("which")
                    || line.contains("man ")
                    || line.contains("find")
                    || line.contains("grep")
                    || line.contains("echo"),
                "{line}"
            );
        }
    }
}

/// Every line cut short at every place, and with its brackets torn: the parser must neither panic nor hang.
#[test]
fn torn_lines_are_doubts_and_no_panics() {
    for line in lines().iter().step_by(29) {
        for (at, _) in line.char_indices().step_by(3) {
            analyze(&line[..at]);
        }
    }
    for torn in [
        "(",
        "((",
        "$((",
        "${",
        "`",
        "[[ ",
        "{ ",
        "case x in",
        "if ",
        "$(",
        "<<",
        "<(",
        "\"$(",
        "a=(",
    ] {
        for times in [1, 8, 40, 400, 10_000] {
            let analysis = analyze(&torn.repeat(times));
            assert!(!analysis.doubts.is_empty(), "{torn} {times} times");
        }
    }
}
