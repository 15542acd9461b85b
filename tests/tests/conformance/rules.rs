//! The table of the rules: which of the spec's rules bear which letter, and where each has its test. A rule that is missing here
//! is missing in the suite.

use std::collections::BTreeSet;

/// The rules of each system.
const STREAMING: &[&str] =
    &["1.1", "1.2", "1.8", "1.9", "1.10", "1.11", "1.12", "1.13", "1.14", "1.15", "1.19", "1.20"];
const BATCHED: &[&str] = &[
    "1.3", "1.6", "1.7", "1.9", "1.11", "1.18", "1.19", "1.21", "2.2", "2.3", "2.5", "2.6", "2.8",
    "2.9", "2.10", "2.14", "2.15", "2.16", "2.17", "8.1", "8.2", "8.4", "9.1",
];
const ROLLING: &[&str] = &[
    "1.1", "1.2", "1.4", "1.5", "1.8", "1.16", "1.17", "1.18", "2.1", "2.2", "2.3", "2.4", "2.7",
    "2.11", "2.12", "2.13", "3.1", "3.2", "3.3", "3.4", "3.5", "4.1", "4.2", "4.3", "7.1", "7.2",
    "8.2", "9.1",
];

/// Rules without a test in this suite, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    // Nothing outside the scheduler can cause a fault of it.
    ("1.17", include_str!("../../../crates/runtime/src/scheduler/tests.rs")),
];
/// Code mode is not built, which the README says.
const NOT_BUILT: &[&str] = &["4.1", "4.2", "4.3"];

/// The rules that have a test whose name begins with the letter and the number.
fn tested(letter: char, sources: &[&str]) -> BTreeSet<String> {
    let mut tested = BTreeSet::new();
    for source in sources {
        let lines: Vec<&str> = source.lines().collect();
        for pair in lines.windows(2) {
            let is_test = pair[0].starts_with("#[tokio::test") || pair[0] == "#[test]";
            let name = pair[1].trim_start_matches("async ").strip_prefix("fn ");
            let Some(name) = name.filter(|_| is_test) else { continue };
            let mut words = name.split('_');
            if words.next() != Some(&letter.to_string()) {
                continue;
            }
            let numbers: Vec<&str> = words.take_while(|word| word.parse::<u8>().is_ok()).collect();
            if let [chapter, rule] = numbers[..] {
                tested.insert(format!("{chapter}.{rule}"));
            }
        }
    }
    tested
}

fn missing(letter: char, rules: &[&str], sources: &[&str]) -> Vec<String> {
    let tested = tested(letter, sources);
    let elsewhere = |rule: &&&str| {
        let comment = format!("// spec {rule}");
        ELSEWHERE.iter().any(|(known, source)| known == *rule && source.contains(&comment))
            || NOT_BUILT.contains(*rule)
    };
    let missing = rules.iter().filter(|rule| !tested.contains(**rule) && !elsewhere(rule));
    missing.map(|rule| (*rule).to_owned()).collect()
}

#[test]
fn every_rule_of_a_reference_system_has_a_test_with_its_number() {
    let none: [&str; 0] = [];
    let streaming = [include_str!("streaming.rs")];
    assert_eq!(missing('s', STREAMING, &streaming), none, "streaming.rs");
    let batched = [
        include_str!("batched.rs"),
        include_str!("batched/permission.rs"),
        include_str!("batched/pipeline.rs"),
        include_str!("batched/results.rs"),
        include_str!("batched/telemetry.rs"),
    ];
    assert_eq!(missing('b', BATCHED, &batched), none, "batched.rs");
    let rolling = [
        include_str!("rolling.rs"),
        include_str!("rolling/authority.rs"),
        include_str!("rolling/pipeline.rs"),
        include_str!("rolling/registry.rs"),
        include_str!("rolling/results.rs"),
    ];
    assert_eq!(missing('r', ROLLING, &rolling), none, "rolling.rs");
    // The table itself can find something missing.
    assert_eq!(missing('r', &["1.1", "1.99"], &rolling), ["1.99"]);
    assert_eq!(missing('b', &["1.17"], &[]), none);
}

#[test]
fn what_is_not_built_is_said_to_be() {
    let readme = include_str!("../../../README.md");
    assert!(NOT_BUILT.is_empty() || readme.contains("code mode (`run_code`)"));
}
