use crate::{Confined, Finished, finish};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Runs commands under bubblewrap with the view that `workspace-write` gives: a read-only root, the
/// workspace writable, a private /tmp and home, and the same user and environment.
pub struct Reference {
    workspace: PathBuf,
    environment: Vec<(String, OsString)>,
    ids: [String; 2],
}

impl Reference {
    /// Asks a confined `env` and `id` what environment and user a command has under Stockade, so that
    /// both sides have the same.
    pub fn like_stockade(workspace: &Path, confined: impl Fn() -> Confined) -> Self {
        let ask = |argv: &[&str]| {
            let answer = confined().run(argv);
            assert!(answer.status.success(), "{argv:?} failed: {}", answer.err());
            answer.stdout
        };
        let environment = ask(&["env", "-0"])
            .split(|byte| *byte == 0)
            .filter_map(|pair| {
                let at = pair.iter().position(|byte| *byte == b'=')?;
                let name = String::from_utf8(pair[..at].to_vec()).ok()?;
                Some((name, OsString::from_vec(pair[at + 1..].to_vec())))
            })
            .collect();
        let id = |flag| String::from_utf8_lossy(&ask(&["id", flag])).trim().to_owned();
        Self { workspace: workspace.to_path_buf(), environment, ids: [id("-u"), id("-g")] }
    }

    /// Runs a line of bash for at most this long, with this variable besides; exit code 124 when it took longer.
    pub fn bash(&self, line: &str, timeout: Duration, (name, value): (&str, String)) -> Finished {
        let mut command = self.command(&[(name, value.as_str())]);
        command.args(["timeout", "--kill-after=1", &timeout.as_secs_f64().to_string()]);
        command.args(["bash", "-c", line]);
        finish(&mut command, &[], timeout + Duration::from_secs(20))
    }

    /// `bwrap` with everything but the command; with these variables besides.
    pub fn command(&self, variables: &[(&str, &str)]) -> Command {
        let mut command = self.namespaces();
        command.args(["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]);
        command.args(["--perms", "1777", "--tmpfs", "/tmp"]);
        if let Some((_, home)) = self.environment.iter().find(|(name, _)| name == "HOME") {
            command.args(["--perms", "0700", "--tmpfs"]).arg(home);
        }
        command.arg("--bind").args([&self.workspace, &self.workspace]);
        self.surroundings(&mut command);
        for (name, value) in variables {
            command.args(["--setenv", name, value]);
        }
        command.arg("--");
        command
    }

    /// `bwrap` with everything but the view and the command.
    pub(crate) fn namespaces(&self) -> Command {
        let mut command = Command::new("bwrap");
        command.args(["--unshare-all", "--die-with-parent", "--new-session"]);
        command.args(["--uid", &self.ids[0], "--gid", &self.ids[1]]);
        command
    }

    /// The working directory and the environment.
    pub(crate) fn surroundings(&self, command: &mut Command) {
        command.arg("--chdir").arg(&self.workspace).arg("--clearenv");
        for (name, value) in &self.environment {
            command.arg("--setenv").arg(name).arg(value);
        }
    }
}
