//! An input, line by line, from a thread of its own: reading a terminal or a pipe blocks, and must hold up neither the
//! calls that run nor the end of the process.

use std::io::{self, BufRead, BufReader, Read};
use tokio::sync::mpsc;

/// One line of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The line, its end-of-line characters still on it.
    Bytes(Vec<u8>),
    /// A line longer than the limit; it was passed over.
    TooLong,
}

/// Starts to read. The channel closes at the end of the input, or after an error.
pub fn start(
    input: impl Read + Send + 'static,
    limit: usize,
) -> io::Result<mpsc::Receiver<io::Result<Line>>> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::Builder::new().name("input".to_owned()).spawn(move || {
        let mut input = BufReader::new(input);
        while let Some(line) = next(&mut input, limit).transpose() {
            let failed = line.is_err();
            if sender.blocking_send(line).is_err() || failed {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// The next line, or `None` at the end. Never holds more than `limit` bytes of it.
fn next(input: &mut impl BufRead, limit: usize) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    // One byte more than the limit tells a line that just fits from one that does not.
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    input.by_ref().take(most).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.len() <= limit {
        return Ok(Some(Line::Bytes(line)));
    }
    while line.last() != Some(&b'\n') {
        line.clear();
        if input.by_ref().take(64 * 1024).read_until(b'\n', &mut line)? == 0 {
            break;
        }
    }
    Ok(Some(Line::TooLong))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &'static [u8], limit: usize) -> Vec<Line> {
        let mut receiver = start(input, limit).unwrap();
        std::iter::from_fn(|| receiver.blocking_recv()).map(Result::unwrap).collect()
    }

    fn bytes(line: &[u8]) -> Line {
        Line::Bytes(line.to_vec())
    }

    #[test]
    fn lines_keep_their_ends_and_the_last_needs_none() {
        assert_eq!(lines(b"a\r\n\nb", 10), [bytes(b"a\r\n"), bytes(b"\n"), bytes(b"b")]);
        assert_eq!(lines(b"", 10), []);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_the_next_is_whole() {
        assert_eq!(lines(b"123456789\nab\n", 5), [Line::TooLong, bytes(b"ab\n")]);
        assert_eq!(
            lines(b"1234\n12345\n123456", 5),
            [bytes(b"1234\n"), Line::TooLong, Line::TooLong]
        );
        let long: &'static [u8] = Box::leak(vec![b'x'; 300_000].into_boxed_slice());
        assert_eq!(lines(long, 5), [Line::TooLong]);
    }

    #[test]
    fn an_error_is_passed_on_and_ends_the_input() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("disk on fire"))
            }
        }
        let mut receiver = start(Broken, 5).unwrap();
        assert!(receiver.blocking_recv().unwrap().is_err());
        assert!(receiver.blocking_recv().is_none());
    }
}
