//! What is kept of a task's output: its beginning, and of its end as much as there is room for. Each piece is a file that has its
//! place in the output in its name, so that whoever reads needs nothing but the names, also of a session that was killed.

use super::info::{ByteRange, TaskId};
use super::store::{Store, read_at};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stockade_types::disk::has_room;

/// How much is kept of one task's output where nobody says, in bytes.
pub(super) const TASK_MAX: u64 = 64 << 20;
/// Of all of a session's tasks.
pub(super) const SESSION_MAX: u64 = 1 << 30;

/// How many pieces the end consists of; the oldest goes when there is one more.
const PIECES: usize = 4;
/// No policy's limit makes any smaller: each is a file.
const PIECE_LEAST: u64 = 64;
/// A disk without room leaves none smaller.
const PIECE_MIN: u64 = 4096;

/// What all tasks of a session may still keep.
#[derive(Debug)]
pub(super) struct Quota {
    max: u64,
    used: Mutex<u64>,
}

impl Quota {
    pub(super) fn new(max: u64, used: u64) -> Self {
        Self { max, used: Mutex::new(used) }
    }

    fn take(&self, bytes: u64) -> bool {
        let mut used = self.used();
        let fits = used.saturating_add(bytes) <= self.max;
        if fits {
            *used += bytes;
        }
        fits
    }

    fn give_back(&self, bytes: u64) {
        let mut used = self.used();
        *used = used.saturating_sub(bytes);
    }

    fn used(&self) -> MutexGuard<'_, u64> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A piece of the output: so many bytes from `start` on.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) file: File,
    /// `None` for one without a name.
    pub(super) path: Option<PathBuf>,
}

impl Piece {
    pub(super) fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }
}

/// A part of the output that was read.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ReadPart {
    /// Where it begins: further on than was asked for if what lies between is not kept.
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
    /// It ends where a piece does, and what comes next is not kept.
    pub(super) meets_gap: bool,
}

/// Reads at most `max` bytes of an output of `written` bytes of which these pieces are kept, up to the next gap.
pub(super) fn read_pieces<'a>(
    pieces: impl Iterator<Item = &'a Piece>,
    written: u64,
    offset: u64,
    max: usize,
) -> io::Result<ReadPart> {
    let mut part = ReadPart { start: written.max(offset), ..ReadPart::default() };
    for piece in pieces.filter(|piece| piece.end() > offset) {
        let at = if part.bytes.is_empty() {
            part.start = piece.start.max(offset);
            part.start
        } else {
            part.start.saturating_add(part.bytes.len() as u64)
        };
        if part.bytes.len() == max || at < piece.start {
            break;
        }
        let wanted = piece.end().saturating_sub(at).min((max - part.bytes.len()) as u64);
        part.bytes.extend(read_at(&piece.file, at - piece.start, wanted)?);
    }
    let end = part.start.saturating_add(part.bytes.len() as u64);
    part.meets_gap = !part.bytes.is_empty() && part.bytes.len() < max && end < written;
    Ok(part)
}

/// Which bytes of an output of `written` bytes are in none of these pieces, each from its first byte to the first behind it.
pub(super) fn missing_between(
    pieces: impl Iterator<Item = (u64, u64)>,
    written: u64,
) -> Vec<ByteRange> {
    let mut missing = Vec::new();
    let mut reached = 0;
    for (start, end) in pieces.chain([(written, written)]) {
        if start > reached {
            missing.push(ByteRange { from: reached, to: start });
        }
        reached = end;
    }
    missing
}

/// A task's output as it is kept.
#[derive(Debug)]
pub(super) struct KeptOutput {
    store: Store,
    id: TaskId,
    quota: Arc<Quota>,
    head_max: u64,
    piece_max: u64,
    head: Piece,
    tail: VecDeque<Piece>,
    /// All that came, kept or not.
    written: u64,
    /// The beginning was shortened already to make room for the end.
    is_squeezed: bool,
    /// The disk took less than it had promised: nothing more is kept.
    trouble: Option<String>,
}

impl KeptOutput {
    /// `max`: how many bytes are kept. `head`: the file for the beginning.
    pub(super) fn new(
        store: &Store,
        id: &TaskId,
        head: File,
        quota: Arc<Quota>,
        max: Option<u64>,
    ) -> Self {
        let max = max.unwrap_or(TASK_MAX);
        // Too little for pieces is all for the beginning.
        let piece_max =
            Some(max / (2 * PIECES as u64)).filter(|max| *max >= PIECE_LEAST).unwrap_or(0);
        let path = store.piece_path(id, 0);
        Self {
            store: store.clone(),
            id: id.clone(),
            quota,
            head_max: max - piece_max * PIECES as u64,
            piece_max,
            head: Piece { start: 0, length: 0, file: head, path },
            tail: VecDeque::new(),
            written: 0,
            is_squeezed: false,
            trouble: None,
        }
    }

    /// Takes what came next. What cannot be kept is counted.
    pub(super) fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = if self.trouble.is_some() { 0 } else { self.room_in_piece() };
            let length = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
            let (now, later) = bytes.split_at(length);
            if room == 0 {
                self.written = self.written.saturating_add(bytes.len() as u64);
                return;
            }
            if self.may_take(length as u64) {
                self.append(now);
            } else if self.squeeze() {
                continue;
            }
            self.written = self.written.saturating_add(length as u64);
            bytes = later;
        }
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Which bytes are not kept.
    pub(super) fn missing(&self) -> Vec<ByteRange> {
        missing_between(self.pieces().map(|piece| (piece.start, piece.end())), self.written)
    }

    /// What the disk refused.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.clone()
    }

    pub(super) fn read(&self, offset: u64, max: usize) -> io::Result<ReadPart> {
        read_pieces(self.pieces(), self.written, offset, max)
    }

    fn pieces(&self) -> impl Iterator<Item = &Piece> {
        std::iter::once(&self.head).chain(&self.tail)
    }

    /// Whether the beginning goes on: from its first missing byte on it is over.
    fn is_in_head(&self) -> bool {
        !self.is_squeezed && self.head.length == self.written && self.head.length < self.head_max
    }

    /// The last piece, if what comes next belongs in it.
    fn open_piece(&mut self) -> Option<&mut Piece> {
        let (written, max) = (self.written, self.piece_max);
        self.tail.back_mut().filter(|last| last.end() == written && last.length < max)
    }

    /// How much of what comes next one piece takes; a new one, where none goes on.
    fn room_in_piece(&mut self) -> u64 {
        if self.is_in_head() {
            return self.head_max - self.head.length;
        }
        let max = self.piece_max;
        self.open_piece().map_or(max, |last| max - last.length)
    }

    fn may_take(&self, bytes: u64) -> bool {
        if !self.quota.take(bytes) {
            return false;
        }
        let fits = has_room(&self.head.file, bytes);
        if !fits {
            self.quota.give_back(bytes);
        }
        fits
    }

    /// Gives up the oldest of the end, or half of the beginning if that is all there is. False: nothing is left to give up.
    fn squeeze(&mut self) -> bool {
        if let Some(oldest) = self.tail.pop_front() {
            self.drop_piece(oldest);
            return true;
        }
        let keep = self.head.length / 2;
        if self.is_squeezed || keep < PIECE_MIN || self.head.file.set_len(keep).is_err() {
            return false;
        }
        self.quota.give_back(self.head.length - keep);
        self.head.length = keep;
        self.is_squeezed = true;
        self.piece_max = self.piece_max.min((keep / PIECES as u64).max(PIECE_MIN));
        true
    }

    fn drop_piece(&self, piece: Piece) {
        if let Some(path) = &piece.path
            && let Err(error) = std::fs::remove_file(path)
            && error.kind() != io::ErrorKind::NotFound
        {
            // It stays readable, and counted.
            tracing::warn!(task = %self.id, %error, "an old piece of a task's output could not be removed");
            return;
        }
        self.quota.give_back(piece.length);
    }

    /// For what the quota has granted already.
    fn append(&mut self, bytes: &[u8]) {
        let appended = self.piece().and_then(|piece| {
            let written = piece.file.write_all_at(bytes, piece.length);
            match &written {
                Ok(()) => piece.length += bytes.len() as u64,
                // Another process takes the file's length for the piece's. What cannot be cut off was said to be lost, and is more.
                Err(_) => drop(piece.file.set_len(piece.length)),
            }
            written
        });
        if let Err(error) = appended {
            tracing::warn!(task = %self.id, %error, "a task's output is not kept any more");
            self.quota.give_back(bytes.len() as u64);
            self.trouble = Some(error.to_string());
            // What is freed here is for the session log, in which the next call must be written.
            self.squeeze();
        }
    }

    /// Where what comes next belongs.
    fn piece(&mut self) -> io::Result<&mut Piece> {
        if self.is_in_head() {
            return Ok(&mut self.head);
        }
        if self.open_piece().is_none() {
            if self.tail.len() >= PIECES
                && let Some(oldest) = self.tail.pop_front()
            {
                self.drop_piece(oldest);
            }
            let (file, path) = self.store.create_piece(&self.id, self.written)?;
            self.tail.push_back(Piece { start: self.written, length: 0, file, path });
        }
        self.tail.back_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Drop for KeptOutput {
    fn drop(&mut self) {
        // What has no name goes with this.
        let gone: u64 = self.pieces().filter(|p| p.path.is_none()).map(|piece| piece.length).sum();
        self.quota.give_back(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(max: u64, session: u64) -> KeptOutput {
        let quota = Arc::new(Quota::new(session, 0));
        let head = tempfile::tempfile().unwrap();
        KeptOutput::new(&Store::Nameless, &TaskId::of(1), head, quota, Some(max))
    }

    /// The byte at each place tells the place.
    fn pattern(from: u64, to: u64) -> Vec<u8> {
        (from..to).map(|at| (at % 251) as u8).collect()
    }

    /// All that can be read, and where it is.
    fn read_all(kept: &KeptOutput, max: usize) -> Vec<(u64, u64)> {
        let (mut offset, mut found) = (0, Vec::<(u64, u64)>::new());
        loop {
            let part = kept.read(offset, max).unwrap();
            let end = part.start + part.bytes.len() as u64;
            assert_eq!(part.bytes, pattern(part.start, end), "from {}", part.start);
            if part.bytes.is_empty() {
                assert_eq!(end, kept.written().max(offset));
                return found;
            }
            match found.last_mut() {
                Some(last) if last.1 == part.start => last.1 = end,
                _ => found.push((part.start, end)),
            }
            offset = end;
        }
    }

    fn write(kept: &mut KeptOutput, to: u64, chunk: u64) {
        while kept.written() < to {
            let at = kept.written();
            kept.write(&pattern(at, (at + chunk).min(to)));
        }
    }

    #[test]
    fn beginning_and_end_are_kept_and_every_byte_is_counted() {
        for chunk in [1, 7, 100, 5000] {
            let mut kept = kept(8000, u64::MAX);
            write(&mut kept, 8000, chunk);
            assert_eq!((kept.missing(), read_all(&kept, 333)), (vec![], vec![(0, 8000)]));
            write(&mut kept, 100_000, chunk);
            assert_eq!(kept.written(), 100_000);
            let [gap] = kept.missing()[..] else { panic!("{:?}", kept.missing()) };
            assert_eq!(gap.from, 4000);
            let tail = 100_000 - gap.to;
            assert!((3000..=4000).contains(&tail), "{tail}");
            assert_eq!(read_all(&kept, 777), [(0, 4000), (gap.to, 100_000)]);
            assert_eq!(*kept.quota.used(), 4000 + tail);
        }
    }

    #[test]
    fn too_little_for_an_end_is_for_the_beginning() {
        let mut little = kept(7, u64::MAX);
        write(&mut little, 100, 9);
        assert_eq!(read_all(&little, 100), [(0, 7)]);
        let mut nothing = kept(0, u64::MAX);
        write(&mut nothing, 100, 9);
        assert_eq!(nothing.missing(), [ByteRange { from: 0, to: 100 }]);
        assert_eq!(nothing.read(3, 10).unwrap().start, 100);
    }

    #[test]
    fn a_disk_that_refuses_what_it_promised_is_asked_no_more_and_every_byte_is_counted() {
        let full = File::options().read(true).write(true).open("/dev/full").unwrap();
        let quota = Arc::new(Quota::new(u64::MAX, 0));
        let mut kept = KeptOutput::new(&Store::Nameless, &TaskId::of(1), full, quota, None);
        write(&mut kept, 10_000, 1000);
        assert_eq!(kept.missing(), [ByteRange { from: 0, to: 10_000 }]);
        assert!(kept.trouble().unwrap().contains("os error 28"), "{:?}", kept.trouble());
        assert_eq!(*kept.quota.used(), 0);
    }

    #[test]
    fn a_session_without_room_keeps_less_of_each_but_its_end() {
        let mut kept = kept(1 << 20, 40_000);
        write(&mut kept, 1_000_000, 1000);
        assert!(*kept.quota.used() <= 40_000);
        let found = read_all(&kept, 5000);
        let [(0, head), .., (_, end)] = found[..] else { panic!("{found:?}") };
        assert!(head >= 19_000 && end == 1_000_000, "{found:?}");
        let quota = Arc::clone(&kept.quota);
        drop(kept);
        assert_eq!(*quota.used(), 0, "what has no name is gone");
    }
}
