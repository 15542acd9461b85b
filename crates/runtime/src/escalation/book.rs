use crate::sync::{Mutex, MutexGuard};
use serde::Serialize;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};
use stockade_ledger::{ApproverKind, GrantEnd};
use stockade_policy::{Grant, Policy, Variables};

/// For how long a grant holds (spec 7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "scope")]
pub enum Scope {
    /// For the one call that it was asked for.
    Call,
    /// For the session, until it is revoked or its time is up.
    Session {
        /// Its time.
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
        expires_in: Option<Duration>,
    },
}

fn seconds<S: serde::Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs()).serialize(serializer)
}

/// A grant of the session that is alive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GrantInfo {
    /// Its id, by which it is revoked.
    pub id: String,
    /// What it allows, in words.
    pub grants: Vec<String>,
    /// The digest of the policy that it adds to.
    pub policy_digest: String,
    /// Who gave it.
    pub approver: ApproverKind,
    /// When it ends by itself: RFC 3339.
    pub expires: Option<String>,
}

/// Grants of one session. Those for one call never get in here: they end with their call.
#[derive(Debug, Default)]
pub(crate) struct GrantBook {
    live: Mutex<Vec<Live>>,
}

#[derive(Clone, Debug)]
struct Live {
    info: GrantInfo,
    grants: Vec<Grant>,
    ends: Option<Instant>,
}

/// A grant that was just given.
#[derive(Clone, Debug)]
pub(crate) struct NewGrant {
    pub(crate) id: String,
    pub(crate) expires: Option<String>,
    /// The scope that it really has.
    pub(crate) scope: Scope,
}

/// Whether a time can be written as a date: up to the year 9999.
fn is_date(time: SystemTime) -> bool {
    time.duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|time| time.as_secs() < 253_402_300_800)
}

impl GrantBook {
    fn lock(&self) -> MutexGuard<'_, Vec<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down a grant. What must be asked for each time is never kept.
    pub(crate) fn give(
        &self,
        policy_digest: &str,
        grants: &[Grant],
        scope: Scope,
        always_ask: bool,
        approver: ApproverKind,
        now: Instant,
    ) -> NewGrant {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = format!("g{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let Scope::Session { expires_in } = scope else {
            return NewGrant { id, expires: None, scope };
        };
        if always_ask {
            return NewGrant { id, expires: None, scope: Scope::Call };
        }
        let expires = expires_in
            .and_then(|time| SystemTime::now().checked_add(time))
            .filter(|time| is_date(*time))
            .map(|time| humantime::format_rfc3339_seconds(time).to_string());
        let info = GrantInfo {
            id: id.clone(),
            grants: grants.iter().map(ToString::to_string).collect(),
            policy_digest: policy_digest.to_owned(),
            approver,
            expires: expires.clone(),
        };
        // A time too far away to be told never comes.
        let ends = expires_in.and_then(|time| now.checked_add(time));
        self.lock().push(Live { info, grants: grants.to_vec(), ends });
        NewGrant { id, expires, scope }
    }

    /// The grants that are alive.
    pub(crate) fn list(&self, now: Instant) -> Vec<GrantInfo> {
        self.lock().iter().filter(|live| live.is_alive(now)).map(|live| live.info.clone()).collect()
    }

    /// Takes a grant back. `false`: there was none of this id.
    pub(crate) fn revoke(&self, id: &str) -> bool {
        let mut live = self.lock();
        let before = live.len();
        live.retain(|grant| grant.info.id != id);
        live.len() < before
    }

    /// Takes out the grants whose time is up, and says which.
    pub(crate) fn expire(&self, now: Instant) -> Vec<String> {
        let mut live = self.lock();
        let gone = live
            .iter()
            .filter(|grant| !grant.is_alive(now))
            .map(|grant| grant.info.id.clone())
            .collect();
        live.retain(|grant| grant.is_alive(now));
        gone
    }

    /// Ends all of them.
    pub(crate) fn end(&self) -> Vec<(String, GrantEnd)> {
        self.lock().drain(..).map(|grant| (grant.info.id, GrantEnd::SessionEnded)).collect()
    }

    /// The live grants to the session, whose own policy has this digest, that together hold all that the wider policy allows; empty when they do not.
    pub(crate) fn held_by(
        &self,
        digest: &str,
        policy: &Policy,
        wider: &Policy,
        ceiling: Option<&Policy>,
        variables: &Variables,
        now: Instant,
    ) -> Vec<String> {
        let live = self.lock();
        let live: Vec<&Live> = live
            .iter()
            .filter(|grant| grant.is_alive(now) && grant.info.policy_digest == digest)
            .collect();
        if live.is_empty() {
            return Vec::new();
        }
        let all: Vec<Grant> = live.iter().flat_map(|grant| grant.grants.iter().cloned()).collect();
        // One that can no longer be told is none.
        match policy.widen(&all, ceiling, variables).map(|held| held.covers(wider, variables)) {
            Ok(Ok(true)) => live.iter().map(|grant| grant.info.id.clone()).collect(),
            _ => Vec::new(),
        }
    }
}

impl Live {
    fn is_alive(&self, now: Instant) -> bool {
        self.ends.is_none_or(|ends| now < ends)
    }
}
