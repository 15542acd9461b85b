//! The examples run, and print what they promise.

use std::process::Command;
use std::time::Duration;
use stockade_tests::{cargo, finish};

fn output(example: &str) -> String {
    let mut command: Command = cargo();
    command.args(["run", "--quiet", "--locked", "-p", "stockade-examples", "--bin", example]);
    let ran = finish(&mut command, b"", Duration::from_secs(900));
    assert!(ran.status.success(), "{example}: {}", ran.err());
    ran.out()
}

// spec 10.5
#[test]
fn a_tool_of_a_rust_type_is_called() {
    let out = output("add");
    assert!(out.contains("\"description\":\"The first number.\""), "{out}");
    assert!(out.contains("1: [Text { text: \"5\" }]"), "{out}");
    assert!(out.contains("too large"), "{out}");
    let source = include_str!("../../examples/add.rs");
    let tool =
        source.split_once("// The tool:\n").and_then(|(_, rest)| rest.split_once("#[tokio::main"));
    let lines = tool.expect("the tool's part").0.lines().filter(|line| !line.is_empty()).count();
    assert!(lines < 20, "{lines} lines");
}

// spec 10.5
#[test]
fn a_session_is_opened_run_read_back_and_ended() {
    let out = output("session");
    assert!(out.contains(r#"groups: [[CallId("1"), CallId("2")], [CallId("3")]]"#), "{out}");
    assert!(out.contains("No such tool available: Shout"), "{out}");
    assert!(out.contains("turns: 2, the same: true") && out.contains("removed: 0 files"), "{out}");
}

// What the README shows is compiled, and run: each of its snippets stands in an example.
#[test]
fn every_snippet_of_the_readme_is_part_of_an_example() {
    let lines = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
    };
    let examples = [
        include_str!("../../examples/add.rs"),
        include_str!("../../examples/session.rs"),
        include_str!("../../examples/host_loop.rs"),
    ]
    .map(lines);
    let readme = include_str!("../../README.md");
    let snippets: Vec<_> = readme.split("```rust\n").skip(1).collect();
    assert!(snippets.len() >= 5, "{}", snippets.len());
    for snippet in snippets {
        let shown = lines(snippet.split_once("```").expect("an end").0);
        let within =
            examples.iter().any(|lines| lines.windows(shown.len()).any(|part| part == shown));
        assert!(within, "no example has this: {shown:#?}");
    }
}

// spec 10.5
#[test]
fn a_host_streams_calls_in_and_takes_results_out() {
    let out = output("host_loop");
    let lines: Vec<&str> = out.lines().collect();
    let place = |what: &str| lines.iter().position(|line| line.contains(what));
    let results = ["1 error=false", "2 error=false", "3 error=true"].map(place);
    assert!(results.is_sorted() && results.iter().all(Option::is_some), "{out}");
    assert!(out.contains("2\\n"), "{out}");
}
