use super::capture::{Captured, HeadTail};
use super::sink::Stream;
use super::text::{Decoder, continuation_bytes};
use std::collections::VecDeque;
use std::fmt::Write;

/// Both streams in the one order in which they arrived. Two pipes carry no time: of what is written to both before the reader
/// has come round, all of that stream comes first to which something was written first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interleaved {
    /// The bytes of both.
    pub captured: Captured,
    /// Whose bytes they are: the stream, and how many of `captured.bytes` are its. No piece lies across the cut.
    pub pieces: Vec<(Stream, usize)>,
}

impl Interleaved {
    /// The pieces with their bytes; those from `captured.head_len` on come after what was left out.
    pub fn iter(&self) -> impl Iterator<Item = (Stream, &[u8])> {
        let mut rest = &self.captured.bytes[..];
        self.pieces.iter().map(move |&(stream, length)| {
            let (piece, after) = rest.split_at(length.min(rest.len()));
            rest = after;
            (stream, piece)
        })
    }

    /// As text, as [`Captured::text`] has it. A character that the other stream's output falls into the middle of comes whole, where it
    /// ends.
    pub fn text(&self) -> String {
        let mut writer = TextWriter::default();
        let pieces: Vec<_> = self.iter().collect();
        let mut cut = (self.captured.omitted > 0).then_some(self.captured.head_len);
        let mut at = 0;
        for (index, &(stream, bytes)) in pieces.iter().enumerate() {
            if cut == Some(at) {
                cut = None;
                writer.cut(self.captured.omitted, pieces.get(index..).unwrap_or_default());
            }
            writer.push(stream, bytes);
            at += bytes.len();
        }
        if cut.is_some() {
            writer.cut(self.captured.omitted, &[]);
        }
        writer.finish()
    }
}

#[derive(Default)]
struct TextWriter {
    text: String,
    decoders: [Decoder; 2],
    /// Bytes to leave out at the start of each stream's next piece: the rest of a character that the cut went through.
    skip: [usize; 2],
}

impl TextWriter {
    fn push(&mut self, stream: Stream, mut bytes: &[u8]) {
        let [stdout, stderr] = &mut self.decoders;
        let [skip_stdout, skip_stderr] = &mut self.skip;
        let (decoder, skip) = match stream {
            Stream::Stdout => (stdout, skip_stdout),
            Stream::Stderr => (stderr, skip_stderr),
        };
        let skipped = (*skip).min(bytes.len());
        bytes = bytes.split_at(skipped).1;
        *skip -= skipped;
        self.text.push_str(&decoder.push(bytes));
    }

    fn cut(&mut self, mut omitted: u64, rest: &[(Stream, &[u8])]) {
        for (at, stream) in [Stream::Stdout, Stream::Stderr].into_iter().enumerate() {
            let first: Vec<u8> = rest
                .iter()
                .filter(|(of, _)| *of == stream)
                .flat_map(|(_, bytes)| bytes.iter().copied())
                .take(3)
                .collect();
            if let (Some(decoder), Some(skip)) = (self.decoders.get_mut(at), self.skip.get_mut(at))
            {
                *skip = continuation_bytes(&first);
                omitted += (decoder.pending() + *skip) as u64;
                *decoder = Decoder::default();
            }
        }
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "… {omitted} bytes omitted …");
    }

    fn finish(mut self) -> String {
        for decoder in &mut self.decoders {
            self.text.push_str(&decoder.finish());
        }
        self.text
    }
}

/// Keeps the first and the last bytes of both streams together.
#[derive(Debug)]
pub(crate) struct InterleavedHeadTail {
    bytes: HeadTail,
    head: Vec<(Stream, usize)>,
    head_left: usize,
    tail: VecDeque<(Stream, usize)>,
    tail_length: usize,
    tail_limit: usize,
}

impl InterleavedHeadTail {
    /// Goes on after what one stream has written, the other nothing yet.
    pub(crate) fn after(stream: Stream, bytes: HeadTail) -> Self {
        let (head, head_left, tail) = bytes.lengths();
        let pieces = |length: usize| (length > 0).then_some((stream, length)).into_iter();
        Self {
            head: pieces(head).collect(),
            head_left,
            tail: pieces(tail).collect(),
            tail_length: tail,
            tail_limit: bytes.tail_limit(),
            bytes,
        }
    }

    pub(crate) fn push(&mut self, stream: Stream, chunk: &[u8]) {
        self.bytes.push(chunk);
        let first = chunk.len().min(self.head_left);
        self.head_left -= first;
        match self.head.last_mut() {
            Some((last, length)) if *last == stream => *length += first,
            _ if first > 0 => self.head.push((stream, first)),
            _ => {}
        }
        let rest = chunk.len() - first;
        match self.tail.back_mut() {
            Some((last, length)) if *last == stream => *length += rest,
            _ if rest > 0 => self.tail.push_back((stream, rest)),
            _ => {}
        }
        self.tail_length += rest;
        while self.tail_length > self.tail_limit {
            let over = self.tail_length - self.tail_limit;
            let Some((_, oldest)) = self.tail.front_mut() else { break };
            let gone = over.min(*oldest);
            *oldest -= gone;
            self.tail_length -= gone;
            if *oldest == 0 {
                self.tail.pop_front();
            }
        }
    }

    pub(crate) fn finish(self) -> Interleaved {
        let mut pieces = self.head;
        pieces.extend(self.tail);
        Interleaved { captured: self.bytes.finish(), pieces }
    }
}

#[cfg(test)]
mod tests {
    use super::super::keeper::Keeper;
    use super::*;
    use Stream::{Stderr, Stdout};
    use tokio::time::Instant;

    /// It makes one of what is here when the second stream comes.
    fn keeper(limit: usize) -> Keeper {
        Keeper::new(limit, None, None, Instant::now())
    }

    fn keep(limit: usize, chunks: &[(Stream, &[u8])]) -> Interleaved {
        let mut kept = keeper(limit);
        for (stream, bytes) in chunks {
            kept.push(*stream, bytes);
        }
        kept.finish().both
    }

    #[test] // spec 6.4
    fn both_streams_stand_in_the_order_in_which_they_came() {
        let kept =
            keep(100, &[(Stdout, b"1\n"), (Stderr, b"2\n"), (Stdout, b"3"), (Stdout, b"\n")]);
        let pieces: Vec<_> = kept.iter().collect();
        assert_eq!(pieces, [(Stdout, &b"1\n"[..]), (Stderr, b"2\n"), (Stdout, b"3\n")]);
        assert_eq!(kept.text(), "1\n2\n3\n");
    }

    #[test] // spec 6.4
    fn a_character_is_whole_though_the_other_stream_falls_into_it() {
        let kept = keep(100, &[(Stdout, b"a\xe2\x82"), (Stderr, b"!"), (Stdout, b"\xacz")]);
        assert_eq!(kept.text(), "a!€z");
    }

    #[test] // spec 6.4
    fn whatever_the_limit_the_pieces_cover_the_bytes_and_no_character_is_split() {
        let chunks: Vec<(Stream, Vec<u8>)> = (0..60)
            .map(|n| (if n % 3 == 0 { Stderr } else { Stdout }, "é€😀".repeat(n % 4).into_bytes()))
            .collect();
        let all: Vec<u8> = chunks.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        for limit in 0..=all.len() + 2 {
            let mut kept = keeper(limit);
            for (stream, bytes) in &chunks {
                // Each byte by itself: every border there can be.
                bytes.chunks(1).for_each(|byte| kept.push(*stream, byte));
            }
            let kept = kept.finish().both;
            let covered: usize = kept.pieces.iter().map(|(_, length)| length).sum();
            assert_eq!(covered, kept.captured.bytes.len(), "limit {limit}");
            assert_eq!(kept.captured.total, all.len() as u64);
            let text = kept.text();
            assert!(!text.contains('\u{fffd}'), "limit {limit}: {text}");
            if limit >= all.len() {
                assert_eq!(text.as_bytes(), all);
            } else {
                let shown: usize =
                    text.lines().filter(|line| !line.starts_with('…')).map(str::len).sum();
                let stated = text.lines().find_map(|line| {
                    line.strip_prefix("… ")?.split(' ').next()?.parse::<usize>().ok()
                });
                assert_eq!(stated.map(|stated| shown + stated), Some(all.len()), "limit {limit}");
            }
        }
    }
}
