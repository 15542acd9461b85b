//! The laws of the lattice (issue 3), on policies made at random from few names, so that their entries meet often.

use super::*;
use crate::testing::{policy, variables};
use crate::{LimitSetting, NetworkMode, PathPattern};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use std::path::{Path, PathBuf};
use stockade_types::Layer;

const NAMES: [&str; 4] = ["a", "b", "ab", ".git"];
const GLOBS: [&str; 4] = ["a*", "*b", "*", "*a*"];
/// Names that no entry holds stand beside those that entries hold.
const SEEN: [&str; 6] = ["a", "b", "ab", "aab", ".git", "x"];

fn path(globs: bool) -> impl Strategy<Value = String> {
    let names: Vec<&str> = if globs { [NAMES, GLOBS].concat() } else { NAMES.to_vec() };
    vec(select(names), 1..4).prop_map(|names| format!("/{}", names.join("/")))
}

fn protected(globs: bool) -> impl Strategy<Value = String> {
    prop_oneof![
        path(globs),
        path(globs).prop_map(|path| path.trim_start_matches('/').to_owned()),
        select(vec!["**/a", "**/.git/b", "**/a/b", "**/ab"]).prop_map(str::to_owned),
    ]
}

fn hosts() -> impl Strategy<Value = Vec<String>> {
    vec(
        select(vec!["a.org", "*.a.org", "b.a.org:80", "*:80", "*", "10.0.0.1", "A.org:443"])
            .prop_map(str::to_owned),
        0..3,
    )
}

prop_compose! {
    fn files(globs: bool)(
        read in vec(path(globs), 0..4),
        write in vec(path(globs), 0..4),
        hide in vec(path(globs), 0..3),
        protect in vec(protected(globs), 0..3),
        sockets in vec(path(globs), 0..2),
    ) -> Policy {
        let mut policy = policy();
        policy.filesystem.read = read;
        policy.filesystem.write = write;
        policy.filesystem.hide = hide;
        policy.filesystem.protect = protect;
        policy.network.unix_sockets = sockets;
        policy
    }
}

prop_compose! {
    fn any_policy(globs: bool)(
        files in files(globs),
        mode in select(vec![NetworkMode::None, NetworkMode::Proxy, NetworkMode::Proxy, NetworkMode::Host]),
        allow in hosts(),
        deny in hosts(),
        keep in subsequence(vec!["PATH", "L*", "*_X", "LC_X", "*"], 0..4),
        scrub in subsequence(vec!["LC_*", "*Y"], 0..2),
        scrub_secrets: bool,
        memory in proptest::option::of(1..4u64),
        output in proptest::option::of(1..(4u64 << 20)),
        task_output in proptest::option::of(1..(128u64 << 20)),
        calls in subsequence(vec!["ptrace", "keyring", "all"], 0..3),
        denied in subsequence(vec!["mount", "bpf"], 0..2),
        required in subsequence(Layer::ALL.to_vec(), 11..=13),
    ) -> Policy {
        let mut policy = files;
        policy.network.mode = mode;
        if mode == NetworkMode::Proxy {
            policy.network.allow = allow;
            policy.network.deny = deny;
        }
        let text = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect::<Vec<_>>();
        policy.environment.keep = text(keep);
        policy.environment.scrub = text(scrub);
        policy.environment.scrub_secrets = scrub_secrets;
        policy.limits.memory = memory;
        policy.limits.output = output;
        policy.limits.task_output = task_output;
        policy.syscalls.deny = if calls.contains(&"all") { Vec::new() } else { text(denied) };
        policy.syscalls.allow = text(calls);
        policy.require = required.into_iter().filter(|layer| policy.requests(*layer)).collect();
        policy
    }
}

fn covers(a: &Policy, b: &Policy) -> bool {
    a.covers(b, &variables()).unwrap()
}

fn meet(a: &Policy, b: &Policy) -> Policy {
    a.meet(b, &variables()).unwrap()
}

/// Every path of up to three names, and one below each: no entry is longer.
fn paths() -> Vec<PathBuf> {
    let mut all = vec![PathBuf::from("/")];
    let mut last = all.clone();
    for _ in 0..3 {
        last = last.iter().flat_map(|path| SEEN.map(|name| path.join(name))).collect();
        all.extend(last.iter().cloned());
    }
    all.extend(last.iter().map(|path| path.join("x")));
    all
}

fn opened(policy: &Policy) -> Files {
    Files::new(&policy.expand(&variables()).unwrap())
}

fn within(low: Access, high: Access) -> bool {
    low.read <= high.read && low.write <= high.write && low.connect <= high.connect
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn covering_is_reflexive(a in any_policy(true)) {
        // Another order is another value, of the same meaning.
        let mut b = a.clone();
        b.filesystem.read.reverse();
        b.filesystem.hide.reverse();
        b.name = "other".to_owned();
        prop_assert!(covers(&a, &b) && covers(&b, &a));
    }

    #[test]
    fn covering_is_transitive(a in any_policy(true), b in any_policy(true), c in any_policy(true)) {
        let low = meet(&a, &b);
        let lowest = meet(&low, &c);
        prop_assert!(covers(&a, &low) && covers(&low, &lowest) && covers(&a, &lowest));
        if covers(&a, &b) && covers(&b, &c) {
            prop_assert!(covers(&a, &c));
        }
    }

    #[test]
    fn what_covers_allows_on_every_path_what_the_other_allows(a in files(true), b in files(true)) {
        let (in_a, in_b) = (opened(&a), opened(&b));
        let exceeds = |path: &PathBuf| !within(in_b.access(path), in_a.access(path));
        match b.excess_over(&[&a], &variables()).unwrap() {
            None => prop_assert_eq!(paths().into_iter().find(exceeds), None),
            Some(Excess(excess)) => {
                let at = excess.find('/').unwrap();
                prop_assert!(exceeds(&PathBuf::from(&excess[at..])), "{}", excess);
            }
        }
    }

    #[test]
    fn what_is_shown_in_a_hidden_folder_is_named_there_before_any_wildcard(a in files(true)) {
        let files = a.expand(&variables()).unwrap();
        let opened = Files::new(&files);
        let shown = || files.read.iter().chain(&files.write).chain(&files.unix_sockets);
        for path in paths() {
            let hidden = files.hide.iter().filter(|hidden| hidden.covers(&path));
            let deepest = hidden.map(PathPattern::depth).max().unwrap_or(0);
            let names = |entry: &PathPattern| {
                let fixed = PathPattern::literal(entry.base()).depth();
                entry.covers(&path) && entry.depth() > deepest && fixed >= deepest
            };
            // Without anything hidden on the way, any entry shows.
            let expected = shown().any(|entry| match deepest {
                0 => entry.covers(&path),
                _ => names(entry),
            });
            let access = opened.access(&path);
            prop_assert_eq!(access.read, expected, "{:?}", path);
            prop_assert!(access.read || access == Access::default(), "{:?}", path);
        }
    }

    #[test]
    fn a_meet_is_below_both(a in any_policy(true), b in any_policy(true)) {
        let met = meet(&a, &b);
        for upper in [&a, &b] {
            let excess = met.excess_over(&[upper], &variables()).unwrap();
            prop_assert_eq!(excess, None);
        }
    }

    #[test]
    fn a_meet_is_the_greatest_of_what_is_below_both(
        a in any_policy(false), b in any_policy(false), c in any_policy(false)
    ) {
        let met = meet(&a, &b);
        prop_assert!(covers(&met, &meet(&b, &a)));
        let below = meet(&a, &c);
        if covers(&b, &below) {
            prop_assert_eq!(below.excess_over(&[&met], &variables()).unwrap(), None);
        }
        let (in_a, in_b, in_met) = (opened(&a), opened(&b), opened(&met));
        for path in paths() {
            let (a, b) = (in_a.access(&path), in_b.access(&path));
            let both = Access {
                read: a.read && b.read,
                write: a.write && b.write,
                connect: a.connect && b.connect,
            };
            prop_assert_eq!(in_met.access(&path), both, "{:?}", path);
        }
    }

    #[test]
    fn the_meet_with_what_covers_is_the_policy_itself(a in any_policy(false), b in any_policy(false)) {
        let low = meet(&a, &b);
        let again = meet(&a, &low);
        prop_assert!(covers(&low, &again) && covers(&again, &low));
    }

    #[test]
    fn widening_allows_strictly_more_and_undoes_nothing_hidden_or_protected(
        a in any_policy(true), ceiling in any_policy(true), grants in vec(grant(), 1..3)
    ) {
        let variables = variables();
        let Ok(wider) = a.widen(&grants, None, &variables) else { return Ok(()) };
        prop_assert!(covers(&wider, &a) && !covers(&a, &wider));
        let before = a.expand(&variables).unwrap();
        let (in_a, in_wider) = (opened(&a), opened(&wider));
        for path in paths() {
            let (was, is) = (in_a.access(&path), in_wider.access(&path));
            // The deepest entry that speaks of the path hid it.
            let deepest = |list: &[crate::PathPattern]| {
                list.iter().filter(|entry| entry.covers(&path)).map(crate::PathPattern::depth).max()
            };
            if !was.read && deepest(&before.hide).is_some() {
                prop_assert!(!is.read, "{:?} was hidden", path);
            }
            // Within what is hidden, a wildcard that begins outside names nothing.
            let hides = || before.hide.iter().filter(|entry| entry.covers(&path));
            let names = |entry: &&crate::PathPattern| {
                entry.covers(&path) && hides().all(|hidden| hidden.covers(entry.base()))
            };
            let rooted = before.write.iter().filter(names).map(crate::PathPattern::depth).max();
            if !was.write && was.read && rooted.is_some() && rooted >= deepest(&before.hide).map(|d| d + 1) {
                prop_assert!(!is.write, "{:?} was protected", path);
            }
        }
        match a.widen(&grants, Some(&ceiling), &variables) {
            Ok(wider) => {
                prop_assert_eq!(wider.excess_over(&[&a, &ceiling], &variables).unwrap(), None);
                if covers(&ceiling, &a) {
                    prop_assert!(covers(&ceiling, &wider));
                }
            }
            Err(error) => prop_assert!(matches!(error, WidenError::BeyondCeiling { .. }), "{}", error),
        }
    }
}

fn grant() -> impl Strategy<Value = Grant> {
    prop_oneof![
        path(false).prop_map(|path| Grant::Read(path.into())),
        path(false).prop_map(|path| Grant::Write(path.into())),
        path(false).prop_map(|path| Grant::UnixSocket(path.into())),
        select(vec!["a.org", "c.a.org:80", "*.b.org"]).prop_map(|host| Grant::Network(host.into())),
        select(vec!["ptrace", "mount"]).prop_map(|name| Grant::Syscalls(name.into())),
        (1..5u64).prop_map(|n| Grant::Limit(LimitSetting::new("memory", &n.to_string()).unwrap())),
    ]
}

fn workspace_write() -> Policy {
    Policy::load(std::ffi::OsStr::new("workspace-write")).unwrap()
}

#[test]
fn each_shipped_policy_covers_the_narrower_ones() {
    // spec 5.1: in the order in which they are listed
    let variables = variables();
    let load = |name: &str| Policy::load(std::ffi::OsStr::new(name)).unwrap();
    let [narrow, tests, middle, build, wide] =
        ["read-only", "offline-tests", "workspace-write", "build", "danger-full-access"].map(load);
    for (low, high) in [
        (&narrow, &middle),
        (&tests, &middle),
        (&middle, &build),
        (&narrow, &build),
        (&middle, &wide),
    ] {
        assert_eq!(low.excess_over(&[high], &variables).unwrap(), None);
        assert!(high.excess_over(&[low], &variables).unwrap().is_some());
        assert!(covers(low, &meet(high, low)) && covers(&meet(high, low), low));
    }
}

#[test]
fn a_grant_reaches_neither_what_is_hidden_nor_what_is_protected_by_any_way() {
    // spec 7.2
    let (policy, variables) = (workspace_write(), variables());
    let widen = |grant: Grant| policy.widen(&[grant], None, &variables);
    for (grant, by) in [
        (Grant::Read("/home/u/.ssh".into()), "/home/u/.ssh"),
        (Grant::Read("/home/u/.ssh/config".into()), "/home/u/.ssh"),
        (Grant::Write("/w/.git/hooks/pre-commit".into()), ".git/hooks"),
    ] {
        let error = widen(grant.clone()).unwrap_err();
        assert!(
            matches!(&error, WidenError::Denied { by: found, .. } if found.contains(by)),
            "{error}"
        );
    }
    for (grant, path) in [
        (Grant::Write("/w/.git".into()), "/w/.git/hooks/x"),
        (Grant::Write("/home/u".into()), "/home/u/.ssh/x"),
        (Grant::Read("/".into()), "/etc/shadow"),
    ] {
        let wider = widen(grant);
        if let Ok(wider) = wider {
            let access = wider.access(Path::new(path), &variables).unwrap();
            assert!(!access.write, "{path}");
        }
    }
    let wider = widen(Grant::Read("/".into())).unwrap();
    assert!(!wider.access(Path::new("/etc/shadow"), &variables).unwrap().read);
    assert!(wider.access(Path::new("/var/log/x"), &variables).unwrap().read);
}

#[test]
fn what_helps_nothing_and_what_is_beyond_the_ceiling_is_refused_without_asking() {
    // spec 7.2
    let (policy, variables) = (workspace_write(), variables());
    let read = |path: &str| Grant::Read(path.into());
    assert!(matches!(
        policy.widen(&[read("/usr/lib"), read("/w")], None, &variables),
        Err(WidenError::NothingMore { .. })
    ));
    let mut ceiling = policy.clone();
    ceiling.name = "project".to_owned();
    ceiling.filesystem.read.push("/srv".to_owned());
    ceiling.network = "*.org".parse().unwrap();
    let widen = |grants: &[Grant]| policy.widen(grants, Some(&ceiling), &variables);
    assert!(widen(&[read("/srv/data")]).is_ok());
    assert!(widen(&[Grant::Network("crates.org:443".into())]).is_ok());
    for grants in [
        vec![read("/srv/data"), read("/var/log")],
        vec![Grant::Network("example.com".into())],
        vec![Grant::Write("/srv/data".into())],
        vec![Grant::Syscalls("ptrace".into())],
        vec![Grant::FullAccess],
    ] {
        let error = widen(&grants).unwrap_err();
        assert!(
            matches!(&error, WidenError::BeyondCeiling { ceiling, .. } if ceiling == "project"),
            "{error}"
        );
    }
}

#[test]
fn full_access_is_a_grant() {
    // spec 7.5
    let (policy, variables) = (workspace_write(), variables());
    let full = policy.widen(&[Grant::FullAccess], None, &variables).unwrap();
    assert!(full.is_full_access() && full.network.mode == NetworkMode::Host);
    assert!(covers(&full, &policy));
    for (grant, by) in [
        (Grant::Write("/".into()), "full_access"),
        (Grant::Syscalls("all".into()), "full_access"),
        (Grant::Read("x".into()), "absolute"),
        (Grant::Network("https://a.org".into()), "URL"),
    ] {
        let error = policy.widen(&[grant], None, &variables).unwrap_err().to_string();
        assert!(error.contains(by), "{error}");
    }
}
