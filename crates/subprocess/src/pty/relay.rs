use super::end_of_input::EndOfInput;
use super::screen::Screen;
use super::{Size, Terminal, TerminalError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

const BUFFER_SIZE: usize = 16 * 1024;

/// How often to look whether a command that closed its terminal has opened it again.
const REOPENED: Duration = Duration::from_millis(20);

/// How long after the command's end its last output may take to come through.
const OUTPUT_PATIENCE: Duration = Duration::from_millis(500);

type Writer = Mutex<Box<dyn Write + Send>>;

/// A terminal that is joined to the host's input and output, each by a thread of its own: a terminal's descriptors
/// block, and may not be switched to non-blocking, since the host's other programs share them.
pub struct Relay {
    terminal: Terminal,
    /// Closed to stop the input.
    stop_input: PipeWriter,
    /// Closed to tell that no process is left to write.
    gone: mpsc::Sender<()>,
    /// Told once the output takes nothing any more.
    refused: Arc<Notify>,
    copied: oneshot::Receiver<io::Result<()>>,
    screen: Arc<Mutex<Screen>>,
}

impl Terminal {
    /// Joins the terminal to an input and an output. Nothing is read from `input` but what is passed on. When it ends,
    /// so does the command's input.
    pub fn relay(
        self,
        input: OwnedFd,
        output: impl Write + Send + 'static,
    ) -> Result<Relay, TerminalError> {
        let host = |source| TerminalError::Host { action: "starting the terminal's relay", source };
        let own_end =
            |error| TerminalError::OwnEnd { action: "copied", reason: format!("{error:#}") };
        let reader = self.master().try_clone_reader().map_err(own_end)?;
        // portable-pty's writer, when it is dropped, types a line end and an end of file at the command, which would
        // show, or be read. So it lives as long as the output is looked at.
        let writer = Arc::new(Mutex::new(self.master().take_writer().map_err(own_end)?));
        let (stopped, stop_input) = io::pipe().map_err(host)?;
        let (gone, all_gone) = mpsc::channel();
        let (report, copied) = oneshot::channel();

        let kept = writer.clone();
        let refused = Arc::new(Notify::new());
        let told = Arc::clone(&refused);
        let screen = Arc::new(Mutex::new(Screen::default()));
        let seen = Arc::clone(&screen);
        thread::Builder::new()
            .name("pty-output".to_owned())
            .spawn(move || {
                // Nobody waits for the report of a relay that was dropped.
                let _ = report.send(copy_output(reader, output, &all_gone, &told, &seen));
                drop(kept);
            })
            .map_err(host)?;
        let terminal = self.clone();
        thread::Builder::new()
            .name("pty-input".to_owned())
            .spawn(move || {
                if let Err(error) = copy_input(input.into(), &writer, &terminal, &stopped) {
                    tracing::debug!(%error, "the terminal takes no more input");
                }
            })
            .map_err(host)?;
        Ok(Relay { terminal: self, stop_input, gone, refused, copied, screen })
    }
}

impl Relay {
    /// Sets the size; the command's foreground processes get SIGWINCH.
    pub fn resize(&self, size: Size) -> Result<(), TerminalError> {
        self.terminal.resize(size)
    }

    /// Gives the terminal the size of the host's, `host`, now and whenever that changes. Returns only if it cannot.
    pub async fn follow_size(&self, host: impl AsFd) -> TerminalError {
        let fail = |source| TerminalError::Host { action: "following the terminal's size", source };
        let mut changes = match signal(SignalKind::window_change()) {
            Ok(changes) => changes,
            Err(error) => return fail(error),
        };
        loop {
            let resized = Size::of(&host).map_err(fail).and_then(|size| self.resize(size));
            if let Err(error) = resized {
                return error;
            }
            if changes.recv().await.is_none() {
                return fail(ErrorKind::BrokenPipe.into());
            }
        }
    }

    /// Returns once the output has refused what was to be shown: its reader has gone, or its disk is full.
    pub async fn output_refused(&self) {
        self.refused.notified().await;
    }

    /// How the command has changed what shows its output.
    pub fn shown(&self) -> Shown {
        Shown(Arc::clone(&self.screen))
    }

    /// Ends the relay once no process of the command is left: all that it wrote is passed on before this returns. An
    /// error means that the host's output did not take everything.
    pub async fn finish(self) -> Result<(), TerminalError> {
        drop(self.stop_input);
        drop(self.gone);
        match timeout(OUTPUT_PATIENCE, self.copied).await {
            Ok(Ok(Err(source))) => {
                Err(TerminalError::Host { action: "passing on the command's output", source })
            }
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(TerminalError::OwnEnd {
                action: "read to its end",
                reason: "its end is still held, or the host's output takes nothing".to_owned(),
            }),
        }
    }
}

/// How a command has changed the terminal that shows its output: the alternate screen, a hidden cursor, the mouse, and so on. Of one
/// that was killed these would stay.
#[derive(Clone)]
pub struct Shown(Arc<Mutex<Screen>>);

impl Shown {
    /// What to write there to undo the changes for good; empty where the command left none.
    pub fn leave(&self) -> String {
        lock(&self.0).leave()
    }

    /// What to write there to undo them for a while.
    pub fn undo(&self) -> String {
        lock(&self.0).undo()
    }

    /// What to write there to make them again after that.
    pub fn again(&self) -> String {
        lock(&self.0).again()
    }
}

fn lock(screen: &Mutex<Screen>) -> MutexGuard<'_, Screen> {
    // It is about what is shown: that something panicked meanwhile makes it no less true.
    screen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Copies until no process is left to write and all is read. Output that the host does not take is thrown away, so that
/// the command does not hang on it.
fn copy_output(
    mut from: impl Read,
    mut to: impl Write,
    all_gone: &mpsc::Receiver<()>,
    refused: &Notify,
    screen: &Mutex<Screen>,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_SIZE];
    let mut taken = Ok(());
    let mut last_look = false;
    loop {
        match from.read(&mut buffer) {
            // portable-pty turns the EIO that says "no process has it open" into an end of file. It is none: a process
            // that closed its descriptors may open /dev/tty again.
            Ok(0) if last_look => return taken,
            Ok(0) => {
                last_look =
                    all_gone.recv_timeout(REOPENED) == Err(mpsc::RecvTimeoutError::Disconnected);
            }
            Ok(length) => {
                if taken.is_ok() {
                    let chunk = buffer.get(..length).unwrap_or_default();
                    taken = to.write_all(chunk).and_then(|()| to.flush());
                    match taken {
                        Ok(()) => lock(screen).show(chunk),
                        Err(_) => refused.notify_one(),
                    }
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return taken.and(Err(error)),
        }
    }
}

/// Copies until the input ends or `stopped` does. It looks before it reads: a byte that was read and not passed on would
/// be missing to the program that reads the host's terminal next.
fn copy_input(
    mut from: File,
    to: &Writer,
    terminal: &Terminal,
    stopped: &PipeReader,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_SIZE];
    let mut last = None;
    while wait_for_input(&from, stopped)? {
        match from.read(&mut buffer) {
            Ok(0) => return end_input(to, terminal, stopped, last.as_ref()),
            Ok(length) => {
                let chunk = buffer.get(..length).unwrap_or_default();
                type_in(to, chunk)?;
                last = chunk.last().copied().or(last);
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Types the end of the input until `stopped` ends.
fn end_input(
    to: &Writer,
    terminal: &Terminal,
    stopped: &PipeReader,
    last: Option<&u8>,
) -> io::Result<()> {
    let mut end = EndOfInput::after(last);
    loop {
        if let Some(key) = terminal.end_key()
            && let Some(keys) = end.due(key, Instant::now())
        {
            type_in(to, &keys)?;
        }
        let mut fds = [PollFd::new(stopped, PollFlags::IN)];
        let look = Timespec { tv_sec: 0, tv_nsec: i64::from(EndOfInput::LOOK.subsec_nanos()) };
        match poll(&mut fds, Some(&look)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// What is typed while no process has the terminal open reaches nobody, and is no reason to stop.
fn type_in(to: &Writer, keys: &[u8]) -> io::Result<()> {
    match to.lock().unwrap_or_else(PoisonError::into_inner).write_all(keys) {
        Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(()),
        other => other,
    }
}

/// True when there is input (or its end), false when `stopped` has ended.
fn wait_for_input(from: &File, stopped: &PipeReader) -> io::Result<bool> {
    let mut fds = [PollFd::new(from, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
    loop {
        match poll(&mut fds, None) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let [_, stop] = &fds;
    Ok(stop.revents().is_empty())
}
