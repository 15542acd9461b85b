use crate::HookError;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
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
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .current_dir(cwd)
        .env("CLAUDE_PROJECT_DIR", cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // What it starts ends with it.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    let group = Group(child.id());
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
        drop(group);
        let ((), stdout, stderr) = match closed {
            Some(streams) => streams,
            None => tokio::time::timeout(DRAIN, streams).await.map_err(|_| {
                "it ended, but something that it started holds its output open: let that have a stdout and stderr of its own"
            })?,
        };
        Ok::<_, HookError>((status, stdout?, stderr?))
    };
    let (status, stdout, stderr) = tokio::time::timeout(timeout, all)
        .await
        .map_err(|_| format!("it did not end within {} s", timeout.as_secs()))??;
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

/// The command and what it started, which dropping this ends.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0.and_then(|pid| i32::try_from(pid).ok()) {
            // Nothing may be left of it.
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}
