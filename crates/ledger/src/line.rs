//! One line: `{"time":…,"seq":…,…,"prev":"<hash>","hash":"<hash>"}`. The hash is the SHA-256 of all of the line that stands before
//! `,"hash":`; `prev` is the hash of the line before. The two come last, at a fixed place, so that reading them needs no JSON.

use crate::{Entry, LedgerError};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::time::SystemTime;
use stockade_policy::environment::{may_show_secrets, redact_json};

/// A line's hash.
pub(crate) type Hash = [u8; 32];

/// What the first line of all names as the one before it.
pub(crate) const NO_HASH: Hash = [0; 32];

/// The longest line that is read, in bytes. What is written stays far below ([`TEXT_MAX`]).
pub(crate) const LINE_MAX: usize = 1 << 20;

/// What a record keeps of one text, in bytes of JSON; the digest beside it is of all of it.
const RECORD_MAX: usize = 256 * 1024;

const PREV: &[u8] = b",\"prev\":\"";
const HASH: &[u8] = b",\"hash\":\"";
const END: &[u8] = b"\"}";
const HEX: usize = 64;

/// The line with its end.
pub(crate) fn encode(
    entry: &Entry,
    seq: u64,
    time: SystemTime,
    prev: &Hash,
) -> Result<(Vec<u8>, Hash), LedgerError> {
    let record = serde_json::to_string(entry)?;
    // Before its digest is taken: a digest of the very bytes would tell a short secret to whoever tries them all.
    let record = if may_show_secrets(&record) { redacted(&record)? } else { record };
    let record = if record.len() > RECORD_MAX { too_large(entry, &record)? } else { record };
    let mut line = String::with_capacity(record.len() + 256);
    let time = humantime::format_rfc3339_micros(time);
    // Writing to a String cannot fail.
    let _ = write!(line, "{{\"time\":\"{time}\",\"seq\":{seq}");
    let members =
        record.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
    if !members.is_empty() {
        line.push(',');
        line.push_str(members);
    }
    line.push_str(",\"prev\":\"");
    push_hex(&mut line, prev);
    line.push('"');
    let hash: Hash = Sha256::digest(line.as_bytes()).into();
    line.push_str(",\"hash\":\"");
    push_hex(&mut line, &hash);
    line.push_str("\"}\n");
    Ok((line.into_bytes(), hash))
}

/// Without the secrets. Done on the texts themselves, not on their JSON: what a model wrote must not be able to make a record that is none,
/// nor to hide a secret behind an escape.
fn redacted(record: &str) -> Result<String, LedgerError> {
    let mut value: Value = serde_json::from_str(record)?;
    redact_json(&mut value);
    Ok(serde_json::to_string(&value)?)
}

/// A record of the same call that says only how large the real one was: one call must not be able to fill the disk.
fn too_large(entry: &Entry, record: &str) -> Result<String, LedgerError> {
    let digest = Sha256::digest(record.as_bytes());
    let mut hex = String::new();
    push_hex(&mut hex, &digest);
    Ok(serde_json::to_string(&entry.shortened(record.len() as u64, &hex))?)
}

/// What a line says of its place in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub seq: u64,
    pub prev: Hash,
    pub hash: Hash,
    /// Whether the hash is the line's own.
    pub sound: bool,
}

/// Reads a line's link, the line without its end. `None` when it has no such form.
pub(crate) fn link(line: &[u8]) -> Option<Link> {
    let body_end = line.len().checked_sub(HASH.len() + HEX + END.len())?;
    let (body, tail) = line.split_at(body_end);
    let hash = unhex(tail.strip_prefix(HASH)?.strip_suffix(END)?)?;
    let prev_at = body.len().checked_sub(PREV.len() + HEX + 1)?;
    let (front, prev) = body.split_at(prev_at);
    let prev = unhex(prev.strip_prefix(PREV)?.strip_suffix(b"\"")?)?;
    // `{"time":"…","seq":N,`: nothing that a caller wrote stands before it.
    let rest = front.strip_prefix(b"{\"time\":\"")?;
    let quote = rest.iter().position(|byte| *byte == b'"')?;
    let rest = rest.get(quote..)?.strip_prefix(b"\",\"seq\":")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let seq = std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()?;
    let own: Hash = Sha256::digest(body).into();
    Some(Link { seq, prev, hash, sound: own == hash })
}

pub(crate) fn push_hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from(*DIGITS.get(usize::from(nibble)).unwrap_or(&b'?')));
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    push_hex(&mut text, bytes);
    text
}

fn unhex(text: &[u8]) -> Option<Hash> {
    let mut hash = NO_HASH;
    if text.len() != HEX {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(text.chunks_exact(2)) {
        // Capitals are refused: one hash has one spelling.
        if pair.iter().any(u8::is_ascii_uppercase) {
            return None;
        }
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(hash)
}
