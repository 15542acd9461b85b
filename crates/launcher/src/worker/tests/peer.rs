//! The runtime's end of a worker's stream.

use super::super::{frame, serve};
use super::*;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Duration;
use stockade_plan::file::{FileMessage, FileReply, GrepMode, GrepOp};

/// The runtime's end.
pub(super) struct Peer {
    pub(super) stream: UnixStream,
    pub(super) worker: JoinHandle<i32>,
}

impl Peer {
    pub(super) fn new(root: &Path) -> Peer {
        let plan = WorkerPlan {
            write_roots: vec![Bytes::from(root)],
            protected: vec![".git/hooks".into()],
        };
        Peer::start(move |stream| serve(stream, plan))
    }

    pub(super) fn start(serve: impl FnOnce(UnixStream) -> i32 + Send + 'static) -> Peer {
        let (stream, theirs) = UnixStream::pair().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Peer { stream, worker: std::thread::spawn(move || serve(theirs)) }
    }

    pub(super) fn send(&mut self, message: &FileMessage) {
        frame::write(&mut self.stream, &stockade_plan::encode(message).unwrap()).unwrap();
    }

    pub(super) fn request(&mut self, id: u64, op: FileOp) {
        self.send(&FileMessage::Request { id, op });
    }

    pub(super) fn reply(&mut self) -> FileReply {
        let frame = frame::read(&mut self.stream).unwrap().unwrap();
        stockade_plan::decode(&frame).unwrap()
    }

    pub(super) fn finish(self) -> i32 {
        drop(self.stream);
        self.worker.join().unwrap()
    }
}

pub(super) fn any_read() -> FileOp {
    read_op(Path::new("/f"), 1, 1, 1)
}

pub(super) fn grep_op(root: Bytes, pattern: &str) -> GrepOp {
    GrepOp {
        pattern: pattern.into(),
        root,
        glob: None,
        mode: GrepMode::Content,
        ignore_case: false,
        multiline: false,
        before: 0,
        after: 0,
        line_numbers: true,
        max_results: 100,
        max_bytes: 100_000,
    }
}
