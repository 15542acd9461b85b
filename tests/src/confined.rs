use crate::{Finished, finish, stockade_bin};
use serde::Deserialize;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// One `stockade run`, as a user would type it.
pub struct Confined {
    command: Command,
    stdin: Vec<u8>,
    limit: Duration,
}

/// The object that `run --json` prints (spec 10.1).
#[derive(Debug, Deserialize)]
pub struct RunReport {
    /// How it ended: `exited`, `timed_out`, …
    pub outcome: String,
    /// The exit code, where it exited.
    pub exit_code: Option<i32>,
    /// The signal, where one ended it.
    pub signal: Option<i32>,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it wrote to stderr.
    pub stderr: String,
    /// What of the output is missing.
    pub truncated: Value,
    /// How much it wrote to each stream.
    pub bytes: Value,
    /// Time and memory.
    pub usage: Value,
    /// What was refused.
    pub denials: Vec<Value>,
    /// The limits that it ran up against.
    #[serde(default)]
    pub limits_met: Value,
    /// What was ended.
    pub killed: Value,
    /// What confined it.
    pub layers: Value,
}

impl Confined {
    /// Under this policy, in this workspace.
    pub fn new(policy: &str, workspace: &Path) -> Self {
        Self::with(stockade_bin(), policy, workspace)
    }

    /// The same, with this copy of the binary.
    pub fn with(binary: &Path, policy: &str, workspace: &Path) -> Self {
        let mut command = Command::new(binary);
        command.args(["run", "--policy", policy, "--workspace"]).arg(workspace);
        Self { command, stdin: Vec::new(), limit: Duration::from_secs(120) }
    }

    /// More arguments of `run` itself.
    pub fn options(mut self, options: &[&str]) -> Self {
        self.command.args(options);
        self
    }

    /// What the command reads; nothing is a null device.
    pub fn stdin(mut self, bytes: &[u8]) -> Self {
        self.stdin = bytes.to_vec();
        self
    }

    /// The process, for its environment, user and folder.
    pub fn process(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Runs this command, byte for byte.
    pub fn run<S: AsRef<OsStr>>(mut self, argv: &[S]) -> Finished {
        self.command.arg("--").args(argv);
        finish(&mut self.command, &self.stdin, self.limit)
    }

    /// Runs a line of bash.
    pub fn bash(self, line: &str) -> Finished {
        self.run(&["bash", "-c", line])
    }

    /// Runs it with `--json` and reads the report.
    pub fn report<S: AsRef<OsStr>>(self, argv: &[S]) -> RunReport {
        let argv: Vec<OsString> = argv.iter().map(|arg| arg.as_ref().to_owned()).collect();
        RunReport::of(&self.options(&["--json"]).run(&argv))
    }
}

impl RunReport {
    /// Reads the report out of what `run --json` printed.
    ///
    /// # Panics
    /// When it printed anything other than one such object.
    pub fn of(finished: &Finished) -> Self {
        serde_json::from_slice(&finished.stdout).unwrap_or_else(|e| {
            panic!("no report ({e}); stdout: {}; stderr: {}", finished.out(), finished.err())
        })
    }

    /// The exit code that spec 10.2 gives this end; -1 where nothing was run.
    pub fn status(&self) -> i32 {
        match (self.outcome.as_str(), self.exit_code, self.signal) {
            ("exited", Some(code), _) => code,
            ("signaled", _, Some(signal)) => 128 + signal,
            ("timed_out", ..) => 124,
            _ => -1,
        }
    }
}
