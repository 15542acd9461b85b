//! The way in. Many processes write to one ledger: each record is written under a lock on the file, by one write, after a look at what
//! others have added.

use crate::entry::Event;
use crate::head;
use crate::key::Signatory;
use crate::line::{self, Hash, Link, NO_HASH, hex};
use crate::{Entry, Head, LedgerError, LedgerPaths, VerifierKey};
use rustix::fs::FlockOperation;
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// The version of the lines' form.
const VERSION: u32 = 1;
/// A new ledger's segment and checkpoint lines, which come before its first head.
const FIRST_LINES: u64 = 2;

/// When what was written is made to last through a loss of power. A process that is killed loses nothing either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FsyncPolicy {
    /// When the system likes.
    Never,
    /// At every checkpoint.
    #[default]
    Checkpoint,
    /// At every record.
    Every,
}

/// How a ledger is kept.
#[derive(Clone, Copy, Debug)]
pub struct LedgerOptions {
    /// When it is synced.
    pub fsync: FsyncPolicy,
    /// Records from one checkpoint to the next.
    pub checkpoint_every: u64,
    /// Bytes after which a new segment begins.
    pub segment_bytes: u64,
}

impl Default for LedgerOptions {
    fn default() -> Self {
        Self { fsync: FsyncPolicy::default(), checkpoint_every: 1000, segment_bytes: 64 << 20 }
    }
}

/// A ledger that is open for writing. May be shared by threads; other processes may have it open too.
pub struct Ledger {
    paths: LedgerPaths,
    options: LedgerOptions,
    key: Signatory,
    writer: Mutex<Writer>,
}

/// The open segment, and its end as far as this process knows.
struct Writer {
    file: File,
    inode: (u64, u64),
    length: u64,
    seq: u64,
    hash: Hash,
}

impl Ledger {
    /// Opens the ledger at these paths, or begins it. It must be whole: not shorter than its signed head, and with its key. A line
    /// that a dying writer left torn is taken away, and said so in the next record.
    pub fn open(paths: LedgerPaths, options: LedgerOptions) -> Result<Self, LedgerError> {
        loop {
            let file = open_file(&paths.current)?;
            lock(&file, &paths.current)?;
            let Some(inode) = same_file(&file, &paths.current)? else {
                // It was rotated between open and lock.
                continue;
            };
            let mut writer = Writer { file, inode, length: 0, seq: 0, hash: NO_HASH };
            let opened = Self::open_locked(&paths, options, &mut writer);
            unlock(&writer.file);
            let key = opened?;
            return Ok(Self { paths, options, key, writer: Mutex::new(writer) });
        }
    }

    fn open_locked(
        paths: &LedgerPaths,
        options: LedgerOptions,
        writer: &mut Writer,
    ) -> Result<Signatory, LedgerError> {
        let length =
            writer.file.metadata().map_err(LedgerError::io("ask about", &paths.current))?.len();
        let earlier = paths.segments()?;
        let is_new = length == 0 && earlier.is_empty() && !paths.head.exists();
        let key = Signatory::open(paths, is_new)?;
        let restored = key.mend_verifier(paths)?;
        let torn = writer.catch_up(paths, length)?;
        if let Some(head) = Head::read_some(&paths.head, &key.verifier)? {
            let problem = if writer.seq < head.size {
                Some(format!("it has {} records, the head speaks of {}", writer.seq, head.size))
            } else if writer.seq == head.size && writer.hash != head.hash {
                Some("its last record is another one".to_owned())
            } else {
                None
            };
            if let Some(problem) = problem {
                return Err(LedgerError::Broken { path: paths.current.clone(), problem });
            }
        } else if writer.seq > FIRST_LINES {
            let problem = "the head is missing".to_owned();
            return Err(LedgerError::Broken { path: paths.current.clone(), problem });
        }
        let mut open = Open { paths, options, key: &key, writer };
        if open.writer.length == 0 {
            open.begin_segment()?;
        } else if open.writer.seq < FIRST_LINES {
            // Whoever began it died before its first head stood.
            open.checkpoint()?;
        } else if open.writer.seq == FIRST_LINES {
            // The same, one line later. No further line: should this writer die as well, the next finds it as it was.
            open.renew_head()?;
        }
        if let Some(torn) = torn {
            open.write(&Entry::of(torn))?;
        }
        if restored {
            open.write(&Entry::of(Event::VerifierRestored { key: key.verifier.to_string() }))?;
        }
        Ok(key)
    }

    /// Adds a record, and returns its number. When this fails the record is not in the ledger.
    pub fn append(&self, entry: &Entry) -> Result<u64, LedgerError> {
        self.locked(|open| {
            let seq = open.write(entry)?;
            if seq.is_multiple_of(open.options.checkpoint_every.max(2)) {
                open.checkpoint()?;
            }
            if open.writer.length >= open.options.segment_bytes {
                open.rotate()?;
            }
            Ok(seq)
        })
    }

    /// Signs everything so far, and renews the head.
    pub fn checkpoint(&self) -> Result<Head, LedgerError> {
        self.locked(|open| open.checkpoint())
    }

    /// Where it lies.
    pub fn paths(&self) -> &LedgerPaths {
        &self.paths
    }

    /// The public key of its checkpoints.
    pub fn verifier(&self) -> &VerifierKey {
        &self.key.verifier
    }

    fn locked<T>(
        &self,
        work: impl FnOnce(&mut Open<'_>) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let paths = &self.paths;
        lock(&writer.file, &paths.current)?;
        let done = (|| {
            let length = writer.follow_rotation(paths)?;
            let mut open =
                Open { paths, options: self.options, key: &self.key, writer: &mut writer };
            if length != open.writer.length
                && let Some(torn) = open.writer.catch_up(paths, length)?
            {
                open.write(&Entry::of(torn))?;
            }
            if open.writer.length == 0 {
                open.begin_segment()?;
            }
            work(&mut open)
        })();
        unlock(&writer.file);
        done
    }
}

impl Writer {
    /// Another process may have rotated: then the path names another file, or none yet, and ours lies among the full segments.
    /// Returns the length of the file that the path names, which is open then.
    fn follow_rotation(&mut self, paths: &LedgerPaths) -> Result<u64, LedgerError> {
        loop {
            // One question for each record: identity and length come together.
            match std::fs::metadata(&paths.current) {
                Ok(named) if (named.dev(), named.ino()) == self.inode => return Ok(named.len()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(LedgerError::io("find", &paths.current)(error)),
            }
            let ours = |(_, path): &(u64, std::path::PathBuf)| {
                path.metadata().is_ok_and(|found| (found.dev(), found.ino()) == self.inode)
            };
            if !paths.segments()?.iter().any(ours) {
                return Err(LedgerError::Removed { path: paths.current.clone() });
            }
            let file = open_file(&paths.current)?;
            lock(&file, &paths.current)?;
            let found = file.metadata().map_err(LedgerError::io("ask about", &paths.current))?;
            unlock(&self.file);
            self.file = file;
            self.inode = (found.dev(), found.ino());
            self.length = 0;
        }
    }

    /// Reads the end of the file, which others may have written. A torn last line is cut off, and returned as the event to record.
    fn catch_up(&mut self, paths: &LedgerPaths, length: u64) -> Result<Option<Event>, LedgerError> {
        let path = &paths.current;
        if length < self.length {
            let problem = "it is shorter than it was".to_owned();
            return Err(LedgerError::Broken { path: path.clone(), problem });
        }
        if let Some(link) = quick_link(&self.file, length).map_err(LedgerError::io("read", path))? {
            (self.seq, self.hash, self.length) = (link.seq, link.hash, length);
            return Ok(None);
        }
        let (whole, torn) =
            whole_length(&self.file, length).map_err(LedgerError::io("read", path))?;
        if torn.is_some() {
            self.file
                .set_len(whole)
                .map_err(LedgerError::io("take the torn last line of", path))?;
        }
        if whole > 0 {
            let link = last_link(&self.file, whole).map_err(LedgerError::io("read", path))?;
            let link = link.filter(|link| link.sound).ok_or_else(|| LedgerError::Broken {
                path: path.clone(),
                problem: "its last line is no record".to_owned(),
            })?;
            (self.seq, self.hash) = (link.seq, link.hash);
        } else if let Some((_, before)) = paths.segments()?.pop() {
            let file = File::open(&before).map_err(LedgerError::io("open", &before))?;
            let size = file.metadata().map_err(LedgerError::io("ask about", &before))?.len();
            let link = last_link(&file, size).map_err(LedgerError::io("read", &before))?;
            let link = link.filter(|link| link.sound).ok_or_else(|| LedgerError::Broken {
                path: before,
                problem: "its last line is no record".to_owned(),
            })?;
            (self.seq, self.hash) = (link.seq, link.hash);
        }
        self.length = whole;
        Ok(torn.map(|(bytes, sha256)| Event::Recovered { bytes, sha256 }))
    }
}

/// The ledger under its lock.
struct Open<'a> {
    paths: &'a LedgerPaths,
    options: LedgerOptions,
    key: &'a Signatory,
    writer: &'a mut Writer,
}

impl Open<'_> {
    fn write(&mut self, entry: &Entry) -> Result<u64, LedgerError> {
        let path = &self.paths.current;
        let writer = &mut *self.writer;
        let seq = writer.seq + 1;
        let (line, hash) = line::encode(entry, seq, SystemTime::now(), &writer.hash)?;
        if let Err(error) = writer.file.write_all(&line) {
            // A part may have been written (a full disk). Should taking it away fail as well, the next writer does it.
            let _ = writer.file.set_len(writer.length);
            return Err(LedgerError::io("write to", path)(error));
        }
        if self.options.fsync == FsyncPolicy::Every
            && let Err(error) = writer.file.sync_data()
        {
            let _ = writer.file.set_len(writer.length);
            return Err(LedgerError::io("sync", path)(error));
        }
        writer.length += line.len() as u64;
        (writer.seq, writer.hash) = (seq, hash);
        Ok(seq)
    }

    fn begin_segment(&mut self) -> Result<(), LedgerError> {
        let key = self.key.verifier.to_string();
        self.write(&Entry::of(Event::Segment { version: VERSION, key }))?;
        self.checkpoint().map(|_| ())
    }

    fn checkpoint(&mut self) -> Result<Head, LedgerError> {
        let origin = self.key.verifier.name.clone();
        let before = Head { origin, size: self.writer.seq, hash: self.writer.hash };
        self.write(&Entry::of(Event::Checkpoint { note: before.signed(self.key) }))?;
        self.renew_head()
    }

    /// Signs the ledger as it is.
    fn renew_head(&mut self) -> Result<Head, LedgerError> {
        let origin = self.key.verifier.name.clone();
        let sync = self.options.fsync != FsyncPolicy::Never;
        if sync {
            // The ledger before its head: a head that speaks of records which a loss of power took would look like a cut.
            let path = &self.paths.current;
            self.writer.file.sync_data().map_err(LedgerError::io("sync", path))?;
        }
        let head = Head { origin, size: self.writer.seq, hash: self.writer.hash };
        head::replace(self.paths, &head.signed(self.key), sync)?;
        Ok(head)
    }

    fn rotate(&mut self) -> Result<(), LedgerError> {
        let path = &self.paths.current;
        self.checkpoint()?;
        let first = first_link(&self.writer.file).map_err(LedgerError::io("read", path))?;
        let first = first.ok_or_else(|| LedgerError::Broken {
            path: path.clone(),
            problem: "its first line is no record".to_owned(),
        })?;
        let full = self.paths.segment(first.seq);
        std::fs::rename(path, &full).map_err(LedgerError::io("rotate", path))?;
        let file = open_file(path)?;
        // Nobody writes to the new file before they hold its lock; whoever comes first finds it empty and begins it.
        lock(&file, path)?;
        let found = file.metadata().map_err(LedgerError::io("ask about", path))?;
        unlock(&self.writer.file);
        self.writer.file = file;
        self.writer.inode = (found.dev(), found.ino());
        self.writer.length = 0;
        if found.len() == 0 {
            return self.begin_segment();
        }
        self.writer.catch_up(self.paths, found.len()).map(|_| ())
    }
}

fn open_file(path: &Path) -> Result<File, LedgerError> {
    let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path);
    file.map_err(LedgerError::io("open", path))
}

fn lock(file: &File, path: &Path) -> Result<(), LedgerError> {
    loop {
        match rustix::fs::flock(file, FlockOperation::LockExclusive) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(LedgerError::io("lock", path)(error.into())),
        }
    }
}

fn unlock(file: &File) {
    // Closing the file does it as well.
    let _ = rustix::fs::flock(file, FlockOperation::Unlock);
}

/// The file's identity, if the path still names it.
fn same_file(file: &File, path: &Path) -> Result<Option<(u64, u64)>, LedgerError> {
    let open = file.metadata().map_err(LedgerError::io("ask about", path))?;
    let named = std::fs::metadata(path).map_err(LedgerError::io("find", path))?;
    let identity = (open.dev(), open.ino());
    Ok((identity == (named.dev(), named.ino())).then_some(identity))
}

/// The link of the last line where the file ends with a whole, sound and ordinary one, as it does when other processes write to it.
fn quick_link(file: &File, length: u64) -> std::io::Result<Option<Link>> {
    let mut block = [0; 4096];
    let start = length.saturating_sub(block.len() as u64);
    let block = block.get_mut(..(length - start) as usize).unwrap_or_default();
    file.read_exact_at(block, start)?;
    let Some(line) = block.strip_suffix(b"\n") else { return Ok(None) };
    let before = line.iter().rposition(|byte| *byte == b'\n');
    if before.is_none() && start > 0 {
        return Ok(None);
    }
    let line = line.get(before.map_or(0, |at| at + 1)..).unwrap_or_default();
    Ok(line::link(line).filter(|link| link.sound))
}

/// The length up to the last line end, and what stands behind it: how many bytes, and their SHA-256.
fn whole_length(file: &File, length: u64) -> std::io::Result<(u64, Option<(u64, String)>)> {
    let mut end = length;
    let mut block = vec![0; 64 * 1024];
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let part = block.get_mut(..(end - start) as usize).unwrap_or_default();
        file.read_exact_at(part, start)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            end = start + at as u64 + 1;
            break;
        }
        end = start;
    }
    if end == length {
        return Ok((length, None));
    }
    let mut hash = Sha256::new();
    let mut at = end;
    while at < length {
        let part = (length - at).min(block.len() as u64) as usize;
        let part = block.get_mut(..part).unwrap_or_default();
        file.read_exact_at(part, at)?;
        hash.update(&*part);
        at += part.len() as u64;
    }
    Ok((end, Some((length - end, hex(&hash.finalize())))))
}

/// The link of the last line of a file that ends with a line end.
fn last_link(file: &File, length: u64) -> std::io::Result<Option<Link>> {
    let mut size = 4096;
    loop {
        let start = length.saturating_sub(size);
        let mut block = vec![0; (length - start) as usize];
        file.read_exact_at(&mut block, start)?;
        let line = block.strip_suffix(b"\n").unwrap_or(&block);
        let before = line.iter().rposition(|byte| *byte == b'\n');
        if before.is_some() || start == 0 {
            return Ok(line::link(line.get(before.map_or(0, |at| at + 1)..).unwrap_or_default()));
        }
        if size > line::LINE_MAX as u64 {
            return Ok(None);
        }
        size *= 8;
    }
}

fn first_link(file: &File) -> std::io::Result<Option<Link>> {
    let mut block = vec![0; line::LINE_MAX.min(64 * 1024)];
    let read = file.read_at(&mut block, 0)?;
    let line = block.get(..read).unwrap_or_default().split(|byte| *byte == b'\n').next();
    Ok(line.and_then(line::link))
}
