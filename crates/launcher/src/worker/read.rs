use super::cancel::Cancel;
use super::{fault, open};
use nix::sys::stat::FileStat;
use std::fs::File;
use std::io::Read;
use stockade_plan::Bytes;
use stockade_plan::file::{FRAME_MAX, FileDone, FileError};

/// The most content that one answer holds, in bytes, so that it fits a frame.
const CONTENT_MAX: u64 = FRAME_MAX as u64 - 64 * 1024;

/// How far to read on, after the lines asked for, only to count the lines of the whole file, in bytes.
const COUNT_MAX: u64 = 64 * 1024 * 1024;

const CHUNK: usize = 64 * 1024;

/// Reads lines of a text file. It is streamed: what is kept is what is returned.
pub(super) fn read(
    path: &Bytes,
    (mut file, stat): (File, FileStat),
    offset: u64,
    limit: u64,
    max_bytes: u64,
    cancel: &Cancel,
) -> Result<FileDone, FileError> {
    // Before the first byte is read: what changes from now on makes a difference.
    let fingerprint = fault::fingerprint(&stat);
    let mut lines = Lines::new(offset.max(1), limit, max_bytes.min(CONTENT_MAX));
    let mut chunk = vec![0; CHUNK];
    let mut first = true;
    let mut read_on = 0;
    let counted = loop {
        cancel.check()?;
        let length =
            fill(&mut file, &mut chunk).map_err(|error| fault::io("read", path, &error))?;
        let bytes = chunk.get(..length).unwrap_or_default();
        if first && open::looks_binary(bytes) {
            return Err(fault::binary(path, fingerprint.size));
        }
        first = false;
        if length == 0 {
            break true;
        }
        if lines.complete() {
            read_on += length as u64;
        }
        lines.take(bytes);
        if read_on > COUNT_MAX {
            break false;
        }
    };
    lines.finish();
    Ok(FileDone::Read {
        first_line: lines.first,
        lines: lines.kept,
        total_lines: counted.then_some(lines.seen),
        truncated: lines.truncated,
        fingerprint,
        content: Bytes(lines.content),
    })
}

/// Fills the buffer as far as the file goes; files in /proc come in small pieces.
fn fill(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The lines asked for, taken out of a stream.
struct Lines {
    first: u64,
    limit: u64,
    max_bytes: u64,
    content: Vec<u8>,
    /// Lines whose end was seen.
    seen: u64,
    /// The last byte taken was not a line end.
    in_line: bool,
    /// Lines in `content`.
    kept: u64,
    truncated: bool,
}

impl Lines {
    fn new(first: u64, limit: u64, max_bytes: u64) -> Lines {
        Lines {
            first,
            limit,
            max_bytes,
            content: Vec::new(),
            seen: 0,
            in_line: false,
            kept: 0,
            truncated: false,
        }
    }

    /// Whether nothing more will be kept.
    fn complete(&self) -> bool {
        self.truncated || self.seen >= self.end()
    }

    /// The number of the last line asked for.
    fn end(&self) -> u64 {
        (self.first - 1).saturating_add(self.limit)
    }

    fn take(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.complete() {
                self.seen += memchr::memchr_iter(b'\n', rest).count() as u64;
                break;
            }
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            let (piece, after) = rest.split_at(end);
            let wanted = self.seen + 1 >= self.first;
            if wanted {
                self.keep(piece);
            }
            if piece.ends_with(b"\n") {
                self.seen += 1;
                self.kept += u64::from(wanted && !self.truncated);
            }
            rest = after;
        }
        self.in_line = bytes.last().is_some_and(|last| *last != b'\n');
    }

    /// Keeps a piece of a line, or as much of it as there is room for.
    fn keep(&mut self, piece: &[u8]) {
        let room = usize::try_from(self.max_bytes).unwrap_or(usize::MAX) - self.content.len();
        if piece.len() <= room {
            self.content.extend_from_slice(piece);
            return;
        }
        self.truncated = true;
        if self.kept > 0 {
            // Whole lines only: reading can go on with the next one.
            let whole = memchr::memrchr(b'\n', &self.content).map_or(0, |at| at + 1);
            self.content.truncate(whole);
            return;
        }
        self.content.extend_from_slice(piece.get(..room).unwrap_or_default());
        cut_to_characters(&mut self.content);
        self.kept = u64::from(!self.content.is_empty());
    }

    /// Counts a last line without a line end.
    fn finish(&mut self) {
        if self.in_line {
            let asked_for = !self.complete() && self.seen + 1 >= self.first;
            self.seen += 1;
            self.kept += u64::from(asked_for);
        }
    }
}

/// Drops a character of UTF-8 that is cut off at the end.
pub(super) fn cut_to_characters(text: &mut Vec<u8>) {
    let start = text.iter().rposition(|byte| byte & 0xc0 != 0x80).unwrap_or(0);
    let cut_off = match std::str::from_utf8(text.get(start..).unwrap_or_default()) {
        Ok(_) => false,
        Err(error) => error.error_len().is_none(),
    };
    if cut_off {
        text.truncate(start);
    }
}
