//! ArcSight's Common Event Format, version 0.

use super::{Address, PRODUCT, VENDOR, milliseconds, severity};
use crate::audit::record::Record;
use serde_json::Value;

/// The line: seven fields, then key=value pairs.
pub fn line(record: &Record) -> String {
    let name = record.kind().replace('_', " ");
    // CEF counts to 10.
    let severity = match severity(record) {
        1 => 1,
        2 => 3,
        3 => 6,
        _ => 9,
    };
    let version = env!("CARGO_PKG_VERSION");
    let mut line = format!(
        "CEF:0|{VENDOR}|{PRODUCT}|{version}|{}|{}|{severity}|",
        header(record.kind()),
        header(&name)
    );
    let call = match record.text("call") {
        "" => String::new(),
        call => format!("{}/{call}", record.number("turn").unwrap_or(0)),
    };
    let path = record.paths().into_iter().next().unwrap_or_default();
    let (mut address, mut host, mut port) = Default::default();
    if let Some(endpoint) = super::endpoint(record) {
        match endpoint.address {
            Address::Ip(ip) => address = ip.to_string(),
            Address::Name(name) => host = name,
        }
        port = endpoint.port.map(|port| port.to_string()).unwrap_or_default();
    }
    let command =
        record.value().pointer("/arguments/command").and_then(Value::as_str).unwrap_or_default();
    let pairs = [
        ("rt", milliseconds(record).to_string()),
        ("externalId", record.seq().to_string()),
        ("act", record.text("decision").to_owned()),
        ("outcome", record.text("outcome").to_owned()),
        ("reason", record.text("reason").to_owned()),
        ("filePath", path),
        ("dst", address),
        ("dhost", host),
        ("dpt", port),
        ("msg", record.summary()),
        ("cs1", record.text("session").to_owned()),
        ("cs2", call),
        ("cs3", record.text("tool").to_owned()),
        ("cs4", record.text("rule").to_owned()),
        ("cs5", record.text("evidence").to_owned()),
        ("cs6", command.to_owned()),
    ];
    let labels = [
        ("cs1", "session"),
        ("cs2", "call"),
        ("cs3", "tool"),
        ("cs4", "rule"),
        ("cs5", "evidence"),
        ("cs6", "command"),
    ];
    let mut first = true;
    for (key, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        let mut add = |key: &str, value: &str| {
            if !first {
                line.push(' ');
            }
            first = false;
            line.push_str(key);
            line.push('=');
            line.push_str(&extension(value));
        };
        if let Some((_, label)) = labels.iter().find(|(known, _)| known == key) {
            add(&format!("{key}Label"), label);
        }
        add(key, value);
    }
    line
}

/// A backslash before pipes and backslashes; no line ends.
fn header(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    visible(&text).replace('\\', "\\\\").replace('|', "\\|")
}

/// Control characters, and those that turn a text's direction, by their numbers: whoever looks at the lines in a terminal must not be shown
/// something else.
fn visible(text: &str) -> String {
    let hidden = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\r'))
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if hidden(c) {
            shown.push_str(&format!("\\u{{{:x}}}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A backslash before equals signs and backslashes; line ends as `\n`.
fn extension(text: &str) -> String {
    visible(text)
        .replace('\\', "\\\\")
        .replace('=', "\\=")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 9.2
    #[test]
    fn no_control_character_reaches_a_line() {
        assert_eq!(
            extension("a\u{1b}[2Jb\tc=\nd\u{9b}e\u{202e}"),
            "a\\\\u{1b}[2Jb\\\\u{9}c\\=\\nd\\\\u{9b}e\\\\u{202e}"
        );
        assert_eq!(header("a|b\u{7}\nc"), "a\\|b\\\\u{7} c");
    }
}
