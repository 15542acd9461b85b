use super::capture::{Captured, HeadTail};
use super::interleaved::{Interleaved, InterleavedHeadTail};
use super::progress::{ProgressFn, Reporter};
use super::sink::{OutputSink, Stream};
use std::fmt;
use tokio::time::Instant;

/// Everyone who gets what was read: the bounded memory of each stream and of both, the sink, the reporter.
pub(crate) struct Keeper {
    stdout: HeadTail,
    stderr: HeadTail,
    /// From the first byte of the second stream on: until then it is what the first has.
    both: Option<InterleavedHeadTail>,
    only: Option<Stream>,
    sink: Option<Box<dyn OutputSink>>,
    sink_error: Option<String>,
    reporter: Option<Reporter>,
}

/// What a [`Keeper`] has at the end.
pub(crate) struct Kept {
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
    pub(crate) both: Interleaved,
    pub(crate) sink_error: Option<String>,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("sink_error", &self.sink_error).finish_non_exhaustive()
    }
}

impl Keeper {
    pub(crate) fn new(
        limit: usize,
        sink: Option<Box<dyn OutputSink>>,
        progress: Option<ProgressFn>,
        started: Instant,
    ) -> Self {
        Self {
            stdout: HeadTail::new(limit),
            stderr: HeadTail::new(limit),
            both: None,
            only: None,
            sink,
            sink_error: None,
            reporter: progress.map(|progress| Reporter::new(progress, started)),
        }
    }

    pub(crate) fn push(&mut self, stream: Stream, chunk: &[u8]) {
        if self.both.is_none() && *self.only.get_or_insert(stream) != stream {
            self.both = Some(self.both_so_far());
        }
        if let Some(both) = &mut self.both {
            both.push(stream, chunk);
        }
        match stream {
            Stream::Stdout => self.stdout.push(chunk),
            Stream::Stderr => self.stderr.push(chunk),
        }
        if let Some(sink) = &mut self.sink
            && let Err(error) = sink.write(stream, chunk)
        {
            tracing::warn!(%error, "a command's output is not kept whole any more");
            self.sink_error = Some(error.to_string());
            self.sink = None;
        }
        if let Some(reporter) = &mut self.reporter {
            reporter.push(stream, chunk);
        }
    }

    /// What one stream alone has written.
    fn both_so_far(&self) -> InterleavedHeadTail {
        match self.only {
            Some(Stream::Stderr) => InterleavedHeadTail::after(Stream::Stderr, self.stderr.clone()),
            _ => InterleavedHeadTail::after(Stream::Stdout, self.stdout.clone()),
        }
    }

    /// When to report next, if there is anything to.
    pub(crate) fn report_due(&self) -> Option<Instant> {
        self.reporter.as_ref().and_then(Reporter::due)
    }

    pub(crate) fn report(&mut self) {
        if let Some(reporter) = &mut self.reporter {
            reporter.report();
        }
    }

    pub(crate) fn finish(mut self) -> Kept {
        self.report();
        let both = self.both.take().unwrap_or_else(|| self.both_so_far());
        Kept {
            stdout: self.stdout.finish(),
            stderr: self.stderr.finish(),
            both: both.finish(),
            sink_error: self.sink_error,
        }
    }
}
