//! From a resolved policy to one that may run here: every layer that it asks for is there, or its `require` lets it go by
//! name (spec 5.3).

use super::host::HostCaps;
use stockade_policy::{NetworkMode, Policy};
use stockade_types::{Layer, LayerReport, LayerState, Refusal};

/// What confines calls under this policy on this host, or why they are refused.
pub fn seal(policy: &Policy, host: &HostCaps) -> Result<LayerReport, Refusal> {
    if policy.network.mode == NetworkMode::Proxy {
        return Err(Refusal {
            by: "host".into(),
            reason: "a network allowlist needs the egress proxy, which this version does not have: use --net none or --net host".into(),
        });
    }
    if let Some(pids) = policy.limits.pids
        && pids < LEAST_PIDS
    {
        return Err(Refusal {
            by: "host".into(),
            reason: format!(
                "the limit pids={pids} cannot be enforced here: the least is {LEAST_PIDS}"
            ),
        });
    }
    for (key, is_set) in [
        ("ceiling", policy.escalation.ceiling.is_some()),
        ("always_ask", !policy.escalation.always_ask.is_empty()),
    ] {
        if is_set {
            return Err(Refusal {
                by: "host".into(),
                reason: format!("[escalation] {key} cannot be enforced yet: leave it out"),
            });
        }
    }
    if let Some(pattern) = policy.filesystem.protect.iter().find(|entry| entry.contains('*')) {
        return Err(Refusal {
            by: "host".into(),
            reason: format!(
                "[filesystem] protect = [{pattern:?}] cannot be enforced yet: name each path without '*'"
            ),
        });
    }
    let mut report = LayerReport::default();
    for layer in Layer::ALL {
        report.push(layer, state(policy, host, layer)?);
    }
    Ok(report)
}

/// The kernel's lowest `pid_max` is one more than its 300 reserved pids.
pub const LEAST_PIDS: u64 = 301;

fn state(policy: &Policy, host: &HostCaps, layer: Layer) -> Result<LayerState, Refusal> {
    if !policy.requests(layer) {
        return Ok(LayerState::NotRequested);
    }
    let Some(reason) = host.lacks(layer) else {
        let detail = match layer {
            Layer::Landlock => format!("abi {}", host.landlock_abi.unwrap_or(0)),
            Layer::Seccomp if !host.seccomp_notify => {
                "what it refuses cannot be named: that takes kernel 5.19".into()
            }
            Layer::Rlimits if policy.limits.pids.is_some() && !host.has_own_pid_max() => {
                "pids by RLIMIT_NPROC, which does not bind root: kernel 6.14 has a limit for each call".into()
            }
            _ => String::new(),
        };
        return Ok(LayerState::Enforced { detail });
    };
    // Only Landlock and seccomp can be left out: the rest carries the cell itself.
    let optional = matches!(layer, Layer::Landlock | Layer::Seccomp);
    if optional && !policy.require.contains(&layer) {
        return Ok(LayerState::Missing { reason });
    }
    Err(Refusal {
        by: "host".into(),
        reason: format!(
            "the policy {} requires {layer}, which cannot be had here ({reason}); `stockade doctor` says more",
            policy.name
        ),
    })
}

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
            root: false,
            missing: Vec::new(),
        }
    }

    #[test]
    fn a_missing_required_layer_is_refused_by_its_name() {
        // spec 5.3
        for (layer, host) in [
            (Layer::Landlock, HostCaps { landlock_abi: None, ..host() }),
            (Layer::Seccomp, HostCaps { seccomp: false, ..host() }),
            (
                Layer::UserNamespace,
                HostCaps { missing: vec![(Layer::UserNamespace, "forbidden".into())], ..host() },
            ),
        ] {
            let refusal = seal(&policy(), &host).unwrap_err();
            assert!(refusal.reason.contains(layer.name()), "{refusal}");
        }
    }

    #[test]
    fn a_layer_that_is_not_required_is_reported_missing() {
        // spec 5.3
        let mut policy = policy();
        policy.require.retain(|layer| *layer != Layer::Landlock);
        let report = seal(&policy, &HostCaps { landlock_abi: None, ..host() }).unwrap();
        let entry = report.0.iter().find(|entry| entry.layer == Layer::Landlock).unwrap();
        assert!(matches!(entry.state, LayerState::Missing { .. }), "{entry:?}");
    }

    #[test]
    fn what_cannot_be_enforced_yet_is_refused_by_its_name() {
        let mut proxy = policy();
        proxy.network.mode = NetworkMode::Proxy;
        assert!(seal(&proxy, &host()).unwrap_err().reason.contains("proxy"));
        let mut anywhere = policy();
        anywhere.filesystem.protect.push("**/.envrc".into());
        assert!(seal(&anywhere, &host()).unwrap_err().reason.contains("**/.envrc"));
        let mut ceiling = policy();
        ceiling.escalation.ceiling = Some("workspace-write".into());
        assert!(seal(&ceiling, &host()).unwrap_err().reason.contains("ceiling"));
        let mut few = policy();
        few.limits.pids = Some(5);
        assert!(seal(&few, &host()).unwrap_err().reason.contains("pids=5"));
    }
}
