//! Where tasks' output lies: `task_N.out`, beside `task_N.json` with what is known of it.

use super::info::{TaskId, TaskInfo, TaskStatus};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A folder of tasks, or for a runtime without one, files in the system's temporary folder that have no name.
#[derive(Clone, Debug)]
pub(super) enum Store {
    Folder(PathBuf),
    Nameless,
}

impl Store {
    /// A file for a task's output, and the task's name: the first number from `from` on that is free.
    pub(super) fn create(&self, from: u64) -> io::Result<(TaskId, File)> {
        let Store::Folder(folder) = self else {
            return Ok((TaskId::of(from), tempfile::tempfile()?));
        };
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut number = from;
        loop {
            let id = TaskId::of(number);
            let path = output_path(folder, &id);
            let mut options = OpenOptions::new();
            match options.read(true).append(true).create_new(true).mode(0o600).open(path) {
                Ok(file) => return Ok((id, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes down what is known of a task: whole, or not at all.
    pub(super) fn write(&self, info: &TaskInfo) -> io::Result<()> {
        let Store::Folder(folder) = self else { return Ok(()) };
        let new = folder.join(format!("{}.new", info.id));
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(info)?)?;
        std::fs::rename(new, folder.join(format!("{}.json", info.id)))
    }
}

fn output_path(folder: &Path, id: &TaskId) -> PathBuf {
    folder.join(format!("{id}.out"))
}

/// The tasks of a folder as they were written down, by number. Their runtime, if it is `alive`, may know more.
pub fn stored_tasks(folder: &Path, alive: bool) -> io::Result<Vec<TaskInfo>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut tasks = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let mut info: TaskInfo = serde_json::from_slice(&std::fs::read(&path)?)
            .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        if let Ok(file) = File::open(output_path(folder, &info.id)) {
            info.bytes = file.metadata()?.len();
        }
        if !alive && info.status.is_alive() {
            info.status = TaskStatus::Lost;
        }
        tasks.push(info);
    }
    tasks.sort_by_key(|info| info.id.number());
    Ok(tasks)
}

/// Reads a stored task's output from `offset` on, at most `max` bytes; nothing where it ends before.
pub fn stored_output(folder: &Path, id: &TaskId, offset: u64, max: usize) -> io::Result<Vec<u8>> {
    if id.number().is_none() {
        return Err(io::ErrorKind::NotFound.into());
    }
    read_at(&File::open(output_path(folder, id))?, offset, max)
}

pub(super) fn read_at(file: &File, offset: u64, max: usize) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len().saturating_sub(offset);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(max).min(max)];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
