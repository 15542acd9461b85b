//! Commands that people wrote, many of them destructive, under `read-only` in a throw-away tree: nothing
//! may change, nothing may stay, nothing may be late.

use super::watch::{self, Watch};
use super::{Selection, canary};
use crate::{Confined, RunReport, Scratch, data_dir, tree, unique};
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(2);
const GRACE: Duration = Duration::from_secs(1);

/// What came of a run.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    /// Commands that were run.
    pub commands: usize,
    /// How many ended in each way.
    pub outcomes: BTreeMap<String, usize>,
    /// The longest that a call took beyond its timeout and grace, in milliseconds; 0 when none did.
    pub latest_ms: u128,
    /// Calls that gave no result, left a process, or ended late.
    pub broken: Vec<String>,
}

/// Runs the selection. An error, at once, when anything of the host has changed: then nothing more may
/// be run.
pub fn run(selection: Selection) -> Result<Summary> {
    let path = data_dir().join("one-liners/commands.txt");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path:?}"))?;
    let scratch = Scratch::new();
    let mut watch = Watch::new(&scratch)?;
    let tree = scratch.repository("tree");
    fs::write(tree.join("file with a space.txt"), "one\ntwo\n")?;
    canary::check("read-only", &tree)?;
    let before = tree::snapshot(&tree);
    let mut summary = Summary::default();

    for (number, line) in selection.of(text.lines().collect()) {
        summary.commands += 1;
        match call(&watch, &tree, line, selection.slack) {
            Ok((outcome, late)) => {
                *summary.outcomes.entry(outcome).or_default() += 1;
                summary.latest_ms = summary.latest_ms.max(late.as_millis());
            }
            Err(error) => summary.broken.push(format!("{number}: {line}: {error:#}")),
        }
        let mut changes = watch.changes();
        changes.extend(tree::touched(&before, &tree::snapshot(&tree)));
        if !changes.is_empty() {
            bail!("{number}: {line}: changed what it must not: {}", changes.join("; "));
        }
    }
    Ok(summary)
}

fn call(watch: &Watch, tree: &Path, line: &str, slack: Duration) -> Result<(String, Duration)> {
    let marker = unique();
    let mut confined = Confined::new("read-only", tree);
    watch.home().dress(confined.process()).current_dir(tree);
    let variable = format!("STOCKADE_CORPUS_CALL={marker}");
    let options = ["--timeout", "2s", "--grace", "1s", "--json", "--env", &variable];
    let finished = confined.options(&options).run(&["bash", "-c", line, &marker]);
    let left = watch::left_over(&marker);
    ensure!(left.is_empty(), "processes are left: {left:?}");
    let late = finished.took.saturating_sub(TIMEOUT + GRACE);
    ensure!(late < slack, "{late:?} later than timeout and grace");
    let secret = finished.out().contains(watch.home().marker());
    ensure!(!secret, "a secret of the home in its output");
    let report: RunReport = serde_json::from_slice(&finished.stdout)
        .with_context(|| format!("no result: {}{}", finished.out(), finished.err()))?;
    ensure!(report.status() >= 0, "it did not run: {}", finished.out());
    Ok((report.outcome, late))
}
