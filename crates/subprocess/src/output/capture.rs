use super::text::{continuation_bytes, unfinished_character};
use std::fmt::Write;

/// What was kept of one output stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes and the last ones, with nothing between them.
    pub bytes: Vec<u8>,
    /// How many bytes were written in all.
    pub total: u64,
    /// How many of them are not in `bytes`.
    pub omitted: u64,
    /// Where in `bytes` the cut is, if there is one: the length of the first part.
    pub head_len: usize,
}

impl Captured {
    /// As text: what is not UTF-8 is replaced, and where bytes were left out a line says how many. A character that
    /// the cut went through counts as left out, since half of it says nothing.
    pub fn text(&self) -> String {
        let head_len = self.head_len.min(self.bytes.len());
        let (head, tail) = self.bytes.split_at(head_len);
        if self.omitted == 0 {
            return String::from_utf8_lossy(&self.bytes).into_owned();
        }
        let broken_end = unfinished_character(head);
        let broken_start = continuation_bytes(tail);
        let omitted = self.omitted + (broken_end + broken_start) as u64;

        let (head, _) = head.split_at(head.len() - broken_end);
        let (_, tail) = tail.split_at(broken_start);
        let mut text = String::from_utf8_lossy(head).into_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let _ = writeln!(text, "… {omitted} bytes omitted …");
        text.push_str(&String::from_utf8_lossy(tail));
        text
    }
}

/// Keeps the first and the last bytes of a stream, however long it is.
#[derive(Clone, Debug)]
pub(crate) struct HeadTail {
    head: Vec<u8>,
    head_limit: usize,
    /// A ring once it is full: the oldest byte is at `oldest`.
    tail: Vec<u8>,
    tail_limit: usize,
    oldest: usize,
    total: u64,
}

impl HeadTail {
    pub(crate) fn new(limit: usize) -> Self {
        let head_limit = limit / 2;
        let tail_limit = limit - head_limit;
        Self { head: Vec::new(), head_limit, tail: Vec::new(), tail_limit, oldest: 0, total: 0 }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.total += chunk.len() as u64;
        let (first, rest) = chunk.split_at(chunk.len().min(self.head_limit - self.head.len()));
        self.head.extend_from_slice(first);

        let (_, rest) = rest.split_at(rest.len().saturating_sub(self.tail_limit));
        let (fills, wraps) = rest.split_at(rest.len().min(self.tail_limit - self.tail.len()));
        self.tail.extend_from_slice(fills);
        self.overwrite_oldest(wraps);
    }

    /// The most of the last bytes that are kept.
    pub(crate) fn tail_limit(&self) -> usize {
        self.tail_limit
    }

    /// How many of the first bytes are kept, how many more there is room for, and how many of the last are kept.
    pub(crate) fn lengths(&self) -> (usize, usize, usize) {
        (self.head.len(), self.head_limit - self.head.len(), self.tail.len())
    }

    /// `chunk` is no longer than the ring, which is full unless `chunk` is empty.
    fn overwrite_oldest(&mut self, chunk: &[u8]) {
        let (to_end, from_start) = chunk.split_at(chunk.len().min(self.tail.len() - self.oldest));
        for (at, part) in [(self.oldest, to_end), (0, from_start)] {
            if let Some(place) = self.tail.get_mut(at..at + part.len()) {
                place.copy_from_slice(part);
            }
        }
        if self.tail_limit > 0 {
            self.oldest = (self.oldest + chunk.len()) % self.tail_limit;
        }
    }

    pub(crate) fn finish(mut self) -> Captured {
        self.tail.rotate_left(self.oldest);
        let head_len = self.head.len();
        let mut bytes = self.head;
        bytes.append(&mut self.tail);
        let omitted = self.total - bytes.len() as u64;
        Captured { bytes, total: self.total, omitted, head_len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(limit: usize, chunks: &[&[u8]]) -> Captured {
        let mut kept = HeadTail::new(limit);
        for chunk in chunks {
            kept.push(chunk);
        }
        kept.finish()
    }

    #[test] // spec 6.4
    fn head_and_tail_are_the_same_however_the_stream_is_cut_into_chunks() {
        let stream: Vec<u8> = (0..200u8).collect();
        for limit in 0..=210 {
            for size in 1..=stream.len() {
                let chunks: Vec<&[u8]> = stream.chunks(size).collect();
                let captured = keep(limit, &chunks);
                let (first, last) = (limit / 2, limit - limit / 2);
                let expected = if limit >= stream.len() {
                    stream.clone()
                } else {
                    [&stream[..first], &stream[stream.len() - last..]].concat()
                };
                assert_eq!(captured.bytes, expected, "limit {limit}, chunks of {size}");
                assert_eq!(captured.total, 200);
                assert_eq!(captured.omitted, (200 - expected.len()) as u64);
            }
        }
    }

    #[test] // spec 6.4
    fn text_says_on_a_line_of_its_own_how_much_is_missing() {
        let captured = keep(8, &[b"abcdefghijkl"]);
        assert_eq!(captured.text(), "abcd\n… 4 bytes omitted …\nijkl");
        let captured = keep(8, &[b"abc\nefghijkl"]);
        assert_eq!(captured.text(), "abc\n… 4 bytes omitted …\nijkl");
        let nothing = keep(0, &[b"abc"]);
        assert_eq!(nothing.text(), "… 3 bytes omitted …\n");
    }

    #[test] // spec 6.4
    fn whole_output_has_no_marker_and_is_whole_even_where_head_meets_tail() {
        // The border between head and tail lies inside the character.
        let captured = keep(6, &["ab😀".as_bytes()]);
        assert_eq!(captured.omitted, 0);
        assert_eq!(captured.text(), "ab😀");
    }

    #[test] // spec 6.4
    fn the_cut_splits_no_character_wherever_it_falls() {
        for character in ["é", "€", "😀"] {
            let stream = character.repeat(100);
            for limit in 0..stream.len() {
                let captured = keep(limit, &[stream.as_bytes()]);
                let text = captured.text();
                assert!(!text.contains('\u{fffd}'), "{character} limit {limit}: {text:?}");
                let shown: usize =
                    text.lines().filter(|line| !line.starts_with('…')).map(str::len).sum();
                let stated: usize = text
                    .lines()
                    .find_map(|line| line.strip_prefix("… ")?.split(' ').next()?.parse().ok())
                    .expect("a marker");
                assert_eq!(shown + stated, stream.len(), "{character} limit {limit}");
            }
        }
    }

    #[test] // spec 6.4
    fn bytes_that_are_no_utf8_are_replaced_and_none_is_lost_from_the_raw_bytes() {
        let captured = keep(100, &[b"a\xffb\xe2\x82"]);
        assert_eq!(captured.text(), "a\u{fffd}b\u{fffd}");
        assert_eq!(captured.bytes, b"a\xffb\xe2\x82");
        // At the cut: 0xff is no start of a character, and of the stray 0x80s three at most are taken for the rest of one.
        let captured = keep(8, &[b"abc\xffxxxx\x80\x80\x80\x80"]);
        assert_eq!(captured.text(), "abc\u{fffd}\n… 7 bytes omitted …\n\u{fffd}");
    }
}
