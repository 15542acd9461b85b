//! The file worker, from the runtime's side: requests out, answers matched to them by number.

use crate::SandboxError;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stockade_plan::file::{FRAME_MAX, FileDone, FileError, FileMessage, FileOp, FileReply};
use stockade_plan::{decode, encode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// How long a cancelled operation may take to say so. One that hangs in the kernel (a dead network mount) never does.
const CANCEL_PATIENCE: Duration = Duration::from_secs(1);

type Waiting = Mutex<HashMap<u64, oneshot::Sender<Result<FileDone, FileError>>>>;

/// A running file worker.
pub struct WorkerClient {
    writer: tokio::sync::Mutex<OwnedWriteHalf>,
    state: Arc<State>,
    next_id: AtomicU64,
}

#[derive(Default)]
struct State {
    waiting: Waiting,
    ended: AtomicBool,
}

impl State {
    fn take(&self, id: u64) -> Option<oneshot::Sender<Result<FileDone, FileError>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)
    }

    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        // Dropping the senders tells everyone who waits.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl WorkerClient {
    /// Takes over the runtime's end of the stream.
    pub fn start(stream: OwnedFd) -> io::Result<Self> {
        let stream = std::os::unix::net::UnixStream::from(stream);
        stream.set_nonblocking(true)?;
        let (reader, writer) = UnixStream::from_std(stream)?.into_split();
        let state = Arc::new(State::default());
        tokio::spawn(receive(reader, Arc::clone(&state)));
        Ok(Self { writer: writer.into(), state, next_id: AtomicU64::new(1) })
    }

    /// Whether it can still be asked.
    pub fn is_alive(&self) -> bool {
        !self.state.ended.load(Ordering::Acquire)
    }

    /// Has one operation done.
    pub async fn run(
        &self,
        op: FileOp,
        cancel: CancellationToken,
    ) -> Result<Result<FileDone, FileError>, SandboxError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, mut answer) = oneshot::channel();
        self.state.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        let frame = frame(&FileMessage::Request { id, op });
        let sent = match frame {
            Ok(frame) => self.write(&frame).await,
            Err(too_long) => {
                self.state.take(id);
                return Ok(Err(too_long));
            }
        };
        if sent.is_err() {
            self.state.end();
        }
        tokio::select! {
            answer = &mut answer => return answer.map_err(|_| lost()),
            () = cancel.cancelled() => {}
        }
        if let Ok(frame) = frame_cancel(id) {
            let _ = self.write(&frame).await;
        }
        match tokio::time::timeout(CANCEL_PATIENCE, answer).await {
            Ok(answer) => answer.map_err(|_| lost()),
            Err(_) => {
                self.state.take(id);
                Ok(Err(FileError::Cancelled))
            }
        }
    }

    /// A frame is written whole or the stream is over: half of one would garble all that follow. So it is written by a task
    /// that nobody's cancellation reaches.
    async fn write(&self, frame: &[u8]) -> io::Result<()> {
        let mut writer = self.writer.lock().await;
        writer.write_all(frame).await
    }
}

fn lost() -> SandboxError {
    SandboxError::CellLost("the file worker ended".into())
}

fn frame(message: &FileMessage) -> Result<Vec<u8>, FileError> {
    let bytes =
        encode(message).map_err(|error| FileError::Pattern { reason: error.to_string() })?;
    if bytes.len() > FRAME_MAX {
        return Err(FileError::Pattern {
            reason: format!("a request of {} bytes is longer than {FRAME_MAX}", bytes.len()),
        });
    }
    let length = (bytes.len() as u32).to_le_bytes();
    Ok([length.as_slice(), &bytes].concat())
}

fn frame_cancel(id: u64) -> Result<Vec<u8>, FileError> {
    frame(&FileMessage::Cancel { id })
}

async fn receive(mut reader: OwnedReadHalf, state: Arc<State>) {
    while let Ok(length) = reader.read_u32_le().await {
        if length as usize > FRAME_MAX {
            break;
        }
        let mut bytes = vec![0; length as usize];
        if reader.read_exact(&mut bytes).await.is_err() {
            break;
        }
        let Ok(reply) = decode::<FileReply>(&bytes) else {
            break;
        };
        if let Some(sender) = state.take(reply.id) {
            // Nobody waits for the answer to a call that was given up.
            let _ = sender.send(reply.result);
        }
    }
    state.end();
}
