//! A terminal for a command (spec 6.5): a pair of which the command gets one end as its controlling terminal, while
//! the other is joined to the host's input and output, byte for byte. The cell opens the pair in its own view, so that the
//! terminal has a name there, and no program of the host can open it.
//!
//! ```no_run
//! # use stockade_subprocess::pty::{RawMode, Size};
//! # use stockade_subprocess::{RunOptions, RunningCommand};
//! # async fn example(
//! #     cell: &dyn stockade_sandbox::Cell,
//! #     mut command: stockade_sandbox::CommandSpec,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! use std::os::fd::AsFd;
//! let host = std::io::stdin();
//! command.terminal = Some(Size::of(&host).unwrap_or_default().into());
//! let mut running = RunningCommand::start(cell, command, RunOptions::default()).await?;
//! let terminal = running.take_terminal().ok_or("the cell gave no terminal")?;
//! let raw = RawMode::enter(&host)?;
//! let relay = terminal.relay(host.as_fd().try_clone_to_owned()?, std::io::stdout())?;
//! tokio::select! {
//!     error = relay.follow_size(&host) => eprintln!("the size is not followed: {error}"),
//!     finished = running.wait(Default::default()) => println!("{:?}", finished.outcome),
//! }
//! relay.finish().await?;
//! drop(raw);
//! # Ok(())
//! # }
//! ```

mod end_of_input;
mod host;
mod master;
mod relay;
mod screen;

pub(crate) use end_of_input::{EndKey, EndOfInput};
pub use host::RawMode;
pub use relay::{Relay, Shown};

use master::CellMaster;
use portable_pty::{MasterPty, PtySize};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stockade_sandbox::TerminalSize;

/// Why a terminal could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    /// Our own end could not be used.
    #[error("the terminal could not be {action}: {reason}")]
    OwnEnd {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        reason: String,
    },
    /// What the host gave could not be used.
    #[error("{action} failed: {source}")]
    Host {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// A terminal's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Rows of characters.
    pub rows: u16,
    /// Columns of characters.
    pub columns: u16,
    /// Width in pixels; 0 where unknown.
    pub pixel_width: u16,
    /// Height in pixels; 0 where unknown.
    pub pixel_height: u16,
}

impl Size {
    /// The size of the terminal that `fd` is; an error if it is none.
    pub fn of(fd: impl AsFd) -> io::Result<Self> {
        let size = rustix::termios::tcgetwinsize(fd)?;
        Ok(Self {
            rows: size.ws_row,
            columns: size.ws_col,
            pixel_width: size.ws_xpixel,
            pixel_height: size.ws_ypixel,
        })
    }
}

impl Default for Size {
    fn default() -> Self {
        Self { rows: 24, columns: 80, pixel_width: 0, pixel_height: 0 }
    }
}

impl From<Size> for PtySize {
    fn from(size: Size) -> Self {
        Self {
            rows: size.rows,
            cols: size.columns,
            pixel_width: size.pixel_width,
            pixel_height: size.pixel_height,
        }
    }
}

impl From<Size> for TerminalSize {
    fn from(size: Size) -> Self {
        Self {
            rows: size.rows,
            columns: size.columns,
            pixel_width: size.pixel_width,
            pixel_height: size.pixel_height,
        }
    }
}

/// Our end of a terminal pair.
#[derive(Clone)]
pub struct Terminal(Arc<Mutex<Box<dyn MasterPty + Send>>>);

impl From<OwnedFd> for Terminal {
    fn from(ours: OwnedFd) -> Self {
        Self::new(Box::new(CellMaster::from(ours)))
    }
}

impl Terminal {
    /// A pair that was opened elsewhere, by portable-pty.
    pub fn new(master: Box<dyn MasterPty + Send>) -> Self {
        Self(Arc::new(Mutex::new(master)))
    }

    /// Sets the size; the command's foreground processes get SIGWINCH.
    pub fn resize(&self, size: Size) -> Result<(), TerminalError> {
        self.master().resize(size.into()).map_err(|error| TerminalError::OwnEnd {
            action: "resized",
            reason: format!("{error:#}"),
        })
    }

    fn end_key(&self) -> Option<EndKey> {
        let master = self.master();
        let master: &dyn MasterPty = &**master;
        if let Some(ours) = master.downcast_ref::<CellMaster>() {
            return ours.end_key();
        }
        let modes = master.get_termios()?;
        let by_line = modes.local_flags.bits() & libc::ICANON != 0;
        let character = modes.control_chars.get(libc::VEOF).copied()?;
        (character != 0).then_some(EndKey { by_line, character })
    }

    fn master(&self) -> MutexGuard<'_, Box<dyn MasterPty + Send>> {
        // Nothing is done under the lock that could leave it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
