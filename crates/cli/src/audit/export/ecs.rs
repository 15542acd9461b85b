//! The Elastic Common Schema, version 8.

use super::{Address, Endpoint, PRODUCT, VENDOR, severity};
use crate::audit::record::Record;
use serde_json::{Value, json};

/// The event.
pub fn event(record: &Record) -> Value {
    let denied = record.text("decision") == "deny";
    let verdict = if denied { "denied" } else { "allowed" };
    // Each type is one that the schema expects of one of its categories.
    let (categories, types): (&[&str], &[&str]) = match (record.kind(), record.text("kind")) {
        ("sandbox_denied", "read") => (&["intrusion_detection", "file"], &[verdict, "access"]),
        ("sandbox_denied", "write") => (&["intrusion_detection", "file"], &[verdict, "change"]),
        ("sandbox_denied", "network") => {
            (&["intrusion_detection", "network"], &[verdict, "connection"])
        }
        ("sandbox_denied", _) => (&["intrusion_detection", "process"], &[verdict, "access"]),
        ("network_decided", _) => (&["network"], &[verdict, "connection"]),
        ("decided", _) => (&["api"], &[verdict]),
        ("session_started", _) => (&["session"], &["start"]),
        ("session_ended", _) => (&["session"], &["end"]),
        ("call_requested", _) => (&["api"], &["start"]),
        ("call_ended", _) => (&["api"], &["end"]),
        ("granted", _) => (&["iam"], &["admin", "creation"]),
        ("grant_ended", _) => (&["iam"], &["admin", "deletion"]),
        ("grant_used" | "escalation_requested", _) => (&["iam"], &["info"]),
        _ => (&["configuration"], &["info"]),
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
            "category": categories,
            "type": types,
            "action": record.kind(),
            "outcome": outcome,
            "sequence": record.seq(),
            "hash": record.text("hash"),
            "id": record.text("hash"),
            "severity": severity(record),
            "provider": PRODUCT,
            "module": "stockade",
        },
        "observer": {"product": PRODUCT, "vendor": VENDOR, "version": env!("CARGO_PKG_VERSION"), "type": "sandbox"},
        "stockade": record.value(),
    });
    let path = record.paths().into_iter().next();
    // What is empty is left out: a search for events that have a rule finds those alone.
    if let Some(fields) = event.get_mut("event").and_then(Value::as_object_mut)
        && !record.text("reason").is_empty()
    {
        fields.insert("reason".to_owned(), record.text("reason").into());
    }
    if let Some(event) = event.as_object_mut() {
        for (field, key, value) in [("trace", "id", "session"), ("rule", "name", "rule")] {
            if !record.text(value).is_empty() {
                event.insert(field.to_owned(), json!({ key: record.text(value) }));
            }
        }
        if let Some(path) = path {
            event.insert("file".to_owned(), json!({ "path": path }));
        }
        if let Some(Endpoint { address, port }) = super::endpoint(record) {
            let (kind, address) = match address {
                Address::Ip(ip) => ("ip", ip.to_string()),
                Address::Name(name) => ("domain", name),
            };
            let mut destination = json!({ "address": address, kind: address });
            if let (Some(port), Some(fields)) = (port, destination.as_object_mut()) {
                fields.insert("port".to_owned(), port.into());
            }
            event.insert("destination".to_owned(), destination);
        }
        if let Some(command) = record.value().pointer("/arguments/command").and_then(Value::as_str)
        {
            event.insert("process".to_owned(), json!({ "command_line": command }));
        }
    }
    event
}
