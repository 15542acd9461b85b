//! The table of differences that have a reason.

use anyhow::{Context, Result};
use regex::Regex;
use serde::Deserialize;
use std::cell::Cell;
use std::fs;
use std::path::Path;

/// What differed between Stockade and the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    /// What it wrote to stdout.
    Stdout,
    /// What it wrote to stderr.
    Stderr,
    /// How it ended.
    Status,
    /// The tree afterwards.
    Tree,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    difference: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// Matches the command.
    command: String,
    fields: Vec<Field>,
    /// Matches what Stockade gave.
    #[serde(default)]
    stockade: String,
    /// Matches what the reference gave.
    #[serde(default)]
    reference: String,
    reason: String,
}

struct Rule {
    command: Regex,
    fields: Vec<Field>,
    stockade: Regex,
    reference: Regex,
    reason: String,
    used: Cell<usize>,
}

/// The table, read.
pub struct Expected(Vec<Rule>);

impl Expected {
    /// Reads the table; `{ws}` in its patterns stands for the workspace.
    pub fn read(path: &Path, workspace: &str) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {path:?}"))?;
        let file: File = toml::from_str(&text).with_context(|| format!("{path:?} is no table"))?;
        let regex = |pattern: &str| {
            Regex::new(&pattern.replace("{ws}", &regex::escape(workspace)))
                .with_context(|| format!("{pattern:?} in {path:?}"))
        };
        let rule = |row: Row| {
            Ok(Rule {
                command: regex(&row.command)?,
                fields: row.fields,
                stockade: regex(&row.stockade)?,
                reference: regex(&row.reference)?,
                reason: row.reason,
                used: Cell::new(0),
            })
        };
        Ok(Self(file.difference.into_iter().map(rule).collect::<Result<_>>()?))
    }

    /// The reason for a difference, if it has one.
    pub fn reason(
        &self,
        command: &str,
        field: Field,
        stockade: &str,
        reference: &str,
    ) -> Option<String> {
        let rule = self.0.iter().find(|rule| {
            rule.fields.contains(&field)
                && rule.command.is_match(command)
                && rule.stockade.is_match(stockade)
                && rule.reference.is_match(reference)
        })?;
        rule.used.set(rule.used.get() + 1);
        Some(rule.reason.clone())
    }

    /// Reasons that explained nothing in a run over everything: the table says too much.
    pub fn unused(&self) -> Vec<&str> {
        let idle = self.0.iter().filter(|rule| rule.used.get() == 0);
        idle.map(|rule| rule.command.as_str()).collect()
    }
}
