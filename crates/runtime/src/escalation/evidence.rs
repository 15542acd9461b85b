use crate::sync::Mutex;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::PoisonError;
use stockade_policy::Grant;
use stockade_types::{Denial, DenialKind};

/// Calls whose denials are remembered, for their retry.
const CALLS_MOST: usize = 256;

/// What the sandbox refused to calls that have run, so that a retry can be held against it. Texts that a command printed never get in
/// here: only what the provider reports.
#[derive(Debug, Default)]
pub(crate) struct EvidenceBook(Mutex<VecDeque<(String, Vec<Denial>)>>);

impl EvidenceBook {
    /// Remembers the denials of a call's run.
    pub(crate) fn remember(&self, retry_digest: String, denials: &[Denial]) {
        if denials.is_empty() {
            return;
        }
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.retain(|(known, _)| *known != retry_digest);
        if calls.len() >= CALLS_MOST {
            calls.pop_front();
        }
        calls.push_back((retry_digest, denials.to_vec()));
    }

    /// The denials of the last run of this call.
    pub(crate) fn of(&self, retry_digest: &str) -> Vec<Denial> {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls
            .iter()
            .find(|(known, _)| known == retry_digest)
            .map(|(_, denials)| denials.clone())
            .unwrap_or_default()
    }
}

/// Whether one of the grants would have allowed what was refused.
pub(crate) fn helps(grants: &[Grant], denial: &Denial) -> bool {
    let target = Path::new(&denial.target);
    grants.iter().any(|grant| match (grant, denial.kind) {
        (Grant::FullAccess, _) => true,
        (Grant::Read(path), DenialKind::Read) => target.starts_with(path),
        (Grant::Write(path), DenialKind::Read | DenialKind::Write) => target.starts_with(path),
        (Grant::UnixSocket(path), DenialKind::Network) => target.starts_with(path),
        // Which host a refused address belongs to is not always known.
        (Grant::Network(_), DenialKind::Network) => true,
        // A group has many calls, and a call may be refused for want of a socket family.
        (Grant::Syscalls(_), DenialKind::Syscall) | (Grant::Network(_), DenialKind::Syscall) => {
            true
        }
        _ => false,
    })
}
