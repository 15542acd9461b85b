use super::end_of_input::EndKey;
use portable_pty::{MasterPty, PtySize};
use rustix::termios::{Winsize, tcgetpgrp, tcgetwinsize, tcsetwinsize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

/// Our end of a terminal that a cell opened in its own view, as portable-pty has it. Its own implementation can open pairs in the
/// caller's view alone, where the command could not find its terminal by name.
pub(super) struct CellMaster(File);

impl From<OwnedFd> for CellMaster {
    fn from(fd: OwnedFd) -> Self {
        Self(fd.into())
    }
}

impl CellMaster {
    pub(super) fn end_key(&self) -> Option<EndKey> {
        EndKey::of(&self.0)
    }
}

type Answer<T> = Result<T, anyhow::Error>;

impl MasterPty for CellMaster {
    fn resize(&self, size: PtySize) -> Answer<()> {
        let size = Winsize {
            ws_row: size.rows,
            ws_col: size.cols,
            ws_xpixel: size.pixel_width,
            ws_ypixel: size.pixel_height,
        };
        Ok(tcsetwinsize(&self.0, size)?)
    }

    fn get_size(&self) -> Answer<PtySize> {
        let size = tcgetwinsize(&self.0)?;
        Ok(PtySize {
            rows: size.ws_row,
            cols: size.ws_col,
            pixel_width: size.ws_xpixel,
            pixel_height: size.ws_ypixel,
        })
    }

    fn try_clone_reader(&self) -> Answer<Box<dyn Read + Send>> {
        Ok(Box::new(Reader(self.0.try_clone()?)))
    }

    fn take_writer(&self) -> Answer<Box<dyn Write + Send>> {
        Ok(Box::new(self.0.try_clone()?))
    }

    fn process_group_leader(&self) -> Option<libc::pid_t> {
        tcgetpgrp(&self.0).ok().map(|pid| pid.as_raw_nonzero().get())
    }

    fn as_raw_fd(&self) -> Option<RawFd> {
        Some(self.0.as_raw_fd())
    }

    /// It has a name in the command's view alone.
    fn tty_name(&self) -> Option<PathBuf> {
        None
    }
}

/// As portable-pty's: no process has it open is an end of file.
struct Reader(File);

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer) {
            Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(0),
            other => other,
        }
    }
}
