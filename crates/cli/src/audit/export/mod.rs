//! Records in the forms that security systems read.

mod cef;
mod ecs;
mod ocsf;

use super::record::Record;
use crate::args::ExportFormat;
use std::io::{self, Write};

/// Writes a record as one line. What the ledger writes for its own sake is left out: it says nothing outside of it.
pub fn write(record: &Record, format: ExportFormat, out: &mut impl Write) -> io::Result<()> {
    if record.is_bookkeeping() {
        return Ok(());
    }
    match format {
        ExportFormat::Ocsf => writeln!(out, "{}", ocsf::event(record)),
        ExportFormat::Ecs => writeln!(out, "{}", ecs::event(record)),
        ExportFormat::Cef => writeln!(out, "{}", cef::line(record)),
    }
}

/// The product that these events come from.
const PRODUCT: &str = "Stockade";
const VENDOR: &str = "Stockade";

/// 1 informational, 2 low, 3 medium, 4 high: OCSF's numbers.
fn severity(record: &Record) -> u8 {
    let full_access =
        record.value().pointer("/permissions/full_access").is_some_and(|full| full == true);
    match (record.kind(), record.text("decision")) {
        ("granted", _) if full_access => 4,
        ("granted" | "not_enforced" | "recovered" | "too_large", _) => 3,
        ("sandbox_denied", _) if record.text("evidence") == "inferred" => 2,
        (_, "deny") => 3,
        _ => 1,
    }
}

/// Milliseconds since 1970.
fn milliseconds(record: &Record) -> i64 {
    let time = humantime::parse_rfc3339(record.text("time")).ok();
    let since = time.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
