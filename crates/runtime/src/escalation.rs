use stockade_policy::Policy;
use stockade_tools::SandboxPermissions;
use stockade_types::Refusal;

/// The policy with what was asked for added. What a policy cannot express is refused by name, before anybody is asked.
pub(crate) fn widen(policy: &Policy, wanted: &SandboxPermissions) -> Result<Policy, Refusal> {
    let SandboxPermissions { read, write, network, unix_sockets, syscalls, limits, full_access } =
        wanted;
    let unsupported = [
        ("network", !network.is_empty()),
        ("unix_sockets", !unix_sockets.is_empty()),
        ("syscalls", !syscalls.is_empty()),
        ("limits", !limits.is_empty()),
        ("full_access", *full_access),
    ];
    let names: Vec<_> = unsupported.iter().filter(|(_, asked)| *asked).map(|(n, _)| *n).collect();
    if !names.is_empty() {
        let reason = format!(
            "sandbox_permissions: {} cannot be granted to a single call; read and write can",
            names.join(", ")
        );
        return Err(Refusal { by: "policy".to_owned(), reason });
    }
    // As literal paths, since a `*` or `$` in a name must not grant more than it says.
    let mut wider = policy.clone();
    wider.filesystem.literal.read.extend(read.iter().map(|path| path.0.clone()));
    wider.filesystem.literal.write.extend(write.iter().map(|path| path.0.clone()));
    Ok(wider)
}
