//! One permission more than the policy, for as long as was said (spec 7). Everything that can be refused without asking anybody is
//! refused here, first: what is no strict widening, what is above the ceiling, what would not help.

mod book;
mod evidence;
#[cfg(test)]
mod laws;
mod proposal;

pub(crate) use book::{GrantBook, Lease};
pub use book::{GrantInfo, Scope};
pub(crate) use evidence::EvidenceBook;
pub(crate) use proposal::propose;

use crate::call::PreparedCall;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Instant;
use stockade_policy::environment::redact_json;
use stockade_policy::{Grant, LimitSetting, Policy, Variables};
use stockade_tools::SandboxPermissions;
use stockade_types::{Denial, Refusal};

/// What a session may ever be granted, and what it has been.
pub(crate) struct Escalation {
    /// The most; `None`: whatever an approver allows.
    pub(crate) ceiling: Option<Policy>,
    pub(crate) variables: Variables,
    pub(crate) grants: GrantBook,
    pub(crate) evidence: EvidenceBook,
}

/// A request that may be granted.
#[derive(Debug)]
pub(crate) struct Considered {
    /// The session's policy with what was asked for.
    pub(crate) policy: Arc<Policy>,
    pub(crate) grants: Vec<Grant>,
    /// Live grants of the session that hold all of it already.
    pub(crate) held_by: Vec<String>,
    /// What the sandbox refused when this same call ran before.
    pub(crate) evidence: Vec<Denial>,
    /// It must be asked for each time.
    pub(crate) always_ask: bool,
}

impl Escalation {
    /// Whether a request may be granted at all (spec 7.2): to a call under this policy, in a session whose own policy has this digest.
    pub(crate) fn consider(
        &self,
        policy: &Policy,
        session_digest: &str,
        call: &PreparedCall,
        wanted: &SandboxPermissions,
        now: Instant,
    ) -> Result<Considered, Refusal> {
        let grants = grants_of(wanted)?;
        let refused = |reason: String| Refusal { by: "escalation".to_owned(), reason };
        let wider = policy
            .widen(&grants, self.ceiling.as_ref(), &self.variables)
            .map_err(|error| refused(format!("sandbox_permissions: {error}")))?;
        let evidence = self.evidence.of(&retry_digest(call));
        let sure: Vec<&Denial> = evidence.iter().filter(|denial| denial.is_evidence()).collect();
        if !sure.is_empty() && !sure.iter().any(|denial| evidence::helps(&grants, denial)) {
            let targets: Vec<&str> = sure.iter().map(|denial| denial.target.as_str()).collect();
            return Err(refused(format!(
                "sandbox_permissions: this would not help: what was refused to this call was {}",
                targets.join(", ")
            )));
        }
        let always_ask =
            grants.iter().any(|grant| policy.escalation.always_ask.contains(&grant.kind()));
        let held_by = if always_ask {
            Vec::new()
        } else {
            let (ceiling, variables) = (self.ceiling.as_ref(), &self.variables);
            self.grants.held_by(session_digest, policy, &wider, ceiling, variables, now)
        };
        Ok(Considered { policy: Arc::new(wider), grants, held_by, evidence, always_ask })
    }
}

/// The grants that a call's `sandbox_permissions` ask for.
pub(crate) fn grants_of(wanted: &SandboxPermissions) -> Result<Vec<Grant>, Refusal> {
    let SandboxPermissions { read, write, network, unix_sockets, syscalls, limits, full_access } =
        wanted;
    let mut grants: Vec<Grant> = Vec::new();
    grants.extend(read.iter().map(|path| Grant::Read(path.0.clone())));
    grants.extend(write.iter().map(|path| Grant::Write(path.0.clone())));
    grants.extend(network.iter().cloned().map(Grant::Network));
    grants.extend(unix_sockets.iter().map(|path| Grant::UnixSocket(path.0.clone())));
    grants.extend(syscalls.iter().cloned().map(Grant::Syscalls));
    for (name, value) in limits {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let setting = LimitSetting::new(name, &text).map_err(|error| Refusal {
            by: "escalation".to_owned(),
            reason: format!("sandbox_permissions: limits: {error}"),
        })?;
        grants.push(Grant::Limit(setting));
    }
    if *full_access {
        grants.push(Grant::FullAccess);
    }
    Ok(grants)
}

/// A call's mark: its tool and every byte of its frozen arguments.
pub(crate) fn call_digest(call: &PreparedCall) -> String {
    arguments_digest(call.tool(), call.input().value())
}

/// The mark that a call has in common with its retry: what it asks for beyond the policy does not count.
pub(crate) fn retry_digest(call: &PreparedCall) -> String {
    let mut input = call.input().value().clone();
    if let Some(input) = input.as_object_mut() {
        input.remove("sandbox_permissions");
        input.remove("justification");
        // What a call is described as, and how long it may take, do not make it another one.
        input.remove("description");
        input.remove("timeout");
    }
    arguments_digest(call.tool(), &input)
}

/// The digest of a call as the ledger has it: of its tool and its arguments as they are recorded, without the secrets in them. A digest of
/// the very bytes would tell a short secret to whoever tries them all.
pub fn recorded_digest(tool: &str, input: &Value) -> String {
    let mut input = input.clone();
    redact_json(&mut input);
    arguments_digest(tool, &input)
}

/// The digest of a call: of its tool and every byte of its arguments.
fn arguments_digest(tool: &str, input: &Value) -> String {
    let mut hash = Sha256::new();
    hash.update(tool.as_bytes());
    hash.update([0]);
    hash.update(input.to_string().as_bytes());
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
