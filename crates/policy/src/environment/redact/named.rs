//! Values that are given to a name of a secret.

use super::super::secrets;
use std::ops::Range;

/// Values after `=`, `:` or a space that follow a secret's name.
pub(super) fn named_values(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut done = 0;
    for separator in memchr::memchr3_iter(b'=', b':', b' ', text) {
        if separator < done {
            continue;
        }
        // `password = '…'`, as settings and programs write it.
        let mut ends = separator;
        if matches!(text.get(separator), Some(b'=' | b':')) {
            while ends > 0 && separator - ends < 3 && text.get(ends - 1) == Some(&b' ') {
                ends -= 1;
            }
        }
        let parted = ends < separator;
        let Some(name) = name_before(text, ends) else {
            continue;
        };
        let joined = across_lines(text, &name);
        let word = joined.as_deref().unwrap_or(text.get(name).unwrap_or_default());
        // `--password hunter2`: only an option takes its value after a space.
        let spaced = text.get(separator) == Some(&b' ');
        let is_key = word == b"KEY" && text.get(separator) == Some(&b'=');
        if (spaced && !word.starts_with(b"--")) || !(has_secret_word(word) || is_key) {
            continue;
        }
        let least = if is_password(word) { 1 } else { 3 };
        if let Some(value) = value_after(text, separator + 1, least) {
            let given = text.get(value.clone()).unwrap_or_default();
            // What is computed is no secret, and `KEY` alone names many things.
            let is_quoted = text
                .get(separator + 1..value.start)
                .is_some_and(|before| before.iter().any(|byte| matches!(byte, b'"' | b'\'')));
            if (parted && !is_quoted && (given.contains(&b'(') || !is_long_name(word)))
                || (is_key && !is_mixed(given))
            {
                continue;
            }
            done = value.end;
            found.push(value);
        }
    }
    found
}

/// Two words or more: `aws_secret_access_key`. A single one is often a program's variable.
fn is_long_name(word: &[u8]) -> bool {
    is_password(word) || word.iter().any(|byte| matches!(byte, b'_' | b'-' | b'.'))
}

/// As long as a key, with letters and digits in it.
fn is_mixed(value: &[u8]) -> bool {
    value.len() >= 8
        && value.iter().any(u8::is_ascii_digit)
        && value.iter().any(u8::is_ascii_alphabetic)
}

/// A name that a backslash at a line's end parts in two, put together.
fn across_lines(text: &[u8], name: &Range<usize>) -> Option<Vec<u8>> {
    let mut end = name.start;
    while end > 0 && matches!(text.get(end - 1), Some(b'\\' | b'\n')) {
        end -= 1;
    }
    let between = text.get(end..name.start)?;
    if !(between.contains(&b'\\') && between.ends_with(b"\n")) {
        return None;
    }
    let first = name_before(text, end)?;
    Some([text.get(first)?, text.get(name.clone())?].concat())
}

/// Cheap, since it is asked at every `=`, `:` and space: `PWD=` and `key: value` are ordinary here, so the name must have two words
/// or be a password's own.
pub(super) fn has_secret_word(word: &[u8]) -> bool {
    let plain: &[u8] = match word {
        [b'-', b'-', rest @ ..] | [b'-', rest @ ..] => rest,
        other => other,
    };
    plain.len() >= 4
        && plain.len() <= 64
        && !matches!(plain, b"auth" | b"keys" | b"pass" | b"cred")
        && secrets::is_secret_name(plain)
}

/// The name that ends before a separator, a closing quote between them allowed.
fn name_before(text: &[u8], separator: usize) -> Option<Range<usize>> {
    let mut end = separator;
    while end > 0 && matches!(text.get(end - 1), Some(b'"' | b'\\' | b'\'')) {
        end -= 1;
    }
    // `NAME+=…`, `NAME[0]=…`.
    if end > 0 && text.get(end - 1) == Some(&b'+') {
        end -= 1;
    }
    if end > 0 && text.get(end - 1) == Some(&b']') {
        let open = text.get(..end)?.iter().rposition(|byte| *byte == b'[')?;
        end = if end - open < 32 { open } else { end };
    }
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let mut start = end;
    while start > 0 && text.get(start - 1).is_some_and(inside) {
        start -= 1;
    }
    (start < end).then_some(start..end)
}

/// The value that begins here, white space and quotes before it left out.
pub(super) fn value_after(text: &[u8], from: usize, least: usize) -> Option<Range<usize>> {
    let mut start = from;
    // `$'…'` is a text like any other.
    if text.get(start) == Some(&b'$') && matches!(text.get(start + 1), Some(b'\'' | b'"')) {
        start += 1;
    }
    while text.get(start).is_some_and(|byte| matches!(byte, b' ' | b'"' | b'\\' | b'\'')) {
        start += 1;
    }
    // `"token":12.5` in JSON is no text, and text in its place would be no JSON.
    let quote = |at: Option<&u8>| matches!(at, Some(b'"'));
    if from >= 2
        && quote(text.get(from - 2))
        && !quote(start.checked_sub(1).and_then(|at| text.get(at)))
    {
        return None;
    }
    for scheme in [&b"bearer"[..], b"basic", b"token", b"digest", b"apikey"] {
        let word = text.get(start..start + scheme.len());
        let behind = start + scheme.len();
        if word.is_some_and(|word| word.eq_ignore_ascii_case(scheme))
            && matches!(text.get(behind), Some(b' ' | b'\\'))
        {
            start = behind;
            while matches!(text.get(start), Some(b' ' | b'\\')) {
                start += 1;
            }
        }
    }
    let ends = |byte: &u8| {
        matches!(
            byte,
            b' ' | b'"'
                | b'\\'
                | b'\''
                | b'&'
                | b';'
                | b','
                | b'|'
                | b')'
                | b'}'
                | b']'
                | b'>'
                | b'<'
        ) || byte.is_ascii_whitespace()
    };
    let length = match quoted(text, start) {
        Some(length) => length,
        None => text.get(start..)?.iter().position(ends).unwrap_or(text.len() - start),
    };
    let value = text.get(start..start + length)?;
    let tells =
        value.len() >= least && (is_telling(value) || (least < 3 && is_short_or_number(value)));
    tells.then_some(start..start + length)
}

/// How long a value is that a quote opens just before it: up to the quote that closes it, with white space and escapes in between.
fn quoted(text: &[u8], start: usize) -> Option<usize> {
    let quote = text.get(start.checked_sub(1)?).filter(|byte| matches!(byte, b'"' | b'\''))?;
    if start.checked_sub(2).and_then(|before| text.get(before)) == Some(&b'\\') {
        return None;
    }
    let mut escaped = false;
    text.get(start..)?.iter().take(512).position(|byte| {
        let closes = byte == quote && !escaped;
        escaped = *byte == b'\\' && !escaped;
        closes
    })
}

/// Whether a name is that of a password: a short one, or one of digits, is one too.
fn is_password(name: &[u8]) -> bool {
    let name = name.to_ascii_uppercase();
    ["PASSWORD", "PASSWD", "PASSPHRASE", "PASSCODE", "_PWD"]
        .iter()
        .any(|end| name.ends_with(end.as_bytes()))
}

fn is_short_or_number(value: &[u8]) -> bool {
    !value.is_empty()
        && !matches!(value.first(), Some(b'$' | b'[' | b'{' | b'-' | b'=' | b':'))
        && !matches!(value, b"null" | b"true" | b"false")
}

/// What is empty, a variable, a number or a word of JSON tells nothing.
pub(super) fn is_telling(value: &[u8]) -> bool {
    value.len() >= 3
        && !matches!(value.first(), Some(b'$' | b'[' | b'{' | b'-' | b'='))
        && !matches!(value, b"null" | b"true" | b"false")
        && !value.iter().all(u8::is_ascii_digit)
}
