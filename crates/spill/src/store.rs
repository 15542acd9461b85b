use crate::retention::Retention;
use crate::sweep::{Swept, sweep_folder};
use crate::sync::{Mutex, MutexGuard};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use stockade_types::disk::has_room;
use stockade_types::{CallId, SessionId};
use uuid::Uuid;

/// Characters of a call's id in a file's name.
const ID_CHARS_MAX: usize = 48;

/// What a store may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// All files of the session together, in bytes.
    pub session_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { session_bytes: 1 << 30 }
    }
}

/// One session's store.
#[derive(Debug)]
pub struct SpillStore {
    session: SessionId,
    folder: PathBuf,
    /// The folder's path inside the session's cells.
    inside: PathBuf,
    limits: Limits,
    used: Mutex<u64>,
}

/// A file of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spilled {
    /// Where it is.
    pub host: PathBuf,
    /// Where it is inside the session's cells.
    pub inside: PathBuf,
    /// What names it in logs: `spill://<session>/<folder>/<name>`.
    pub uri: String,
    /// Its length.
    pub bytes: u64,
}

/// Why something was not kept.
#[derive(Debug, thiserror::Error)]
pub enum SpillError {
    /// The session has no room left.
    #[error(
        "spill store {folder}: its quota of {quota} bytes leaves no room for {wanted} more: remove files there, or raise the quota"
    )]
    Quota {
        /// The session's folder.
        folder: PathBuf,
        /// In bytes.
        quota: u64,
        /// In bytes.
        wanted: u64,
    },
    /// The disk has no room left but for the session log and the ledger.
    #[error(
        "spill store {folder}: its disk has no room for {wanted} bytes more: what is left is kept for the session log and the ledger"
    )]
    DiskFull {
        /// The session's folder.
        folder: PathBuf,
        /// In bytes.
        wanted: u64,
    },
    /// The system said no.
    #[error("spill store {path}: cannot {step}: {source}")]
    Io {
        /// What was being done.
        step: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The place inside the cells is none.
    #[error("the spill store's place inside the cells, {0:?}, must be absolute and without \"..\"")]
    Inside(PathBuf),
    /// No file of this store has this name.
    #[error("{0:?} names no file of this session's spill store")]
    Unknown(String),
}

impl SpillStore {
    /// Opens a session's store below `state_dir`, made if it is missing (folders 0700). `inside` is where the cells of the
    /// session show it, absolute; a runtime whose policy lets calls write there is not built.
    pub fn open(
        state_dir: &Path,
        session: &SessionId,
        inside: &Path,
        limits: Limits,
    ) -> Result<Self, SpillError> {
        let is_up = |part| part == std::path::Component::ParentDir;
        if !inside.is_absolute() || inside.components().any(is_up) {
            return Err(SpillError::Inside(inside.to_owned()));
        }
        let folder = state_dir.join("sessions").join(session.as_str()).join("spill");
        for retention in Retention::ALL {
            let path = folder.join(retention.folder());
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(|source| SpillError::Io { step: "make its folder", path, source })?;
        }
        let used = Retention::ALL.iter().map(|kept| bytes_in(&folder.join(kept.folder()))).sum();
        let (session, inside) = (session.clone(), inside.to_owned());
        Ok(Self { session, folder, inside, limits, used: Mutex::new(used) })
    }

    /// Its folder, which the session's cells show.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the session's cells show it.
    pub fn inside(&self) -> &Path {
        &self.inside
    }

    /// Keeps `content` for a call. Either all of it is there afterwards, or nothing.
    pub fn put(
        &self,
        call: &CallId,
        extension: &str,
        content: &[u8],
        retention: Retention,
    ) -> Result<Spilled, SpillError> {
        let bytes = content.len() as u64;
        self.reserve(bytes)?;
        let spilled = Spilled { bytes, ..self.place(call, extension, retention) };
        let failed = |source| SpillError::Io { step: "write", path: spilled.host.clone(), source };
        let written = create_new(&spilled.host).map_err(failed).and_then(|mut file| {
            self.has_room(&file, bytes)?;
            file.write_all(content).map_err(failed)
        });
        if let Err(error) = written {
            // What was written of it would be taken for all of it.
            let _ = fs::remove_file(&spilled.host);
            *self.used() -= bytes;
            return Err(error);
        }
        Ok(spilled)
    }

    /// Begins a file for what a call is still writing.
    pub fn begin(
        self: &Arc<Self>,
        call: &CallId,
        extension: &str,
        retention: Retention,
    ) -> Result<Growing, SpillError> {
        let spilled = self.place(call, extension, retention);
        let path = spilled.host.clone();
        let file = create_new(&path).map_err(|source| SpillError::Io {
            step: "make",
            path: path.clone(),
            source,
        })?;
        Ok(Growing { store: Arc::clone(self), file, spilled, is_finished: false })
    }

    fn place(&self, call: &CallId, extension: &str, retention: Retention) -> Spilled {
        let name = format!("{}-{}.{extension}", safe(&call.0), Uuid::new_v4());
        let place = Path::new(retention.folder()).join(&name);
        let uri = format!("spill://{}/{}", self.session.as_str(), place.display());
        Spilled { host: self.folder.join(&place), inside: self.inside.join(&place), uri, bytes: 0 }
    }

    /// The content behind an URI of this store.
    pub fn get(&self, uri: &str) -> Result<Vec<u8>, SpillError> {
        Self::read(&self.folder, uri)
    }

    /// The content behind an URI of the store in this folder (`…/sessions/<id>/spill`), which is not opened for it.
    pub fn read(store: &Path, uri: &str) -> Result<Vec<u8>, SpillError> {
        let path = Self::path_of(store, uri)?;
        fs::read(&path).map_err(|source| SpillError::Io { step: "read", path, source })
    }

    fn path_of(store: &Path, uri: &str) -> Result<PathBuf, SpillError> {
        let unknown = || SpillError::Unknown(uri.to_owned());
        let session = store.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        let place = uri
            .strip_prefix("spill://")
            .and_then(|rest| rest.strip_prefix(session?))
            .and_then(|rest| rest.strip_prefix('/'))
            .ok_or_else(unknown)?;
        let (folder, name) = place.split_once('/').ok_or_else(unknown)?;
        let known = Retention::ALL.iter().any(|retention| retention.folder() == folder);
        if !known || name.is_empty() || name.contains('/') || name.starts_with('.') {
            return Err(unknown());
        }
        Ok(store.join(folder).join(name))
    }

    /// Takes a file out of the store again: the session's cells see it no more.
    pub fn remove(&self, uri: &str) -> Result<(), SpillError> {
        let path = Self::path_of(&self.folder, uri)?;
        let io = |source| SpillError::Io { step: "remove", path: path.clone(), source };
        let bytes = fs::symlink_metadata(&path).map_err(io)?.len();
        fs::remove_file(&path).map_err(io)?;
        let mut used = self.used();
        *used = used.saturating_sub(bytes);
        Ok(())
    }

    fn reserve(&self, bytes: u64) -> Result<(), SpillError> {
        let mut used = self.used();
        let quota = self.limits.session_bytes;
        match used.checked_add(bytes) {
            Some(total) if total <= quota => {
                *used = total;
                Ok(())
            }
            _ => Err(SpillError::Quota { folder: self.folder.clone(), quota, wanted: bytes }),
        }
    }

    fn has_room(&self, file: &File, wanted: u64) -> Result<(), SpillError> {
        match has_room(file, wanted) {
            true => Ok(()),
            false => Err(SpillError::DiskFull { folder: self.folder.clone(), wanted }),
        }
    }

    fn used(&self) -> MutexGuard<'_, u64> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SpillStore {
    fn drop(&mut self) {
        let temporary = self.folder.join(Retention::Temporary.folder());
        sweep_folder(&temporary, &mut Swept::default(), |_| true);
    }
}

/// A file of the store that is still being written. Dropped before it is finished, it is removed: what there is of it would be taken
/// for all of it.
#[derive(Debug)]
pub struct Growing {
    store: Arc<SpillStore>,
    file: File,
    spilled: Spilled,
    is_finished: bool,
}

impl Growing {
    /// Takes what comes next. After an error the file is good for nothing.
    pub fn write(&mut self, content: &[u8]) -> Result<(), SpillError> {
        let bytes = content.len() as u64;
        self.store.reserve(bytes)?;
        self.spilled.bytes += bytes;
        self.store.has_room(&self.file, bytes)?;
        let path = || self.spilled.host.clone();
        self.file.write_all(content).map_err(|source| SpillError::Io {
            step: "write",
            path: path(),
            source,
        })
    }

    /// It is whole.
    pub fn finish(mut self) -> Spilled {
        self.is_finished = true;
        self.spilled.clone()
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = fs::remove_file(&self.spilled.host);
            *self.store.used() -= self.spilled.bytes;
        }
    }
}

fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// A call's id as part of a file's name.
fn safe(id: &str) -> String {
    let part: String = id
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' })
        .take(ID_CHARS_MAX)
        .collect();
    if part.is_empty() { "call".to_owned() } else { part }
}
