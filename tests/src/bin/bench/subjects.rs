//! The ways to run a command that are compared, all but the library's.

use crate::site::Site;
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use stockade_tests::turn;

/// No confinement. Without a hook before exec, the standard library uses posix_spawn.
pub fn plain(argv: &[&str]) -> Result<()> {
    succeed(Command::new(argv[0]).args(&argv[1..]))
}

/// A whole session for one command.
pub fn stockade_run(site: &Site, argv: &[&str]) -> Result<()> {
    let mut command = Command::new(site.binary());
    command.args(["run", "--workspace"]).arg(site.workspace()).arg("--");
    succeed(command.args(argv))
}

/// The peer, with a profile equal to the policy's.
pub fn bubblewrap(site: &Site, argv: &[&str]) -> Result<()> {
    succeed(site.bubblewrap().args(argv))
}

/// The peer as it is mostly used: the whole root read-only, nothing hidden but the home.
pub fn bubblewrap_root(site: &Site, argv: &[&str]) -> Result<()> {
    succeed(site.bubblewrap_root().args(argv))
}

fn succeed(command: &mut Command) -> Result<()> {
    let null = || Stdio::null();
    let status = command.stdin(null()).stdout(null()).stderr(null()).status();
    let status = status.with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// One session of `stockade exec`, which answers calls as they come.
pub struct Stream {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    calls: usize,
}

impl Stream {
    /// Starts it.
    pub fn start(site: &Site) -> Result<Self> {
        let mut command = turn::exec_command_of(site.binary(), site.workspace(), &site.state());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("stockade exec")?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().context("a pipe")?);
        Ok(Self { child, stdin, stdout, calls: 0 })
    }

    /// One Bash call, from its line to its answer's.
    pub fn call(&mut self, line: &str) -> Result<()> {
        self.send(line)?;
        self.receive()
    }

    /// Sends a Bash call.
    pub fn send(&mut self, line: &str) -> Result<()> {
        self.calls += 1;
        let id = format!("bench_{}", self.calls);
        let call =
            json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": line}});
        let stdin = self.stdin.as_mut().context("the stream is open")?;
        stdin.write_all(format!("{call}\n").as_bytes()).context("stockade exec reads")
    }

    /// Waits for the next answer.
    pub fn receive(&mut self) -> Result<()> {
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).context("stockade exec answers")?;
        ensure!(!answer.is_empty(), "stockade exec ended");
        let answer = turn::answer(&turn::parse(&answer));
        ensure!(answer.is_error != Some(true), "a call failed: {}", answer.text);
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        drop(self.stdin.take());
        self.child.wait().ok();
    }
}
