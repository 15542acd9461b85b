use super::arrival::Arrival;
use super::keeper::Keeper;
use super::sink::Stream;
use crate::pty::{EndKey, EndOfInput};
use std::fs::File;
use std::future::pending;
use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::time::Duration;
use stockade_sandbox::WatchedFd;
use tokio::io::Interest;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until, timeout};

/// As much as a pipe holds at first: a full one is emptied by one read.
pub(crate) const READ_SIZE: usize = 64 * 1024;

/// The largest pipe that an unprivileged user can make (pipe(7)).
const LARGEST_PIPE: usize = 1 << 20;

/// How often to look whether a command that closed its terminal has opened it again.
const REOPENED: Duration = Duration::from_millis(20);

/// The reading end of one of the command's output streams.
#[derive(Debug)]
pub(crate) struct OutputStream {
    stream: Stream,
    source: Option<Source>,
    arrival: Arrival,
    /// How much has been read, in bytes.
    taken: usize,
    /// Its pipe is as large as can be.
    is_wide: bool,
}

#[derive(Debug)]
enum Source {
    Pipe(pipe::Receiver),
    Terminal {
        end: WatchedFd,
        /// No process had it open at the last look; when to look again.
        closed_until: Option<Instant>,
    },
}

impl OutputStream {
    pub(crate) fn of_pipe(stream: Stream, fd: Option<OwnedFd>) -> io::Result<Self> {
        let pipe = fd.map(pipe::Receiver::from_owned_fd).transpose()?;
        Ok(Self {
            stream,
            source: pipe.map(Source::Pipe),
            arrival: Arrival::default(),
            taken: 0,
            is_wide: false,
        })
    }

    /// Our end of a terminal, which must not block.
    pub(crate) fn of_terminal(end: WatchedFd) -> Self {
        let source = Some(Source::Terminal { end, closed_until: None });
        Self {
            stream: Stream::Stdout,
            source,
            arrival: Arrival::default(),
            taken: 0,
            is_wide: true,
        }
    }

    /// Whether somebody may still write to it.
    pub(crate) fn is_open(&self) -> bool {
        match &self.source {
            Some(Source::Pipe(_)) => true,
            Some(Source::Terminal { closed_until, .. }) => closed_until.is_none(),
            None => false,
        }
    }

    /// Waits for something to read, for ever if the stream has ended. Cancel-safe.
    pub(crate) async fn readable(&self) {
        self.arrival.note(self.source_readable()).await;
    }

    /// When it had something, to be compared with another stream; asking forgets it.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrival.take()
    }

    async fn source_readable(&self) {
        match &self.source {
            // An error shows again at the read.
            Some(Source::Pipe(pipe)) => drop(pipe.readable().await),
            Some(Source::Terminal { closed_until: Some(until), .. }) => sleep_until(*until).await,
            Some(Source::Terminal { end, .. }) => drop(end.ready(Interest::READABLE).await),
            None => pending().await,
        }
    }

    /// Reads what there is, up to a bound, so that the other stream and the timers get their turn. Returns how many bytes.
    pub(crate) fn read(&mut self, buffer: &mut [u8], keeper: &mut Keeper) -> usize {
        const ROUNDS: usize = 8;
        let before = self.taken;
        for _ in 0..ROUNDS {
            let Some(source) = &mut self.source else { break };
            match source.try_read(buffer) {
                Ok(0) => self.source = None,
                Ok(length) => {
                    keeper.push(self.stream, buffer.get(..length).unwrap_or_default());
                    self.taken += length;
                    // A terminal gives at most a page at a time.
                    let Some(Source::Pipe(pipe)) = &self.source else { continue };
                    if self.taken >= READ_SIZE && !std::mem::replace(&mut self.is_wide, true) {
                        // Who has said so much has more to say, and is to wait for us less often. It may be forbidden: pipe(7).
                        let _ = rustix::pipe::fcntl_setpipe_size(pipe, LARGEST_PIPE);
                    }
                    if length < buffer.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!(%error, "a command's output could not be read on");
                    self.source = None;
                }
            }
        }
        self.taken - before
    }

    /// Reads to the end, once no process of the tree is left to write. The end may fail to come when someone outside
    /// holds the descriptor too; then, after `patience`, what the pipe still holds is taken and the rest is not ours.
    pub(crate) async fn finish(
        mut self,
        buffer: &mut [u8],
        keeper: &mut Keeper,
        patience: Duration,
    ) {
        let to_the_end = async {
            while self.is_open() {
                self.readable().await;
                self.read(buffer, keeper);
            }
        };
        let _ = timeout(patience, to_the_end).await;
        if let Some(Source::Pipe(pipe)) = self.source.take()
            && let Ok(fd) = pipe.into_nonblocking_fd()
        {
            let mut pipe = File::from(fd);
            let mut taken = 0;
            while taken < LARGEST_PIPE {
                match pipe.read(buffer) {
                    Ok(length) if length > 0 => {
                        taken += length;
                        keeper.push(self.stream, buffer.get(..length).unwrap_or_default());
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    _ => break,
                }
            }
        }
    }
}

impl Source {
    fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Source::Pipe(pipe) => pipe.try_read(buffer),
            Source::Terminal { end, closed_until } => {
                *closed_until = None;
                match end.try_io(Interest::READABLE, |fd| Ok(rustix::io::read(fd, &mut *buffer)?)) {
                    // Not the end: a process that closed its descriptors may open /dev/tty again.
                    Err(error) if error.raw_os_error() == Some(libc::EIO) => {
                        *closed_until = Some(Instant::now() + REOPENED);
                        Err(ErrorKind::WouldBlock.into())
                    }
                    other => other,
                }
            }
        }
    }
}

/// The way to the command's stdin, with what is yet to be written. Closed when all is.
#[derive(Debug)]
pub(crate) struct InputStream {
    target: Option<Target>,
    bytes: Vec<u8>,
    written: usize,
}

#[derive(Debug)]
enum Target {
    Pipe(pipe::Sender),
    Terminal(WatchedFd),
    /// All is typed; what its end takes is looked for then.
    Ending(WatchedFd, EndOfInput, Instant),
}

impl InputStream {
    pub(crate) fn of_pipe(fd: Option<OwnedFd>, bytes: Vec<u8>) -> io::Result<Self> {
        let target = match fd {
            Some(fd) if !bytes.is_empty() => Some(Target::Pipe(pipe::Sender::from_owned_fd(fd)?)),
            _ => None,
        };
        Ok(Self { target, bytes, written: 0 })
    }

    /// Types at a terminal, and its end after it for as long as the command lives.
    pub(crate) fn of_terminal(end: WatchedFd, bytes: Vec<u8>) -> Self {
        let target = if bytes.is_empty() { ending(end, None) } else { Target::Terminal(end) };
        Self { target: Some(target), bytes, written: 0 }
    }

    /// Waits until there is room, for ever if nothing is left to write. Cancel-safe.
    pub(crate) async fn writable(&self) {
        match &self.target {
            Some(Target::Pipe(pipe)) => drop(pipe.writable().await),
            Some(Target::Terminal(end)) => drop(end.ready(Interest::WRITABLE).await),
            Some(Target::Ending(.., look)) => sleep_until(*look).await,
            None => pending().await,
        }
    }

    /// Writes as much as there is room for. A command that does not want its stdin is no error (EPIPE).
    pub(crate) fn write(&mut self) {
        if let Some(Target::Ending(terminal, end, look)) = &mut self.target {
            let now = Instant::now();
            if now >= *look {
                *look = now + EndOfInput::LOOK;
                type_end(terminal, end, now);
            }
            return;
        }
        let rest = self.bytes.get(self.written..).unwrap_or_default();
        let written = match &self.target {
            Some(Target::Pipe(pipe)) => pipe.try_write(rest),
            Some(Target::Terminal(end)) => {
                end.try_io(Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, rest)?))
            }
            Some(Target::Ending(..)) | None => return,
        };
        match written {
            Ok(length) => self.written += length,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return;
            }
            Err(error) => {
                if !matches!(error.raw_os_error(), Some(libc::EPIPE | libc::EIO)) {
                    tracing::warn!(%error, "a command's stdin could not be written on");
                }
                self.written = self.bytes.len();
            }
        }
        if self.written == self.bytes.len() {
            self.target = match self.target.take() {
                Some(Target::Terminal(end)) => Some(ending(end, self.bytes.last())),
                _ => None,
            };
            self.bytes = Vec::new();
            self.written = 0;
        }
    }
}

fn ending(terminal: WatchedFd, last: Option<&u8>) -> Target {
    Target::Ending(terminal, EndOfInput::after(last), Instant::now())
}

/// A terminal that has no room for a key, or that nobody has open, gets the next one.
fn type_end(terminal: &WatchedFd, end: &mut EndOfInput, now: Instant) {
    if let Some(key) = EndKey::of(terminal)
        && let Some(keys) = end.due(key, now.into_std())
    {
        let _ = terminal.try_io(Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, &keys)?));
    }
}
