//! Records in the forms that security systems read.

mod cef;
mod ecs;
mod ocsf;

use super::record::Record;
use crate::args::ExportFormat;
use std::io::{self, Write};
use std::net::IpAddr;

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
        ("granted" | "not_enforced" | "recovered" | "verifier_restored" | "too_large", _) => 3,
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

/// Where a connection was to lead.
#[derive(Debug, PartialEq)]
struct Endpoint {
    address: Address,
    port: Option<u16>,
}

#[derive(Debug, PartialEq)]
enum Address {
    Ip(IpAddr),
    Name(String),
}

/// The first host that a record is about, its port apart from it.
fn endpoint(record: &Record) -> Option<Endpoint> {
    let written = record.hosts().into_iter().next()?;
    let mut endpoint = endpoint_of(&written)?;
    let port = record.number("port").and_then(|port| u16::try_from(port).ok());
    endpoint.port = endpoint.port.or(port);
    Some(endpoint)
}

/// `name:port`, `name`, `address:port`, `[address]:port`, `address`. `None`: a path, or nothing.
fn endpoint_of(written: &str) -> Option<Endpoint> {
    if written.is_empty() || written.starts_with('/') {
        return None;
    }
    let bare = |text: &str| text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    if let Ok(ip) = bare(written) {
        return Some(Endpoint { address: Address::Ip(ip), port: None });
    }
    let (host, port) = match written.rsplit_once(':') {
        Some((host, digits)) => match digits.parse() {
            Ok(port) => (host, Some(port)),
            // Any port.
            Err(_) if digits == "*" => (host, None),
            Err(_) => (written, None),
        },
        None => (written, None),
    };
    let address = bare(host).map_or_else(|_| Address::Name(host.to_owned()), Address::Ip);
    Some(Endpoint { address, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 9.2
    #[test]
    fn a_host_and_its_port_are_told_apart() {
        let name = |name: &str| Address::Name(name.to_owned());
        let ip = |ip: &str| Address::Ip(ip.parse().unwrap());
        for (written, address, port) in [
            ("example.com:443", name("example.com"), Some(443)),
            ("example.com", name("example.com"), None),
            ("*.example.com:*", name("*.example.com"), None),
            ("127.0.0.1:8731", ip("127.0.0.1"), Some(8731)),
            ("[::1]:80", ip("::1"), Some(80)),
            ("::1", ip("::1"), None),
            ("[fe80::1]", ip("fe80::1"), None),
        ] {
            assert_eq!(endpoint_of(written), Some(Endpoint { address, port }), "{written}");
        }
        assert_eq!(endpoint_of("/run/docker.sock"), None);
        assert_eq!(endpoint_of(""), None);
    }
}
