use super::record::Record;
use crate::args::AuditFilter;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::SystemTime;

/// What `--decisions` shows: who decided what, and what came of it.
const DECISIONS: &[&str] =
    &["decided", "sandbox_denied", "network_decided", "granted", "grant_ended", "not_enforced"];

/// Which records are wanted. Everything that is given must fit.
pub struct Filter<'a> {
    asked: &'a AuditFilter,
    since: Option<String>,
    until: Option<String>,
}

impl<'a> Filter<'a> {
    pub fn of(asked: &'a AuditFilter) -> Self {
        // Times in the ledger are all of one form and zone, so their texts have their order.
        let text = |time: SystemTime| humantime::format_rfc3339_micros(time).to_string();
        Self {
            asked,
            since: asked.since.map(|time| text(time.0)),
            until: asked.until.map(|time| text(time.0)),
        }
    }

    pub fn takes(&self, record: &Record) -> bool {
        let AuditFilter { session, tool, decision, path, host, kinds, call, decisions, .. } =
            self.asked;
        let time = record.text("time");
        let is = |wanted: &Option<String>, key: &str| {
            wanted.as_ref().is_none_or(|wanted| record.text(key) == wanted)
        };
        self.since.as_ref().is_none_or(|since| time >= since.as_str())
            && self.until.as_ref().is_none_or(|until| time < until.as_str())
            && session.as_ref().is_none_or(|wanted| record.text("session").starts_with(wanted))
            && is(tool, "tool")
            && (kinds.is_empty() || kinds.iter().any(|kind| kind == record.kind()))
            && (!decisions || DECISIONS.contains(&record.kind()))
            && is(call, "call")
            && decision.as_ref().is_none_or(|wanted| record.text("decision") == wanted.name())
            && path
                .as_ref()
                .is_none_or(|wanted| record.paths().iter().any(|path| under(path, wanted)))
            && host
                .as_ref()
                .is_none_or(|wanted| record.hosts().iter().any(|host| names(host, wanted)))
    }
}

/// A path, or one below it.
fn under(path: &str, wanted: &str) -> bool {
    let wanted = wanted.trim_end_matches('/');
    path == wanted || path.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('/'))
}

/// A host, with any port, or one below its domain. An address is itself and no other.
fn names(host: &str, wanted: &str) -> bool {
    let (name, port) = parted(host);
    let (wanted, wanted_port) = parted(wanted);
    if wanted_port.is_some() && port != wanted_port {
        return false;
    }
    let address = |text: &str| text.parse::<IpAddr>().ok();
    if let Some(address) = address(name) {
        return wanted.parse::<IpAddr>() == Ok(address);
    }
    let (name, wanted) = (name.to_ascii_lowercase(), wanted.to_ascii_lowercase());
    name == wanted || name.strip_suffix(&wanted).is_some_and(|rest| rest.ends_with('.'))
}

/// A host and its port: `example.org:443`, `[::1]:443`, `::1`.
fn parted(text: &str) -> (&str, Option<&str>) {
    if let Some(rest) = text.strip_prefix('[')
        && let Some((address, port)) = rest.split_once(']')
    {
        return (address, port.strip_prefix(':'));
    }
    match text.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') => (name, Some(port)),
        _ => (text, None),
    }
}

/// What the records say there is, for whoever finds nothing.
#[derive(Default)]
pub struct Seen {
    tools: BTreeSet<String>,
    has_session: bool,
    found: bool,
}

impl Seen {
    pub fn hear(&mut self, record: &Record, filter: &Filter<'_>, taken: bool) {
        self.found |= taken;
        if filter.asked.tool.is_some() && !record.text("tool").is_empty() {
            self.tools.insert(record.text("tool").to_owned());
        }
        let wanted = filter.asked.session.as_deref();
        self.has_session |= wanted.is_some_and(|wanted| record.text("session").starts_with(wanted));
    }

    /// What was asked for and does not exist at all; `None` where something was found, or is only not there.
    pub fn missing(&self, filter: &Filter<'_>) -> Option<String> {
        if self.found {
            return None;
        }
        if let Some(session) = filter.asked.session.as_ref().filter(|_| !self.has_session) {
            return Some(format!("no record is of a session {session:?}"));
        }
        let tool = filter.asked.tool.as_ref().filter(|tool| !self.tools.contains(*tool))?;
        let known: Vec<&str> = self.tools.iter().map(String::as_str).collect();
        Some(format!("no record is of a tool {tool:?} (there are: {})", known.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 9.2
    #[test]
    fn a_host_is_one_name_and_those_below_it_and_an_address_is_itself() {
        for (host, wanted, expected) in [
            ("example.org:443", "example.org", true),
            ("a.example.org:443", "example.org", true),
            ("a.Example.org", "example.ORG", true),
            ("notexample.org", "example.org", false),
            ("example.org:443", "example.org:443", true),
            ("example.org:443", "example.org:80", false),
            ("1.1.1.1:53", "1.1.1.1", true),
            ("1.1.1.1:53", "1.1", false),
            ("1.1.1.1", "1", false),
            ("[::1]:80", "::1", true),
            ("::1", "[::1]:80", false),
            ("fe80::1", "1", false),
            ("[2001:db8::1]:80", "[2001:0db8::1]", true),
        ] {
            assert_eq!(names(host, wanted), expected, "{host} {wanted}");
        }
    }
}
