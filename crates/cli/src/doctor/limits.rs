use super::diagnosis::LimitFinding;
use stockade_sandbox::linux::{HostCaps, Tier};

/// What holds each limit here, which decides how well it is held.
pub fn held_by(caps: &HostCaps) -> Vec<LimitFinding> {
    let bare = caps.tier() == Tier::Bare;
    let memory = match bare {
        true => "nothing: a policy that sets it is refused",
        false => {
            "the call's own /proc, looked at every 20 ms (a burst between two looks is not caught; no cgroup's memory.max is used)"
        }
    };
    let pids = match !bare && caps.has_own_pid_max() {
        true => "pid_max of the call's pid namespace, 301 at least (no cgroup's pids.max is used)",
        false => "RLIMIT_NPROC, which counts all processes of the user and does not bind root",
    };
    let end = match (bare, stockade_sys::cgroup::own().is_some()) {
        (false, _) => "the call's pid namespace",
        (true, true) => "cgroup.kill of a cgroup for each call",
        (true, false) => "a hunt for its descendants, which one that forks without end may outrun",
    };
    let rlimit = "rlimits, of each process by itself";
    [
        ("memory", memory),
        ("pids", pids),
        ("cpu", rlimit),
        ("files", rlimit),
        ("file_size", rlimit),
        ("end of the tree", end),
    ]
    .map(|(limit, held_by)| LimitFinding { limit, held_by })
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_a_limit_follows_from_what_the_host_has() {
        let held = |caps: &HostCaps, limit| {
            let found = held_by(caps).into_iter().find(|finding| finding.limit == limit);
            found.map_or("", |finding| finding.held_by)
        };
        let whole = HostCaps { kernel: (6, 18), ..HostCaps::ask() };
        let older = HostCaps { kernel: (6, 12), ..whole.clone() };
        let bare = whole.clone().no_userns();
        assert!(held(&whole, "pids").starts_with("pid_max"));
        assert!(held(&older, "pids").starts_with("RLIMIT_NPROC"));
        assert!(held(&bare, "pids").starts_with("RLIMIT_NPROC"));
        assert!(held(&bare, "memory").starts_with("nothing"));
        assert_ne!(held(&bare, "end of the tree"), held(&whole, "end of the tree"));
    }
}
