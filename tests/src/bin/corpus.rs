//! Runs Stockade over a corpus, and says what came of it. Exit code 1 when anything is not as it must be.
#![forbid(unsafe_code)]

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use stockade_tests::corpus::{Selection, kill9, model_commands, one_liners, shell};
use stockade_tests::target_dir;

#[derive(Parser)]
#[command(about = "Run Stockade over a corpus of real commands")]
struct Cli {
    #[command(subcommand)]
    corpus: Corpus,
}

#[derive(Subcommand)]
enum Corpus {
    /// What models wrote, compared with bubblewrap, each difference with its reason
    Fs1(Compared),
    /// The same, of another tree
    Fs2(Compared),
    /// What people wrote, under read-only: nothing changes, nothing stays, nothing is late
    OneLiners {
        /// Only the first so many commands
        #[arg(long, default_value_t = usize::MAX)]
        first: usize,
        /// Of these, every so manieth
        #[arg(long, default_value_t = 1)]
        every: usize,
    },
    /// The shell parser over lines that people and models wrote: how many it reads, and how fast
    Shell {
        /// More lines: files of commands, one a line, or of JSON lines with `commands`
        files: Vec<PathBuf>,
    },
    /// SIGKILL to each part of Stockade in mid-call
    Kill9 {
        /// How often each
        #[arg(long, default_value_t = 100)]
        rounds: u32,
    },
}

#[derive(Args)]
struct Compared {
    /// Only the first so many commands
    #[arg(long, default_value_t = usize::MAX)]
    first: usize,
    /// Of these, every so manieth
    #[arg(long, default_value_t = 1)]
    every: usize,
    /// Where the differences go, as JSON lines [default: target/corpus/SET-differences.jsonl]
    #[arg(long)]
    report: Option<PathBuf>,
}

/// Two cores, and nobody else on them.
const SLACK: Duration = Duration::from_secs(1);

fn main() -> Result<ExitCode> {
    let good = match Cli::parse().corpus {
        Corpus::Fs1(compared) => compare("fs1", compared)?,
        Corpus::Fs2(compared) => compare("fs2", compared)?,
        Corpus::OneLiners { first, every } => {
            let summary = one_liners::run(Selection { first, every, slack: SLACK })?;
            println!("{}", serde_json::to_string_pretty(&summary)?);
            println!("no marker of the host and nothing of the tree has changed");
            summary.broken.is_empty()
        }
        Corpus::Shell { files } => {
            let summary = shell::run(&files)?;
            println!("{}", serde_json::to_string_pretty(&summary)?);
            summary.failed == 0
        }
        Corpus::Kill9 { rounds } => {
            let failures = kill9::rounds(rounds, |line| println!("{line}"));
            println!("{} failures in {rounds} rounds of 6 kills", failures.len());
            failures.is_empty()
        }
    };
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn compare(set: &str, Compared { first, every, report }: Compared) -> Result<bool> {
    let report = match report {
        Some(path) => path,
        None => default_report(set)?,
    };
    let summary = model_commands::run(set, Selection { first, every, slack: SLACK }, &report)?;
    println!("{}", serde_json::to_string_pretty(&summary)?);
    println!("every difference, with both sides and its reason: {}", report.display());
    Ok(summary.is_good())
}

fn default_report(set: &str) -> Result<PathBuf> {
    let folder = target_dir().join("corpus");
    fs::create_dir_all(&folder)?;
    Ok(folder.join(format!("{set}-differences.jsonl")))
}
