use super::record::Record;
use crate::args::AuditFilter;
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
            && is(session, "session")
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

/// A host, with any port, or one below its domain.
fn names(host: &str, wanted: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name == wanted
        || host == wanted
        || name.strip_suffix(wanted).is_some_and(|rest| rest.ends_with('.'))
}
