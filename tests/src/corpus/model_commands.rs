//! Commands that models wrote, on a small tree: each under Stockade and under bubblewrap with the same
//! view, and everything compared that can be seen of it.

use super::expected::{Expected, Field};
use super::{Selection, canary, watch};
use crate::{Confined, Finished, Reference, RunReport, Scratch, data_dir, tree, unique};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);
const GRACE: Duration = Duration::from_secs(1);
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How often the reference is asked again where the sides differ.
const AGAIN: usize = 3;
/// Carries a call's marker, on both sides.
const VARIABLE: &str = "STOCKADE_CORPUS_CALL";

/// One difference between the two sides, as a line of JSON.
#[derive(Debug, Serialize)]
pub struct Difference {
    number: usize,
    task: String,
    command: String,
    field: Field,
    stockade: String,
    reference: String,
    reason: Option<String>,
}

/// What came of a run.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    /// Commands that were run.
    pub commands: usize,
    /// Of these, ended by the timeout under Stockade.
    pub timed_out: usize,
    /// Commands that agree in everything.
    pub agreeing: usize,
    /// Differences for each reason.
    pub reasons: BTreeMap<String, usize>,
    /// Differences without one.
    pub unexplained: Vec<String>,
    /// Calls that gave no result, left a process, or ended late: never explained away.
    pub broken: Vec<String>,
    /// Patterns of the table that explained nothing.
    pub unused: Vec<String>,
}

impl Summary {
    /// Whether all is as it must be.
    pub fn is_good(&self) -> bool {
        self.unexplained.is_empty() && self.broken.is_empty()
    }
}

#[derive(Deserialize)]
struct Task {
    id: String,
    commands: Vec<String>,
}

/// One side's view of one command.
#[derive(PartialEq)]
struct Side {
    stdout: String,
    stderr: String,
    status: i32,
    tree: tree::Snapshot,
}

/// Runs the selection of a set (`fs1`, `fs2`); writes every difference to `report` as a line of JSON.
pub fn run(set: &str, selection: Selection, report: &Path) -> Result<Summary> {
    let data = data_dir().join("model-commands").join(set);
    let scratch = Scratch::within(&std::env::temp_dir());
    let site = Site {
        tree: scratch.path().join("tree"),
        archive: data.join("tree.tar"),
        home: scratch.folder("home"),
    };
    site.unpack()?;
    canary::check("workspace-write", &site.tree)?;
    let reference = Reference::like_stockade(&site.tree, || site.confined());
    let workspace = site.tree.to_str().context("the scratch folder's name is not UTF-8")?;
    let expected = Expected::read(&data.join("expected-differences.toml"), workspace)?;
    let mut file = fs::File::create(report).with_context(|| format!("cannot write {report:?}"))?;
    let mut summary = Summary::default();

    for (number, (task, line)) in selection.of(commands(&data)?) {
        let line = line.replace("{ws}", workspace);
        summary.commands += 1;
        let place = format!("{number} ({task}): {line}");
        let stockade = match site.stockade(&line, selection.slack) {
            Ok((side, timed_out)) => {
                summary.timed_out += usize::from(timed_out);
                side
            }
            Err(error) => {
                summary.broken.push(format!("{place}: {error:#}"));
                continue;
            }
        };
        let other = site.reference(&reference, &line)?;
        let found = compare(&stockade, &other);
        if found.is_empty() {
            summary.agreeing += 1;
            continue;
        }
        // What the reference itself does not say every time proves nothing against Stockade.
        let mut unsteady = Vec::new();
        for _ in 0..AGAIN {
            let again = site.reference(&reference, &line)?;
            unsteady.extend(compare(&other, &again).into_iter().map(|(field, ..)| field));
        }
        for (field, ours, theirs) in found {
            let reason = if unsteady.contains(&field) {
                Some("not deterministic: runs of the reference differ in it as well".into())
            } else if field == Field::Stderr && same_words(&ours, &theirs) {
                Some("not deterministic: the same messages, of processes that run at once".into())
            } else {
                expected.reason(&line, field, &ours, &theirs)
            };
            match &reason {
                Some(reason) => *summary.reasons.entry(reason.clone()).or_default() += 1,
                None => summary.unexplained.push(format!("{place} [{field:?}]")),
            }
            let (task, command) = (task.clone(), line.clone());
            let difference = Difference {
                number,
                task,
                command,
                field,
                stockade: ours,
                reference: theirs,
                reason,
            };
            writeln!(file, "{}", serde_json::to_string(&difference)?)?;
        }
    }
    summary.unused = expected.unused().into_iter().map(String::from).collect();
    Ok(summary)
}

fn commands(data: &Path) -> Result<Vec<(String, String)>> {
    let text = fs::read_to_string(data.join("commands.jsonl")).context("the commands")?;
    let mut all = Vec::new();
    for line in text.lines() {
        let task: Task = serde_json::from_str(line).context("a line of commands.jsonl")?;
        all.extend(task.commands.into_iter().map(|command| (task.id.clone(), command)));
    }
    Ok(all)
}

struct Site {
    tree: PathBuf,
    archive: PathBuf,
    home: PathBuf,
}

impl Site {
    /// A fresh copy, in the same place each time so that the two sides can be compared.
    fn unpack(&self) -> Result<()> {
        if self.tree.exists() {
            // A command may have taken away its own permissions.
            let status = Command::new("chmod").args(["-R", "u+rwX"]).arg(&self.tree).output()?;
            drop(status);
            fs::remove_dir_all(&self.tree).context("the old tree")?;
        }
        fs::create_dir(&self.tree)?;
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--preserve-permissions", "--no-same-owner", "--file"]);
        let status = tar.arg(&self.archive).arg("--directory").arg(&self.tree).status()?;
        ensure!(status.success(), "tar could not unpack the tree");
        Ok(())
    }

    fn confined(&self) -> Confined {
        let mut confined = Confined::new("workspace-write", &self.tree);
        // The same on every machine: no tool of the real home is found on one side only.
        confined
            .process()
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", PATH)
            .env("LANG", "C.UTF-8");
        confined
    }

    fn stockade(&self, line: &str, slack: Duration) -> Result<(Side, bool)> {
        self.unpack()?;
        let marker = unique();
        let variable = format!("{VARIABLE}={marker}");
        let mut confined = self.confined();
        confined.process().current_dir(&self.tree);
        let options = ["--timeout", "5s", "--grace", "1s", "--json", "--env", &variable];
        let finished = confined.options(&options).bash(line);
        let left = watch::left_over(&format!("{VARIABLE}={marker}"));
        ensure!(left.is_empty(), "processes are left: {left:?}");
        let late = finished.took.saturating_sub(TIMEOUT + GRACE);
        ensure!(late < slack, "{late:?} later than timeout and grace");
        let report: RunReport = serde_json::from_slice(&finished.stdout)
            .with_context(|| format!("no result: {}{}", finished.out(), finished.err()))?;
        ensure!(report.status() >= 0, "it did not run: {}", finished.out());
        let timed_out = report.outcome == "timed_out";
        let side = self.side(report.stdout.clone(), report.stderr.clone(), report.status());
        Ok((side, timed_out))
    }

    fn reference(&self, reference: &Reference, line: &str) -> Result<Side> {
        self.unpack()?;
        let variable = (VARIABLE, unique());
        let Finished { status, stdout, stderr, .. } = reference.bash(line, TIMEOUT, variable);
        // `timeout -k` ends with 137 when it had to use SIGKILL: to us that is a timeout like any other.
        let status = status.code().context("bubblewrap was killed")?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(self.side(text(stdout), text(stderr), status))
    }

    fn side(&self, stdout: String, stderr: String, status: i32) -> Side {
        Side { stdout, stderr, status, tree: tree::snapshot(&self.tree) }
    }
}

/// Whether the two have the same words in some order: processes that write at once may come between each
/// other's words. How many of them a reader who goes away meets is chance: `find -exec … | xargs` tells of each that SIGPIPE ended.
fn same_words(left: &str, right: &str) -> bool {
    let sorted = |text: &str| {
        let lines = text.lines().filter(|line| !line.ends_with("terminated by signal 13"));
        let mut words: Vec<String> =
            lines.flat_map(str::split_whitespace).map(String::from).collect();
        words.sort_unstable();
        words
    };
    sorted(left) == sorted(right)
}

fn compare(stockade: &Side, reference: &Side) -> Vec<(Field, String, String)> {
    let mut found = Vec::new();
    let mut differ = |field, left: &str, right: &str| {
        if left != right {
            found.push((field, left.to_owned(), right.to_owned()));
        }
    };
    differ(Field::Stdout, &stockade.stdout, &reference.stdout);
    differ(Field::Stderr, &stockade.stderr, &reference.stderr);
    differ(Field::Status, &stockade.status.to_string(), &reference.status.to_string());
    let changes = tree::differences(&stockade.tree, &reference.tree);
    if !changes.is_empty() {
        let side = |n: usize| {
            let lines = changes.iter().filter_map(|line| {
                let (path, sides) = line.rsplit_once(": ")?;
                Some(format!("{path}: {}", sides.split(" | ").nth(n)?))
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        found.push((Field::Tree, side(0), side(1)));
    }
    found
}
