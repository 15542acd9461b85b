use crate::LedgerError;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where a ledger and what belongs to it lie: all in one folder, their names made from the ledger's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerPaths {
    /// `ledger.jsonl`: the segment that is written.
    pub current: PathBuf,
    /// `ledger.head`: the newest signed head.
    pub head: PathBuf,
    /// `ledger.key`: the secret key.
    pub key: PathBuf,
    /// `ledger.pub`: the verifier key.
    pub verifier: PathBuf,
    stem: OsString,
}

impl LedgerPaths {
    /// The ledger of a state folder (spec 10.1).
    pub fn of_state_dir(state_dir: &Path) -> Self {
        Self::of_file(&state_dir.join("ledger.jsonl"))
    }

    /// The ledger whose current segment is this file.
    pub fn of_file(file: &Path) -> Self {
        let stem = file.file_stem().unwrap_or_default().to_owned();
        Self {
            current: file.to_owned(),
            head: file.with_extension("head"),
            key: file.with_extension("key"),
            verifier: file.with_extension("pub"),
            stem,
        }
    }

    /// The full segment that begins with this record.
    pub fn segment(&self, first: u64) -> PathBuf {
        let mut name = self.stem.clone();
        name.push(format!(".{first:012}.jsonl"));
        self.current.with_file_name(name)
    }

    /// The full segments, oldest first. Their records go before those of the current one.
    pub fn segments(&self) -> Result<Vec<(u64, PathBuf)>, LedgerError> {
        let folder = match self.current.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let failed = || LedgerError::io("list the folder of", &self.current);
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|error| failed()(error))? {
            let name = entry.map_err(|error| failed()(error))?.file_name();
            let middle = name
                .to_str()
                .and_then(|name| name.strip_prefix(self.stem.to_str()?))
                .and_then(|name| name.strip_prefix('.')?.strip_suffix(".jsonl"));
            if let Some(first) = middle.and_then(|digits| digits.parse().ok()) {
                found.push((first, folder.join(&name)));
            }
        }
        found.sort();
        Ok(found)
    }
}
