//! OCSF 1.8: <https://schema.ocsf.io/1.8.0>. A call and what is decided about it is API Activity; what the sandbox refused is File System,
//! Network or Kernel Activity, blocked; a session is Application Lifecycle. What has no place there stands in `unmapped`.

use super::{Address, Endpoint, PRODUCT, VENDOR, milliseconds, severity};
use crate::audit::record::Record;
use serde_json::{Map, Value, json};

const VERSION: &str = "1.8.0";

/// Class and activity, with what that class needs.
struct Class {
    category: i64,
    class: i64,
    activity: i64,
    own: Value,
}

/// The event.
pub fn event(record: &Record) -> Value {
    let Class { category, class, activity, own } = class_of(record);
    let mut event = Map::new();
    let mut put = |key: &str, value: Value| event.insert(key.to_owned(), value);
    put("category_uid", category.into());
    put("class_uid", class.into());
    put("activity_id", activity.into());
    put("type_uid", (class * 100 + activity).into());
    put("time", milliseconds(record).into());
    put("severity_id", severity(record).into());
    put("message", record.summary().into());
    put(
        "metadata",
        json!({
            "version": VERSION,
            "profiles": ["host", "security_control"],
            "product": {"name": PRODUCT, "vendor_name": VENDOR, "version": env!("CARGO_PKG_VERSION")},
            "uid": record.text("hash"),
            "sequence": record.seq(),
            "correlation_uid": record.text("session"),
            "event_code": record.kind(),
        }),
    );
    let (action, disposition, status) = match (record.text("decision"), record.kind()) {
        ("allow", _) => (Some(1), Some(1), 1),
        ("deny", _) => (Some(2), Some(2), 2),
        (_, "call_ended") if record.text("outcome") == "refused" => (Some(2), Some(2), 2),
        (_, "call_ended") if record.value().get("is_error").is_some_and(|error| error == true) => {
            (None, None, 2)
        }
        (_, "call_ended" | "session_ended" | "session_started") => (None, None, 1),
        _ => (None, None, 0),
    };
    if let Some(action) = action {
        put("action_id", action.into());
    }
    if let Some(disposition) = disposition {
        put("disposition_id", disposition.into());
    }
    put("status_id", status.into());
    if !record.text("reason").is_empty() {
        put("status_detail", record.text("reason").into());
    }
    if !matches!(record.text("rule"), "") {
        put("policy", json!({"name": record.text("rule"), "uid": record.text("policy_digest")}));
    }
    if let Some(own) = own.as_object() {
        for (key, value) in own {
            put(key, value.clone());
        }
    }
    // Everything else of the record, as it is.
    let mut unmapped = record.value().clone();
    if let Some(unmapped) = unmapped.as_object_mut() {
        for key in ["time", "seq", "prev", "hash"] {
            unmapped.remove(key);
        }
    }
    put("unmapped", unmapped);
    Value::Object(event)
}

fn class_of(record: &Record) -> Class {
    let device = || json!({"type_id": 0, "name": "host"});
    let file_name = |path: &str| {
        path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path).to_owned()
    };
    match (record.kind(), record.text("kind")) {
        ("sandbox_denied", access @ ("read" | "write")) => {
            let path = record.text("target");
            let file = json!({"name": file_name(path), "path": path, "type_id": 0});
            let activity = if access == "read" { 2 } else { 3 };
            Class {
                category: 1,
                class: 1001,
                activity,
                own: json!({"actor": actor(record), "device": device(), "file": file}),
            }
        }
        ("sandbox_denied", "network") => network(record),
        ("network_decided", _) => network(record),
        ("sandbox_denied", _) => {
            let kernel = json!({"name": record.text("target"), "type_id": 2});
            Class {
                category: 1,
                class: 1003,
                activity: 4,
                own: json!({"actor": actor(record), "device": device(), "kernel": kernel}),
            }
        }
        ("session_started", _) => lifecycle(3),
        ("session_ended", _) => lifecycle(4),
        ("not_enforced" | "recovered" | "verifier_restored", _) => lifecycle(99),
        (kind, _) => {
            let operation = match record.text("tool") {
                "" => kind.to_owned(),
                tool => format!("{tool}: {kind}"),
            };
            let api = json!({"operation": operation, "service": {"name": "tool call"}, "request": {"uid": request_id(record)}});
            let endpoint = json!({"name": "host"});
            Class {
                category: 6,
                class: 6003,
                activity: 99,
                own: json!({"actor": actor(record), "api": api, "src_endpoint": endpoint}),
            }
        }
    }
}

fn request_id(record: &Record) -> String {
    format!(
        "{}/{}/{}",
        record.text("session"),
        record.number("turn").unwrap_or(0),
        record.text("call")
    )
}

fn actor(record: &Record) -> Value {
    json!({"app_name": PRODUCT, "session": {"uid": record.text("session")}})
}

fn lifecycle(activity: i64) -> Class {
    let app = json!({"name": PRODUCT, "vendor_name": VENDOR, "version": env!("CARGO_PKG_VERSION")});
    Class { category: 6, class: 6002, activity, own: json!({"app": app}) }
}

fn network(record: &Record) -> Class {
    let mut endpoint = match super::endpoint(record) {
        Some(Endpoint { address: Address::Ip(ip), port }) => json!({"ip": ip, "port": port}),
        Some(Endpoint { address: Address::Name(name), port }) => {
            json!({"hostname": name, "port": port})
        }
        // A socket of this machine has a path.
        None if record.text("target").is_empty() => json!({"hostname": "unknown"}),
        None => json!({"name": record.text("target")}),
    };
    if let Some(endpoint) = endpoint.as_object_mut() {
        endpoint.retain(|_, value| !value.is_null());
    }
    let activity = if record.text("decision") == "deny" { 5 } else { 1 };
    Class {
        category: 4,
        class: 4001,
        activity,
        own: json!({"actor": actor(record), "dst_endpoint": endpoint}),
    }
}
