//! Secrets in text that is kept: what the ledger and exports write is cleaned by the same shapes that clean an environment.

mod named;
mod options;

use super::secrets;
use named::{has_secret_word, is_telling, named_values};
use options::option_values;
use serde_json::Value;
use std::borrow::Cow;
use std::ops::Range;

/// What stands where a secret was.
pub const REDACTED: &str = "[redacted]";

/// The text with every secret that it shows replaced by [`REDACTED`]: what is shaped like one, and the value that is given to a
/// name of one (`API_KEY=…`, `"password":"…"`, `--token …`). Not for the text of a JSON document, whose escapes it would tear and be
/// misled by: [`redact_json`].
///
/// It errs on the side of replacing. A secret that looks like any other word, and is not given to a name of one, stays.
pub fn redact(text: &str) -> Cow<'_, str> {
    replaced(text, spans(text))
}

/// Where a text shows secrets, in order.
fn spans(text: &str) -> Vec<Range<usize>> {
    let mut spans = secrets::value_spans(text.as_bytes());
    spans.extend(named_values(text.as_bytes()));
    spans.extend(option_values(text.as_bytes()));
    spans.sort_by_key(|span| span.start);
    spans
}

fn replaced(text: &str, spans: Vec<Range<usize>>) -> Cow<'_, str> {
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut done = 0;
    for span in spans {
        if span.end <= done {
            continue;
        }
        // Every span begins and ends beside ASCII, so these cuts fall on characters' borders; one that did not is left out.
        if span.start >= done {
            clean.push_str(text.get(done..span.start).unwrap_or_default());
            clean.push_str(REDACTED);
        }
        done = span.end;
    }
    clean.push_str(text.get(done..).unwrap_or_default());
    Cow::Owned(clean)
}

/// The same for every text in a JSON value, and for the values of members whose name is a secret's. Its shape stays.
pub fn redact_json(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(clean) = redact(text) {
                *text = clean;
            }
        }
        Value::Array(items) => {
            redact_words(items);
            items.iter_mut().for_each(redact_json);
        }
        Value::Object(members) => {
            for (name, member) in std::mem::take(members) {
                let mut member = member;
                match &mut member {
                    Value::String(text)
                        if has_secret_word(name.as_bytes()) && is_telling(text.as_bytes()) =>
                    {
                        *text = REDACTED.to_owned();
                    }
                    other => redact_json(other),
                }
                members.insert(redact(&name).into_owned(), member);
            }
        }
        _ => {}
    }
}

/// The words of an argv: an option's value is the next one.
fn redact_words(items: &mut [Value]) {
    let words: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
    if words.len() < 2 || words.len() < items.len() {
        return;
    }
    let line = words.join(" ");
    let found = spans(&line);
    if found.is_empty() {
        return;
    }
    let mut begin = 0;
    for item in items {
        let Value::String(text) = item else { return };
        let end = begin + text.len();
        let within = found
            .iter()
            .filter(|span| span.start < end && span.end > begin)
            .map(|span| span.start.max(begin) - begin..span.end.min(end) - begin)
            .collect();
        if let Cow::Owned(clean) = replaced(text, within) {
            *text = clean;
        }
        begin = end + 1;
    }
}

/// Whether [`redact_json`] may have to change something in this JSON text. It looks at the text alone, which is cheap; a yes may be wrong,
/// a no is not.
pub fn may_show_secrets(json: &str) -> bool {
    let mut plain = Cow::Borrowed(json.as_bytes());
    let mut at = 0;
    // An escape ends a word, though it ends with a letter: in `\nghp_…` a token begins at the `g`.
    while let Some(found) = plain.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        at += found;
        let (length, stands_for) = match plain.get(at + 1) {
            Some(b'"' | b'\\' | b'/') | None => {
                at += 2;
                continue;
            }
            Some(b'n' | b'r' | b't' | b'f') => (2, b'\n'),
            Some(b'u') => (6, 1),
            Some(_) => (2, 1),
        };
        let end = (at + length).min(plain.len());
        if let Some(escape) = plain.to_mut().get_mut(at..end) {
            escape.fill(stands_for);
        }
        at = end;
    }
    // The words of an argv, as a line would have them.
    let parted: Vec<usize> = memchr::memmem::find_iter(&plain, b"\",\"").collect();
    for at in parted {
        if let Some(between) = plain.to_mut().get_mut(at..at + 3) {
            between.fill(b' ');
        }
    }
    !secrets::value_spans(&plain).is_empty()
        || !named_values(&plain).is_empty()
        || !option_values(&plain).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> String {
        format!("ghp_{}", "aB3dE6gH9jK2mN5pQ8aB3dE6gH9jK2mN5pQ8")
    }

    // spec 9.2
    #[test]
    fn secrets_are_replaced_wherever_they_stand_and_nothing_else_is() {
        let token = token();
        for (text, clean) in [
            (format!("curl -H 'X: {token}' x"), "curl -H 'X: [redacted]' x".to_owned()),
            (format!("a {token} b {token}"), "a [redacted] b [redacted]".into()),
            (
                "git clone https://me:hunter2@host/x.git".into(),
                "git clone https://me:[redacted]@host/x.git".into(),
            ),
            ("API_KEY=abc123 run".into(), "API_KEY=[redacted] run".into()),
            (
                r#"{"env":{"db_password":"hunter2"},"x":1}"#.into(),
                r#"{"env":{"db_password":"[redacted]"},"x":1}"#.into(),
            ),
            (
                r#"{"command":"export AWS_SECRET_ACCESS_KEY=\"abc/def\" && ls"}"#.into(),
                r#"{"command":"export AWS_SECRET_ACCESS_KEY=\"[redacted]\" && ls"}"#.into(),
            ),
            ("mysql -u root -phunter2 -e x".into(), "mysql -u root -p[redacted] -e x".into()),
            ("mysqldump -p'hunter2' db".into(), "mysqldump -p'[redacted]' db".into()),
            ("curl -s -u me:hunter2 h".into(), "curl -s -u me:[redacted] h".into()),
            ("curl -ume:hunter2 h".into(), "curl -ume:[redacted] h".into()),
            ("curl --user=me:hunter2 h".into(), "curl --user=me:[redacted] h".into()),
            (
                "curl --proxy-user \"me:hunter2\" h".into(),
                "curl --proxy-user \"me:[redacted]\" h".into(),
            ),
            ("sshpass -p hunter2 ssh h".into(), "sshpass -p [redacted] ssh h".into()),
            ("sshpass -phunter2 ssh h".into(), "sshpass -p[redacted] ssh h".into()),
            (
                "echo x | /usr/bin/redis-cli -a hunter2 get".into(),
                "echo x | /usr/bin/redis-cli -a [redacted] get".into(),
            ),
            ("docker login -u me -p hunter2".into(), "docker login -u me -p [redacted]".into()),
            (
                "openssl enc -passin pass:hunter2".into(),
                "openssl enc -passin pass:[redacted]".into(),
            ),
            ("smbclient -U me%hunter2 //h/x".into(), "smbclient -U me%[redacted] //h/x".into()),
            (
                "x --password=12345 --token=ab1".into(),
                "x --password=[redacted] --token=[redacted]".into(),
            ),
            ("PASSWORD+=x".into(), "PASSWORD+=[redacted]".into()),
            ("PASSWD=$'hun\\x74er2'".into(), "PASSWD=$'[redacted]'".into()),
            ("PASSWORD=\"hunter two\" ls".into(), "PASSWORD=\"[redacted]\" ls".into()),
            ("PASSWORD[0]=hunter2".into(), "PASSWORD[0]=[redacted]".into()),
            ("aws_secret_access_key = abC3/xx".into(), "aws_secret_access_key = [redacted]".into()),
            ("let password = 'hunter2';".into(), "let password = '[redacted]';".into()),
            ("db_password : hunter2".into(), "db_password : [redacted]".into()),
            ("curl -b 'sid=abC3dE' h".into(), "curl -b 'sid=[redacted]' h".into()),
            ("curl --cookie sid=abC3dE h".into(), "curl --cookie [redacted] h".into()),
            (
                "echo hunter2 | docker login -u me --password-stdin".into(),
                "echo [redacted] | docker login -u me --password-stdin".into(),
            ),
            (
                "printf '%s' \"hunter2\" | gh auth login --with-token".into(),
                "printf '%s' \"[redacted]\" | gh auth login --with-token".into(),
            ),
            (
                "docker login --password-stdin <<< hunter2".into(),
                "docker login --password-stdin <<< [redacted]".into(),
            ),
            ("echo hunter2 | sudo -S ls".into(), "echo [redacted] | sudo -S ls".into()),
            ("echo me:hunter2 | chpasswd".into(), "echo [redacted] | chpasswd".into()),
            ("htpasswd -b f me hunter2".into(), "htpasswd -b f me [redacted]".into()),
            ("htpasswd -nbB me hunter2".into(), "htpasswd -nbB me [redacted]".into()),
            ("openssl passwd -6 hunter2".into(), "openssl passwd -6 [redacted]".into()),
            (
                "curl -H Authorization:\\ Basic\\ czNjcjN0 h".into(),
                "curl -H Authorization:\\ Basic\\ [redacted] h".into(),
            ),
            ("export PASS\\\nWORD=hunter2".into(), "export PASS\\\nWORD=[redacted]".into()),
            ("export KEY=abC3dE6gH9".into(), "export KEY=[redacted]".into()),
            (
                "npm config set //r/:_authToken hunter2".into(),
                "npm config set //r/:_authToken [redacted]".into(),
            ),
            ("mysql --password hunter2 -e x".into(), "mysql --password [redacted] -e x".into()),
            (
                "curl -H \"Authorization: Bearer abcdef\"".into(),
                "curl -H \"Authorization: Bearer [redacted]\"".into(),
            ),
            (
                "-----BEGIN RSA PRIVATE KEY-----\\nMIIE\\nab\\n-----END RSA PRIVATE KEY-----\\n"
                    .into(),
                "[redacted]\\n".into(),
            ),
            (
                r#"{"a":"-----BEGIN PRIVATE KEY-----\nMIIE","b":2}"#.into(),
                r#"{"a":"[redacted]","b":2}"#.into(),
            ),
        ] {
            assert_eq!(redact(&text), clean);
            let json = serde_json::json!({ "command": text }).to_string();
            assert!(may_show_secrets(&json), "{json}");
        }
    }

    // spec 9.2: a record is one whatever stands in it
    #[test]
    fn what_is_redacted_in_json_stays_json_and_no_escape_hides_a_secret() {
        use serde_json::json;
        let token = token();
        for text in [
            "TOKEN=\necho hi there".to_owned(),
            "API_KEY=\u{1}abcdef ls".into(),
            "-----BEGIN PRIVATE KEY----- \" x; echo \"".into(),
            format!("cat > f <<E\n{token}\nE"),
            format!("x\t{token}"),
            format!("\u{1b}{token}\\"),
            format!("\\n{token}"),
            "PASSWORD=\"a b\\\" c\"".into(),
            "https://u:p\\@h/".into(),
        ] {
            let mut value = json!({"command": text, "more": [{"note": text}]});
            let json = value.to_string();
            assert!(may_show_secrets(&json) || redact(&text) == text, "{json}");
            redact_json(&mut value);
            let clean = value["command"].as_str().unwrap();
            assert_eq!(clean, redact(&text));
            assert!(!value.to_string().contains(&token), "{value}");
        }
        let mut value = json!({"api_token": "abc\"def", "n": {"password": 5, "x": "y"}});
        redact_json(&mut value);
        assert_eq!(value, json!({"api_token": "[redacted]", "n": {"password": 5, "x": "y"}}));
        for (argv, clean) in [
            (json!(["mysql", "-phunter2"]), json!(["mysql", "-p[redacted]"])),
            (json!(["curl", "-u", "me:hunter2", "h"]), json!(["curl", "-u", "me:[redacted]", "h"])),
            (json!(["x", "--token", "hunter2"]), json!(["x", "--token", "[redacted]"])),
            (json!(["sshpass", "-p", "hun ter2"]), json!(["sshpass", "-p", "[redacted] ter2"])),
        ] {
            let mut value = json!({ "argv": argv });
            assert!(may_show_secrets(&value.to_string()), "{value}");
            redact_json(&mut value);
            assert_eq!(value["argv"], clean);
        }
        assert!(!may_show_secrets(r#"{"command":"ls -la\nkey: value\u0041"}"#));
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        for text in [
            "",
            "ls -la /usr/bin && echo done",
            r#"{"file_path":"/w/src/key.rs","old_string":"let token = next();"}"#,
            "PWD=/w make",
            "https://user@example.org/a:b",
            "grep -n 'pass' x",
            "ä = ö: ü",
            "let api_key = read_key();",
            "KEY=value sort -k 2",
            "if token == next { a = b }",
            "curl -b cookies.txt h",
            "echo done | docker build --stdin",
            "openssl passwd",
            "--keep-tokens 5",
            "mkdir -p a/b; cp -p x y | mysql -h host -u root -p",
            "curl -u me https://h/a:b",
            "docker run -p 80:80 -u 1000:1000 x",
            "ps -u root; id -u; sort -u f",
            r#"{"token_share":12.5,"a_token":-1e5,"secret_list":["a"]}"#,
        ] {
            assert_eq!(redact(text), text);
        }
    }
}
