//! Output that is too large to return goes to a file as it comes (spec 6.4, 8.2): what lies between the beginning and the end that
//! are held in memory would be gone otherwise.

use crate::sync::Mutex;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use stockade_subprocess::{OutputSink, Stream};
use stockade_types::CallId;

/// Where such files are.
pub trait OutputStore: Send + Sync {
    /// Begins the file of a call.
    fn begin(&self, call: &CallId) -> io::Result<Box<dyn OutputFile>>;
}

/// A file that grows. One that is dropped without being finished is removed.
pub trait OutputFile: Send {
    /// Takes what came next; an error means that the file will not be whole.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// It is whole.
    fn finish(self: Box<Self>) -> KeptOutput;
}

/// A file with all of a call's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptOutput {
    /// Its path inside the session's cells.
    pub inside: PathBuf,
    /// What names it in logs.
    pub uri: String,
    /// Its length.
    pub bytes: u64,
}

/// What became of output that is too large to return, where the tool saw to it itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is in a file.
    Whole(KeptOutput),
    /// Only what the content has of it is there.
    InPart,
}

/// Takes a command's output, and begins a file when it is more than is returned.
#[derive(Clone)]
pub(crate) struct LargeOutput(Arc<Mutex<State>>);

struct State {
    store: Arc<dyn OutputStore>,
    call: CallId,
    inline_max: usize,
    taken: Taken,
}

enum Taken {
    Small(Vec<u8>),
    File(Box<dyn OutputFile>),
    Failed,
}

impl LargeOutput {
    pub(crate) fn new(store: Arc<dyn OutputStore>, call: CallId, inline_max: usize) -> Self {
        let taken = Taken::Small(Vec::new());
        Self(Arc::new(Mutex::new(State { store, call, inline_max, taken })))
    }

    /// What became of it; `None` if it was not large.
    pub(crate) fn finish(self) -> Option<Kept> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut state.taken, Taken::Failed) {
            Taken::Small(_) => None,
            Taken::File(file) => Some(Kept::Whole(file.finish())),
            Taken::Failed => Some(Kept::InPart),
        }
    }
}

impl OutputSink for LargeOutput {
    fn write(&mut self, _stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let written = state.write(bytes);
        if written.is_err() {
            state.taken = Taken::Failed;
        }
        written
    }
}

impl State {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.taken {
            Taken::Small(first) if first.len() + bytes.len() <= self.inline_max => {
                first.extend_from_slice(bytes);
                Ok(())
            }
            Taken::Small(first) => {
                let mut file = self.store.begin(&self.call)?;
                file.write(first)?;
                file.write(bytes)?;
                self.taken = Taken::File(file);
                Ok(())
            }
            Taken::File(file) => file.write(bytes),
            Taken::Failed => Ok(()),
        }
    }
}
