//! `--tty`: a terminal of the command's own, joined to ours.

use super::transcript::Transcript;
use std::io::{IsTerminal, Stdin};
use std::os::fd::AsFd;
use std::path::Path;
use stockade_sandbox::{CommandSpec, TerminalSize};
use stockade_subprocess::pty::{RawMode, Relay, Size, Terminal, TerminalError};
use stockade_types::SetupFailure;

/// Our terminal, and what it is joined to.
pub struct Joined {
    host: Stdin,
    /// Where our own stdin is a terminal, it is in raw mode meanwhile: Ctrl-C goes to the command.
    raw: Option<RawMode>,
    relay: Relay,
}

/// Asks for a terminal of the size of ours.
pub fn ask(command: &mut CommandSpec) {
    let size = Size::of(std::io::stdin()).unwrap_or_default();
    command.terminal = Some(TerminalSize::from(size));
}

impl Joined {
    /// Joins the command's terminal to ours. What it shows goes to `transcript` too.
    pub fn new(terminal: Terminal, transcript: Option<&Path>) -> Result<Self, SetupFailure> {
        let host = std::io::stdin();
        let duplicating =
            |source| failure(TerminalError::Host { action: "duplicating stdin", source });
        let input = host.as_fd().try_clone_to_owned().map_err(duplicating)?;
        let output = Transcript::open(transcript)?;
        let raw = match host.is_terminal() {
            true => Some(RawMode::enter(&host).map_err(failure)?),
            false => None,
        };
        let relay = terminal.relay(input, output).map_err(failure)?;
        Ok(Self { host, raw, relay })
    }

    /// Keeps the size of the command's terminal that of ours. Never returns.
    pub async fn follow_size(&self) {
        if self.raw.is_some() {
            let error = self.relay.follow_size(&self.host).await;
            tracing::warn!(%error, "the terminal's size is not followed any more");
        }
        std::future::pending().await
    }

    /// Returns once nobody takes what it shows any more.
    pub async fn output_refused(&self) {
        self.relay.output_refused().await;
    }

    /// Gives our terminal its modes back for as long as we are stopped.
    pub fn suspended(&mut self) {
        self.raw = None;
    }

    /// Takes our terminal again.
    pub fn resumed(&mut self) {
        if self.host.is_terminal() {
            self.raw = RawMode::enter(&self.host)
                .inspect_err(|error| crate::complain(&error.to_string()))
                .ok();
        }
    }

    /// Ends it when the command is over: all that it showed is shown before this returns, or it is told, and `false`.
    pub async fn finish(self) -> bool {
        let copied = self.relay.finish().await;
        drop(self.raw);
        if let Err(error) = copied {
            crate::complain(&error.to_string());
            return false;
        }
        true
    }
}

fn failure(error: TerminalError) -> SetupFailure {
    SetupFailure {
        step: "terminal".to_owned(),
        subject: None,
        errno: None,
        detail: error.to_string(),
        remedy: String::new(),
    }
}
