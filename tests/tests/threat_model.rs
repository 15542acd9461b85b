//! docs/threat-model.md names a test for each answer: each of them exists.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace")
}

/// Every source file below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// The rows of the table of attacks: their cells.
fn rows() -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join("docs/threat-model.md")).expect("the threat model");
    let (_, table) = text.split_once("| published hole |").expect("the table of attacks");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|line| {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()
    })
    .collect()
}

#[test]
fn every_test_that_the_threat_model_names_exists() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    sources(&root().join("tests"), &mut files);
    let code: String =
        files.iter().map(|path| fs::read_to_string(path).expect("a source file")).collect();
    let mut missing = Vec::new();
    for row in rows() {
        assert_eq!(row.len(), 4, "{row:?}");
        for name in row[3].split('`').skip(1).step_by(2) {
            // A function, or the id of a row of the escape suite.
            let is_there = code.contains(&format!("fn {name}()"))
                || ["sh", "py"].iter().any(|kind| code.contains(&format!("{kind}(\"{name}\",")));
            if !is_there {
                missing.push(name.to_owned());
            }
        }
        let is_open = row[2].contains("**not defended**");
        assert!(is_open || row[3].contains('`'), "{} has an answer and no test", row[0]);
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_threat_model_has_an_answer_to_at_least_40_published_holes() {
    assert!(rows().len() >= 40, "{}", rows().len());
}
