//! How `stockade`'s own streams stood before a command shared them, which it can change for whoever uses them next: they are given
//! back when it has ended, however it did.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// What belongs to the open file, and so to everybody who has it.
const SHARED: OFlags = OFlags::NONBLOCK.union(OFlags::APPEND);

/// The streams as they stood. Dropped, it gives them back.
pub struct Streams {
    /// Of stdin, stdout and stderr.
    flags: [Option<OFlags>; 3],
    /// Of the first of them that is a terminal.
    terminal: Option<(usize, Termios)>,
}

impl Streams {
    /// As they stand now.
    pub fn now() -> Self {
        let mut streams = Self { flags: [None; 3], terminal: None };
        each(|at, fd| {
            streams.flags[at] = fcntl_getfl(fd).ok();
            if streams.terminal.is_none()
                && let Ok(settings) = tcgetattr(fd)
            {
                streams.terminal = Some((at, settings));
            }
        });
        streams
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        each(|at, fd| {
            if let Some(before) = self.flags[at]
                && let Ok(now) = fcntl_getfl(fd)
                && (before ^ now).intersects(SHARED)
            {
                let _ = fcntl_setfl(fd, before);
            }
            if let Some((terminal, before)) = &self.terminal
                && *terminal == at
                && tcgetattr(fd).is_ok_and(|now| modes(&now) != modes(before))
                // From the background the terminal is another job's to set, and whoever tries is stopped.
                && tcgetpgrp(fd).ok() == Some(rustix::process::getpgrp())
            {
                let _ = tcsetattr(fd, OptionalActions::Now, before);
            }
        });
    }
}

fn each(mut what: impl FnMut(usize, BorrowedFd<'_>)) {
    what(0, io::stdin().as_fd());
    what(1, io::stdout().as_fd());
    what(2, io::stderr().as_fd());
}

fn modes(settings: &Termios) -> [u32; 4] {
    [
        settings.input_modes.bits(),
        settings.output_modes.bits(),
        settings.control_modes.bits(),
        settings.local_modes.bits(),
    ]
}
