//! Secrets that an option's own name does not tell of: one has to know the program.

use super::named::value_after;
use std::ops::Range;

/// Programs with an option of one letter whose value is a secret, a line each: the letters whose value may stand in the same word alone, those whose
/// value may be the next one, and those of which only what follows a `:` (or `%`, or `,`) is secret.
const PROGRAMS: &str = "\
mysql|p||
mysqldump|p||
mysqladmin|p||
mysqlimport|p||
mariadb|p||
mariadb-dump|p||
sshpass||p|
curl|||uU
http|||a
https|||a
lftp|||u
smbclient|||U
redis-cli||a|
mongo||p|
mongosh||p|
mongodump||p|
login||p|
ldapsearch||w|
ldapmodify||w|
ldapadd||w|
zip||P|
unzip||P|
7z|p||
7za|p||
sqlcmd||P|
openssl||k|
xfreerdp||p|
ipmitool||P|
";

/// One line of [`PROGRAMS`].
#[derive(Clone, Copy)]
struct Program<'a> {
    name: &'a str,
    attached: &'a str,
    either: &'a str,
    pair: &'a str,
}

/// Values of options that say nothing by their name: `mysql -pX`, `curl -u user:X`, `sshpass -p X`, `-passin pass:X`.
pub fn option_values(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = positional(text);
    for at in memchr::memchr_iter(b'-', text) {
        let begins = at.checked_sub(1).and_then(|before| text.get(before));
        if !begins
            .is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'\x01'))
        {
            continue;
        }
        let Some(letter) = text.get(at + 1).copied() else { continue };
        let rest = text.get(at..).unwrap_or_default();
        let long = [&b"--user"[..], b"--proxy-user"].into_iter().find(|long| {
            rest.starts_with(long) && matches!(rest.get(long.len()), Some(b' ' | b'='))
        });
        let cookie = [&b"--cookie="[..], b"--cookie ", b"-b "]
            .into_iter()
            .find(|option| rest.starts_with(option));
        if let Some(option) = cookie
            && programs_before(text, at).iter().any(|program| program.name == "curl")
        {
            let value = value_after(text, at + option.len(), 1);
            found.extend(value.and_then(|value| {
                let named = text.get(value.clone())?.iter().position(|byte| *byte == b'=')?;
                Some(value.start + named + 1..value.end).filter(|value| !value.is_empty())
            }));
            continue;
        }
        let pass = [&b"-passin"[..], b"-passout", b"-pass"]
            .into_iter()
            .find(|option| rest.starts_with(option));
        if letter != b'-' && !letter.is_ascii_alphabetic() || (letter == b'-' && long.is_none()) {
            continue;
        }
        let programs = programs_before(text, at);
        if let Some(long) = long
            && programs.iter().any(|program| program.name == "curl")
        {
            found.extend(
                value_after(text, at + long.len() + 1, 1)
                    .and_then(|value| behind_colon(text, value)),
            );
            continue;
        }
        if let Some(option) = pass
            && programs.iter().any(|program| program.name == "openssl")
        {
            let value = value_after(text, at + option.len(), 1);
            found.extend(value.and_then(|value| behind_colon(text, value)));
            continue;
        }
        let letter = char::from(letter);
        for Program { attached, either, pair, .. } in programs {
            let behind = text.get(at + 2).copied();
            let is_attached = behind.is_some_and(|byte| !byte.is_ascii_whitespace());
            let from = if is_attached { at + 2 } else { at + 3 };
            if (attached.contains(letter) && is_attached) || either.contains(letter) {
                found.extend(value_after(text, from, 1));
            } else if pair.contains(letter) {
                found
                    .extend(value_after(text, from, 1).and_then(|value| behind_colon(text, value)));
            }
        }
    }
    found
}

/// Commands that read a secret from their input, or have it among their words.
const FROM_INPUT: [&[u8]; 7] = [
    b"--password-stdin",
    b"--passphrase-fd 0",
    b"--with-token",
    b"--stdin-password",
    b"sudo -S",
    b"chpasswd",
    b"passwd --stdin",
];
const LAST_WORD: [(&[u8], bool); 4] = [
    (b"htpasswd -", true),
    (b"openssl passwd", false),
    (b":_authToken ", false),
    (b":_password ", false),
];

/// Secrets that are words of a command, or what is piped into it.
fn positional(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let is_end = |byte: &u8| matches!(byte, b'|' | b';' | b'&' | b'\n');
    for reader in FROM_INPUT {
        for at in memchr::memmem::find_iter(text, reader) {
            let rest = text.get(at..).unwrap_or_default();
            if let Some(behind) =
                memchr::memmem::find(rest.split(is_end).next().unwrap_or_default(), b"<<<")
            {
                found.extend(value_after(text, at + behind + 3, 1));
            }
            let before = text.get(..at).unwrap_or_default();
            let Some(pipe) = before.iter().rposition(|byte| *byte == b'|') else { continue };
            let writes = before.get(..pipe).unwrap_or_default();
            let begins = writes.iter().rposition(is_end).map_or(0, |end| end + 1);
            let command = writes.get(begins..).unwrap_or_default();
            let echo = [&b"echo "[..], b"printf "]
                .iter()
                .any(|name| memchr::memmem::find(command, name).is_some());
            if echo {
                found.extend(last_word(text, begins..pipe));
            }
        }
    }
    for (command, wants_batch) in LAST_WORD {
        for at in memchr::memmem::find_iter(text, command) {
            let from = at + command.len();
            let rest = text.get(from..).unwrap_or_default();
            let length = rest.iter().position(is_end).unwrap_or(rest.len());
            let options = rest.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            if wants_batch && !options.contains(&b'b') {
                continue;
            }
            let begins = if wants_batch { from + options.len() } else { from };
            found.extend(last_word(text, begins..from + length));
        }
    }
    found
}

/// The last word of a part of a text that is no option, without its quotes.
fn last_word(text: &[u8], part: Range<usize>) -> Option<Range<usize>> {
    let is_edge = |byte: &u8| {
        byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'\\' | b'}' | b']' | b',')
    };
    let inside = text.get(part.clone())?;
    let end = inside.iter().rposition(|byte| !is_edge(byte))? + 1;
    let start = inside.get(..end)?.iter().rposition(is_edge).map_or(0, |edge| edge + 1);
    let word = inside.get(start..end)?;
    let tells = !matches!(word.first(), Some(b'-' | b'$' | b'<' | b'('));
    tells.then_some(part.start + start..part.start + end)
}

fn behind_colon(text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
    let colon =
        text.get(value.clone())?.iter().position(|byte| matches!(byte, b':' | b'%' | b','))?;
    let start = value.start + colon + 1;
    // The value may have been cut at a comma.
    let value = value_after(text, start, 1)?;
    (value.start == start).then_some(value)
}

/// The programs of [`PROGRAMS`] that are named before, in the same command.
fn programs_before(text: &[u8], at: usize) -> Vec<Program<'static>> {
    let from = at.saturating_sub(512);
    let before = text.get(from..at).unwrap_or_default();
    let ends = |byte: &u8| matches!(byte, b'|' | b';' | b'&' | b'(' | b'`' | b'\n');
    let before = before.rsplit(ends).next().unwrap_or_default();
    let parts = |byte: &u8| {
        byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'/' | b':' | b'\x01')
    };
    let words: Vec<&[u8]> = before.split(parts).collect();
    let programs = PROGRAMS.lines().filter_map(|line| {
        let mut parts = line.split('|');
        let name = parts.next().filter(|name| words.contains(&name.as_bytes()))?;
        Some(Program { name, attached: parts.next()?, either: parts.next()?, pair: parts.next()? })
    });
    programs.collect()
}
