use super::lines::Line;
use super::output::LineWriter;
use crate::turn::{self, Dialect, Event, Item, Reader, TurnError};
use serde_json::Value;
use std::collections::VecDeque;
use std::io;
use stockade_runtime::{Turn, TurnFault};
use stockade_types::ToolResult;
use tokio::select;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver};

/// One turn from its input to its answer: calls go to the runtime as they come in, results go out as they are due.
pub struct Conversation {
    turn: Turn,
    reader: Option<Reader>,
    output: LineWriter,
    /// The dialects of the calls that have no result yet, in order.
    owed: VecDeque<Dialect>,
    /// A whole turn, answered at its end.
    whole: Option<(Dialect, Vec<ToolResult>)>,
    bad_lines: bool,
    read_error: Option<io::Error>,
    /// The signals that came, in their order.
    signals: Vec<i32>,
}

/// How a conversation went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Every call has a result.
    Answered,
    /// Every call has one, but some lines of the stream were no calls; they have been told to the caller.
    BadLines,
    /// A signal stopped it; the calls that had come in are answered, those that still ran as aborted.
    Stopped(i32),
    /// A second signal cut the grace of those short. They are answered all the same.
    Hurried(i32),
    /// A third signal, or a second with nothing left but results that nobody reads, ended it at once; calls are left without
    /// results.
    Killed(i32),
}

/// Why a conversation broke off.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The input is no turn. Of a whole turn nothing has run.
    #[error(transparent)]
    Input(#[from] TurnError),
    /// The input could not be read.
    #[error("the turn cannot be read: {0}")]
    Read(io::Error),
    /// The results could not be written.
    #[error("results cannot be written to stdout: {0}; the calls that were running were cancelled")]
    Write(io::Error),
    /// The runtime failed.
    #[error(transparent)]
    Fault(#[from] TurnFault),
}

impl Conversation {
    /// A conversation over a turn that was just opened.
    pub fn new(turn: Turn, reader: Reader, output: LineWriter) -> Self {
        Self {
            turn,
            reader: Some(reader),
            output,
            owed: VecDeque::new(),
            whole: None,
            bad_lines: false,
            read_error: None,
            signals: Vec::new(),
        }
    }

    /// Holds it. `complain` is given each bad line of a stream when it comes in.
    pub async fn hold(
        mut self,
        lines: &mut Receiver<io::Result<Line>>,
        signals: &mut UnboundedReceiver<i32>,
        mut complain: impl FnMut(&TurnError),
    ) -> Result<End, Broken> {
        let failed = self.output.failed().clone();
        let mut writable = true;
        loop {
            select! {
                Some(signal) = signals.recv() => {
                    self.signals.push(signal);
                    self.turn.close();
                    match self.signals.len() {
                        1 => self.turn.abort(),
                        2 => self.turn.kill(),
                        _ => return Ok(End::Killed(signal)),
                    }
                }
                () = failed.cancelled(), if writable => {
                    writable = false;
                    self.reader = None;
                    self.turn.close();
                    self.turn.abort();
                }
                line = lines.recv(), if self.reader.is_some() && self.signals.is_empty() => {
                    for error in self.take(line)? {
                        self.bad_lines = true;
                        complain(&error);
                    }
                }
                result = self.turn.next_result() => match result? {
                    Some(result) => self.deliver(result),
                    None => break,
                }
            }
        }
        if let Some((dialect, results)) = &self.whole {
            self.write(&turn::whole_answer(*dialect, results));
        }
        select! {
            written = self.output.finish() => written.map_err(Broken::Write)?,
            Some(signal) = signals.recv() => return Ok(End::Killed(signal)),
        }
        if let Some(error) = self.read_error {
            return Err(Broken::Read(error));
        }
        Ok(match *self.signals {
            [signal] => End::Stopped(signal),
            [signal, ..] => End::Hurried(signal),
            _ if self.bad_lines => End::BadLines,
            _ => End::Answered,
        })
    }

    /// Takes a line of the input, or its end; the errors are those of single lines.
    fn take(&mut self, line: Option<io::Result<Line>>) -> Result<Vec<TurnError>, TurnError> {
        let line = match line.transpose() {
            Ok(line) => line,
            Err(error) => {
                // What came in before is still answered, if it was a stream.
                self.read_error = Some(error);
                self.reader = None;
                self.turn.close();
                return Ok(Vec::new());
            }
        };
        let events = match (line, &mut self.reader) {
            (_, None) => Vec::new(),
            (Some(Line::Bytes(line)), Some(reader)) => reader.line(&line)?,
            (Some(Line::TooLong), Some(reader)) => reader.long_line()?,
            (None, reader) => {
                let end = reader.take().map(Reader::finish).transpose()?;
                match end {
                    Some(turn::Turn::Whole { dialect, items }) => {
                        self.whole = Some((dialect, Vec::with_capacity(items.len())));
                        items.into_iter().for_each(|item| self.submit(item));
                    }
                    Some(turn::Turn::Item(Some(item))) => self.submit(item),
                    Some(turn::Turn::Item(None) | turn::Turn::Stream) | None => {}
                }
                self.turn.close();
                Vec::new()
            }
        };
        let mut errors = Vec::new();
        for event in events {
            match event {
                Event::Item(item) => self.submit(item),
                Event::BadLine(error) => errors.push(error),
            }
        }
        Ok(errors)
    }

    fn submit(&mut self, item: Item) {
        // A turn that is closed takes nothing and owes nothing.
        if self.turn.submit(item.submission).is_ok() {
            self.owed.push_back(item.dialect);
        }
    }

    fn deliver(&mut self, result: ToolResult) {
        let dialect = self.owed.pop_front();
        match (&mut self.whole, dialect) {
            (Some((_, results)), _) => results.push(result),
            (None, Some(dialect)) => self.write(&turn::stream_item(dialect, &result)),
            (None, None) => {}
        }
    }

    fn write(&self, answer: &Value) {
        self.output.line(answer.to_string().into_bytes());
    }
}
