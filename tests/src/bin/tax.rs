//! What a job pays for being confined: wall time in a shell under `stockade run` by wall time in one without, step by step and in turns,
//! so that whatever else the machine does falls on both alike. Beside it the same under a filter that allows everything, and nothing
//! else: what the kernel itself takes for a system call of a filtered process, which no sandbox with a filter can go below. What the start
//! and the end of a session take in such a folder is said by itself, since it is paid once.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, ensure};
use clap::Parser;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;
use stockade_tests::Scratch;

#[derive(Parser)]
#[command(about = "Measure the runtime tax, as ratios of paired steps")]
struct Cli {
    /// How many pairs of each
    #[arg(long, default_value_t = 60)]
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

/// A hundred thousand times, a file is opened and closed.
const LOOP: &str = "#include <fcntl.h>\n#include <unistd.h>\nint main(void) {\n\
    for (int i = 0; i < 100000; i++) close(open(\"loop.c\", O_RDONLY));\n    return 0;\n}\n";

struct Job {
    name: &'static str,
    folder: PathBuf,
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
        "{:44} {:>10} {:>10} {:>7} {:>7} {:>14} {:>10}",
        "job (medians)", "without", "within", "ratio", "target", "filter alone", "once"
    );
    let lanes: [&[OsString]; 3] = [
        &["env".into()],
        &[binary.into(), "run".into(), "--".into()],
        &[own.into(), "--filtered".into()],
    ];
    for job in jobs(&scratch, cli.folders)? {
        let mut shells = Vec::new();
        for lane in lanes {
            shells.push(Shell::start(lane, &job)?);
        }
        // The first round fills caches.
        let rounds = in_turns(cli.rounds, |which| {
            shells.get_mut(which).map_or(Ok(f64::NAN), |shell| shell.step(&job))
        })?;
        let started = in_turns(cli.rounds.div_ceil(6), |which| start_and_end(lanes[which], &job))?;
        let of = |what: fn(&[f64; 3]) -> f64| median(rounds.iter().map(what).collect());
        println!(
            "{:44} {:>7.1} ms {:>7.1} ms {:>7.3} {:>7.2} {:>14.3} {:>7.1} ms",
            job.name,
            of(|[without, ..]| *without),
            of(|[_, within, _]| *within),
            of(|[without, within, _]| within / without),
            job.target,
            of(|[without, _, filtered]| filtered / without),
            median(started.iter().map(|[without, within, _]| within - without).collect()),
        );
    }
    Ok(())
}

/// Each of the three in each round, and none always first. Milliseconds; the first round does not count.
fn in_turns(rounds: usize, mut step: impl FnMut(usize) -> Result<f64>) -> Result<Vec<[f64; 3]>> {
    let mut all = Vec::new();
    for round in 0..=rounds {
        let mut took = [0.0; 3];
        for turn in 0..3 {
            let which = (round + turn) % 3;
            took[which] = step(which)?;
        }
        all.push(took);
    }
    Ok(all.split_off(1))
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A shell that does the job once for each line that it reads.
struct Shell {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Shell {
    fn start(lane: &[OsString], job: &Job) -> Result<Self> {
        let line =
            format!("while read -r _; do ({}) </dev/null >/dev/null 2>&1; echo $?; done", job.line);
        let mut command = command(lane, job)?;
        let mut child = command
            .args(["bash", "-c", &line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{command:?}"))?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().context("its stdout")?);
        Ok(Self { child, stdin, stdout })
    }

    fn step(&mut self, job: &Job) -> Result<f64> {
        let started = Instant::now();
        self.stdin.as_mut().context("its stdin")?.write_all(b"\n")?;
        let mut answer = String::new();
        self.stdout.read_line(&mut answer)?;
        let took = started.elapsed().as_secs_f64() * 1000.0;
        ensure!(answer == "0\n", "{} ended with {answer:?}", job.line);
        Ok(took)
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // With its stdin it ends.
        drop(self.stdin.take());
        self.child.wait().ok();
    }
}

/// Milliseconds of a command that does nothing, in the folder of a job.
fn start_and_end(lane: &[OsString], job: &Job) -> Result<f64> {
    let mut command = command(lane, job)?;
    let started = Instant::now();
    let status = command.arg("true").status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(started.elapsed().as_secs_f64() * 1000.0)
}

fn command(lane: &[OsString], job: &Job) -> Result<Command> {
    let (program, words) = lane.split_first().context("a command to run")?;
    let mut command = Command::new(program);
    // A policy does not let it in, and the builds are to be of the same folder.
    command.args(words).current_dir(&job.folder).env_remove("CARGO_TARGET_DIR");
    Ok(command)
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
    let job =
        |name, folder: &Path, line, target| Job { name, folder: folder.to_owned(), line, target };
    let small = small.as_path();
    Ok(vec![
        job("find by name over /usr", small, "find /usr -xdev -name '*.h'; true", 1.05),
        job("find by size over /usr", small, "find /usr -xdev -size +1k; true", 1.05),
        job("find by name over the workspace, a large tree", &tree, "find . -name '*.h'", 1.05),
        job("find by size over the workspace", &tree, "find . -type f -size +1k", 1.05),
        job("git status in a large tree", &tree, "git status", 1.05),
        job("a C loop of 100,000 open and close", small, "./loop", 1.3),
        job(
            "cargo build, offline",
            &package,
            "rm -rf target; cargo build -q --offline --release",
            1.05,
        ),
    ])
}
