use stockade_policy::Policy;
use stockade_tools::{PathInput, SandboxPermissions};
use stockade_types::Refusal;

/// The policy with what was asked for added. What a policy cannot express is refused by name, before anybody is asked.
pub(crate) fn widen(policy: &Policy, wanted: &SandboxPermissions) -> Result<Policy, Refusal> {
    let SandboxPermissions {
        read,
        write,
        network,
        unix_sockets,
        syscalls,
        limits,
        full_access,
    } = wanted;
    let unsupported = [
        ("network", !network.is_empty()),
        ("unix_sockets", !unix_sockets.is_empty()),
        ("syscalls", !syscalls.is_empty()),
        ("limits", !limits.is_empty()),
        ("full_access", *full_access),
    ];
    let names: Vec<_> = unsupported
        .iter()
        .filter(|(_, asked)| *asked)
        .map(|(n, _)| *n)
        .collect();
    if !names.is_empty() {
        return Err(refused(format!(
            "sandbox_permissions: {} cannot be granted to a single call; read and write can",
            names.join(", ")
        )));
    }
    let mut wider = policy.clone();
    for path in read {
        wider.filesystem.read.push(pattern(path)?);
    }
    for path in write {
        wider.filesystem.write.push(pattern(path)?);
    }
    Ok(wider)
}

/// A path as a policy's pattern. One that would mean more there than it says is refused.
fn pattern(path: &PathInput) -> Result<String, Refusal> {
    match path.0.to_str() {
        Some(text) if !text.contains(['*', '$', '~']) => Ok(text.to_owned()),
        _ => Err(refused(format!(
            "sandbox_permissions: {} cannot be granted: a policy cannot name a path that holds '*', '$', '~' or is not \
             UTF-8",
            path.display()
        ))),
    }
}

fn refused(reason: String) -> Refusal {
    Refusal {
        by: "policy".to_owned(),
        reason,
    }
}
