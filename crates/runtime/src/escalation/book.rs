use crate::sync::{Mutex, MutexGuard};
use serde::Serialize;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};
use stockade_ledger::{ApproverKind, GrantEnd};
use stockade_policy::{Grant, Policy, Variables};
use tokio_util::sync::CancellationToken;

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
    /// Fires when it ends, however that is.
    ended: CancellationToken,
}

/// What a call runs under for as long as its grants are alive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lease {
    /// Their ids, and what fires when they end.
    grants: Vec<(String, CancellationToken)>,
    ends: Option<Instant>,
}

impl Lease {
    /// Whether nothing in it can end.
    pub(crate) fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    /// Ends when one of the grants does: with its id. Never for a call that runs under none.
    pub(crate) async fn over(&self) -> String {
        let first = async {
            let mut ended: Vec<_> = self
                .grants
                .iter()
                .map(|(id, token)| {
                    Box::pin(async move {
                        token.cancelled().await;
                        id.clone()
                    })
                })
                .collect();
            std::future::poll_fn(move |context| {
                let ready = ended.iter_mut().find_map(|one| match one.as_mut().poll(context) {
                    Poll::Ready(id) => Some(id),
                    Poll::Pending => None,
                });
                ready.map_or(Poll::Pending, Poll::Ready)
            })
            .await
        };
        let Some(ends) = self.ends else { return first.await };
        tokio::select! {
            id = first => id,
            () = tokio::time::sleep_until(ends.into()) => {
                self.grants.first().map(|(id, _)| id.clone()).unwrap_or_default()
            }
        }
    }
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
        let ended = CancellationToken::new();
        self.lock().push(Live { info, grants: grants.to_vec(), ends, ended });
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
        live.retain(|grant| {
            let stays = grant.info.id != id;
            if !stays {
                grant.ended.cancel();
            }
            stays
        });
        live.len() < before
    }

    /// What a call runs under that runs under these grants. One of them that has ended meanwhile has ended the lease.
    pub(crate) fn lease(&self, ids: &[String]) -> Lease {
        let live = self.lock();
        let mut lease = Lease::default();
        for id in ids {
            let found = live.iter().find(|grant| grant.info.id == *id);
            let token = found.map_or_else(
                || {
                    let gone = CancellationToken::new();
                    gone.cancel();
                    gone
                },
                |grant| grant.ended.clone(),
            );
            let ends = found.and_then(|grant| grant.ends);
            lease.ends = lease.ends.into_iter().chain(ends).min();
            lease.grants.push((id.clone(), token));
        }
        lease
    }

    /// Takes out the grants whose time is up, and says which.
    pub(crate) fn expire(&self, now: Instant) -> Vec<String> {
        let mut live = self.lock();
        let gone = live
            .iter()
            .filter(|grant| !grant.is_alive(now))
            .map(|grant| grant.info.id.clone())
            .collect();
        live.retain(|grant| {
            let stays = grant.is_alive(now);
            if !stays {
                grant.ended.cancel();
            }
            stays
        });
        gone
    }

    /// Ends all of them. One whose time was up by then has ended by that, though nobody looked.
    pub(crate) fn end(&self, now: Instant) -> Vec<(String, GrantEnd)> {
        let ended = |grant: Live| {
            grant.ended.cancel();
            let how = if grant.is_alive(now) { GrantEnd::SessionEnded } else { GrantEnd::Expired };
            (grant.info.id, how)
        };
        self.lock().drain(..).map(ended).collect()
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
