use super::frame;
use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How many bytes may wait for a slow peer before the threads that produce more have to wait too.
const PENDING_MAX: usize = 64 * 1024 * 1024;

/// Replies on their way out. A thread of its own writes them, so that the thread that reads requests
/// never waits for a peer that is itself still writing.
pub(super) struct Outbox {
    pending: Mutex<Pending>,
    changed: Condvar,
}

#[derive(Default)]
struct Pending {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
    closed: bool,
}

impl Outbox {
    pub(super) fn start(stream: UnixStream) -> io::Result<Arc<Outbox>> {
        let outbox = Arc::new(Outbox { pending: Mutex::default(), changed: Condvar::new() });
        let writer = Arc::clone(&outbox);
        std::thread::Builder::new()
            .name("replies".into())
            .spawn(move || writer.write_all(stream))?;
        Ok(outbox)
    }

    /// Queues a frame, after waiting for room where there is none. Frames after the end are dropped.
    pub(super) fn push_when_room(&self, frame: Vec<u8>) {
        let mut pending = self.lock();
        while pending.bytes > PENDING_MAX && !pending.closed {
            pending = self.changed.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
        self.queue(pending, frame);
    }

    /// Queues a small frame without waiting.
    pub(super) fn push(&self, frame: Vec<u8>) {
        self.queue(self.lock(), frame);
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn queue(&self, mut pending: MutexGuard<'_, Pending>, frame: Vec<u8>) {
        if !pending.closed {
            pending.bytes += frame.len();
            pending.frames.push_back(frame);
            self.changed.notify_all();
        }
    }

    fn write_all(&self, mut stream: UnixStream) {
        while let Some(frame) = self.next() {
            if frame::write(&mut stream, &frame).is_err() {
                self.close();
            }
        }
    }

    fn next(&self) -> Option<Vec<u8>> {
        let mut pending = self.lock();
        loop {
            if pending.closed {
                return None;
            }
            if let Some(frame) = pending.frames.pop_front() {
                pending.bytes -= frame.len();
                self.changed.notify_all();
                return Some(frame);
            }
            pending = self.changed.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
