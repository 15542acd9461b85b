use std::io;

/// Which of a command's output streams. What a terminal shows counts as stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Its stdout, or its terminal.
    Stdout,
    /// Its stderr.
    Stderr,
}

/// Takes all of a command's output as it comes, in one order of arrival: a spill store, a task's file.
///
/// It is called where the output is read, so it should not take long; a command that writes faster than its sink takes is
/// slowed down. After its first error it is given nothing more, and the command runs on: a full disk fails no call.
pub trait OutputSink: Send {
    /// Takes what came next.
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()>;
}
