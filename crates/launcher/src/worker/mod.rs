//! The file worker: the process in a cell that does the work of Read, Write, Edit, Glob and Grep
//! (spec 5.8, 10.4), so that they and Bash see one and the same world.
//!
//! It runs confined like a command. The kernel decides what may be touched; user space refuses one
//! thing only, the protected patterns (spec 5.4), because a mount can only cover what exists.
//!
//! One thread reads requests, one writes replies, a small [`pool`] works: a read that hangs on a dead
//! file server delays neither the others nor its own cancellation.

mod cancel;
mod edit;
mod fault;
mod frame;
mod glob;
mod grep;
mod grep_sink;
mod open;
mod outbox;
mod place;
mod pool;
mod protect;
mod read;
mod replace;
mod resolve;
#[cfg(test)]
mod tests;
mod write;

use cancel::Cancel;
use outbox::Outbox;
use pool::Pool;
use protect::Protection;
use replace::Commits;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use stockade_plan::WorkerPlan;
use stockade_plan::file::{FileDone, FileError, FileMessage, FileOp, FileReply, Place};

/// The exit status after a frame that is no message of this version: the two sides do not speak the
/// same language, so nothing that follows could be trusted either.
const MALFORMED: i32 = 2;

/// The exit status when the stream itself failed, or no thread could be started to write to it.
const BROKEN: i32 = 3;

/// How long an end of the stream waits for writes under way, which would otherwise leave their
/// temporary file behind.
const DRAIN: Duration = Duration::from_secs(2);

type Handler = dyn Fn(&FileOp, &Cancel) -> Result<FileDone, FileError> + Send + Sync;

/// Serves requests until the peer closes the stream; returns the process's exit status, 0 after an
/// orderly end. The caller ends the process then: threads that hang in the kernel are not waited for.
pub fn serve(stream: UnixStream, plan: WorkerPlan) -> i32 {
    let files = Files { protection: Protection::new(&plan), commits: Commits::default() };
    serve_with(stream, Arc::new(move |op: &FileOp, cancel: &Cancel| files.run(op, cancel)))
}

/// What the operations that write share.
struct Files {
    protection: Protection,
    commits: Commits,
}

impl Files {
    fn run(&self, op: &FileOp, cancel: &Cancel) -> Result<FileDone, FileError> {
        self.run_at(op, None, cancel)
    }

    /// Does it where it was approved; `None`: nobody was asked.
    fn run_at(
        &self,
        op: &FileOp,
        approved: Option<&Place>,
        cancel: &Cancel,
    ) -> Result<FileDone, FileError> {
        match op {
            FileOp::Read { path, offset, limit, max_bytes } => {
                let opened = match approved {
                    Some(place) => place::open_there(path, place)?,
                    None => open::regular(path)?,
                };
                read::read(path, opened, *offset, *limit, *max_bytes, cancel)
            }
            FileOp::Write { path, content, expected } => {
                write::write(self, path, &content.0, *expected, approved, cancel)
            }
            FileOp::Edit { path, old, new, replace_all, expected } => {
                let change = edit::Change { old: &old.0, new: &new.0, all: *replace_all };
                edit::edit(self, path, &change, *expected, approved, cancel)
            }
            FileOp::Glob { pattern, root, max_results } => {
                place::hold(approved, || glob::glob(pattern, root, *max_results, cancel))
            }
            FileOp::Grep(op) => place::hold(approved, || grep::grep(op, cancel)),
            FileOp::Locate { path } => place::locate(path).map(FileDone::Located),
            FileOp::At { place, op } => self.run_at(op, Some(place), cancel),
        }
    }
}

fn serve_with(stream: UnixStream, handler: Arc<Handler>) -> i32 {
    let Ok(outgoing) = stream.try_clone() else {
        return BROKEN;
    };
    let Ok(outbox) = Outbox::start(outgoing) else {
        return BROKEN;
    };
    let pool = Pool::new(handler, outbox);
    let status = read_requests(stream, &pool);
    pool.close(DRAIN);
    status
}

fn read_requests(mut stream: UnixStream, pool: &Arc<Pool>) -> i32 {
    loop {
        let frame = match frame::read(&mut stream) {
            Ok(Some(frame)) => frame,
            Ok(None) => return 0,
            // The peer is gone and left replies of ours unread: an end like any other.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return 0,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return MALFORMED,
            Err(_) => return BROKEN,
        };
        match stockade_plan::decode(&frame) {
            Ok(FileMessage::Request { id, op }) => {
                if !pool.submit(id, op) {
                    return MALFORMED;
                }
            }
            Ok(FileMessage::Cancel { id }) => pool.cancel(id),
            Err(_) => return MALFORMED,
        }
    }
}

/// Whether an operation changes files: such a one is not answered while it may still take effect.
fn changes_files(op: &FileOp) -> bool {
    match op {
        FileOp::At { op, .. } => changes_files(op),
        op => matches!(op, FileOp::Write { .. } | FileOp::Edit { .. }),
    }
}

/// The reply as a frame's content; a reply that does not fit a frame becomes an error that does.
fn encode_reply(reply: &FileReply) -> Option<Vec<u8>> {
    let fits = |bytes: &Vec<u8>| bytes.len() <= stockade_plan::file::FRAME_MAX;
    stockade_plan::encode(reply).ok().filter(fits).or_else(|| {
        let error = FileError::Unsuitable {
            path: stockade_plan::Bytes::default(),
            reason: "the answer is too long to be returned; ask for less".into(),
        };
        stockade_plan::encode(&FileReply { id: reply.id, result: Err(error) }).ok()
    })
}
