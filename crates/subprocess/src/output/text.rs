/// Makes text of bytes that come in pieces: what is no UTF-8 is replaced by U+FFFD, and a character that one piece ends in
/// the middle of comes whole with the next (spec 6.4).
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    pending: Vec<u8>,
}

impl Decoder {
    /// The text that these bytes complete.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        let joined;
        let bytes = if self.pending.is_empty() {
            bytes
        } else {
            joined = [&self.pending[..], bytes].concat();
            &joined
        };
        let (whole, begun) = bytes.split_at(bytes.len() - unfinished_character(bytes));
        let text = String::from_utf8_lossy(whole).into_owned();
        self.pending = begun.to_vec();
        text
    }

    /// How many bytes wait for the rest of their character.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The end: a character whose rest never came is replaced.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}

/// How many bytes at the end are the start of a character whose rest is missing.
pub(crate) fn unfinished_character(bytes: &[u8]) -> usize {
    let longest = bytes.len().min(3);
    (1..=longest)
        .find(|&length| {
            let end = bytes.split_at(bytes.len() - length).1;
            end.first().is_some_and(|&byte| byte >= 0xc0)
                && std::str::from_utf8(end).is_err_and(|error| error.error_len().is_none())
        })
        .unwrap_or(0)
}

/// How many bytes at the start can only be the rest of a character.
pub(crate) fn continuation_bytes(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|&&byte| byte & 0xc0 == 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> String {
        let mut decoder = Decoder::default();
        let mut text: String = pieces.iter().map(|piece| decoder.push(piece)).collect();
        text.push_str(&decoder.finish());
        text
    }

    #[test] // spec 6.4
    fn text_is_the_same_wherever_the_bytes_are_cut() {
        let samples: [&[u8]; 6] = [
            "aé€😀z".as_bytes(),
            b"\xf0\x9f\x98",
            b"a\xffb\xc0\x80c\xed\xa0\x80d",
            b"\xe2\x82\xe2\x82\xac",
            b"\x80\x80\x80\x80\xf4\x90\x80\x80",
            b"\xf0\x9f\x98\x80\xf0\x9f",
        ];
        for sample in samples {
            let whole = String::from_utf8_lossy(sample);
            for first in 0..=sample.len() {
                for second in first..=sample.len() {
                    let pieces = [&sample[..first], &sample[first..second], &sample[second..]];
                    assert_eq!(decode(&pieces), whole, "{sample:?} cut at {first} and {second}");
                }
            }
            let single: Vec<&[u8]> = sample.chunks(1).collect();
            assert_eq!(decode(&single), whole, "{sample:?} byte by byte");
        }
    }
}
