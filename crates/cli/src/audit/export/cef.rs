//! ArcSight's Common Event Format, version 0.

use super::{PRODUCT, VENDOR, milliseconds, severity};
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
    let call = format!("{}/{}", record.number("turn").unwrap_or(0), record.text("call"));
    let path = record.paths().into_iter().next().unwrap_or_default();
    let host = record.hosts().into_iter().next().unwrap_or_default();
    let command =
        record.value().pointer("/arguments/command").and_then(Value::as_str).unwrap_or_default();
    let pairs = [
        ("rt", milliseconds(record).to_string()),
        ("externalId", record.seq().to_string()),
        ("act", record.text("decision").to_owned()),
        ("outcome", record.text("outcome").to_owned()),
        ("reason", record.text("reason").to_owned()),
        ("filePath", path),
        ("dhost", host),
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
    text.replace('\\', "\\\\").replace('|', "\\|").replace(['\n', '\r'], " ")
}

/// A backslash before equals signs and backslashes; line ends as `\n`.
fn extension(text: &str) -> String {
    text.replace('\\', "\\\\").replace('=', "\\=").replace('\n', "\\n").replace('\r', "\\r")
}
