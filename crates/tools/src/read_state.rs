use crate::sync::Mutex;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use stockade_sandbox::file::Fingerprint;

/// Which files the session has read or written, and how they were then: what Edit and Write hold a file to.
#[derive(Debug, Default)]
pub struct ReadState(Mutex<HashMap<PathBuf, Fingerprint>>);

impl ReadState {
    /// The file was seen in this state.
    pub fn seen(&self, path: &Path, fingerprint: Fingerprint) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), fingerprint);
    }

    /// The state in which the file was last seen.
    pub fn last(&self, path: &Path) -> Option<Fingerprint> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied()
    }
}
