//! Where a session's cells come from: its launcher, or, for a session of one command, the one cell that was forked beforehand.

use super::channel::Channel;
use super::host::HostCaps;
use super::id_map;
use super::launcher::{Launcher, LauncherSource};
use crate::SandboxError;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use stockade_plan::LauncherRequest;
use stockade_sys::socket;
use stockade_types::SetupFailure;

/// See the module.
pub(super) enum CellSource {
    /// A launcher, which makes a cell for each policy.
    Launcher(Launcher),
    /// The only cell of the session, until it is asked for.
    Only(Option<OnlyCell>),
}

/// A cell whose namespaces exist, and which waits for its plan.
pub(super) struct OnlyCell {
    channel: Channel,
    pidfd: OwnedFd,
    new_network: bool,
}

/// A cell that was asked for, and is being made meanwhile.
pub(super) enum Ordered {
    FromLauncher(OwnedFd),
    Only(OnlyCell),
}

impl CellSource {
    /// Starts the launcher, if there is to be one, and opens the session. What turns out to be missing is noted in `host`.
    pub async fn start(source: LauncherSource, host: &mut HostCaps) -> Result<Self, SandboxError> {
        match source {
            LauncherSource::OnlyCell { control, pid, pidfd, new_network } => {
                let channel =
                    Channel::new(control).map_err(|error| SetupFailure::of_step("cell", &error))?;
                id_map::write(pid)?;
                // A cell that is gone shows it, or has said why, when its first answer is waited for.
                let _ = channel.send(&LauncherRequest::OpenSession, &[]).await;
                Ok(Self::Only(Some(OnlyCell { channel, pidfd, new_network })))
            }
            source => {
                let mut launcher = Launcher::start(source, host)?;
                launcher.open_session(host).await?;
                Ok(Self::Launcher(launcher))
            }
        }
    }

    /// Asks for a cell. What it is to be can be worked out while it is being made.
    pub async fn order(&mut self, new_network: bool, bare: bool) -> Result<Ordered, SandboxError> {
        match self {
            Self::Launcher(launcher) => {
                let (ours, theirs) =
                    socket::packet_pair().map_err(|error| SetupFailure::of_step("cell", &error))?;
                launcher.make_cell(new_network, bare, theirs.as_fd()).await;
                Ok(Ordered::FromLauncher(ours))
            }
            Self::Only(cell) => match cell.take() {
                Some(cell) if cell.new_network == new_network && !bare => Ok(Ordered::Only(cell)),
                _ => Err(SandboxError::SessionOver(
                    "it was started for one cell, and that has been used".into(),
                )),
            },
        }
    }

    /// Ends the launcher, if there is one, and waits, for a while.
    pub fn end(&mut self) {
        if let Self::Launcher(launcher) = self {
            launcher.end();
        }
    }

    /// Whether there is a launcher, which can make another cell in place of one that failed.
    pub fn has_launcher(&self) -> bool {
        matches!(self, Self::Launcher(_))
    }

    /// Has a folder of the host removed when the session is over.
    pub async fn remove_at_end(&self, folder: &Path) {
        if let Self::Launcher(launcher) = self {
            launcher.remove_at_end(folder).await;
        }
    }

    /// The control socket and the pidfd of the cell that was asked for.
    pub async fn take(&mut self, ordered: Ordered) -> Result<(Channel, OwnedFd), SandboxError> {
        match (self, ordered) {
            (Self::Launcher(launcher), Ordered::FromLauncher(control)) => {
                let pidfd = launcher.cell_started().await?;
                let channel =
                    Channel::new(control).map_err(|error| SetupFailure::of_step("cell", &error))?;
                Ok((channel, pidfd))
            }
            (_, Ordered::Only(cell)) => Ok((cell.channel, cell.pidfd)),
            (Self::Only(_), Ordered::FromLauncher(_)) => {
                Err(SandboxError::SessionOver("it has no launcher".into()))
            }
        }
    }
}
