//! Many writers at one ledger. Exit code 1 when a record is lost or the chain is not whole.
#![forbid(unsafe_code)]

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use stockade_ledger::FsyncPolicy;
use stockade_tests::ledger;

#[derive(Parser)]
#[command(about = "Hold the ledger to its promises with many processes")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Processes that append together
    Together {
        /// How many
        #[arg(long, default_value_t = 8)]
        processes: u64,
        /// Records of each
        #[arg(long, default_value_t = 100_000)]
        records: u64,
    },
    /// What a record costs one process alone
    Cost {
        /// How many
        #[arg(long, default_value_t = 100_000)]
        records: u64,
        /// The folder of the ledger: its file system is measured
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// SIGKILL to writers in the middle of their work
    Kill9 {
        /// How often
        #[arg(long, default_value_t = 500)]
        times: u64,
    },
    /// What the other two start
    #[command(hide = true)]
    Write { state_dir: PathBuf, writer: String, records: u64 },
}

fn main() -> Result<()> {
    let program = std::env::current_exe()?;
    let folder = tempfile::tempdir()?;
    match Cli::parse().task {
        Task::Write { state_dir, writer, records } => ledger::write(&state_dir, &writer, records),
        Task::Together { processes, records } => {
            let took = ledger::together(&program, folder.path(), processes, records)?;
            let all = processes * records;
            let each = took.as_secs_f64() * 1e6 / all as f64;
            println!(
                "{all} records of {processes} processes in {took:.1?}, {each:.1} µs each: all there, chain whole"
            );
            Ok(())
        }
        Task::Cost { records, dir } => {
            let dir = dir.unwrap_or_else(|| folder.path().to_owned());
            for (fsync, how) in [
                (FsyncPolicy::Never, "without fsync"),
                (FsyncPolicy::Checkpoint, "with fsync at each checkpoint"),
            ] {
                let folder = tempfile::tempdir_in(&dir)?;
                let took = ledger::cost(folder.path(), records, fsync)?;
                let each = took.as_secs_f64() * 1e6 / records as f64;
                println!("{records} records of one process {how}: {each:.1} µs each");
            }
            Ok(())
        }
        Task::Kill9 { times } => {
            let kills = ledger::killed(&program, folder.path(), times)?;
            println!(
                "{times} kills, {} records, {} torn lines recovered: chain whole",
                kills.records, kills.recovered
            );
            Ok(())
        }
    }
}
