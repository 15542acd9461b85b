//! Whether a ledger is what was written: every line whole and in its place, every checkpoint signed, the end where the head says.

use crate::line::{self, Hash, Link, NO_HASH};
use crate::{Head, LedgerError, LedgerPaths, RawLine, Reader, VerifierKey};
use serde::Serialize;
use std::collections::VecDeque;
use std::path::PathBuf;

/// How to verify.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// The key that must have signed; by default the one beside the ledger.
    pub key: Option<VerifierKey>,
    /// A head that was kept elsewhere: the ledger must still hold everything that it speaks of.
    pub published: Option<PathBuf>,
}

/// What verifying found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Records that are in order, up to the first fault.
    pub records: u64,
    /// Checkpoints among them that are truly signed.
    pub checkpoints: u64,
    /// Records at the end that no signed head covers yet. Whoever can write the file can change these unseen.
    pub unsigned: u64,
    /// The first fault.
    pub fault: Option<Fault>,
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The kind.
    pub kind: FaultKind,
    /// The segment.
    pub file: PathBuf,
    /// The first bad line in it, from 1. Where lines are gone: the line that stands in the place of the first of them.
    pub line: u64,
    /// The number of the first bad record.
    pub record: u64,
    /// In words.
    pub detail: String,
}

/// What was done to a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A line is not as it was written.
    Changed,
    /// Lines are gone from the middle or the beginning.
    Removed,
    /// Lines stand in another order.
    Reordered,
    /// A line was put in.
    Inserted,
    /// Lines are gone from the end.
    CutOff,
    /// The chain is whole, but is not the one that was signed: it was made anew, without the key.
    Rechained,
    /// The signed head is missing or false.
    Head,
}

/// Verifies the ledger at these paths. The fault is in the result; an error means that it could not be read.
pub fn verify(paths: &LedgerPaths, options: &VerifyOptions) -> Result<Verified, LedgerError> {
    let key = match &options.key {
        Some(key) => key.clone(),
        None => VerifierKey::read(&paths.verifier)?,
    };
    let mut heads = Vec::new();
    let mut false_head = None;
    match Head::read(&paths.head, &key) {
        Ok(head) => heads.push(head),
        Err(LedgerError::Broken { problem, .. }) => {
            false_head = Some((paths.head.clone(), problem))
        }
        Err(error) => return Err(error),
    }
    if let Some(published) = &options.published {
        match Head::read_some(published, &key) {
            Ok(Some(head)) => heads.push(head),
            Ok(None) => {
                let path = published.clone();
                return Err(LedgerError::Broken {
                    path,
                    problem: "there is no such head".to_owned(),
                });
            }
            // Whoever replaces a ledger with its key and its head cannot replace this one.
            Err(LedgerError::Broken { problem, .. }) => {
                let problem = format!(
                    "{problem}; the ledger was replaced together with its key, or this is another's head"
                );
                false_head = Some((published.clone(), problem));
            }
            Err(error) => return Err(error),
        }
    }
    heads.sort_by_key(|head| head.size);
    let mut check = Check {
        key,
        heads: heads.iter().cloned().collect(),
        seq: 0,
        hash: NO_HASH,
        before: NO_HASH,
        last: None,
        signed: 0,
        signed_at: None,
        checkpoints: 0,
    };
    let signed = heads.last().map_or(0, |head| head.size);
    let mut lines = Lines { reader: Reader::open(paths)?, ahead: VecDeque::new() };
    let mut fault = None;
    while fault.is_none() {
        let Some(line) = lines.next()? else { break };
        fault = check.line(&line, &mut lines)?;
    }
    if fault.is_none() {
        fault = check.end(paths);
    }
    if fault.is_none()
        && let Some((file, problem)) = false_head
    {
        fault = Some(Fault {
            kind: FaultKind::Head,
            file,
            line: 1,
            record: check.seq,
            detail: problem,
        });
    }
    Ok(Verified {
        records: check.seq,
        checkpoints: check.checkpoints,
        unsigned: check.seq.saturating_sub(signed.max(check.signed)),
        fault,
    })
}

/// Lines with a look ahead.
struct Lines {
    reader: Reader,
    ahead: VecDeque<RawLine>,
}

impl Lines {
    fn next(&mut self) -> Result<Option<RawLine>, LedgerError> {
        match self.ahead.pop_front() {
            Some(line) => Ok(Some(line)),
            None => self.reader.next().transpose(),
        }
    }

    fn peek(&mut self) -> Result<Option<&RawLine>, LedgerError> {
        if self.ahead.is_empty()
            && let Some(line) = self.reader.next().transpose()?
        {
            self.ahead.push_back(line);
        }
        Ok(self.ahead.front())
    }

    /// Whether a whole record of this number comes later. Reads to the end: only a fault asks for it.
    fn comes_later(&mut self, seq: u64) -> Result<bool, LedgerError> {
        let is_it = |line: &RawLine| {
            line::link(&line.bytes).is_some_and(|link| link.sound && link.seq == seq)
        };
        if self.ahead.iter().any(is_it) {
            return Ok(true);
        }
        for line in self.reader.by_ref() {
            if is_it(&line?) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

struct Check {
    key: VerifierKey,
    /// Heads that are still ahead, smallest first.
    heads: VecDeque<Head>,
    /// The number, hash and predecessor's hash of the last good line.
    seq: u64,
    hash: Hash,
    before: Hash,
    last: Option<(PathBuf, u64)>,
    /// Records that a good checkpoint line covers, and where that line is.
    signed: u64,
    signed_at: Option<(PathBuf, u64)>,
    checkpoints: u64,
}

impl Check {
    fn line(&mut self, line: &RawLine, lines: &mut Lines) -> Result<Option<Fault>, LedgerError> {
        let expected = self.seq + 1;
        let Some(link) = line::link(&line.bytes).filter(|_| line.ended) else {
            if !line.ended {
                return Ok(Some(self.fault(FaultKind::CutOff, line, expected, "the last line is torn: a writer died in it, or the file was cut; the next writer takes it away".into())));
            }
            return self.bad_line(line, lines);
        };
        if !link.sound {
            return self.bad_line(line, lines);
        }
        if link.seq == expected && link.prev == self.hash {
            return Ok(self.good(line, link));
        }
        self.misplaced(line, link, lines)
    }

    /// A line that is not what its own hash says: changed, unless the line after it knows nothing of it.
    fn bad_line(&self, line: &RawLine, lines: &mut Lines) -> Result<Option<Fault>, LedgerError> {
        let expected = self.seq + 1;
        let next = lines.peek()?.and_then(|next| line::link(&next.bytes));
        let skipped =
            next.is_some_and(|next| next.sound && next.seq == expected && next.prev == self.hash);
        Ok(Some(if skipped {
            self.fault(
                FaultKind::Inserted,
                line,
                expected,
                "this line is no record, and the one after it follows the one before it".into(),
            )
        } else {
            self.fault(
                FaultKind::Changed,
                line,
                expected,
                "the line is not what its hash says".into(),
            )
        }))
    }

    /// A whole record, but not the one that belongs here.
    fn misplaced(
        &self,
        line: &RawLine,
        link: Link,
        lines: &mut Lines,
    ) -> Result<Option<Fault>, LedgerError> {
        let expected = self.seq + 1;
        if link.seq > expected {
            let kind = if lines.comes_later(expected)? {
                FaultKind::Reordered
            } else {
                FaultKind::Removed
            };
            let detail = match kind {
                FaultKind::Reordered => format!(
                    "record {} stands where record {expected} belongs, which comes later",
                    link.seq
                ),
                _ => format!("records {expected} to {} are gone", link.seq - 1),
            };
            return Ok(Some(self.fault(kind, line, expected, detail)));
        }
        let next = lines.peek()?.and_then(|next| line::link(&next.bytes));
        let skipped =
            next.is_some_and(|next| next.sound && next.seq == expected && next.prev == self.hash);
        if skipped {
            let detail = format!(
                "this line says that it is record {}, and the one after it follows the one before it",
                link.seq
            );
            return Ok(Some(self.fault(FaultKind::Inserted, line, expected, detail)));
        }
        // It follows the same line as the one before it: that one was put in between, or stands in for it.
        if link.prev == self.before && link.seq == self.seq {
            return Ok(Some(self.fault_before(
                FaultKind::Inserted,
                "the line after it follows the line before it",
            )));
        }
        if link.seq == expected {
            return Ok(Some(self.fault_before(
                FaultKind::Changed,
                "the line and its hash were made anew: the next line names another hash",
            )));
        }
        let detail = format!(
            "record {} stands here a second time, or out of its place; record {expected} belongs here",
            link.seq
        );
        Ok(Some(self.fault(FaultKind::Inserted, line, expected, detail)))
    }

    /// A line in its place. It may still not be the one that was signed.
    fn good(&mut self, line: &RawLine, link: Link) -> Option<Fault> {
        let note = checkpoint_of(&line.bytes);
        if let Some(note) = note {
            let opened = Head::open(&note, &self.key);
            let problem = match &opened {
                Ok(head) if head.size == self.seq && head.hash == self.hash => None,
                Ok(head) => Some(format!(
                    "this checkpoint was signed for other records ({} of them)",
                    head.size
                )),
                Err(problem) => Some(format!("this checkpoint cannot be trusted: {problem}")),
            };
            if let Some(problem) = problem {
                return Some(self.rechained(line, problem));
            }
            self.signed = link.seq;
            self.signed_at = Some((line.file.clone(), line.number));
            self.checkpoints += 1;
        }
        self.before = self.hash;
        (self.seq, self.hash) = (link.seq, link.hash);
        self.last = Some((line.file.clone(), line.number));
        while self.heads.front().is_some_and(|head| head.size < self.seq) {
            self.heads.pop_front();
        }
        if self.heads.front().is_some_and(|head| head.size == self.seq && head.hash != self.hash) {
            return Some(self.rechained(line, "the signed head names another hash here".into()));
        }
        None
    }

    /// The chain hangs together, but is not the signed one. Somewhere after the last good checkpoint it was made anew; the line after
    /// that one is the first that nothing vouches for.
    fn rechained(&self, line: &RawLine, problem: String) -> Fault {
        let (file, number) = match &self.signed_at {
            Some((file, number)) if *file == line.file => (file.clone(), number + 1),
            Some(_) | None => (line.file.clone(), 1),
        };
        let record = self.signed + 1;
        let detail = format!(
            "{problem}; nothing vouches for the records from {record} to here (line {})",
            line.number
        );
        Fault { kind: FaultKind::Rechained, file, line: number, record, detail }
    }

    fn end(&self, paths: &LedgerPaths) -> Option<Fault> {
        let head = self.heads.iter().rev().find(|head| head.size > self.seq)?;
        let (file, number) = self.last.clone().unwrap_or((paths.current.clone(), 0));
        Some(Fault {
            kind: FaultKind::CutOff,
            file,
            line: number + 1,
            record: self.seq + 1,
            detail: format!(
                "the signed head speaks of {} records, and there are {}",
                head.size, self.seq
            ),
        })
    }

    fn fault(&self, kind: FaultKind, line: &RawLine, record: u64, detail: String) -> Fault {
        Fault { kind, file: line.file.clone(), line: line.number, record, detail }
    }

    fn fault_before(&self, kind: FaultKind, detail: &str) -> Fault {
        let (file, line) = self.last.clone().unwrap_or_default();
        Fault { kind, file, line, record: self.seq, detail: detail.to_owned() }
    }
}

/// The note of a checkpoint line. Looked for in the text first: JSON is read only where there is one.
fn checkpoint_of(line: &[u8]) -> Option<String> {
    let mark = b"\"type\":\"checkpoint\"";
    let at = line.windows(mark.len()).take(128).position(|window| window == mark)?;
    // Before it stand time and number alone, so nothing that a caller wrote can look like it.
    if line.get(..at)?.iter().filter(|byte| **byte == b'{').count() != 1 {
        return None;
    }
    let line: serde_json::Value = serde_json::from_slice(line).ok()?;
    if line.get("type")?.as_str()? != "checkpoint" {
        return None;
    }
    Some(line.get("note")?.as_str().unwrap_or_default().to_owned())
}
