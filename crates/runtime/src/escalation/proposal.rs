//! What a refused call could be retried with, said to the model (spec 5.9, 7.1). Made from what the kernel or Stockade itself saw, and
//! as narrow as that: never from what a command printed.

use super::{Escalation, grants_of};
use serde_json::{Value, json};
use std::path::PathBuf;
use stockade_policy::Policy;
use stockade_tools::{PathInput, SandboxPermissions};
use stockade_types::{Denial, DenialKind};

/// Entries of one proposal; more are no longer narrow.
const ENTRIES_MOST: usize = 8;

/// A line for the model, when what was refused could be granted.
pub(crate) fn propose(
    escalation: &Escalation,
    policy: &Policy,
    denials: &[Denial],
) -> Option<String> {
    let mut wanted = SandboxPermissions::default();
    for denial in denials.iter().filter(|denial| denial.is_evidence()).take(ENTRIES_MOST) {
        let mut next = wanted.clone();
        let path = || PathBuf::from(&denial.target);
        match denial.kind {
            DenialKind::Read if path().is_absolute() => next.read.push(PathInput(path())),
            DenialKind::Write if path().is_absolute() => next.write.push(PathInput(path())),
            DenialKind::Network if path().is_absolute() => {
                next.unix_sockets.push(PathInput(path()))
            }
            DenialKind::Network => next.network.push(denial.target.clone()),
            DenialKind::Syscall => next.syscalls.extend(syscall_group(denial)),
            _ => continue,
        }
        dedup(&mut next);
        // What would be refused anyway is not proposed: it is hidden, protected, or above the ceiling.
        let grantable = grants_of(&next).is_ok_and(|grants| {
            policy.widen(&grants, escalation.ceiling.as_ref(), &escalation.variables).is_ok()
        });
        if grantable {
            wanted = next;
        }
    }
    if wanted.is_empty() {
        return None;
    }
    let wanted: Value = serde_json::to_value(&wanted).ok()?;
    let retry = json!({ "sandbox_permissions": wanted, "justification": "…" });
    Some(format!("[To be allowed this, retry the same call with these arguments added: {retry}]"))
}

/// The group that the denial's own grant names (`[syscalls] allow = ["ptrace"]`).
fn syscall_group(denial: &Denial) -> Option<String> {
    let group = denial.grant.split('"').nth(1)?;
    (!group.is_empty()).then(|| group.to_owned())
}

fn dedup(wanted: &mut SandboxPermissions) {
    wanted.read.dedup();
    wanted.write.dedup();
    wanted.network.dedup();
    wanted.syscalls.dedup();
    wanted.unix_sockets.dedup();
}
