//! What confinement costs: the same command plain, warm and cold under Stockade, and under bubblewrap,
//! in turn within one run, so that whatever else the machine does falls on all of them alike.
#![forbid(unsafe_code)]

mod parallel;
mod site;
mod subjects;
mod table;
mod warm;

use anyhow::{Context, Result};
use clap::Parser;
use site::Site;
use std::time::{Duration, Instant};
use table::Table;

#[derive(Parser)]
#[command(about = "Measure what confinement costs, as ratios of one paired run")]
struct Cli {
    /// How often each is measured
    #[arg(long, default_value_t = 200)]
    rounds: usize,
    /// How many calls the parallel part makes
    #[arg(long, default_value_t = 200)]
    calls: usize,
    /// How many of them at once
    #[arg(long, default_value_t = 10)]
    at_once: usize,
    /// The binary to measure
    #[arg(long, env = "STOCKADE_BIN")]
    stockade: std::path::PathBuf,
}

fn main() -> Result<()> {
    // The warm part embeds Stockade as a library, whose launcher is this program's second face.
    stockade_launcher::main_if_launcher();
    let cli = Cli::parse();
    let binary = cli.stockade.canonicalize().context("the binary to measure")?;
    let site = Site::new(binary)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("the runtime of the warm part")?;
    one_by_one(&site, &runtime, cli.rounds)?;
    parallel::measure(&site, &runtime, cli.calls, cli.at_once)
}

fn one_by_one(site: &Site, runtime: &tokio::runtime::Runtime, rounds: usize) -> Result<()> {
    let cell = runtime.block_on(warm::cell(site))?;
    let mut stream = subjects::Stream::start(site)?;
    let bash = site.bash_noop();
    let bash: Vec<&str> = bash.iter().map(String::as_str).collect();
    let mut noop = Table::new("a static no-op", rounds);
    let mut glibc = Table::new("a glibc program, /bin/true", rounds);
    let mut shell = Table::new("a line of bash that executes the static no-op", rounds);
    // A few before the count, so that caches and lazily made things are there for all.
    for round in 0..rounds + 5 {
        let counts = round >= 5;
        for (table, argv) in
            [(&mut noop, &[site.noop()][..]), (&mut glibc, &["/bin/true"]), (&mut shell, &bash[..])]
        {
            let mut take = |name, took: Duration| {
                if counts {
                    table.add(name, took);
                }
            };
            take("plain posix_spawn", timed(|| subjects::plain(argv))?);
            take(
                "stockade, warm (library)",
                timed(|| runtime.block_on(warm::call(&cell, site, argv)))?,
            );
            if argv.len() > 1 {
                take("stockade exec, warm (Bash call)", timed(|| stream.call(site.noop()))?);
            }
            take("stockade run, cold", timed(|| subjects::stockade_run(site, argv))?);
            take("bubblewrap, equal profile", timed(|| subjects::bubblewrap(site, argv))?);
            take("bubblewrap, whole root", timed(|| subjects::bubblewrap_root(site, argv))?);
        }
    }
    for table in [noop, glibc, shell] {
        println!("{table}");
    }
    Ok(())
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed())
}
