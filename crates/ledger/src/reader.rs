use crate::line::LINE_MAX;
use crate::{LedgerError, LedgerPaths};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

/// A line of the ledger, as it lies in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawLine {
    /// The segment.
    pub file: PathBuf,
    /// The line's number in it, from 1.
    pub number: u64,
    /// The line, without its end. Of one that is too long, its beginning.
    pub bytes: Vec<u8>,
    /// Whether it has a line end.
    pub ended: bool,
}

/// Reads a ledger from its first segment to its last, line by line. It takes no lock: what is appended meanwhile may or may not be
/// seen.
pub struct Reader {
    files: std::vec::IntoIter<PathBuf>,
    open: Option<(PathBuf, BufReader<File>, u64)>,
}

impl Reader {
    /// Opens the ledger at these paths.
    pub fn open(paths: &LedgerPaths) -> Result<Self, LedgerError> {
        let mut files: Vec<PathBuf> = paths.segments()?.into_iter().map(|(_, path)| path).collect();
        if paths.current.exists() || files.is_empty() {
            files.push(paths.current.clone());
        }
        Ok(Self { files: files.into_iter(), open: None })
    }

    fn read(&mut self) -> Result<Option<RawLine>, LedgerError> {
        loop {
            if self.open.is_none() {
                let Some(path) = self.files.next() else {
                    return Ok(None);
                };
                let file =
                    stockade_types::regular::open(&path).map_err(LedgerError::io("open", &path))?;
                self.open = Some((path, BufReader::with_capacity(256 * 1024, file), 0));
            }
            let Some((path, reader, number)) = &mut self.open else {
                return Ok(None);
            };
            let mut bytes = Vec::new();
            let read = |reader: &mut BufReader<File>, bytes: &mut Vec<u8>| {
                let mut ended = read_line(reader, bytes)?;
                if !ended && !bytes.is_empty() {
                    // Perhaps a writer is in the middle of this line: under its lock it is whole, or truly torn.
                    flock(reader.get_ref(), FlockOperation::LockShared)?;
                    ended = read_line(reader, bytes)?;
                    flock(reader.get_ref(), FlockOperation::Unlock)?;
                }
                Ok(ended)
            };
            let ended = read(reader, &mut bytes).map_err(LedgerError::io("read", path))?;
            if bytes.is_empty() && !ended {
                self.open = None;
                continue;
            }
            *number += 1;
            return Ok(Some(RawLine { file: path.clone(), number: *number, bytes, ended }));
        }
    }
}

/// Reads up to the next line end, which it takes away; keeps at most [`LINE_MAX`] bytes. Says whether there was a line end.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    loop {
        let block = reader.fill_buf()?;
        if block.is_empty() {
            return Ok(false);
        }
        let end = block.iter().position(|byte| *byte == b'\n');
        let part = block.get(..end.unwrap_or(block.len())).unwrap_or_default();
        let room = LINE_MAX.saturating_sub(line.len());
        line.extend_from_slice(part.get(..room.min(part.len())).unwrap_or_default());
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

impl Iterator for Reader {
    type Item = Result<RawLine, LedgerError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
