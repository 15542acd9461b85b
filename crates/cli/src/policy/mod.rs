//! `stockade policy`: what policies say, and what that means (spec 10.1; issue 3). Nothing is run, and nothing changed.

mod args;
mod diff;
mod explain;
mod list;
mod subject;
mod test;

pub use args::PolicyArgs;

use crate::{complain, complain_in_lines};
use args::PolicyCommand;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use stockade_policy::{Effective, Policy, Variables, policy_schema};
use stockade_sandbox::linux::check_policy;

/// The answer is no: the policy is wrong, or the two differ.
const NO: u8 = 1;
/// There is no answer.
const TROUBLE: u8 = 2;

/// What a subcommand found.
struct Answer {
    text: String,
    json: Value,
    is_no: bool,
}

impl Answer {
    fn new(text: String, json: Value) -> Self {
        Self { text, json, is_no: false }
    }
}

/// Answers.
pub fn main(args: &PolicyArgs) -> ExitCode {
    let (answer, as_json) = match &args.command {
        PolicyCommand::List { json } => (list::list(), *json),
        PolicyCommand::Show { policy, json } => (show(policy), *json),
        PolicyCommand::Test { rules, workspace, json } => {
            (test::test(rules, workspace.as_deref()), *json)
        }
        PolicyCommand::Check { policy, json } => (Ok(check(policy)), *json),
        PolicyCommand::Explain { subject, policy, workspace, kind, json } => {
            (explain::explain(subject, *kind, policy, workspace.as_deref()), *json)
        }
        PolicyCommand::Diff { a, b, workspace, json } => {
            (diff::diff(a, b, workspace.as_deref()), *json)
        }
        PolicyCommand::Schema => (Ok(Answer::new(String::new(), policy_schema())), true),
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            complain_in_lines(&error);
            return ExitCode::from(TROUBLE);
        }
    };
    let text = match as_json {
        true => format!("{:#}\n", answer.json),
        false => answer.text,
    };
    if let Err(error) = std::io::stdout().write_all(text.as_bytes()) {
        complain(&format!("the answer cannot be written: {error}"));
        return ExitCode::from(TROUBLE);
    }
    ExitCode::from(if answer.is_no { NO } else { 0 })
}

/// A policy by its name, from its file, or from stdin (`-`).
fn load(policy: &OsStr) -> Result<Effective, String> {
    if policy != "-" {
        return Policy::load_effective(policy).map_err(|error| error.to_string());
    }
    // One byte more than any policy has, so that what is too long is not cut to what is not.
    let mut text = String::new();
    let read = std::io::stdin().take(TEXT_MOST + 1).read_to_string(&mut text);
    read.map_err(|error| format!("stdin cannot be read: {error}"))?;
    if text.len() as u64 > TEXT_MOST {
        return Err("stdin is longer than 1 MiB, which no policy is".to_owned());
    }
    Effective::from_text("stdin", &text).map_err(|error| error.to_string())
}

/// As for a policy file.
const TEXT_MOST: u64 = 1 << 20;

fn show(policy: &OsStr) -> Result<Answer, String> {
    let effective = load(policy)?;
    let json = json!({
        "name": effective.policy.name,
        "digest": effective.policy.digest(),
        "lines": effective.lines,
    });
    Ok(Answer::new(effective.to_string(), json))
}

/// Whether the policy, and the ceiling that it names, can be loaded.
fn check(policy: &OsStr) -> Answer {
    let checked = load(policy).and_then(|effective| {
        effective.policy.ceiling().map_err(|error| format!("escalation.ceiling: {error}"))?;
        check_policy(&effective.policy, &variables(None)?)
            .map_err(|refusal| refusal.to_string())?;
        Ok(effective)
    });
    match checked {
        Ok(effective) => {
            let name = &effective.policy.name;
            let text = format!("{name}: the policy is valid\n");
            Answer::new(text, json!({"valid": true, "name": name}))
        }
        Err(problem) => Answer {
            text: format!("{problem}\n"),
            json: json!({"valid": false, "problem": problem}),
            is_no: true,
        },
    }
}

/// What the variables stand for here.
fn variables(workspace: Option<&Path>) -> Result<Variables, String> {
    let workspace = workspace.unwrap_or(Path::new("."));
    let workspace = std::fs::canonicalize(workspace)
        .map_err(|error| format!("--workspace {}: {error}", workspace.display()))?;
    let home: Option<PathBuf> = std::env::home_dir().filter(|home| home.is_absolute());
    let home = home.ok_or("there is no absolute path to a home folder: set HOME")?;
    Ok(Variables { workspace, home, session: None })
}
