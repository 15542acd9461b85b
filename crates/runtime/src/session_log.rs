//! The session log (spec 9.1): JSON lines, `tool/call` at a call's start, `tool/result` at its commit, each written by
//! one write(2), so that whatever kills the process leaves whole records and at most one cut one.

use crate::events::timestamp;
use crate::record::{CallRecord, DiscardRecord, ResultRecord};
use crate::sync::Mutex;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use stockade_types::SessionId;

/// How much of a log's end is looked at first for its last record, in bytes.
const TAIL: u64 = 64 * 1024;

/// No session comes so far: 2^53 - 1, beyond which JSON readers take two numbers for one (RFC 8259, section 6). A larger one is no
/// writer's of ours.
const NUMBER_MAX: u64 = (1 << 53) - 1;

/// The log could not be opened or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// A step on the way to an open log failed.
    #[error("session log {path}: cannot {step}: {message}")]
    Open {
        /// The log, or its folder.
        path: PathBuf,
        /// What was being done.
        step: &'static str,
        /// What the system said.
        message: String,
    },
    /// Another process writes to it.
    #[error(
        "session log {path}: another process is using this session: end it, or choose another session"
    )]
    InUse {
        /// The log.
        path: PathBuf,
    },
    /// Its last whole line is no record.
    #[error(
        "session log {path}: its last line is no record ({message}): move the file away, or choose another session"
    )]
    Damaged {
        /// The log.
        path: PathBuf,
        /// What is wrong with the line.
        message: String,
    },
    /// A record could not be written. The log takes no more records after that.
    #[error("session log {path}: cannot write: {message}")]
    Write {
        /// The log.
        path: PathBuf,
        /// What the system said.
        message: String,
    },
}

/// One session's log, open for appending; nobody else can open it meanwhile.
#[derive(Debug)]
pub struct SessionLog {
    path: PathBuf,
    last_turn: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: Flock<File>,
    next_seq: u64,
    /// The highest turn that has a record.
    last_turn: u64,
    /// The length up to the last whole record, in bytes.
    length: u64,
    failed: Option<LogError>,
}

/// What every record begins with.
#[derive(Serialize)]
struct Line<'a, T> {
    seq: u64,
    time: String,
    /// The highest turn so far, where that is not the record's own: a turn may be discarded when later ones have begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_turn: Option<u64>,
    #[serde(flatten)]
    record: &'a T,
}

#[derive(Deserialize)]
struct LastRecord {
    seq: u64,
    turn: u64,
    last_turn: Option<u64>,
}

impl SessionLog {
    /// Opens `<state_dir>/sessions/<session>/session.jsonl`, made if it is missing (folders 0700, file 0600). A last
    /// record that was cut off is taken away.
    pub fn open(state_dir: &Path, session: &SessionId) -> Result<Self, LogError> {
        let folder = state_dir.join("sessions").join(session.as_str());
        let path = folder.join("session.jsonl");
        let failed = |step: &'static str| {
            let path = path.clone();
            move |error: io::Error| LogError::Open { path, step, message: error.to_string() }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(failed("make its folder"))?;
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed("open it"))?;
        let mut file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(
            |(_, errno)| match errno {
                nix::Error::EWOULDBLOCK => LogError::InUse { path: path.clone() },
                errno => failed("lock it")(errno.into()),
            },
        )?;
        let (length, last) = last_line(&mut file).map_err(failed("read it"))?;
        let last = match last {
            None => LastRecord { seq: 0, turn: 0, last_turn: None },
            Some(line) => serde_json::from_slice(&line)
                .map_err(|e| LogError::Damaged { path: path.clone(), message: e.to_string() })?,
        };
        let last_turn = last.last_turn.unwrap_or(last.turn);
        if last.seq.max(last_turn).max(last.turn) > NUMBER_MAX {
            let message = format!("its numbers are larger than {NUMBER_MAX}");
            return Err(LogError::Damaged { path, message });
        }
        let whole = file.metadata().map_err(failed("read it"))?.len();
        if whole > length {
            file.set_len(length).map_err(failed("take away its cut last record"))?;
        }
        let state = State { file, next_seq: last.seq + 1, last_turn, length, failed: None };
        Ok(Self { path, last_turn, state: Mutex::new(state) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of the last turn in it, or 0.
    pub(crate) fn last_turn(&self) -> u64 {
        self.last_turn
    }

    pub(crate) fn call(&self, record: &CallRecord<'_>) -> Result<u64, LogError> {
        self.append(record.turn(), record)
    }

    pub(crate) fn result(&self, record: &ResultRecord<'_>) -> Result<u64, LogError> {
        self.append(record.turn(), record)
    }

    /// The turn's results are no part of the history.
    pub(crate) fn discard(&self, turn: u64) -> Result<u64, LogError> {
        self.append(turn, &DiscardRecord::of(turn))
    }

    /// From now on it writes to another file, which may be a full one.
    #[cfg(test)]
    pub(crate) fn redirect(&self, path: &Path) {
        let file = OpenOptions::new().append(true).open(path).unwrap();
        let lock = FlockArg::LockSharedNonblock;
        self.state.lock().unwrap().file = Flock::lock(file, lock).map_err(|(_, e)| e).unwrap();
    }

    /// Writes a record; its sequence number.
    fn append(&self, turn: u64, record: &impl Serialize) -> Result<u64, LogError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        let seq = state.next_seq;
        state.last_turn = state.last_turn.max(turn);
        let last_turn = (state.last_turn != turn).then_some(state.last_turn);
        match state.write(&Line { seq, time: timestamp(), last_turn, record }) {
            Ok(()) => Ok(seq),
            Err(error) => {
                // What was written of the record is taken away. If that fails too, the next open does it.
                let length = state.length;
                let _ = state.file.set_len(length);
                let error = LogError::Write { path: self.path.clone(), message: error.to_string() };
                // A log with a hole would replay a history that never was.
                state.failed = Some(error.clone());
                Err(error)
            }
        }
    }
}

impl State {
    fn write(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        let written = loop {
            match self.file.write(&bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if written != bytes.len() {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!("only {written} of a record's {} bytes were taken", bytes.len()),
            ));
        }
        self.length += written as u64;
        self.next_seq += 1;
        Ok(())
    }
}

/// The length up to the last line end, and the line before it.
fn last_line(file: &mut File) -> io::Result<(u64, Option<Vec<u8>>)> {
    let whole = file.metadata()?.len();
    let mut window = TAIL;
    loop {
        let start = whole.saturating_sub(window);
        file.seek(SeekFrom::Start(start))?;
        let mut tail = Vec::new();
        Read::take(&mut *file, whole - start).read_to_end(&mut tail)?;
        if let Some(end) = tail.iter().rposition(|byte| *byte == b'\n') {
            let before = tail.get(..end).unwrap_or_default();
            let line_start = before.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
            if line_start.is_some() || start == 0 {
                let line = before.get(line_start.unwrap_or(0)..).unwrap_or_default();
                return Ok((start + end as u64 + 1, Some(line.to_vec())));
            }
        } else if start == 0 {
            return Ok((0, None));
        }
        window = window.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::QueuedCall;
    use serde_json::Value;
    use stockade_types::{CallFlags, CallId};

    fn record(name: &str) -> QueuedCall {
        QueuedCall {
            turn: 3,
            id: CallId("c".into()),
            name: name.into(),
            arguments: Value::Null,
            depends_on: Vec::new(),
            broken: None,
        }
    }

    fn write(log: &SessionLog, name: &str) -> Result<u64, LogError> {
        let flags = CallFlags { mode: stockade_types::CallMode::Exclusive, read_only: false };
        log.call(&CallRecord::of(&record(name), flags))
    }

    fn session() -> SessionId {
        SessionId::new("s").unwrap()
    }

    fn seqs(path: &Path) -> Vec<u64> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap())
            .collect()
    }

    // spec 9.1
    #[test]
    fn a_log_cut_at_any_byte_is_recovered_to_its_last_whole_record() {
        let dir = tempfile::tempdir().unwrap();
        let log = SessionLog::open(dir.path(), &session()).unwrap();
        let path = log.path().to_owned();
        for name in ["one", "zwei ä", "three\nlines\n"] {
            write(&log, name).unwrap();
        }
        drop(log);
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let records = whole[..cut].iter().filter(|byte| **byte == b'\n').count() as u64;
            let log = SessionLog::open(dir.path(), &session()).unwrap();
            assert_eq!(log.last_turn(), if records == 0 { 0 } else { 3 });
            assert_eq!(write(&log, "next"), Ok(records + 1), "cut at {cut}");
            assert_eq!(seqs(&path), (1..=records + 1).collect::<Vec<_>>(), "cut at {cut}");
        }
    }

    // spec 9.1
    #[test]
    fn a_turn_that_is_discarded_late_does_not_take_later_turns_numbers_back() {
        let dir = tempfile::tempdir().unwrap();
        let log = SessionLog::open(dir.path(), &session()).unwrap();
        write(&log, "of turn 3").unwrap();
        log.discard(1).unwrap();
        drop(log);
        assert_eq!(SessionLog::open(dir.path(), &session()).unwrap().last_turn(), 3);
    }

    #[test]
    fn a_record_longer_than_the_tail_that_is_read_first_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let log = SessionLog::open(dir.path(), &session()).unwrap();
        write(&log, "a").unwrap();
        write(&log, &"x".repeat(TAIL as usize * 3)).unwrap();
        drop(log);
        let log = SessionLog::open(dir.path(), &session()).unwrap();
        assert_eq!(write(&log, "b"), Ok(3));
    }

    #[test]
    fn a_log_that_somebody_else_writes_is_refused_and_so_is_a_damaged_one() {
        let dir = tempfile::tempdir().unwrap();
        let log = SessionLog::open(dir.path(), &session()).unwrap();
        let second = SessionLog::open(dir.path(), &session());
        assert!(matches!(second, Err(LogError::InUse { .. })), "{second:?}");
        let path = log.path().to_owned();
        drop(log);
        std::fs::write(&path, "no record\n").unwrap();
        let damaged = SessionLog::open(dir.path(), &session());
        assert!(matches!(damaged, Err(LogError::Damaged { .. })), "{damaged:?}");
        assert_eq!(std::fs::read(&path).unwrap(), b"no record\n");
    }

    #[test]
    fn numbers_that_no_session_comes_to_are_refused_and_do_not_overflow() {
        let dir = tempfile::tempdir().unwrap();
        let log = SessionLog::open(dir.path(), &session()).unwrap();
        let path = log.path().to_owned();
        drop(log);
        let max = u64::MAX;
        for record in [
            format!(r#"{{"seq":{max},"turn":1}}"#),
            format!(r#"{{"seq":1,"turn":{max}}}"#),
            format!(r#"{{"seq":1,"turn":1,"last_turn":{max}}}"#),
            format!(r#"{{"seq":1,"turn":{},"last_turn":1}}"#, 1_u64 << 53),
        ] {
            std::fs::write(&path, format!("{record}\n")).unwrap();
            let damaged = SessionLog::open(dir.path(), &session());
            assert!(matches!(damaged, Err(LogError::Damaged { .. })), "{record}: {damaged:?}");
        }
    }

    // spec 9.1: somebody writes who does not look at the lock
    #[test]
    fn half_lines_that_another_writer_glued_together_are_an_error_with_their_place() {
        let dir = tempfile::tempdir().unwrap();
        let log = SessionLog::open(dir.path(), &session()).unwrap();
        let path = log.path().to_owned();
        for name in ["one", "two", "three"] {
            write(&log, name).unwrap();
        }
        drop(log);
        let whole = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = whole.lines().collect();
        let replay = |text: String| {
            std::fs::write(&path, text).unwrap();
            crate::replay(&path).map(|turns| turns[0].calls.len()).map_err(|e| e.to_string())
        };
        assert_eq!(replay(whole.clone()), Ok(3));
        let half = &lines[1][..20];
        for (text, place) in [
            (format!("{}\n{half}{}\n{}\n", lines[0], lines[1], lines[2]), ":2:"),
            (format!("{}\n{}{}\n", lines[0], lines[1], lines[2]), ":2:"),
            (format!("{}\n{}\n{}\n", lines[0], lines[1], lines[1]), ":3:"),
            (format!("{}\n{}\n", lines[0], lines[2]), ":2:"),
        ] {
            let said = replay(text.clone()).unwrap_err();
            assert!(said.contains(&format!("session.jsonl{place}")), "{text}: {said}");
        }
    }

    #[test]
    fn only_its_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let log = SessionLog::open(&dir.path().join("state"), &session()).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(log.path()), 0o600);
        assert_eq!(mode(log.path().parent().unwrap()), 0o700);
        assert_eq!(mode(&dir.path().join("state")), 0o700);
    }

    #[test]
    fn a_full_disk_is_an_error_and_the_log_takes_nothing_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("sessions/s");
        std::fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.join("session.jsonl")).unwrap();
        let log = SessionLog::open(dir.path(), &session()).unwrap();
        let first = write(&log, "a").unwrap_err();
        assert!(first.to_string().contains("No space left"), "{first}");
        assert_eq!(write(&log, "b"), Err(first));
    }
}
