//! A terminal for a command (spec 6.5): a pair of which the command gets one end as its controlling terminal, while
//! the other is joined to the host's input and output, byte for byte.
//!
//! ```no_run
//! # use stockade_subprocess::pty::{RawMode, Size, Terminal};
//! # async fn example(mut command: stockade_sandbox::CommandSpec) -> Result<(), Box<dyn std::error::Error>> {
//! use std::os::fd::AsFd;
//! let host = std::io::stdin();
//! let (terminal, command_end) = Terminal::open(Size::of(&host).unwrap_or_default())?;
//! command_end.attach(&mut command)?;
//! // … start the command …
//! let raw = RawMode::enter(&host)?;
//! let input = host.as_fd().try_clone_to_owned()?;
//! let relay = terminal.relay(input, std::io::stdout())?;
//! tokio::select! {
//!     error = relay.follow_size(&host) => eprintln!("the size is not followed: {error}"),
//!     // … wait for the command …
//! }
//! relay.finish().await?;
//! drop(raw);
//! # Ok(())
//! # }
//! ```

mod host;
mod relay;

pub use host::RawMode;
pub use relay::Relay;

use portable_pty::{MasterPty, PtyPair, PtySize, native_pty_system};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stockade_sandbox::{CommandSpec, Stdio};

/// Why a terminal could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    /// The system gave no pair.
    #[error("no terminal could be opened: {0}; is /dev/ptmx there, and is /dev/pts mounted?")]
    Open(String),
    /// The command's end has no name to open it by.
    #[error("the new terminal has no name; is /dev/pts mounted?")]
    Nameless,
    /// The command's end could not be opened.
    #[error("the terminal {} could not be opened for the command: {source}", path.display())]
    CommandEnd {
        /// Its name on the host.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
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

/// Our end of a terminal pair.
#[derive(Clone)]
pub struct Terminal(Arc<Mutex<Box<dyn MasterPty + Send>>>);

/// The command's end of a terminal pair. Our side sees the end of the output only after every copy of it is closed,
/// so hand it over and keep none.
#[derive(Debug)]
pub struct CommandEnd(OwnedFd);

impl Terminal {
    /// Opens a pair.
    pub fn open(size: Size) -> Result<(Self, CommandEnd), TerminalError> {
        let PtyPair { master, slave } = native_pty_system()
            .openpty(size.into())
            .map_err(|error| TerminalError::Open(format!("{error:#}")))?;
        let path = master.tty_name().ok_or(TerminalError::Nameless)?;
        // portable-pty does not part with its slave's descriptor. While it is held, the name cannot come to mean another
        // terminal.
        let command_end = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NOCTTY)
            .open(&path)
            .map_err(|source| TerminalError::CommandEnd { path, source })?;
        drop(slave);
        Ok((Self(Arc::new(Mutex::new(master))), CommandEnd(command_end.into())))
    }

    /// Sets the size; the command's foreground processes get SIGWINCH.
    pub fn resize(&self, size: Size) -> Result<(), TerminalError> {
        self.master().resize(size.into()).map_err(|error| TerminalError::OwnEnd {
            action: "resized",
            reason: format!("{error:#}"),
        })
    }

    /// What ends the input for the command as it has the terminal set now: the end-of-file character, or nothing where it
    /// takes every byte as it is.
    fn end_of_file(&self) -> Option<u8> {
        let modes = self.master().get_termios()?;
        let by_line = modes.local_flags.bits() & libc::ICANON != 0;
        let character = modes.control_chars.get(libc::VEOF).copied()?;
        (by_line && character != 0).then_some(character)
    }

    fn master(&self) -> MutexGuard<'_, Box<dyn MasterPty + Send>> {
        // Nothing is done under the lock that could leave it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CommandEnd {
    /// Makes it the command's stdin, stdout, stderr and controlling terminal.
    pub fn attach(self, command: &mut CommandSpec) -> Result<(), TerminalError> {
        let copy = || {
            self.0.try_clone().map_err(|source| TerminalError::Host {
                action: "duplicating the terminal's descriptor",
                source,
            })
        };
        command.stdout = Stdio::Fd(copy()?);
        command.stderr = Stdio::Fd(copy()?);
        command.stdin = Stdio::Fd(self.0);
        command.controlling_terminal = true;
        Ok(())
    }
}
