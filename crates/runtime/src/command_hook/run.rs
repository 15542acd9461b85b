use crate::HookError;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::process::PidfdFlags;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// What a hook may write to one of its streams, in bytes.
const OUTPUT_MAX: u64 = 1024 * 1024;

/// How long its streams may stay open after its end.
const DRAIN: Duration = Duration::from_millis(500);

/// How a command ended.
pub(super) enum Ended {
    /// With 0: its stdout.
    Answered(Vec<u8>),
    /// With 2: its stderr.
    Refused(String),
}

/// Runs a command with `input` on its stdin. Any other end than by 0 or 2 is an error.
pub(super) async fn run(
    command: &str,
    cwd: &Path,
    input: Vec<u8>,
    timeout: Duration,
) -> Result<Ended, HookError> {
    let tree = Tree::new();
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .current_dir(cwd)
        .env("CLAUDE_PROJECT_DIR", cwd)
        .env(MARK, &tree.mark)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // What it starts ends with it.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    let tree = tree.below(child.id());
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async move {
        if let Some(mut stdin) = stdin {
            // A hook need not read what it is told.
            let _ = stdin.write_all(&input).await;
        }
    };
    let all = async {
        let streams = async { tokio::join!(feed, read(stdout), read(stderr)) };
        tokio::pin!(streams);
        let mut closed = None;
        let status = loop {
            tokio::select! {
                status = child.wait() => break status?,
                streams = &mut streams, if closed.is_none() => closed = Some(streams),
            }
        };
        // What it left behind ends with it, and lets go of its streams.
        tree.end().await;
        let ((), stdout, stderr) = match closed {
            Some(streams) => streams,
            None => tokio::time::timeout(DRAIN, streams).await.map_err(|_| {
                "it ended, but something that it started holds its output open: let that have a stdout and stderr of its own"
            })?,
        };
        Ok::<_, HookError>((status, stdout?, stderr?))
    };
    let Ok(ended) = tokio::time::timeout(timeout, all).await else {
        tree.end().await;
        return Err(format!("it did not end within {} s", timeout.as_secs()).into());
    };
    let (status, stdout, stderr) = ended?;
    let said = String::from_utf8_lossy(&stderr);
    match status.code() {
        Some(0) => Ok(Ended::Answered(stdout)),
        Some(2) => Ok(Ended::Refused(said.trim().to_owned())),
        _ => Err(format!("it ended with {status}: {}", said.trim()).into()),
    }
}

async fn read(stream: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, HookError> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(OUTPUT_MAX + 1).read_to_end(&mut bytes).await?;
    }
    if bytes.len() as u64 > OUTPUT_MAX {
        return Err(format!("it wrote more than {OUTPUT_MAX} bytes").into());
    }
    Ok(bytes)
}

/// The variable by which what a command started is known again, in whatever session or process group it is by then, and whoever its parent
/// is. What empties its environment is known by its process group alone.
const MARK: &str = "STOCKADE_HOOK_RUN";

/// How often one looks for what is left: each look may find what was started during the one before.
const LOOKS_MAX: usize = 100;

/// A command and what it started. Dropping it ends all of that.
struct Tree {
    mark: String,
    group: Option<Pid>,
    has_ended: AtomicBool,
}

impl Tree {
    fn new() -> Self {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let (run, now) = (RUNS.fetch_add(1, Ordering::Relaxed), SystemTime::now());
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let mark = format!("{}-{run}-{now:x}", std::process::id());
        Self { mark, group: None, has_ended: AtomicBool::new(false) }
    }

    fn below(mut self, leader: Option<u32>) -> Self {
        self.group = leader.and_then(|pid| i32::try_from(pid).ok()).map(Pid::from_raw);
        self
    }

    /// Ends it, on a thread that may wait.
    async fn end(&self) {
        let (mark, group) = (self.mark.clone(), self.group);
        if tokio::task::spawn_blocking(move || end(&mark, group)).await.is_ok() {
            self.has_ended.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if self.group.is_some() && !self.has_ended.load(Ordering::Relaxed) {
            end(&self.mark, self.group);
        }
    }
}

fn end(mark: &str, group: Option<Pid>) {
    if let Some(group) = group {
        // Nothing may be left of it.
        let _ = killpg(group, Signal::SIGKILL);
    }
    let mark = format!("{MARK}={mark}");
    for _ in 0..LOOKS_MAX {
        if kill_marked(mark.as_bytes()) == 0 {
            return;
        }
        // The kernel takes a moment to end what was killed.
        std::thread::sleep(Duration::from_millis(2));
    }
    tracing::warn!("something that a hook command started outruns SIGKILL");
}

/// Kills all that has the mark in its environment; how many there were.
fn kill_marked(mark: &[u8]) -> usize {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let marked = |pid: &i32| {
        let pid = rustix::process::Pid::from_raw(*pid)?;
        // First the descriptor, so that it is this process that is killed and none that has its number later.
        let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // Empty for one that has ended; others' cannot be read.
        let environment = std::fs::read(format!("/proc/{}/environ", pid.as_raw_pid())).ok()?;
        environment.split(|byte| *byte == 0).any(|variable| variable == mark).then_some(process)
    };
    let killed = pids.filter_map(|pid| marked(&pid));
    killed
        .filter(|process| {
            rustix::process::pidfd_send_signal(process, rustix::process::Signal::KILL).is_ok()
        })
        .count()
}
