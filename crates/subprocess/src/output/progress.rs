use super::sink::Stream;
use super::text::{Decoder, continuation_bytes};
use crate::ladder::millis;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Reports are at least so far apart (spec 6.4).
const INTERVAL: Duration = Duration::from_millis(100);

/// How much of the output one report carries, in bytes.
const TEXT_MAX: usize = 4096;

/// What a running command has written since the last report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Since its start, in milliseconds.
    pub elapsed_ms: u64,
    /// Written to stdout so far.
    pub stdout_bytes: u64,
    /// Written to stderr so far.
    pub stderr_bytes: u64,
    /// What is new, both streams in the order of arrival: the last 4 KiB of it.
    pub text: String,
    /// How many new bytes are not in `text`.
    pub omitted: u64,
}

/// Takes reports: at most ten a second, and the last one before the command is over.
pub type ProgressFn = Arc<dyn Fn(Progress) + Send + Sync>;

pub(crate) struct Reporter {
    report: ProgressFn,
    started: Instant,
    last: Option<Instant>,
    new: String,
    omitted: u64,
    bytes: [u64; 2],
    decoders: [Decoder; 2],
    pending: bool,
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Reporter {
    pub(crate) fn new(report: ProgressFn, started: Instant) -> Self {
        Self {
            report,
            started,
            last: None,
            new: String::new(),
            omitted: 0,
            bytes: [0; 2],
            decoders: Default::default(),
            pending: false,
        }
    }

    pub(crate) fn push(&mut self, stream: Stream, chunk: &[u8]) {
        self.pending = true;
        let [stdout, stderr] = &mut self.decoders;
        let [stdout_bytes, stderr_bytes] = &mut self.bytes;
        let (decoder, bytes) = match stream {
            Stream::Stdout => (stdout, stdout_bytes),
            Stream::Stderr => (stderr, stderr_bytes),
        };
        *bytes += chunk.len() as u64;
        // Of a large chunk only the end can be shown, so no more is made text of.
        let (passed_over, mut end) = chunk.split_at(chunk.len().saturating_sub(TEXT_MAX));
        if !passed_over.is_empty() {
            let broken = continuation_bytes(end);
            self.omitted += (decoder.pending() + passed_over.len() + broken) as u64;
            *decoder = Decoder::default();
            end = end.split_at(broken).1;
        }
        self.new.push_str(&decoder.push(end));
        if self.new.len() > 2 * TEXT_MAX {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        let over = self.new.len().saturating_sub(TEXT_MAX);
        let cut = (over..self.new.len()).find(|&at| self.new.is_char_boundary(at));
        if let Some(cut) = cut {
            self.omitted += cut as u64;
            self.new.drain(..cut);
        }
    }

    /// When the next report is due; `None` if there is nothing new.
    pub(crate) fn due(&self) -> Option<Instant> {
        let due = || self.last.map_or(self.started, |last| last + INTERVAL);
        self.pending.then(due)
    }

    /// Reports what is new.
    pub(crate) fn report(&mut self) {
        if !std::mem::take(&mut self.pending) {
            return;
        }
        self.shorten();
        self.last = Some(Instant::now());
        let [stdout_bytes, stderr_bytes] = self.bytes;
        (self.report)(Progress {
            elapsed_ms: millis(self.started.elapsed()),
            stdout_bytes,
            stderr_bytes,
            text: std::mem::take(&mut self.new),
            omitted: std::mem::take(&mut self.omitted),
        });
    }
}
