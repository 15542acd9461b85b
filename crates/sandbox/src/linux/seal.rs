//! From a resolved policy to one that may run here: every layer that it asks for is there, or its `require` lets it go by
//! name (spec 5.3).

use super::bare;
use super::host::{HostCaps, Tier};
use stockade_policy::{NetworkMode, Policy};
use stockade_sys::cgroup::Controllers;
use stockade_types::{Layer, LayerReport, LayerState, Refusal};

/// Refuses what cannot be enforced whatever layers there are; `bare`: without namespaces.
pub fn check(policy: &Policy, bare: bool, controllers: Controllers) -> Result<(), Refusal> {
    if policy.network.mode == NetworkMode::Proxy {
        return Err(Refusal {
            by: "host".into(),
            reason: "a network allowlist needs the egress proxy, which this version does not have: use --net none or --net host".into(),
        });
    }
    if let Some(pids) = policy.limits.pids
        && !bare
        && !controllers.pids
        && pids < LEAST_PIDS
    {
        return Err(Refusal {
            by: "host".into(),
            reason: format!(
                "the limit pids={pids} cannot be enforced here: the least is {LEAST_PIDS}"
            ),
        });
    }
    if let Some(pattern) = policy.filesystem.protect.iter().find(|entry| entry.contains('*')) {
        return Err(Refusal {
            by: "host".into(),
            reason: format!(
                "[filesystem] protect = [{pattern:?}] cannot be enforced yet: name each path without '*'"
            ),
        });
    }
    Ok(())
}

/// What confines calls under this policy on this host, or why they are refused; with the controllers of each call's cgroup.
pub fn seal(
    policy: &Policy,
    host: &HostCaps,
    controllers: Controllers,
) -> Result<LayerReport, Refusal> {
    let bare = host.tier() == Tier::Bare;
    check(policy, bare, controllers)?;
    let missing: Vec<(Layer, String)> = Layer::ALL
        .into_iter()
        .filter(|layer| policy.requests(*layer))
        .filter_map(|layer| Some((layer, lacks(host, layer)?)))
        .collect();
    let unenforced = if bare { bare::unenforced(policy, host) } else { held_once() };
    let required: Vec<_> =
        missing.iter().filter(|(layer, _)| policy.require.contains(layer)).collect();
    if !required.is_empty() {
        return Err(refusal(policy, &required, &unenforced));
    }
    if bare {
        bare::check(policy, host, controllers)?;
    }
    let mut report = LayerReport::default();
    for layer in Layer::ALL {
        let state = match missing.iter().find(|(missing, _)| *missing == layer) {
            _ if !policy.requests(layer) => LayerState::NotRequested,
            None => LayerState::Enforced { detail: detail(policy, host, controllers, layer) },
            Some((_, reason)) => {
                let rules = unenforced.iter().filter(|(_, takes)| *takes == layer);
                let rules: Vec<&str> = rules.map(|(rule, _)| rule.as_str()).collect();
                let reason = match rules.as_slice() {
                    [] => reason.clone(),
                    rules => format!("{reason}; not enforced: {}", rules.join("; ")),
                };
                LayerState::Missing { reason }
            }
        };
        report.push(layer, state);
    }
    Ok(report)
}

/// The rules that lose something where namespaces can be had, but a layer beside them cannot, each with that layer.
fn held_once() -> Vec<(String, Layer)> {
    [
        (
            "filesystem.read and filesystem.write a second time (the mounts hold them)",
            Layer::Landlock,
        ),
        ("syscalls (every call of the kernel is allowed)", Layer::Seccomp),
        ("ids of the call's own (who is root inside is root outside)", Layer::UserNamespace),
    ]
    .map(|(rule, takes)| (rule.to_owned(), takes))
    .into()
}

/// How the reason of a layer starts that could perhaps be had, but not alone.
const NOT_USED: &str = "not used without";

/// Why a layer is not used here; `None` if it is.
fn lacks(host: &HostCaps, layer: Layer) -> Option<String> {
    let by_namespaces = matches!(
        layer,
        Layer::UserNamespace
            | Layer::PidNamespace
            | Layer::MountNamespace
            | Layer::NetworkNamespace
            | Layer::IpcNamespace
            | Layer::UtsNamespace
            | Layer::CgroupNamespace
            | Layer::MountTree
    );
    host.lacks(layer).or_else(|| {
        (by_namespaces && host.tier() == Tier::Bare).then(|| match bare::blocking(host) {
            Some((blocking, _)) => format!("{NOT_USED} {blocking}"),
            None => format!("{NOT_USED} namespaces"),
        })
    })
}

fn detail(policy: &Policy, host: &HostCaps, controllers: Controllers, layer: Layer) -> String {
    let bare = host.tier() == Tier::Bare;
    match layer {
        Layer::Landlock => format!("abi {}", host.landlock_abi.unwrap_or(0)),
        Layer::Seccomp if !host.seccomp_notify => {
            "what it refuses cannot be named: that takes kernel 5.19".into()
        }
        Layer::Rlimits => limits(policy, bare || !host.has_own_pid_max(), controllers),
        _ => String::new(),
    }
}

/// What bounds memory and processes, where the policy does and it is not what the host has at its best without a cgroup.
fn limits(policy: &Policy, no_pid_max: bool, controllers: Controllers) -> String {
    let memory = (policy.limits.memory.is_some() && controllers.memory)
        .then_some("memory by memory.max of the call's cgroup");
    let pids = policy.limits.pids.and(match (controllers.pids, no_pid_max) {
        (true, _) => Some("pids by pids.max of the call's cgroup"),
        (false, true) => Some(
            "pids by RLIMIT_NPROC, which counts all processes of the user and does not bind root: kernel 6.14 with a pid_namespace has a limit for each call, and so has a delegated cgroup",
        ),
        (false, false) => None,
    });
    memory.into_iter().chain(pids).collect::<Vec<_>>().join("; ")
}

/// Says which layers are missing and why, which rules that concerns, and what to do.
fn refusal(
    policy: &Policy,
    required: &[&(Layer, String)],
    unenforced: &[(String, Layer)],
) -> Refusal {
    let names: Vec<&str> = required.iter().map(|(layer, _)| layer.name()).collect();
    let mut reasons: Vec<&str> = Vec::new();
    for (_, reason) in required {
        if !reason.starts_with(NOT_USED) && !reasons.contains(&reason.as_str()) {
            reasons.push(reason);
        }
    }
    let rules: Vec<String> = unenforced
        .iter()
        .filter(|(_, takes)| required.iter().any(|(layer, _)| layer == takes))
        .map(|(rule, takes)| format!("{rule} takes {takes}"))
        .collect();
    let rules = match rules.as_slice() {
        [] => String::new(),
        rules => format!(" Without them these rules cannot be enforced: {}.", rules.join("; ")),
    };
    Refusal {
        by: "host".into(),
        reason: format!(
            "the policy {} requires {}, which cannot be had here ({}).{rules} `stockade doctor` says how to get them; a policy that extends this one with a `require` of its own runs with less, and says so in its result",
            policy.name,
            names.join(", "),
            reasons.join("; "),
        ),
    }
}

/// The kernel's lowest `pid_max` is one more than its 300 reserved pids.
pub const LEAST_PIDS: u64 = 301;

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    fn policy() -> Policy {
        Policy::load(OsStr::new("workspace-write")).unwrap()
    }

    fn host() -> HostCaps {
        HostCaps {
            kernel: (6, 18),
            landlock_abi: Some(7),
            seccomp: true,
            seccomp_notify: true,
            audit_records: false,
            root: false,
            admin: false,
            missing: Vec::new(),
        }
    }

    #[test]
    fn a_missing_required_layer_is_refused_by_its_name_with_the_rules_that_take_it() {
        // spec 5.3
        for (layer, host) in [
            (Layer::Landlock, HostCaps { landlock_abi: None, ..host() }),
            (Layer::Seccomp, HostCaps { seccomp: false, ..host() }),
            (
                Layer::UserNamespace,
                HostCaps {
                    root: true,
                    admin: true,
                    missing: vec![(Layer::UserNamespace, "forbidden".into())],
                    ..host()
                },
            ),
        ] {
            let refusal = seal(&policy(), &host, Controllers::NONE).unwrap_err();
            assert!(refusal.reason.contains(&format!(" requires {layer}, ")), "{refusal}");
            assert!(refusal.reason.contains(&format!(" takes {layer}.")), "{refusal}");
        }
    }

    #[test]
    fn a_layer_that_is_not_required_is_reported_missing() {
        // spec 5.3
        let mut policy = policy();
        policy.require.retain(|layer| *layer != Layer::Landlock);
        let report =
            seal(&policy, &HostCaps { landlock_abi: None, ..host() }, Controllers::NONE).unwrap();
        let entry = report.0.iter().find(|entry| entry.layer == Layer::Landlock).unwrap();
        assert!(matches!(entry.state, LayerState::Missing { .. }), "{entry:?}");
    }

    #[test]
    fn what_cannot_be_enforced_yet_is_refused_by_its_name() {
        let mut proxy = policy();
        proxy.network.mode = NetworkMode::Proxy;
        assert!(seal(&proxy, &host(), Controllers::NONE).unwrap_err().reason.contains("proxy"));
        let mut anywhere = policy();
        anywhere.filesystem.protect.push("**/.envrc".into());
        assert!(
            seal(&anywhere, &host(), Controllers::NONE).unwrap_err().reason.contains("**/.envrc")
        );
        let mut few = policy();
        few.limits.pids = Some(5);
        assert!(seal(&few, &host(), Controllers::NONE).unwrap_err().reason.contains("pids=5"));
    }
    // spec 6.4
    #[test]
    fn a_delegated_cgroup_holds_what_a_host_without_it_is_refused_and_the_report_says_so() {
        let both = Controllers { memory: true, pids: true };
        let mut few = policy();
        (few.limits.pids, few.limits.memory) = (Some(5), Some(1 << 30));
        let report = seal(&few, &host(), both).unwrap();
        let entry = report.0.iter().find(|entry| entry.layer == Layer::Rlimits).unwrap();
        let LayerState::Enforced { detail } = &entry.state else { panic!("{entry:?}") };
        assert!(detail.contains("memory.max") && detail.contains("pids.max"), "{detail}");
        let memory_alone = Controllers { memory: true, pids: false };
        assert!(seal(&few, &host(), memory_alone).unwrap_err().reason.contains("pids=5"));

        few.limits.pids = None;
        few.require.clear();
        let bare = host().no_userns();
        assert!(seal(&few, &bare, Controllers::NONE).unwrap_err().reason.contains("limits.memory"));
        assert!(seal(&few, &bare, memory_alone).is_ok());
    }
}
