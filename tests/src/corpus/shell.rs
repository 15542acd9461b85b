//! The shell parser and the read-only classifier over lines that people and models wrote (spec 1.23, 2.5). Nothing is run.

use crate::data_dir;
use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stockade_rules::shell::{analyze, is_read_only};
use stockade_rules::{RuleLayer, RuleScope, RuleSet, Verdict};

/// Rules of the kind that people write, for the matcher.
const RULES: &str = r#"
deny = ["Bash(rm:*)", "Bash(git push:*)", "Bash(curl:*)", "Bash(sudo:*)", "Read(~/.ssh/**)", "Edit(.git/**)"]
ask = ["Bash(chmod:*)", "Bash(kill:*)"]
allow = ["Bash(ls:*)", "Bash(cat:*)", "Bash(find:*)", "Bash(grep:*)", "Bash(sort:*)", "Bash(echo:*)", "Bash(awk:*)", "Bash(sed:*)", "Bash(xargs:*)", "Bash(wc:*)", "Read(**)", "Edit(src/**)"]
"#;

/// What came of it.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    /// Lines.
    pub lines: usize,
    /// Lines that the parser read.
    pub read: usize,
    /// Of these, lines about which there is no doubt what they run.
    pub resolved: usize,
    /// Of these, lines that only read.
    pub read_only: usize,
    /// Lines on which the parser failed in itself.
    pub failed: usize,
    /// Microseconds for a line: the mean, the 99th of 100, the longest.
    pub mean_us: f64,
    /// The 99th of 100.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Lines that the rule matcher allows, asks about and denies by [`RULES`], and those of which it says nothing.
    pub verdicts: BTreeMap<String, usize>,
    /// Microseconds of the matcher for a line, parsing included: the mean, the longest.
    pub judge_mean_us: f64,
    /// The longest.
    pub judge_max_us: f64,
    /// The doubts, by their first words, most frequent first.
    pub doubts: Vec<(String, usize)>,
}

/// Runs it over the corpora of the project, and over these files.
pub fn run(files: &[PathBuf]) -> Result<Summary> {
    let mut lines = Vec::new();
    let data = data_dir();
    let own = ["one-liners/commands.txt", "model-commands/fs1/commands.jsonl"]
        .map(|name| data.join(name));
    for file in own.iter().chain(files) {
        read(file, &mut lines)?;
    }
    let mut summary = Summary { lines: lines.len(), ..Summary::default() };
    let mut times: Vec<Duration> = Vec::with_capacity(lines.len());
    let mut doubts: BTreeMap<String, usize> = BTreeMap::new();
    for line in &lines {
        let start = Instant::now();
        let analysis = analyze(line);
        times.push(start.elapsed());
        summary.failed +=
            usize::from(analysis.doubts.iter().any(|doubt| doubt == "the parser failed"));
        summary.read += usize::from(
            !analysis.doubts.iter().any(|doubt| doubt.starts_with("it cannot be read as bash")),
        );
        summary.resolved += usize::from(analysis.doubts.is_empty());
        summary.read_only += usize::from(is_read_only(line));
        for doubt in analysis.doubts {
            *doubts
                .entry(doubt.split_whitespace().take(4).collect::<Vec<_>>().join(" "))
                .or_default() += 1;
        }
    }
    judge(&lines, &mut summary)?;
    times.sort();
    let micros = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e6);
    summary.mean_us =
        times.iter().map(Duration::as_secs_f64).sum::<f64>() * 1e6 / times.len().max(1) as f64;
    summary.p99_us = micros(times.get(times.len() * 99 / 100));
    summary.max_us = micros(times.last());
    summary.doubts = doubts.into_iter().collect();
    summary.doubts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    summary.doubts.truncate(12);
    Ok(summary)
}

fn judge(lines: &[String], summary: &mut Summary) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("rules.toml");
    fs::write(&file, RULES)?;
    let mut rules = RuleSet::default();
    rules.add_file(RuleLayer::Project, &file)?;
    let scope = RuleScope { workspace: "/w".into(), home: Some("/home/u".into()) };
    let mut all = Duration::ZERO;
    for line in lines {
        let start = Instant::now();
        let opinion = rules.judge("Bash", &json!({ "command": line }), &scope);
        let took = start.elapsed();
        all += took;
        summary.judge_max_us = summary.judge_max_us.max(took.as_secs_f64() * 1e6);
        let verdict = match opinion.map(|opinion| opinion.verdict) {
            None => "none",
            Some(Verdict::Allow) => "allow",
            Some(Verdict::Ask) => "ask",
            Some(Verdict::Deny) => "deny",
        };
        *summary.verdicts.entry(verdict.to_owned()).or_default() += 1;
    }
    summary.judge_mean_us = all.as_secs_f64() * 1e6 / lines.len().max(1) as f64;
    Ok(())
}

fn read(file: &Path, lines: &mut Vec<String>) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {file:?}"))?;
    if file.extension().is_none_or(|ending| ending != "jsonl") {
        lines.extend(text.lines().map(str::to_owned));
        return Ok(());
    }
    for entry in text.lines() {
        let entry: Value =
            serde_json::from_str(entry).with_context(|| format!("{file:?}: {entry}"))?;
        let commands = entry["commands"].as_array().into_iter().flatten();
        lines.extend(commands.filter_map(|line| Some(line.as_str()?.to_owned())));
    }
    Ok(())
}
