//! Where tasks' output lies: `task_N.out` with its beginning and `task_N.OFFSET.out` with what is kept of its end, beside
//! `task_N.json` with what is known of it.

use super::info::{TaskId, TaskInfo, TaskStatus};
use super::kept::{Piece, ReadPart, missing_between, read_pieces};
use std::collections::BTreeMap;
use std::ffi::OsStr;
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
            match create_new(&path) {
                Ok(file) => return Ok((id, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes down what is known of a task: whole, or not at all. On a full disk, the least there is to say of it, in the place
    /// that its last record takes already.
    pub(super) fn write(&self, info: &TaskInfo) -> io::Result<()> {
        let Store::Folder(folder) = self else { return Ok(()) };
        replace(folder, info)
            .or_else(|error| overwrite(folder, &terse(info, &error)).map_err(|_| error))
    }

    /// A file for a piece of a task's output that begins at `start`, and its path if it has one.
    pub(super) fn create_piece(
        &self,
        id: &TaskId,
        start: u64,
    ) -> io::Result<(File, Option<PathBuf>)> {
        match self.piece_path(id, start) {
            Some(path) => create_new(&path).map(|file| (file, Some(path))),
            None => Ok((tempfile::tempfile()?, None)),
        }
    }

    pub(super) fn piece_path(&self, id: &TaskId, start: u64) -> Option<PathBuf> {
        let Store::Folder(folder) = self else { return None };
        Some(match start {
            0 => output_path(folder, id),
            _ => folder.join(format!("{id}.{start}.out")),
        })
    }

    /// How much of tasks' output is there already.
    pub(super) fn used(&self) -> u64 {
        let Store::Folder(folder) = self else { return 0 };
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let outputs = entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "out"));
        outputs.filter_map(|output| output.metadata().ok()).map(|metadata| metadata.len()).sum()
    }

    /// Takes away the file of a task that was not started after all.
    pub(super) fn forget(&self, id: &TaskId) {
        if let Store::Folder(folder) = self {
            // An empty file is all that stays where this fails.
            let _ = std::fs::remove_file(output_path(folder, id));
        }
    }
}

fn replace(folder: &Path, info: &TaskInfo) -> io::Result<()> {
    let new = folder.join(format!("{}.new", info.id));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&serde_json::to_vec(info)?)
        .and_then(|()| std::fs::rename(&new, record_path(folder, &info.id)))
        .inspect_err(|_| drop(std::fs::remove_file(&new)))
}

/// A file's first block is its own, however little of it is used.
const BLOCK: usize = 4096;

fn overwrite(folder: &Path, info: &TaskInfo) -> io::Result<()> {
    let record = serde_json::to_vec(info)?;
    let file = OpenOptions::new().write(true).open(record_path(folder, &info.id))?;
    if record.len() > BLOCK || file.write_at(&record, 0)? < record.len() {
        return Err(io::ErrorKind::StorageFull.into());
    }
    file.set_len(record.len() as u64)
}

fn terse(info: &TaskInfo, error: &io::Error) -> TaskInfo {
    let shortened = |text: &str| text.chars().take(200).collect::<String>();
    let note = info.note.as_deref().map(|note| shortened(note) + "; ").unwrap_or_default();
    TaskInfo {
        description: shortened(&info.description),
        denials: Vec::new(),
        note: Some(format!("{note}more could not be written down: {error}")),
        ..info.clone()
    }
}

fn record_path(folder: &Path, id: &TaskId) -> PathBuf {
    folder.join(format!("{id}.json"))
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
    let mut records = Vec::new();
    let mut kept = BTreeMap::<String, Vec<(u64, u64)>>::new();
    for entry in entries {
        let entry = entry?;
        if let Some((task, start)) = piece_of(&entry.file_name()) {
            // One that has gone meanwhile is not kept.
            let length = entry.metadata().map_or(0, |metadata| metadata.len());
            kept.entry(task).or_default().push((start, start.saturating_add(length)));
        } else if entry.path().extension().is_some_and(|extension| extension == "json") {
            records.push(entry.path());
        }
    }
    let mut tasks = Vec::new();
    for path in records {
        let record = std::fs::read(&path).and_then(|record| {
            serde_json::from_slice::<TaskInfo>(&record).map_err(io::Error::from)
        });
        let mut info = match (record, path.file_stem().and_then(|name| name.to_str())) {
            (Ok(info), _) => info,
            // One that cannot be read hides no other.
            (Err(error), Some(name)) if TaskId(name.to_owned()).number().is_some() => {
                TaskInfo::unreadable(TaskId(name.to_owned()), &error)
            }
            (Err(_), _) => continue,
        };
        // Of one that runs, or was lost, what was written down is what it had when it started.
        let mut kept = kept.remove(&info.id.0).unwrap_or_default();
        kept.sort_unstable();
        info.bytes = info.bytes.max(kept.last().map_or(0, |(_, end)| *end));
        info.not_kept = missing_between(kept.into_iter(), info.bytes);
        if !alive && info.status.is_alive() {
            info.status = TaskStatus::Lost;
            info.note.get_or_insert_with(|| {
                "its session is gone, and never wrote down how it ended".to_owned()
            });
        }
        tasks.push(info);
    }
    tasks.sort_by_key(|info| info.id.number());
    Ok(tasks)
}

/// A part of a stored task's output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredOutput {
    /// Where it begins: further on than was asked for if what lies between is not kept.
    pub start: u64,
    /// What it is; nothing where the output ends before.
    pub bytes: Vec<u8>,
}

/// Reads a stored task's output from `offset` on, at most `max` bytes, up to where the next are not kept.
pub fn stored_output(
    folder: &Path,
    id: &TaskId,
    offset: u64,
    max: usize,
) -> io::Result<StoredOutput> {
    if id.number().is_none() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let pieces = pieces(folder, id)?;
    let end = pieces.last().map_or(0, Piece::end);
    let ReadPart { start, bytes, .. } = read_pieces(pieces.iter(), end, offset, max)?;
    Ok(StoredOutput { start, bytes })
}

/// What is kept of a task's output, in order.
fn pieces(folder: &Path, id: &TaskId) -> io::Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let Some((_, start)) = piece_of(&entry.file_name()).filter(|(task, _)| *task == id.0)
        else {
            continue;
        };
        let path = entry.path();
        match File::open(&path) {
            Ok(file) => {
                let length = file.metadata()?.len();
                pieces.push(Piece { start, length, file, path: Some(path) });
            }
            // The task has gone on meanwhile, and given it up.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    pieces.sort_by_key(|piece| piece.start);
    match pieces.first() {
        Some(head) if head.start == 0 => Ok(pieces),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Whose piece a file of this name is, and where that begins.
fn piece_of(name: &OsStr) -> Option<(String, u64)> {
    let name = name.to_str()?.strip_suffix(".out")?;
    match name.split_once('.') {
        Some((task, start)) => Some((task.to_owned(), start.parse().ok()?)),
        None => Some((name.to_owned(), 0)),
    }
}

fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

pub(super) fn read_at(file: &File, offset: u64, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(max).unwrap_or(usize::MAX)];
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
