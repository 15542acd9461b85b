use super::cancel::Cancel;
use super::outbox::Outbox;
use super::{Handler, changes_files, encode_reply};
use nix::errno::Errno;
use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stockade_plan::Bytes;
use stockade_plan::file::{FileDone, FileError, FileOp, FileReply};

/// Threads that work at once.
const THREADS: usize = 8;

/// Threads at all: those that hang in the kernel on a request that was cancelled meanwhile are
/// replaced, up to this many.
const THREADS_MAX: usize = 64;

/// Requests that wait; more are refused at once.
const QUEUE_MAX: usize = 256;

/// Does the requests' work on a few threads, which are started when they are needed.
pub(super) struct Pool {
    handler: Arc<Handler>,
    outbox: Arc<Outbox>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    /// Every request that is not answered yet.
    open: HashMap<u64, Ticket>,
    threads: usize,
    idle: usize,
    /// Threads whose request was answered as cancelled while they still work on it.
    abandoned: usize,
    closed: bool,
}

struct Job {
    id: u64,
    op: FileOp,
    cancel: Cancel,
}

struct Ticket {
    cancel: Cancel,
    changes_files: bool,
    running: bool,
}

impl Pool {
    pub(super) fn new(handler: Arc<Handler>, outbox: Arc<Outbox>) -> Arc<Pool> {
        Arc::new(Pool { handler, outbox, state: Mutex::default(), changed: Condvar::new() })
    }

    /// Takes a request on; false if its id is that of a request that is still open.
    #[must_use]
    pub(super) fn submit(self: &Arc<Self>, id: u64, op: FileOp) -> bool {
        let mut state = self.lock();
        if state.open.contains_key(&id) {
            return false;
        }
        if state.queue.len() >= QUEUE_MAX {
            drop(state);
            self.reply_now(id, Err(busy("too many file requests are waiting; wait for some")));
            return true;
        }
        let cancel = Cancel::default();
        let changes_files = changes_files(&op);
        state.open.insert(id, Ticket { cancel: cancel.clone(), changes_files, running: false });
        state.queue.push_back(Job { id, op, cancel });
        self.staff(state);
        true
    }

    /// Cancels a request. It is answered at once, whatever its thread hangs in, unless it is a change
    /// under way: that one's answer says what became of it.
    pub(super) fn cancel(self: &Arc<Self>, id: u64) {
        let mut state = self.lock();
        let Some(ticket) = state.open.get(&id) else {
            return;
        };
        ticket.cancel.set();
        if ticket.running && ticket.changes_files {
            return;
        }
        if ticket.running {
            state.abandoned += 1;
        } else {
            state.queue.retain(|job| job.id != id);
        }
        state.open.remove(&id);
        self.staff(state);
        self.reply_now(id, Err(FileError::Cancelled));
    }

    /// Takes nothing on any more, cancels what is open, and waits a while for changes under way.
    pub(super) fn close(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut state = self.lock();
        state.closed = true;
        state.queue.clear();
        state.open.retain(|_, ticket| ticket.running);
        state.open.values().for_each(|ticket| ticket.cancel.set());
        self.changed.notify_all();
        self.outbox.close();
        while state.open.values().any(|ticket| ticket.changes_files) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sees to it that a thread comes for what waits.
    fn staff(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        self.changed.notify_all();
        let working = state.threads - state.abandoned;
        if state.queue.len() <= state.idle || working >= THREADS || state.threads >= THREADS_MAX {
            return;
        }
        let pool = Arc::clone(self);
        let spawned = std::thread::Builder::new().name("files".into()).spawn(move || pool.work());
        if spawned.is_ok() {
            state.threads += 1;
        } else if working == 0 {
            let jobs: Vec<u64> = state.queue.drain(..).map(|job| job.id).collect();
            jobs.iter().for_each(|id| drop(state.open.remove(id)));
            drop(state);
            for id in jobs {
                self.reply_now(id, Err(busy("no thread can be started; raise the pids limit")));
            }
        }
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            let call = AssertUnwindSafe(|| (self.handler)(&job.op, &job.cancel));
            let result = catch_unwind(call).unwrap_or_else(|panic| Err(panicked(&job.op, panic)));
            if let Some(frame) = self.finish(&job, result) {
                self.outbox.push_when_room(frame);
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            // One that comes back from an abandoned request may have been replaced meanwhile.
            if state.closed || state.threads - state.abandoned > THREADS {
                state.threads -= 1;
                return None;
            }
            if let Some(job) = state.queue.pop_front() {
                if let Some(ticket) = state.open.get_mut(&job.id) {
                    ticket.running = true;
                }
                return Some(job);
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// Closes the request; its reply as a frame, unless it was answered before.
    fn finish(&self, job: &Job, result: Result<FileDone, FileError>) -> Option<Vec<u8>> {
        // Outside the lock: it may be long.
        let frame = encode_reply(&FileReply { id: job.id, result });
        let mut state = self.lock();
        let open = state.open.get(&job.id).is_some_and(|ticket| ticket.cancel.is(&job.cancel));
        if open {
            state.open.remove(&job.id);
        } else {
            state.abandoned -= 1;
        }
        self.changed.notify_all();
        frame.filter(|_| open)
    }

    fn reply_now(&self, id: u64, result: Result<FileDone, FileError>) {
        if let Some(frame) = encode_reply(&FileReply { id, result }) {
            self.outbox.push(frame);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn busy(message: &str) -> FileError {
    FileError::Os {
        step: "start work on".into(),
        path: Bytes::default(),
        errno: Errno::EAGAIN as i32,
        message: message.into(),
    }
}

fn panicked(op: &FileOp, panic: Box<dyn Any + Send>) -> FileError {
    let words = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    let path = match op {
        FileOp::Read { path, .. }
        | FileOp::Write { path, .. }
        | FileOp::Edit { path, .. }
        | FileOp::Locate { path } => path,
        FileOp::Glob { root, .. } => root,
        FileOp::Grep(op) => &op.root,
        FileOp::At { place, .. } => &place.written,
    };
    FileError::Unsuitable {
        path: path.clone(),
        reason: format!("the file worker failed on it, a fault of its own: {words}"),
    }
}
