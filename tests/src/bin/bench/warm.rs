//! A call in a session that stands: what an agent pays for each of its calls.

use crate::site::Site;
use anyhow::{Result, bail};
use std::env;
use std::ffi::OsStr;
use std::sync::Arc;
use stockade_policy::Policy;
use stockade_sandbox::linux::{LauncherSource, LinuxProvider, SessionOptions};
use stockade_sandbox::{Cell, ChildEvent, CommandSpec, Exit, SandboxProvider, Stdio};

/// A session, and the cell of `workspace-write` in it.
pub struct Warm {
    _provider: LinuxProvider,
    cell: Arc<dyn Cell>,
}

/// Prepares it.
pub async fn cell(site: &Site) -> Result<Warm> {
    let provider = LinuxProvider::start(SessionOptions {
        workspace: site.workspace().to_owned(),
        home: env::home_dir().unwrap_or_else(|| site.workspace().to_owned()),
        session: None,
        host_environment: env::vars_os().collect(),
        launcher: LauncherSource::CurrentExecutable,
        host: None,
    })
    .await?;
    let cell = provider.cell(&Policy::load(OsStr::new("workspace-write"))?).await?;
    Ok(Warm { _provider: provider, cell })
}

/// One command, from the request until nothing of it is left.
pub async fn call(warm: &Warm, site: &Site, argv: &[&str]) -> Result<()> {
    let command = CommandSpec {
        argv: argv.iter().map(Into::into).collect(),
        env: Vec::new(),
        cwd: site.workspace().to_owned(),
        stdin: Stdio::Null,
        stdout: Stdio::Null,
        stderr: Stdio::Null,
        terminal: None,
    };
    let mut child = warm.cell.spawn(command).await?;
    let mut ended = None;
    loop {
        match child.handle.event().await {
            ChildEvent::MainEnded { exit, .. } => ended = Some(exit),
            ChildEvent::Gone { .. } if ended == Some(Exit::Code(0)) => return Ok(()),
            other => bail!("{argv:?} did not succeed: {other:?} after {ended:?}"),
        }
    }
}
