//! What Landlock refused, by the kernel's audit records (Documentation/admin-guide/LSM/landlock.rst): each record names the domain that
//! refused, and the first one of a domain is followed by one that says who made it. A call's domain is made by a process whose
//! name nobody else knows, and which is gone with the exec.

mod record;

use record::Record;
use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use stockade_sys::audit::AuditListener;
use stockade_sys::watched::WatchedFd;
use stockade_types::DenialKind;
use tokio::io::Interest;
use tokio::sync::Notify;

/// Records wait in a queue of the kernel's before they are sent: so long at most between two of them.
const PAUSE: Duration = Duration::from_millis(5);
/// How long a call's end waits for its last records, if others keep coming.
const PATIENCE: Duration = Duration::from_millis(30);
/// The most that is kept of one call.
const KEPT_MAX: usize = 1024;
/// The most records that are kept of domains whose makers are not known yet.
const EARLY_MAX: usize = 256;

/// What was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Reading, writing, or what is not about files.
    pub kind: DenialKind,
    /// The path, as it is called inside, or the address.
    pub target: String,
    /// The rights that were missing, in the kernel's words.
    pub rights: String,
}

/// The host's records, as far as they are about this session's calls.
pub struct AuditLog {
    listener: AuditListener,
    watch: WatchedFd,
    state: Mutex<State>,
    news: Notify,
}

#[derive(Default)]
struct State {
    /// By the mark of a call that runs.
    calls: HashMap<String, Vec<Refused>>,
    /// The mark of each call's domain.
    domains: HashMap<u64, String>,
    /// Of domains that have not said yet whose they are: that comes after their first refusal.
    early: VecDeque<(u64, Refused)>,
}

impl State {
    fn take_in(&mut self, record: Record) {
        match record {
            Record::Refused { domain, refused } => match self.domains.get(&domain) {
                Some(mark) => {
                    if let Some(known) = self.calls.get_mut(mark)
                        && known.len() < KEPT_MAX
                        && !known.contains(&refused)
                    {
                        known.push(refused);
                    }
                }
                None => {
                    self.early.push_back((domain, refused));
                    if self.early.len() > EARLY_MAX {
                        self.early.pop_front();
                    }
                }
            },
            Record::Made { domain, by } => {
                let is_ours = self.calls.contains_key(&by);
                if is_ours {
                    self.domains.insert(domain, by);
                }
                let early = std::mem::take(&mut self.early);
                for (of, refused) in early {
                    if of != domain {
                        self.early.push_back((of, refused));
                    } else if is_ours {
                        self.take_in(Record::Refused { domain, refused });
                    }
                }
            }
            Record::Gone { domain } => {
                self.domains.remove(&domain);
            }
        }
    }
}

impl AuditLog {
    /// Reads on until it is dropped. Needs a tokio runtime with its I/O driver.
    pub fn open() -> io::Result<Arc<Self>> {
        let listener = AuditListener::join()?;
        let copy = listener.try_clone()?;
        let log = Arc::new(Self {
            listener,
            watch: WatchedFd::new(copy, Interest::READABLE)?,
            state: Mutex::default(),
            news: Notify::new(),
        });
        tokio::spawn(read_on(Arc::downgrade(&log)));
        Ok(log)
    }

    /// A mark for a call that is about to start.
    pub fn mark(&self) -> String {
        // 15 bytes are what a process's name holds. Not to be foreseen, or a command could give itself another's.
        let mark = format!("sc{:013x}", RandomState::new().build_hasher().finish() >> 12);
        self.state().calls.insert(mark.clone(), Vec::new());
        mark
    }

    /// What the call was refused. `wait`: it has just ended, and its last records may be on their way, if any are written at all.
    pub async fn take(&self, mark: &str, wait: bool) -> Vec<Refused> {
        if wait && stockade_sys::audit::is_on() {
            let more =
                async { while tokio::time::timeout(PAUSE, self.news.notified()).await.is_ok() {} };
            let _ = tokio::time::timeout(PATIENCE, more).await;
        }
        self.drain();
        let mut state = self.state();
        state.domains.retain(|_, of| of != mark);
        state.calls.remove(mark).unwrap_or_default()
    }

    /// Nobody will ask for it any more.
    pub fn forget(&self, mark: &str) {
        let mut state = self.state();
        state.calls.remove(mark);
        state.domains.retain(|_, of| of != mark);
    }

    fn drain(&self) {
        loop {
            match self.listener.next() {
                Ok(Some(record)) => {
                    if let Some(record) = Record::read(&record) {
                        self.state().take_in(record);
                        self.news.notify_waiters();
                    }
                }
                Ok(None) => return,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    tracing::warn!(
                        "audit records came faster than they could be read: some denials will not be named"
                    );
                }
                Err(error) => {
                    tracing::warn!(%error, "an audit record could not be read");
                    return;
                }
            }
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// So that a long call's records do not fill the socket's buffer.
async fn read_on(log: Weak<AuditLog>) {
    while let Some(log) = log.upgrade() {
        // Looks now and then whether the log is still wanted: the host may write no record for hours.
        let readable = tokio::time::timeout(Duration::from_secs(1), log.watch.readable());
        match readable.await {
            Ok(Ok(())) => log.drain(),
            Ok(Err(_)) => return,
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(target: &str) -> Refused {
        Refused { kind: DenialKind::Read, target: target.into(), rights: "fs.read_file".into() }
    }

    #[test] // spec 5.9
    fn a_refusal_is_its_calls_whose_mark_made_the_domain_also_when_that_is_told_later() {
        let mut state = State::default();
        state.calls.insert("one".into(), Vec::new());
        state.calls.insert("two".into(), Vec::new());
        let of = |domain, target: &str| Record::Refused { domain, refused: refused(target) };
        state.take_in(of(7, "/a"));
        state.take_in(of(8, "/other"));
        state.take_in(Record::Made { domain: 7, by: "one".into() });
        state.take_in(Record::Made { domain: 8, by: "sshd".into() });
        state.take_in(of(7, "/b"));
        state.take_in(of(7, "/b"));
        state.take_in(Record::Made { domain: 9, by: "two".into() });
        state.take_in(of(9, "/c"));
        assert_eq!(state.calls["one"], [refused("/a"), refused("/b")]);
        assert_eq!(state.calls["two"], [refused("/c")]);
        assert!(state.early.is_empty(), "what is of nobody here is not kept");
        state.take_in(Record::Gone { domain: 7 });
        state.take_in(of(7, "/late"));
        assert_eq!(state.calls["one"].len(), 2);
    }

    #[test] // spec 5.9
    fn what_is_kept_is_bounded() {
        let mut state = State::default();
        state.calls.insert("one".into(), Vec::new());
        for n in 0..10_000u64 {
            state.take_in(Record::Refused { domain: n, refused: refused("/x") });
        }
        assert_eq!(state.early.len(), EARLY_MAX);
        state.take_in(Record::Made { domain: 1, by: "one".into() });
        for n in 0..10_000 {
            state.take_in(Record::Refused { domain: 1, refused: refused(&n.to_string()) });
        }
        assert_eq!(state.calls["one"].len(), KEPT_MAX);
    }
}
