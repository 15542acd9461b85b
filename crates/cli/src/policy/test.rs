//! `stockade policy test`: the examples that stand beside permission rules (spec 2.5).

use super::Answer;
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;
use stockade_rules::{RuleLayer, RuleScope, RuleSet};

/// Runs every example of a rule file against the rules of that file.
pub fn test(file: &Path, workspace: Option<&Path>) -> Result<Answer, String> {
    let mut rules = RuleSet::default();
    rules.add_file(RuleLayer::Project, file).map_err(|errors| errors.to_string())?;
    let workspace = workspace.unwrap_or(Path::new("."));
    let workspace = workspace
        .canonicalize()
        .map_err(|error| format!("the workspace {}: {error}", workspace.display()))?;
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    let scope = RuleScope { workspace, home };
    let results: Vec<_> = rules.examples().map(|example| example.run(&rules, &scope)).collect();
    let wrong = results.iter().filter(|result| !result.is_good()).count();
    let mut text = String::new();
    for result in &results {
        // Writing to a String cannot fail.
        let _ = match result.is_good() {
            true => writeln!(text, "ok    {}: {} ({})", result.call, result.found, result.why),
            false => writeln!(
                text,
                "WRONG {}:{}: {}: expected {}, but it is {} ({})",
                file.display(),
                result.line,
                result.call,
                result.expected,
                result.found,
                result.why
            ),
        };
    }
    let tested = results.len();
    let _ = match tested {
        0 => writeln!(
            text,
            "nothing was tested: {} holds {} rules and no example; each is an [[example]] with call and expect, in a TOML file",
            file.display(),
            rules.len()
        ),
        _ => writeln!(text, "{} rules, {tested} examples, {wrong} of them wrong", rules.len()),
    };
    let json = json!({ "rules": rules.len(), "examples": results, "wrong": wrong });
    Ok(Answer { text, json, is_no: wrong > 0 || tested == 0 })
}
