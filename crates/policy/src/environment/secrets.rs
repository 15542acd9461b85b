//! What looks like a secret, by its name or by the shape of its value. Both err on the side of removing: a variable that
//! is missed can be set on purpose, one that leaked cannot be called back.
use std::ops::Range;

/// A word of a name that ends in one of these is a secret's: `GITHUB_TOKEN`, `DBPASSWORD`, `tokens`.
const ENDINGS: &[&str] = &[
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PASSCODE",
    "CREDENTIAL",
    "APIKEY",
    "ACCESSKEY",
    "PRIVATEKEY",
    "SECRETKEY",
    "OAUTH",
    "AUTHORIZATION",
    "KEYTAB",
];

/// Words that are a secret's only as a whole: `COMPASS`, `MONKEY` and `GIT_AUTHOR_NAME` are not meant.
const WORDS: &[&str] = &[
    "AUTH", "PASS", "PWD", "CRED", "CREDS", "KEY", "KEYS", "JWT", "BEARER", "COOKIE", "COOKIES",
    "PAT", "DSN", "NETRC", "PSK",
];

/// Names that only look like one.
const HARMLESS: &[&[u8]] = &[b"PWD", b"OLDPWD"];

/// Whether a variable of this name holds a secret (spec 5.6).
pub(super) fn is_secret_name(name: &[u8]) -> bool {
    !HARMLESS.contains(&name) && words(name).any(is_secret_word)
}

fn is_secret_word(word: &[u8]) -> bool {
    let singular = match word {
        [singular @ .., b'S' | b's'] => singular,
        other => other,
    };
    let ends_with = |ending: &&str| {
        let from = singular.len().checked_sub(ending.len());
        from.and_then(|from| singular.get(from..))
            .is_some_and(|end| end.eq_ignore_ascii_case(ending.as_bytes()))
    };
    WORDS.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
        || ENDINGS.iter().any(ends_with)
}

/// The words of a name: parted by anything but letters and digits, and where small letters end (`githubToken`). Nothing is copied:
/// the ledger asks at every name that stands in a record.
fn words(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.split(|byte| !byte.is_ascii_alphanumeric()).flat_map(|part| {
        part.chunk_by(|before, next| !(before.is_ascii_lowercase() && next.is_ascii_uppercase()))
    })
}

/// A token as its issuer makes it: a prefix, then at least this many characters of its alphabet.
struct Shape {
    prefix: &'static [u8],
    least: usize,
    alphabet: fn(u8) -> bool,
    /// Whether what follows must mix small letters, capitals or digits as random text does: for prefixes so short that
    /// words begin with them.
    random: bool,
}

const fn shape(prefix: &'static str, least: usize, alphabet: fn(u8) -> bool) -> Shape {
    Shape { prefix: prefix.as_bytes(), least, alphabet, random: false }
}

const fn random(prefix: &'static str, least: usize, alphabet: fn(u8) -> bool) -> Shape {
    Shape { prefix: prefix.as_bytes(), least, alphabet, random: true }
}

fn capital(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn base62(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

fn dotted(byte: u8) -> bool {
    base64url(byte) || byte == b'.'
}

const SHAPES: &[Shape] = &[
    shape("AKIA", 16, capital),
    shape("ASIA", 16, capital),
    shape("ghp_", 20, base62),
    shape("gho_", 20, base62),
    shape("ghu_", 20, base62),
    shape("ghs_", 20, base62),
    shape("ghr_", 20, base62),
    shape("github_pat_", 20, base64url),
    shape("glpat-", 16, base64url),
    shape("gldt-", 16, base64url),
    random("sk-", 16, base64url),
    shape("sk_live_", 16, base62),
    shape("sk_test_", 16, base62),
    shape("rk_live_", 16, base62),
    shape("whsec_", 16, base64url),
    shape("xoxa-", 8, base64url),
    shape("xoxb-", 8, base64url),
    shape("xoxc-", 8, base64url),
    shape("xoxd-", 8, base64url),
    shape("xoxe-", 8, base64url),
    shape("xoxe.", 8, dotted),
    shape("xoxo-", 8, base64url),
    shape("xoxp-", 8, base64url),
    shape("xoxr-", 8, base64url),
    shape("xoxs-", 8, base64url),
    shape("xapp-", 8, base64url),
    shape("npm_", 30, base62),
    shape("pypi-", 50, base64url),
    random("hf_", 30, base62),
    shape("AIza", 30, base64url),
    shape("ya29.", 20, dotted),
    shape("dop_v1_", 32, base62),
    shape("hvs.", 20, base64url),
    shape("SG.", 30, dotted),
    shape("AGE-SECRET-KEY-1", 20, capital),
];

/// Whether a value holds what is shaped like a secret, anywhere in it (spec 5.6).
pub(super) fn is_secret_value(value: &[u8]) -> bool {
    !value_spans(value).is_empty()
}

/// Where a value holds what is shaped like a secret. Spans may overlap, and are in no order.
pub(super) fn value_spans(value: &[u8]) -> Vec<Range<usize>> {
    let mut spans = private_keys(value);
    spans.extend(url_passwords(value));
    let mut inside = false;
    for (at, byte) in value.iter().enumerate() {
        let begins = !inside && BEGINS_SHAPE.get(usize::from(*byte)) == Some(&true);
        // What a backslash stands before is an escape, in a shell's text and in JSON's: `\nghp_…`.
        let escaped = at.checked_sub(1).and_then(|before| value.get(before)) == Some(&b'\\');
        inside = byte.is_ascii_alphanumeric() && !escaped;
        // Few bytes begin a shape, so most words cost one look at a table.
        if !begins {
            continue;
        }
        let word = value.get(at..).unwrap_or_default();
        let length = web_token(word).or_else(|| SHAPES.iter().find_map(|shape| shape.fits(word)));
        if let Some(length) = length {
            spans.push(at..at + length);
        }
    }
    spans
}

/// The bytes that a shape's prefix, or a web token, begins with.
static BEGINS_SHAPE: [bool; 256] = {
    let mut begins = [false; 256];
    let mut at = 0;
    while at < SHAPES.len() {
        begins[SHAPES[at].prefix[0] as usize] = true;
        at += 1;
    }
    begins[b'e' as usize] = true;
    begins
};

impl Shape {
    /// The length of the secret that begins here.
    fn fits(&self, word: &[u8]) -> Option<usize> {
        // Most words differ in the second byte already.
        if word.get(1) != self.prefix.get(1) {
            return None;
        }
        let rest = word.strip_prefix(self.prefix)?;
        let body = rest.iter().take_while(|byte| (self.alphabet)(**byte));
        let has = |kind: fn(&u8) -> bool| body.clone().any(kind);
        let length = body.clone().count();
        let fits = length >= self.least
            && (!self.random
                || (has(u8::is_ascii_digit)
                    && (has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase))));
        fits.then_some(self.prefix.len() + length)
    }
}

/// A JSON web token: three parts of base64url, the first one beginning as `{"` does. Its length.
fn web_token(word: &[u8]) -> Option<usize> {
    if !word.starts_with(b"eyJ") {
        return None;
    }
    let token = word.split(|byte| !dotted(*byte)).next().unwrap_or(&[]);
    let parts: Vec<usize> = token.split(|byte| *byte == b'.').map(<[u8]>::len).collect();
    matches!(parts.as_slice(), [header, payload, _, ..] if *header >= 10 && *payload >= 4)
        .then_some(token.len())
}

/// From a key's first line to its last; to the end of the text, or of the JSON string that it stands in, where there is no last
/// line.
fn private_keys(value: &[u8]) -> Vec<Range<usize>> {
    let mut keys = Vec::new();
    let mut rest = value;
    while let Some(after) = find(rest, b"-----BEGIN ") {
        let start = value.len() - after.len() - b"-----BEGIN ".len();
        let label = after.split(|byte| *byte == b'-').next().unwrap_or(&[]);
        if find(label, b"PRIVATE KEY").is_some() {
            let end = match find(after, b"-----END ").and_then(|last| find(last, b"-----")) {
                Some(beyond) => value.len() - beyond.len(),
                None => {
                    let string = after.iter().position(|byte| *byte == b'"');
                    string.map_or(value.len(), |quote| value.len() - after.len() + quote)
                }
            };
            keys.push(start..end);
        }
        rest = after;
    }
    keys
}

/// The password of `scheme://user:password@host`; `scheme://token@host` is not told from a plain user's name and stays.
fn url_passwords(value: &[u8]) -> Vec<Range<usize>> {
    let mut passwords = Vec::new();
    let mut rest = value;
    while let Some(after) = find(rest, b"://") {
        let base = value.len() - after.len();
        let authority = after
            .split(|byte| matches!(byte, b'/' | b'?' | b'#' | b' ' | b'\n' | b'"' | b'\''))
            .next()
            .unwrap_or(&[]);
        if let Some(at) = authority.iter().rposition(|byte| *byte == b'@') {
            let user = authority.get(..at).unwrap_or(&[]);
            if let Some(colon) = user.iter().position(|byte| *byte == b':')
                && colon + 1 < user.len()
            {
                passwords.push(base + colon + 1..base + at);
            }
        }
        rest = after;
    }
    passwords
}

/// What follows the first place where `needle` is.
fn find<'a>(haystack: &'a [u8], needle: &[u8]) -> Option<&'a [u8]> {
    let at = memchr::memmem::find(haystack, needle)?;
    haystack.get(at + needle.len()..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_the_words_of_their_name() {
        // spec 5.6
        for name in [
            "GITHUB_TOKEN",
            "NPM_TOKENS",
            "githubToken",
            "CLIENT_SECRET",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_ACCESS_KEY_ID",
            "PGPASSWORD",
            "MYSQL_PWD",
            "DB_PASSWD",
            "db.password",
            "API_KEY",
            "OPENAI_APIKEY",
            "SSH_PRIVATE_KEY",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "HTTP_AUTH",
            "AUTH",
            "MY_PASS",
            "SESSION_COOKIE",
            "SENTRY_DSN",
            "GITHUB_PAT",
            "X-Auth-Token",
            "KEY",
        ] {
            assert!(is_secret_name(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn ordinary_names_are_not_taken_for_secrets() {
        for name in [
            "PATH",
            "PWD",
            "OLDPWD",
            "HOME",
            "GIT_AUTHOR_NAME",
            "TOKENIZERS_PARALLELISM",
            "COMPASS_DIR",
            "MONKEY",
            "KEYBOARD",
            "LC_ALL",
            "SSL_CERT_FILE",
            "TERM",
            "PATTERN",
            "BYPASS",
            "AUTHORS",
        ] {
            assert!(!is_secret_name(name.as_bytes()), "{name}");
        }
    }

    // The examples are put together here so that no secret scanner takes this file for a leak.
    fn body(length: usize) -> String {
        "aB3dE6gH9jK2mN5pQ8".chars().cycle().take(length).collect()
    }

    #[test]
    fn secrets_are_known_by_the_shape_of_their_value() {
        // spec 5.6
        let token = format!("eyJ{}.eyJ{}.{}", body(20), body(30), body(40));
        for value in [
            format!("AKIA{}", "ABCDEFGH23456789"),
            format!("ghp_{}", body(36)),
            format!("gho_{}", body(36)),
            format!("github_pat_{}", body(60)),
            format!("sk-{}", body(40)),
            format!("sk-proj-{}", body(40)),
            format!("xoxb-{}", "123456789012-abcdef"),
            format!("npm_{}", body(36)),
            format!("-----BEGIN {} KEY-----\nMIIE", "RSA PRIVATE"),
            format!("-----BEGIN {} KEY-----", "PRIVATE"),
            token.clone(),
            format!("Authorization: Bearer {token}"),
            format!("--header=x:ghp_{}", body(36)),
            "postgres://app:hunter2@db.example/x".into(),
            "http://proxy https://u:p@proxy.example:3128".into(),
            "redis://:p@localhost".into(),
        ] {
            assert!(is_secret_value(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn ordinary_values_are_not_taken_for_secrets() {
        for value in [
            "",
            "/usr/bin:/bin",
            "/home/u/sk-learn-environment-for-tests/bin",
            "xterm-256color",
            "https://example.org/a:b@c",
            "https://user@example.org/",
            "ssh://git@example.org:22/x",
            "a@b:c",
            "http://",
            "://@",
            "eyJ",
            "eyJhbGciOiJIUzI1NiJ9",
            "AKIA",
            "ghp_short",
            "-----BEGIN CERTIFICATE-----",
            "-----BEGIN PUBLIC KEY-----",
            "C.UTF-8",
            "https://u:@h/",
            "task-AKIAABCDEFGH2345",
            "Europe/Berlin",
        ] {
            assert!(!is_secret_value(value.as_bytes()), "{value}");
        }
    }
}
