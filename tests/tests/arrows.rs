//! The house's arrows (docs/architecture.md): which crate may use which, and that `unsafe` lives in `sys` alone. Read from
//! `cargo metadata`, so that a dependency added in passing fails here, by name.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A crate, without its `stockade-`, and the crates of ours that it may depend on. A crate that is not listed may not
/// exist: give it a line, and say in docs/architecture.md what it is for.
const ARROWS: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("policy", &["types"]),
    ("rules", &["types"]),
    ("plan", &[]),
    ("sys", &[]),
    ("launcher", &["plan", "sys"]),
    ("sandbox", &["types", "policy", "plan", "sys"]),
    ("subprocess", &["types", "sandbox"]),
    ("ledger", &["types", "policy"]),
    ("egress", &["types", "policy", "ledger"]),
    ("spill", &["types"]),
    ("tools", &["types", "policy", "sandbox", "subprocess"]),
    (
        "runtime",
        &[
            "types",
            "policy",
            "rules",
            "sandbox",
            "subprocess",
            "egress",
            "spill",
            "ledger",
            "tools",
        ],
    ),
    ("mcp", &["types", "policy", "tools", "runtime"]),
    ("cli", EVERYTHING),
    ("examples", EVERYTHING),
    ("tests", EVERYTHING),
];

/// The two ends of the house, which put all of it together and which nothing depends on.
const EVERYTHING: &[&str] = &[
    "types",
    "policy",
    "rules",
    "plan",
    "sys",
    "launcher",
    "sandbox",
    "subprocess",
    "egress",
    "spill",
    "ledger",
    "tools",
    "runtime",
    "mcp",
];

/// Where `unsafe` may stand.
const UNSAFE: &str = "sys";

const FORBID: &str = "#![forbid(unsafe_code)]";

fn metadata() -> Value {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"])
        .arg(&manifest)
        .output()
        .expect("cargo metadata starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn ours(name: &Value) -> Option<&str> {
    name.as_str()?.strip_prefix("stockade-")
}

/// Whether the table leads from one crate to another, in any number of steps.
fn reaches(from: &str, to: &str) -> bool {
    let line = ARROWS.iter().find(|(known, _)| *known == from);
    line.is_some_and(|(_, allowed)| allowed.iter().any(|next| *next == to || reaches(next, to)))
}

/// Every arrow that the table does not have.
fn wrong_arrows(metadata: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in list(metadata, "packages") {
        let Some(name) = ours(&package["name"]) else {
            wrong.push(format!("{} is not called stockade-…", package["name"]));
            continue;
        };
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            wrong.push(format!("{name} is not in the table"));
            continue;
        };
        for dependency in list(package, "dependencies") {
            // A crate's tests may also name what it has anyway, by way of its dependencies.
            let for_tests = dependency["kind"] == "dev";
            if let Some(target) = ours(&dependency["name"])
                && !allowed.contains(&target)
                && !(for_tests && allowed.iter().any(|known| reaches(known, target)))
            {
                wrong.push(format!("{name} -> {target}"));
            }
        }
    }
    wrong
}

/// Every crate root that does not forbid `unsafe` and should. `read` gives a root's text.
fn roots_without_forbid(metadata: &Value, read: impl Fn(&str) -> String) -> Vec<String> {
    let mut missing = Vec::new();
    for package in list(metadata, "packages") {
        if ours(&package["name"]) == Some(UNSAFE) {
            continue;
        }
        for target in list(package, "targets") {
            let is_code = list(target, "kind").iter().any(|kind| {
                matches!(kind.as_str(), Some("lib" | "rlib" | "bin" | "proc-macro" | "cdylib"))
            });
            let root = target["src_path"].as_str().unwrap_or_default();
            if is_code && !read(root).lines().any(|line| line.trim() == FORBID) {
                missing.push(root.to_owned());
            }
        }
    }
    missing
}

#[test]
fn every_crate_depends_only_on_what_its_line_in_the_table_allows() {
    let metadata = metadata();
    assert!(list(&metadata, "packages").len() >= 10, "cargo metadata shows the whole workspace");
    assert_eq!(wrong_arrows(&metadata), Vec::<String>::new());
}

#[test]
fn every_crate_but_sys_forbids_unsafe_code() {
    let read = |root: &str| std::fs::read_to_string(root).expect("a crate root can be read");
    assert_eq!(roots_without_forbid(&metadata(), read), Vec::<String>::new());
}

#[test]
fn the_table_has_no_circle() {
    // Each crate may only use crates that stand above it.
    for (at, (name, allowed)) in ARROWS.iter().enumerate() {
        for target in *allowed {
            let above = ARROWS.iter().take(at).any(|(known, _)| known == target);
            assert!(above, "{name} -> {target} does not point up the table");
        }
    }
}

#[test]
fn a_wrong_arrow_is_found() {
    let package = |name: &str, dependency: &str| {
        serde_json::json!({
            "name": name,
            "dependencies": [{ "name": dependency, "kind": null }, { "name": "serde", "kind": null }],
            "targets": [{ "kind": ["lib"], "src_path": name }],
        })
    };
    let mut for_tests = package("stockade-subprocess", "stockade-policy");
    for_tests["dependencies"][0]["kind"] = "dev".into();
    let mut upwards = package("stockade-policy", "stockade-sandbox");
    upwards["dependencies"][0]["kind"] = "dev".into();
    let metadata = serde_json::json!({ "packages": [
        for_tests,
        upwards,
        package("stockade-subprocess", "stockade-policy"),
        package("stockade-types", "stockade-sys"),
        package("stockade-launcher", "stockade-plan"),
        package("stockade-extra", "serde"),
        package("other", "serde"),
    ]});
    assert_eq!(
        wrong_arrows(&metadata),
        [
            "policy -> sandbox",
            "subprocess -> policy",
            "types -> sys",
            "extra is not in the table",
            "\"other\" is not called stockade-…",
        ]
    );
    let read = |root: &str| match root {
        "stockade-launcher" => format!("//! Docs.\n{FORBID}\n"),
        _ => "//! #![forbid(unsafe_code)]\n".to_owned(),
    };
    assert_eq!(
        roots_without_forbid(&metadata, read),
        [
            "stockade-subprocess",
            "stockade-policy",
            "stockade-subprocess",
            "stockade-types",
            "stockade-extra",
            "other"
        ]
    );
}
