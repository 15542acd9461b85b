//! `--tty`: a terminal of the command's own, joined to ours.

use super::transcript::Transcript;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{IsTerminal, Stdin, Write};
use std::os::fd::AsFd;
use std::path::Path;
use stockade_sandbox::{CommandSpec, TerminalSize};
use stockade_subprocess::pty::{RawMode, Relay, Shown, Size, Terminal, TerminalError};
use stockade_types::SetupFailure;

/// Our terminal, and what it is joined to.
pub struct Joined {
    host: Stdin,
    /// Where our own stdin is a terminal, it is in raw mode meanwhile: Ctrl-C goes to the command.
    raw: Option<RawMode>,
    relay: Relay,
    screen: HostScreen,
}

/// How long a terminal that takes nothing just now, for Ctrl-S, is waited for.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 300_000_000 };

/// The terminal that shows it all, if it is one. What a killed program has left switched on there is undone when this is dropped, on
/// return, error and panic alike.
struct HostScreen(Shown);

impl HostScreen {
    fn show(sequences: &str) {
        let mut stdout = std::io::stdout();
        if sequences.is_empty() || !stdout.is_terminal() {
            return;
        }
        let ready = poll(&mut [PollFd::new(&stdout, PollFlags::OUT)], Some(&PATIENCE));
        if matches!(ready, Ok(1..)) {
            // There is nothing to be done for a terminal that is gone.
            let _ = stdout.write_all(sequences.as_bytes()).and_then(|()| stdout.flush());
        }
    }
}

impl Drop for HostScreen {
    fn drop(&mut self) {
        Self::show(&self.0.leave());
    }
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
        let screen = HostScreen(relay.shown());
        Ok(Self { host, raw, relay, screen })
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
        HostScreen::show(&self.screen.0.undo());
        self.raw = None;
    }

    /// Takes our terminal again.
    pub fn resumed(&mut self) {
        if self.host.is_terminal() {
            self.raw = RawMode::enter(&self.host)
                .inspect_err(|error| crate::complain(&error.to_string()))
                .ok();
        }
        HostScreen::show(&self.screen.0.again());
    }

    /// Ends it when the command is over: all that it showed is shown before this returns, or it is told, and `false`.
    pub async fn finish(self) -> bool {
        let copied = self.relay.finish().await;
        drop(self.screen);
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
