//! Lines out, from a thread of its own: whoever reads them may be slow, and must hold up neither the calls nor a signal.

use std::io::{self, Write};
use std::sync::mpsc;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Writes lines whole and in order. A clone writes to the same place.
#[derive(Clone, Debug)]
pub struct LineWriter {
    jobs: mpsc::Sender<Job>,
    failed: CancellationToken,
}

enum Job {
    Line(Vec<u8>),
    Finish(oneshot::Sender<io::Result<()>>),
}

impl LineWriter {
    /// A writer to `target`.
    pub fn start(target: impl Write + Send + 'static) -> io::Result<Self> {
        let (jobs, todo) = mpsc::channel();
        let failed = CancellationToken::new();
        let writer = Self { jobs, failed: failed.clone() };
        std::thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || work(target, &todo, &failed))?;
        Ok(writer)
    }

    /// Hands over one line, without its end. It is flushed as soon as it is written.
    pub fn line(&self, mut line: Vec<u8>) {
        line.push(b'\n');
        // The thread ends only when no writer is left.
        let _ = self.jobs.send(Job::Line(line));
    }

    /// Fires at the first write that fails; nothing is written after it.
    pub fn failed(&self) -> &CancellationToken {
        &self.failed
    }

    /// Waits until everything handed over so far is written, and says whether it is.
    pub async fn finish(&self) -> io::Result<()> {
        let (report, done) = oneshot::channel();
        let _ = self.jobs.send(Job::Finish(report));
        done.await.unwrap_or_else(|_| Err(io::Error::other("the writing thread has ended")))
    }
}

fn work(mut target: impl Write, todo: &mpsc::Receiver<Job>, failed: &CancellationToken) {
    let mut result = Ok(());
    for job in todo {
        match job {
            Job::Line(line) if result.is_ok() => {
                result = target.write_all(&line).and_then(|()| target.flush());
                if result.is_err() {
                    failed.cancel();
                }
            }
            Job::Line(_) => {}
            Job::Finish(report) => {
                let copy = match &result {
                    Ok(()) => Ok(()),
                    Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
                };
                // Who no longer waits does not want to know.
                let _ = report.send(copy);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut written = self.0.lock().unwrap();
            if written.len() >= 4 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            written.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn lines_come_whole_and_in_order_and_a_failure_is_told_and_kept() {
        let target = Shared::default();
        let writer = LineWriter::start(target.clone()).unwrap();
        writer.line(b"1".to_vec());
        writer.clone().line(b"2".to_vec());
        writer.finish().await.unwrap();
        assert_eq!(*target.0.lock().unwrap(), b"1\n2\n");
        assert!(!writer.failed().is_cancelled());
        writer.line(b"3".to_vec());
        writer.failed().cancelled().await;
        for _ in 0..2 {
            let error = writer.finish().await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        }
        assert_eq!(*target.0.lock().unwrap(), b"1\n2\n");
    }
}
