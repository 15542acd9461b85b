use crate::Captured;
use crate::capture::HeadTail;
use std::fs::File;
use std::future::pending;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::time::timeout;

/// As much as a pipe holds: a full one is emptied by one read.
pub(crate) const READ_SIZE: usize = 64 * 1024;

/// The largest pipe that an unprivileged user can make (pipe(7)).
const LARGEST_PIPE: usize = 1 << 20;

/// The reading end of one of the command's output streams, with what was read from it.
#[derive(Debug)]
pub(crate) struct OutputStream {
    pipe: Option<pipe::Receiver>,
    kept: HeadTail,
}

impl OutputStream {
    pub(crate) fn new(fd: Option<OwnedFd>, limit: usize) -> io::Result<Self> {
        let pipe = fd.map(pipe::Receiver::from_owned_fd).transpose()?;
        Ok(Self { pipe, kept: HeadTail::new(limit) })
    }

    pub(crate) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Waits for something to read, for ever if the stream has ended. Cancel-safe.
    pub(crate) async fn readable(&self) {
        match &self.pipe {
            // An error shows again at the read.
            Some(pipe) => drop(pipe.readable().await),
            None => pending().await,
        }
    }

    /// Reads what there is, up to a bound, so that the other stream and the timers get their turn.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) {
        const ROUNDS: usize = 8;
        for _ in 0..ROUNDS {
            let Some(pipe) = &self.pipe else { return };
            match pipe.try_read(buffer) {
                Ok(0) => self.pipe = None,
                Ok(length) => {
                    self.kept.push(buffer.get(..length).unwrap_or_default());
                    if length < buffer.len() {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!(%error, "a command's output could not be read on");
                    self.pipe = None;
                }
            }
        }
    }

    /// Reads to the end, once no process of the tree is left to write. The end may fail to come when someone outside
    /// holds the descriptor too; then, after `patience`, what the pipe still holds is taken and the rest is not ours.
    pub(crate) async fn finish(mut self, buffer: &mut [u8], patience: Duration) -> Captured {
        let to_the_end = async {
            while self.is_open() {
                self.readable().await;
                self.read(buffer);
            }
        };
        let _ = timeout(patience, to_the_end).await;
        if let Some(Ok(fd)) = self.pipe.take().map(pipe::Receiver::into_nonblocking_fd) {
            let mut pipe = File::from(fd);
            let mut taken = 0;
            while taken < LARGEST_PIPE {
                match pipe.read(buffer) {
                    Ok(length) if length > 0 => {
                        taken += length;
                        self.kept.push(buffer.get(..length).unwrap_or_default());
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    _ => break,
                }
            }
        }
        self.kept.finish()
    }
}

/// The writing end of the command's stdin, with what is yet to be written. Closed when all is.
#[derive(Debug)]
pub(crate) struct InputStream {
    pipe: Option<pipe::Sender>,
    bytes: Vec<u8>,
    written: usize,
}

impl InputStream {
    pub(crate) fn new(fd: Option<OwnedFd>, bytes: Vec<u8>) -> io::Result<Self> {
        let pipe = match fd {
            Some(fd) if !bytes.is_empty() => Some(pipe::Sender::from_owned_fd(fd)?),
            _ => None,
        };
        Ok(Self { pipe, bytes, written: 0 })
    }

    /// Waits until there is room, for ever if nothing is left to write. Cancel-safe.
    pub(crate) async fn writable(&self) {
        match &self.pipe {
            Some(pipe) => drop(pipe.writable().await),
            None => pending().await,
        }
    }

    /// Writes as much as there is room for. A command that does not want its stdin is no error (EPIPE).
    pub(crate) fn write(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        let rest = self.bytes.get(self.written..).unwrap_or_default();
        match pipe.try_write(rest) {
            Ok(length) => self.written += length,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return;
            }
            Err(error) => {
                if error.kind() != ErrorKind::BrokenPipe {
                    tracing::warn!(%error, "a command's stdin could not be written on");
                }
                self.written = self.bytes.len();
            }
        }
        if self.written == self.bytes.len() {
            self.pipe = None;
            self.bytes = Vec::new();
            self.written = 0;
        }
    }
}
