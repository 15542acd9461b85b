//! Lines that remove the file `f` by `rm`, each in a way of its own: each did so when it was run for real. Beside a rule that denies `rm`
//! none of them may run unasked (spec 2.5).

use serde_json::json;
use std::fs;
use std::process::{Command, Stdio};
use stockade_rules::{RuleLayer, RuleScope, RuleSet, Verdict};

fn lines() -> Vec<String> {
    include_str!("detours.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

// spec 2.5
#[test]
fn no_line_that_removes_by_a_detour_runs_unasked_beside_a_rule_that_denies_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.toml");
    let scope = RuleScope { workspace: "/w".into(), home: Some("/home/u".into()) };
    let lines = lines();
    assert!(lines.len() > 900);
    for text in ["deny = [\"Bash(rm:*)\"]", "deny = [\"Bash(rm:*)\"]\nallow = [\"Bash\"]"] {
        fs::write(&file, text).unwrap();
        let mut rules = RuleSet::default();
        rules.add_file(RuleLayer::Project, &file).unwrap();
        let unasked: Vec<&String> = lines
            .iter()
            .filter(|line| {
                let opinion = rules.judge("Bash", &json!({ "command": line }), &scope);
                !matches!(opinion.map(|o| o.verdict), Some(Verdict::Ask | Verdict::Deny))
            })
            .collect();
        assert_eq!(unasked, Vec::<&String>::new(), "{text}");
    }
}

/// Not every host has every program, so not every one must; but a table in which few do would show nothing.
#[test]
fn the_detours_are_real() {
    let lines = lines();
    let sample: Vec<&String> = lines.iter().step_by(25).collect();
    let removes = |line: &str| {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("f");
        fs::write(&target, "x").unwrap();
        let mut child = Command::new("timeout")
            .args(["-k", "1", "10", "bash", "-c", line])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", folder.path())
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.wait().unwrap();
        !target.exists()
    };
    let real = sample.iter().filter(|line| removes(line)).count();
    assert!(real * 2 > sample.len(), "{real} of {} remove the file", sample.len());
}
