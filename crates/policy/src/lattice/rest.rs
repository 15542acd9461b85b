//! The parts of a policy that are ordered by themselves: environment, limits, system calls, layers.

use super::name::{Name, one_of_each_kind};
use crate::{EnvironmentPolicy, LimitsPolicy, Policy, SyscallPolicy, wildcard};
use std::collections::HashSet;
use std::time::Duration;
use stockade_types::Layer;

/// What a limit that no policy sets is when a command runs.
const GRACE: Duration = Duration::from_secs(2);
const OUTPUT: u64 = 1 << 20;
const TASK_OUTPUT: u64 = 64 << 20;

/// Every limit by its name; `None` is no limit.
pub(super) fn limits(limits: &LimitsPolicy) -> [(&'static str, Option<u128>); 9] {
    // Taken apart without `..`: a limit that were forgotten would be no limit here.
    let LimitsPolicy { wall, grace, memory, pids, cpu, files, file_size, output, task_output } =
        limits;
    let number = |limit: &Option<u64>| limit.map(u128::from);
    [
        ("wall", wall.as_ref().map(Duration::as_nanos)),
        ("grace", Some(grace.unwrap_or(GRACE).as_nanos())),
        ("memory", number(memory)),
        ("pids", number(pids)),
        ("cpu", number(cpu)),
        ("files", number(files)),
        ("file_size", number(file_size)),
        ("output", Some(u128::from(output.unwrap_or(OUTPUT)))),
        ("task_output", Some(u128::from(task_output.unwrap_or(TASK_OUTPUT)))),
    ]
}

pub(super) fn limits_excess(lower: &LimitsPolicy, uppers: &[&LimitsPolicy]) -> Option<String> {
    let beyond = |index: usize, value: Option<u128>| {
        !uppers.iter().any(|upper| {
            let upper = limits(upper).get(index).and_then(|(_, value)| *value);
            match (value, upper) {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some(value), Some(upper)) => value <= upper,
            }
        })
    };
    let mut all = limits(lower).into_iter().enumerate();
    all.find(|(index, (_, value))| beyond(*index, *value))
        .map(|(_, (name, _))| format!("the limit {name}"))
}

/// Of each limit the narrower (`least`) or the wider one.
fn combine(a: &LimitsPolicy, b: &LimitsPolicy, least: bool) -> LimitsPolicy {
    fn pick<T: Ord + Copy>(a: Option<T>, b: Option<T>, least: bool) -> Option<T> {
        match (a, b, least) {
            (Some(a), Some(b), true) => Some(a.min(b)),
            (a, b, true) => a.or(b),
            (a, b, false) => Some(a?.max(b?)),
        }
    }
    LimitsPolicy {
        wall: pick(a.wall, b.wall, least),
        grace: pick(a.grace.or(Some(GRACE)), b.grace.or(Some(GRACE)), least),
        memory: pick(a.memory, b.memory, least),
        pids: pick(a.pids, b.pids, least),
        cpu: pick(a.cpu, b.cpu, least),
        files: pick(a.files, b.files, least),
        file_size: pick(a.file_size, b.file_size, least),
        output: pick(a.output.or(Some(OUTPUT)), b.output.or(Some(OUTPUT)), least),
        task_output: pick(
            a.task_output.or(Some(TASK_OUTPUT)),
            b.task_output.or(Some(TASK_OUTPUT)),
            least,
        ),
    }
}

pub(super) fn limits_meet(a: &LimitsPolicy, b: &LimitsPolicy) -> LimitsPolicy {
    combine(a, b, true)
}

pub(super) fn limits_join(a: &LimitsPolicy, b: &LimitsPolicy) -> LimitsPolicy {
    combine(a, b, false)
}

/// A variable of the host that `lower` takes over and none of `uppers` does. What is set to a value of the policy's own is no
/// permission.
pub(super) fn environment_excess(
    lower: &EnvironmentPolicy,
    uppers: &[&EnvironmentPolicy],
) -> Option<String> {
    if lower.keep.is_empty() || uppers.iter().any(|upper| plainly_covers(upper, lower)) {
        return None;
    }
    let mut literals: HashSet<&[u8]> = HashSet::new();
    let mut globs: HashSet<&[u8]> = HashSet::new();
    for policy in uppers.iter().copied().chain([lower]) {
        for pattern in policy.keep.iter().chain(&policy.scrub) {
            let set = if pattern.contains('*') { &mut globs } else { &mut literals };
            set.insert(pattern.as_bytes());
        }
    }
    let Some(others) = one_of_each_kind(&globs, &literals) else {
        return Some("variables by too many patterns to compare".to_owned());
    };
    let passes = |policy: &EnvironmentPolicy, name: &[u8]| {
        let named = |list: &[String]| {
            list.iter().any(|pattern| wildcard::matches(pattern.as_bytes(), name))
        };
        named(&policy.keep) && !named(&policy.scrub)
    };
    let names = literals.into_iter().map(<[u8]>::to_vec).chain(others);
    for name in names.filter(|name| passes(lower, name)) {
        let more: Vec<&EnvironmentPolicy> =
            uppers.iter().copied().filter(|upper| passes(upper, &name)).collect();
        let text = String::from_utf8_lossy(&name).into_owned();
        if more.is_empty() {
            return Some(format!("the variable {text}"));
        }
        // What the scrubbers take away can be told by name and value alone, so they are compared as a whole.
        let scrubs_no_more = |upper: &&EnvironmentPolicy| {
            (lower.scrub_secrets || !upper.scrub_secrets)
                && (lower.scrub_loaders || !upper.scrub_loaders)
        };
        if !more.iter().any(scrubs_no_more) {
            return Some(format!("the variable {text} with secrets or loaders not scrubbed"));
        }
    }
    None
}

/// Whether that can be told pattern by pattern, as it mostly can: comparing the names of each kind takes half a second for a policy that
/// keeps everything.
fn plainly_covers(upper: &EnvironmentPolicy, lower: &EnvironmentPolicy) -> bool {
    // A `*` in a pattern is matched as a byte that only a `*` stands for: then all its names are matched.
    let within = |pattern: &String, list: &[String]| {
        list.iter().any(|wider| wildcard::matches(wider.as_bytes(), pattern.as_bytes()))
    };
    lower.keep.iter().all(|pattern| within(pattern, &upper.keep))
        && upper.scrub.iter().all(|pattern| within(pattern, &lower.scrub))
        && (lower.scrub_secrets || !upper.scrub_secrets)
        && (lower.scrub_loaders || !upper.scrub_loaders)
}

pub(super) fn environment_meet(a: &EnvironmentPolicy, b: &EnvironmentPolicy) -> EnvironmentPolicy {
    let text = |name: Name| {
        let (Name::Literal(bytes) | Name::Glob(bytes)) = name;
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let mut keep: Vec<String> = a
        .keep
        .iter()
        .flat_map(|ours| {
            let ours = Name::written(ours);
            b.keep.iter().flat_map(move |theirs| ours.intersect(&Name::written(theirs)))
        })
        .map(text)
        .collect();
    keep.sort();
    keep.dedup();
    let mut scrub = a.scrub.clone();
    scrub.extend(b.scrub.iter().filter(|entry| !a.scrub.contains(entry)).cloned());
    let mut set = b.set.clone();
    set.extend(a.set.clone());
    EnvironmentPolicy {
        keep,
        set,
        scrub,
        scrub_secrets: a.scrub_secrets || b.scrub_secrets,
        scrub_loaders: a.scrub_loaders || b.scrub_loaders,
    }
}

pub(super) fn all_calls(policy: &SyscallPolicy) -> bool {
    policy.allow.iter().any(|name| name == "all")
}

/// Names and groups are compared as they are written: which calls a group has is the sandbox's knowledge.
pub(super) fn syscalls_excess(lower: &SyscallPolicy, uppers: &[&SyscallPolicy]) -> Option<String> {
    let allows = |policy: &SyscallPolicy, name: &String| {
        !policy.deny.contains(name) && (all_calls(policy) || policy.allow.contains(name))
    };
    let unfiltered = uppers.iter().any(|upper| all_calls(upper));
    if all_calls(lower) && !unfiltered {
        return Some("all system calls".to_owned());
    }
    let named = lower.allow.iter().filter(|name| *name != "all");
    let mut beyond = named
        .filter(|name| allows(lower, name))
        .filter(|name| !uppers.iter().any(|upper| allows(upper, name)));
    if let Some(name) = beyond.next() {
        return Some(format!("the system calls {name:?}"));
    }
    // What everybody above refuses and this policy does not.
    let (first, others) = uppers.split_first()?;
    let mut refused = first.deny.iter().filter(|name| others.iter().all(|o| o.deny.contains(name)));
    refused.find(|name| !lower.deny.contains(name)).map(|name| format!("the system calls {name:?}"))
}

pub(super) fn syscalls_meet(a: &SyscallPolicy, b: &SyscallPolicy) -> SyscallPolicy {
    let mut deny = a.deny.clone();
    deny.extend(b.deny.iter().filter(|name| !a.deny.contains(name)).cloned());
    let allow = match (all_calls(a), all_calls(b)) {
        (true, _) => b.allow.clone(),
        (_, true) => a.allow.clone(),
        _ => a.allow.iter().filter(|name| b.allow.contains(name)).cloned().collect(),
    };
    let allow = allow.into_iter().filter(|name| !deny.contains(name)).collect();
    SyscallPolicy { allow, deny }
}

/// A layer that `lower` lets go, and everybody above requires.
pub(super) fn layers_excess(lower: &Policy, uppers: &[&Policy]) -> Option<String> {
    Layer::ALL
        .into_iter()
        .find(|layer| {
            lower.requests(*layer)
                && !lower.require.contains(layer)
                && uppers.iter().all(|upper| upper.require.contains(layer))
        })
        .map(|layer| format!("to run without the layer {layer}"))
}
