//! What the filter would do with a system call, for people who ask.

use super::rules::GROUPS;
use super::{Choice, group, table};
use stockade_policy::SyscallPolicy;
use stockade_types::Refusal;

/// What a policy's filter does with a system call, or with a group of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyscallVerdict {
    /// Whether the name is a group's.
    pub is_group: bool,
    /// Allowed, refused, or one or the other.
    pub answer: SyscallAnswer,
    /// The groups that speak of the call: a policy's `[syscalls]` can name each.
    pub groups: Vec<&'static str>,
    /// To allow it in the filter is enough to make it work: else it takes capabilities too, which no command has.
    pub works_if_allowed: bool,
}

/// See [`SyscallVerdict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyscallAnswer {
    /// It goes through.
    Allowed,
    /// It does not, whatever its arguments.
    Refused,
    /// Its arguments decide.
    ByArguments,
}

/// `None` if neither a system call nor a group has this name.
pub fn explain_syscall(
    policy: &SyscallPolicy,
    name: &str,
) -> Result<Option<SyscallVerdict>, Refusal> {
    let unfiltered = policy.allow.iter().any(|name| name == "all");
    // "all" is no name of the filter's: it means that there is none.
    let none = SyscallPolicy::default();
    let choice = Choice::new(if unfiltered { &none } else { policy })?;
    if let Some(group) = group(name) {
        let refused = !unfiltered && choice.refuses_group(group);
        let answer = match refused {
            false => SyscallAnswer::Allowed,
            true if group.calls.is_empty() => SyscallAnswer::ByArguments,
            true => SyscallAnswer::Refused,
        };
        let (groups, works_if_allowed) = (vec![group.name], group.works_if_allowed);
        return Ok(Some(SyscallVerdict { is_group: true, answer, groups, works_if_allowed }));
    }
    let Some(call) = table::find(name) else { return Ok(None) };
    let mut verdict = SyscallVerdict {
        is_group: false,
        answer: SyscallAnswer::Allowed,
        groups: Vec::new(),
        works_if_allowed: true,
    };
    for group in GROUPS {
        let whole = group.calls.contains(&call);
        if !whole && !group.checks.iter().any(|check| check.call == call) {
            continue;
        }
        verdict.groups.push(group.name);
        verdict.works_if_allowed &= group.works_if_allowed;
        if unfiltered || !choice.refuses_group(group) || choice.allows_call(group, call) {
            continue;
        }
        verdict.answer = match (whole, verdict.answer) {
            (true, _) | (_, SyscallAnswer::Refused) => SyscallAnswer::Refused,
            (false, _) => SyscallAnswer::ByArguments,
        };
    }
    if !unfiltered && choice.denied.contains(&call) {
        verdict.answer = SyscallAnswer::Refused;
    }
    Ok(Some(verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(allow: &[&str], deny: &[&str], name: &str) -> Option<SyscallAnswer> {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let policy = SyscallPolicy { allow: names(allow), deny: names(deny) };
        explain_syscall(&policy, name).unwrap().map(|verdict| verdict.answer)
    }

    #[test]
    fn the_verdict_is_what_the_filter_does() {
        // issue 3: policy explain SYSCALL
        use SyscallAnswer::{Allowed, ByArguments, Refused};
        for (allow, deny, name, expected) in [
            (&[][..], &[][..], "read", Some(Allowed)),
            (&[], &[], "bpf", Some(Refused)),
            (&["bpf"], &[], "bpf", Some(Allowed)),
            (&[], &["chmod"], "chmod", Some(Refused)),
            (&["all"], &[], "bpf", Some(Allowed)),
            (&[], &[], "clone", Some(ByArguments)),
            (&[], &[], "no_such_call", None),
        ] {
            assert_eq!(answer(allow, deny, name), expected, "{name} {allow:?} {deny:?}");
        }
    }
}
