//! The Elastic Common Schema, version 8.

use super::{PRODUCT, VENDOR, severity};
use crate::audit::record::Record;
use serde_json::{Value, json};

/// The event.
pub fn event(record: &Record) -> Value {
    let denied = record.text("decision") == "deny";
    let category = match (record.kind(), record.text("kind")) {
        ("sandbox_denied", "read" | "write") => "file",
        ("sandbox_denied", "network") | ("network_decided", _) => "network",
        ("session_started" | "session_ended", _) => "session",
        ("decided" | "granted" | "grant_used" | "grant_ended" | "escalation_requested", _) => "iam",
        ("not_enforced" | "recovered", _) => "configuration",
        _ => "process",
    };
    let kinds = match (record.kind(), record.text("decision")) {
        (_, "deny") => json!(["denied"]),
        (_, "allow") => json!(["allowed"]),
        ("session_started" | "call_requested", _) => json!(["start"]),
        ("session_ended" | "call_ended", _) => json!(["end"]),
        _ => json!(["info"]),
    };
    let failed = denied || record.value().get("is_error").is_some_and(|error| error == true);
    let outcome = match record.kind() {
        "decided" | "sandbox_denied" | "network_decided" | "call_ended" => {
            if failed {
                "failure"
            } else {
                "success"
            }
        }
        _ => "unknown",
    };
    let mut event = json!({
        "@timestamp": record.text("time"),
        "ecs": {"version": "8.17.0"},
        "message": record.summary(),
        "event": {
            "kind": if record.kind() == "sandbox_denied" { "alert" } else { "event" },
            "category": [category],
            "type": kinds,
            "action": record.kind(),
            "outcome": outcome,
            "sequence": record.seq(),
            "hash": record.text("hash"),
            "id": record.text("hash"),
            "reason": record.text("reason"),
            "severity": severity(record),
            "provider": PRODUCT,
            "module": "stockade",
        },
        "observer": {"product": PRODUCT, "vendor": VENDOR, "version": env!("CARGO_PKG_VERSION"), "type": "sandbox"},
        "trace": {"id": record.text("session")},
        "rule": {"name": record.text("rule")},
        "stockade": record.value(),
    });
    let path = record.paths().into_iter().next();
    let host = record.hosts().into_iter().next();
    if let Some(event) = event.as_object_mut() {
        if let Some(path) = path {
            event.insert("file".to_owned(), json!({ "path": path }));
        }
        if let Some(host) = host {
            event.insert("destination".to_owned(), json!({ "domain": host }));
        }
        if let Some(command) = record.value().pointer("/arguments/command").and_then(Value::as_str)
        {
            event.insert("process".to_owned(), json!({ "command_line": command }));
        }
    }
    event
}
