use super::diagnosis::LimitFinding;
use stockade_sandbox::linux::{HostCaps, Tier};
use stockade_sys::cgroup::Controllers;

/// What holds each limit here, which decides how well it is held.
pub fn held_by(caps: &HostCaps) -> Vec<LimitFinding> {
    let delegated = stockade_sys::cgroup::home().map_or(Controllers::NONE, |home| home.controllers);
    held_with(caps, delegated)
}

fn held_with(caps: &HostCaps, given: Controllers) -> Vec<LimitFinding> {
    let bare = caps.tier() == Tier::Bare;
    let memory = match bare {
        _ if given.memory => "memory.max of a cgroup for each call",
        true => "nothing: a policy that sets it is refused",
        false => {
            "the call's own /proc, looked at every 20 ms (a burst between two looks is not caught; no cgroup with the memory controller is delegated)"
        }
    };
    let pids = match !bare && caps.has_own_pid_max() {
        _ if given.pids => "pids.max of a cgroup for each call",
        true => {
            "pid_max of the call's pid namespace, 301 at least (no cgroup with the pids controller is delegated)"
        }
        false => "RLIMIT_NPROC, which counts all processes of the user and does not bind root",
    };
    let ends = given != Controllers::NONE || stockade_sys::cgroup::own().is_some();
    let end = match (bare, ends) {
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
        let held_given = |caps: &HostCaps, given, limit| {
            let found = held_with(caps, given).into_iter().find(|finding| finding.limit == limit);
            found.map_or("", |finding| finding.held_by)
        };
        let held = |caps: &HostCaps, limit| held_given(caps, Controllers::NONE, limit);
        let whole = HostCaps { kernel: (6, 18), ..HostCaps::ask() };
        let older = HostCaps { kernel: (6, 12), ..whole.clone() };
        let bare = whole.clone().no_userns();
        assert!(held(&whole, "pids").starts_with("pid_max"));
        assert!(held(&older, "pids").starts_with("RLIMIT_NPROC"));
        assert!(held(&bare, "pids").starts_with("RLIMIT_NPROC"));
        assert!(held(&bare, "memory").starts_with("nothing"));
        let both = Controllers { memory: true, pids: true };
        for caps in [&whole, &older, &bare] {
            assert!(held_given(caps, both, "memory").starts_with("memory.max"));
            assert!(held_given(caps, both, "pids").starts_with("pids.max"));
        }
        assert_ne!(held(&bare, "end of the tree"), held(&whole, "end of the tree"));
    }
}
