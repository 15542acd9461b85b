//! The library in a host program: a session and its commands, without the command line.

use crate::stockade_bin;
use std::path::Path;
use stockade_sandbox::linux::{HostCaps, LauncherSource, LinuxProvider, SessionOptions};
use stockade_sandbox::{Cell, CommandSpec, Stdio};
use stockade_subprocess::{Finished, RunOptions};
use tokio_util::sync::CancellationToken;

/// A session of the library, as a host program has one, in a workspace that is its home as well, with what this host is said to have.
pub async fn session(host: HostCaps, workspace: &Path) -> LinuxProvider {
    LinuxProvider::start(SessionOptions {
        session: None,
        workspace: workspace.to_owned(),
        home: workspace.to_owned(),
        host_environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        launcher: LauncherSource::Executable(stockade_bin().to_owned()),
        host: Some(host),
    })
    .await
    .expect("a session")
}

/// A line of bash in a cell, to its end.
pub async fn bash(cell: &dyn Cell, workspace: &Path, line: &str) -> Finished {
    let command = CommandSpec {
        argv: ["bash", "-c", line].map(Into::into).to_vec(),
        env: Vec::new(),
        cwd: workspace.to_owned(),
        stdin: Stdio::Null,
        stdout: Stdio::Pipe,
        stderr: Stdio::Pipe,
        terminal: None,
    };
    stockade_subprocess::run(cell, command, RunOptions::default(), CancellationToken::new()).await
}
