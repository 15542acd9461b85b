//! What a job that runs for a while pays for being confined: wall time under `stockade run` by wall time without, in pairs, so that
//! whatever else the machine does falls on both alike. The start of the session is in it.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, ensure};
use clap::Parser;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use stockade_tests::Scratch;

#[derive(Parser)]
#[command(about = "Measure the runtime tax, as ratios of paired runs")]
struct Cli {
    /// How many pairs of each
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Folders of the large tree; each has ten files
    #[arg(long, default_value_t = 5_000)]
    folders: usize,
    /// The binary to measure
    #[arg(long, env = "STOCKADE_BIN")]
    stockade: PathBuf,
}

/// A million times, a file is opened and closed.
const LOOP: &str = "#include <fcntl.h>\n#include <unistd.h>\nint main(void) {\n\
    for (int i = 0; i < 1000000; i++) close(open(\"loop.c\", O_RDONLY));\n    return 0;\n}\n";

struct Job {
    name: &'static str,
    folder: PathBuf,
    /// Done before each run, unmeasured.
    before: &'static str,
    line: &'static str,
    target: f64,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let binary = cli.stockade.canonicalize().context("the binary to measure")?;
    let scratch = Scratch::new();
    println!(
        "{:44} {:>10} {:>10} {:>7} {:>7}",
        "job (medians)", "without", "within", "ratio", "target"
    );
    for job in jobs(&scratch, cli.folders)? {
        let mut pairs = Vec::new();
        // The first pair fills caches.
        for round in 0..=cli.rounds {
            let inside = |job: &Job| timed(Command::new(&binary).args(["run", "--"]), job);
            let outside = |job: &Job| timed(&mut Command::new("env"), job);
            let pair = if round % 2 == 0 {
                let without = outside(&job)?;
                (without, inside(&job)?)
            } else {
                let within = inside(&job)?;
                (outside(&job)?, within)
            };
            if round > 0 {
                pairs.push(pair);
            }
        }
        let median = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
        };
        let millis = |time: Duration| time.as_secs_f64() * 1000.0;
        let without = median(pairs.iter().map(|pair| millis(pair.0)).collect());
        let within = median(pairs.iter().map(|pair| millis(pair.1)).collect());
        let ratio = median(pairs.iter().map(|pair| millis(pair.1) / millis(pair.0)).collect());
        println!(
            "{:44} {without:>7.1} ms {within:>7.1} ms {ratio:>7.3} {:>7.2}",
            job.name, job.target
        );
    }
    Ok(())
}

fn timed(command: &mut Command, job: &Job) -> Result<Duration> {
    bash(job.before, &job.folder)?;
    command.args(["bash", "-c", job.line]).current_dir(&job.folder);
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = Instant::now();
    let status = command.status().with_context(|| format!("{command:?}"))?;
    let took = started.elapsed();
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(took)
}

fn bash(line: &str, folder: &Path) -> Result<()> {
    let mut command = Command::new("bash");
    let output = command.args(["-ec", line]).current_dir(folder).output()?;
    ensure!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn jobs(scratch: &Scratch, folders: usize) -> Result<Vec<Job>> {
    let tree = scratch.folder("tree");
    for number in 0..folders {
        let folder = tree.join(format!("{}/{number}", number / 50));
        fs::create_dir_all(&folder)?;
        for file in 0..10 {
            fs::write(folder.join(format!("file{file}.txt")), format!("{number} {file}\n"))?;
        }
    }
    bash("git init -q && git add . && git -c user.name=a -c user.email=a@b commit -qm all", &tree)?;
    let small = scratch.folder("loop");
    fs::write(small.join("loop.c"), LOOP)?;
    bash("gcc -O2 loop.c -o loop", &small)?;
    let package = scratch.repository("package");
    let job = |name, folder: &PathBuf, before, line, target| Job {
        name,
        folder: folder.clone(),
        before,
        line,
        target,
    };
    Ok(vec![
        job("find over /usr", &small, "true", "find /usr -xdev -type f -size +1k | wc -l", 1.05),
        job(
            "find over the workspace, a large tree",
            &tree,
            "true",
            "for i in 1 2 3; do find . -type f -size +1k; done",
            1.05,
        ),
        job(
            "git status in a large tree",
            &tree,
            "true",
            "for i in 1 2 3; do git status; done",
            1.05,
        ),
        job("a C loop of a million open and close", &small, "true", "./loop", 1.3),
        job(
            "cargo build, offline",
            &package,
            "rm -rf target",
            "cargo build -q --offline --release",
            1.05,
        ),
    ])
}
