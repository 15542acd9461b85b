use std::io;
use std::path::{Path, PathBuf};

/// Why the ledger could not be opened, written or read. A call that needs its record is refused then.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The operating system refused.
    #[error("the ledger {path}: cannot {step}: {source}", path = path.display())]
    Io {
        /// What was tried.
        step: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
    /// The file is gone, or another one stands in its place.
    #[error("the ledger {path} was removed or replaced while it was in use; bring it back, or start a new one in another state folder", path = path.display())]
    Removed {
        /// Its path.
        path: PathBuf,
    },
    /// The ledger is not the one that its signed head speaks of.
    #[error("the ledger {path} does not fit its signed head: {problem}; see `stockade audit verify`", path = path.display())]
    Broken {
        /// Its path.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The key beside the ledger cannot be used.
    #[error("the ledger's key {path}: {problem}", path = path.display())]
    Key {
        /// The key's path.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A record that cannot be written as JSON.
    #[error("a record cannot be written as JSON: {0}")]
    Encode(#[from] serde_json::Error),
}

impl LedgerError {
    pub(crate) fn io(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { step, path, source }
    }
}
