use super::TerminalError;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The host's terminal in raw mode: every key goes to the command as it is typed, Ctrl-C too. The modes from before come
/// back when this is dropped, on return, error and panic alike; but not by `std::process::exit`, so drop it before.
#[derive(Debug)]
#[must_use = "the terminal leaves raw mode as soon as this is dropped"]
pub struct RawMode {
    terminal: OwnedFd,
    before: Termios,
}

impl RawMode {
    /// Puts the terminal that `fd` is into raw mode; an error if it is none.
    pub fn enter(fd: impl AsFd) -> Result<Self, TerminalError> {
        let fail = |source: io::Error| TerminalError::Host {
            action: "putting the host's terminal into raw mode",
            source,
        };
        let terminal = fd.as_fd().try_clone_to_owned().map_err(fail)?;
        let before = tcgetattr(&terminal).map_err(|errno| fail(errno.into()))?;
        let mut raw = before.clone();
        raw.make_raw();
        // The guard exists before the change, so that a change made in part is undone too.
        let guard = Self { terminal, before };
        tcsetattr(&guard.terminal, OptionalActions::Drain, &raw)
            .map_err(|errno| fail(errno.into()))?;
        Ok(guard)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // Now: to wait for the output of a terminal that is stopped by Ctrl-S could last for ever, and to flush would eat
        // what was typed ahead.
        if let Err(error) = tcsetattr(&self.terminal, OptionalActions::Now, &self.before) {
            tracing::warn!(%error, "the host's terminal could not be restored; `reset` may help");
        }
    }
}
