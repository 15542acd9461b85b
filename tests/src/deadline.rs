use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A process that has ended, and all that it wrote.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Its stdout, byte for byte.
    pub stdout: Vec<u8>,
    /// Its stderr, byte for byte.
    pub stderr: Vec<u8>,
    /// From its start to its end.
    pub took: Duration,
}

impl Finished {
    /// stdout as text, with replacement characters where it is none.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// stderr as text, with replacement characters where it is none.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// The exit code; -1 when a signal ended it.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }
}

/// Runs a command to its end with this stdin, and fails the test when it takes longer than `limit`:
/// a hang is a failure with a name, not a test run that never ends.
pub fn finish(command: &mut Command, stdin: &[u8], limit: Duration) -> Finished {
    let started = Instant::now();
    let mut child = command
        .stdin(if stdin.is_empty() { Stdio::null() } else { Stdio::piped() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
    let writer = child.stdin.take().map(|mut pipe| {
        let bytes = stdin.to_vec();
        // A command may end without reading all of it.
        thread::spawn(move || drop(pipe.write_all(&bytes)))
    });
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let status = wait(&mut child, started + limit).unwrap_or_else(|| {
        child.kill().ok();
        panic!("{command:?} had not ended after {limit:?}")
    });
    let took = started.elapsed();
    if let Some(writer) = writer {
        writer.join().expect("the writer of stdin");
    }
    let all = |reader: thread::JoinHandle<Vec<u8>>| reader.join().expect("the reader of a pipe");
    Finished { status, stdout: all(stdout), stderr: all(stderr), took }
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    let mut pipe = pipe.expect("a pipe was asked for");
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).ok();
        bytes
    })
}

fn wait(child: &mut Child, until: Instant) -> Option<ExitStatus> {
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status);
        }
        if Instant::now() >= until {
            return None;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}
