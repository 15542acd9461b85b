//! What a job that runs for a while pays for being confined: wall time under `stockade run` by wall time without, in pairs, so that
//! whatever else the machine does falls on both alike. The start of the session is in it. Beside it the same under a filter that
//! allows everything, and nothing else: what the kernel itself takes for a system call of a filtered process, which no sandbox
//! with a filter can go below.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, ensure};
use clap::Parser;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
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
    #[arg(long, env = "STOCKADE_BIN", required_unless_present = "filtered")]
    stockade: Option<PathBuf>,
    /// Run this under a filter that allows everything, instead
    #[arg(long, num_args = 1.., allow_hyphen_values = true, value_name = "COMMAND")]
    filtered: Option<Vec<OsString>>,
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
    if let Some(command) = &cli.filtered {
        return run_filtered(command);
    }
    let binary = cli.stockade.context("a binary to measure")?;
    let binary = binary.canonicalize().context("the binary to measure")?;
    let own = std::env::current_exe()?;
    let scratch = Scratch::new();
    println!(
        "{:44} {:>10} {:>10} {:>7} {:>7} {:>14}",
        "job (medians)", "without", "within", "ratio", "target", "filter alone"
    );
    for job in jobs(&scratch, cli.folders)? {
        let mut rounds = Vec::new();
        // The first round fills caches.
        for round in 0..=cli.rounds {
            let mut took = [0.0; 3];
            for turn in 0..3 {
                let which = (round + turn) % 3;
                let mut command = match which {
                    0 => Command::new("env"),
                    1 => Command::new(&binary),
                    _ => Command::new(&own),
                };
                match which {
                    0 => &mut command,
                    1 => command.args(["run", "--"]),
                    _ => command.arg("--filtered"),
                };
                took[which] = timed(&mut command, &job)?.as_secs_f64() * 1000.0;
            }
            if round > 0 {
                rounds.push(took);
            }
        }
        let median = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
        };
        let of = |what: fn(&[f64; 3]) -> f64| median(rounds.iter().map(what).collect());
        println!(
            "{:44} {:>7.1} ms {:>7.1} ms {:>7.3} {:>7.2} {:>14.3}",
            job.name,
            of(|[without, ..]| *without),
            of(|[_, within, _]| *within),
            of(|[without, within, _]| within / without),
            job.target,
            of(|[without, _, filtered]| filtered / without),
        );
    }
    Ok(())
}

/// Becomes the command, under a filter that the kernel knows to allow each call whatever its arguments.
fn run_filtered(command: &[OsString]) -> Result<()> {
    let (allow, refuse) = (SeccompAction::Allow, SeccompAction::Errno(1));
    let architecture = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(Default::default(), allow, refuse, architecture)?;
    seccompiler::apply_filter(&BpfProgram::try_from(filter)?)?;
    let (program, words) = command.split_first().context("a command to run")?;
    Err(Command::new(program).args(words).exec()).with_context(|| format!("{program:?}"))
}

fn timed(command: &mut Command, job: &Job) -> Result<Duration> {
    bash(job.before, &job.folder)?;
    command.args(["bash", "-c", job.line]).current_dir(&job.folder);
    // A policy does not let it in, and the builds are to be of the same folder.
    command.env_remove("CARGO_TARGET_DIR");
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
        job(
            "find by name over /usr",
            &small,
            "true",
            "for i in $(seq 10); do find /usr -xdev -name '*.h'; done; true",
            1.05,
        ),
        job(
            "find by size over /usr",
            &small,
            "true",
            "for i in $(seq 8); do find /usr -xdev -size +1k; done; true",
            1.05,
        ),
        job(
            "find by name over the workspace, a large tree",
            &tree,
            "true",
            "for i in $(seq 40); do find . -name '*.h'; done; true",
            1.05,
        ),
        job(
            "find by size over the workspace",
            &tree,
            "true",
            "for i in $(seq 25); do find . -type f -size +1k; done; true",
            1.05,
        ),
        job(
            "git status in a large tree",
            &tree,
            "true",
            "for i in $(seq 40); do git status; done",
            1.05,
        ),
        job("a C loop of a million open and close", &small, "true", "./loop", 1.3),
        job(
            "cargo build, offline",
            &package,
            "true",
            "for i in $(seq 15); do rm -rf target; cargo build -q --offline --release; done",
            1.05,
        ),
    ])
}
