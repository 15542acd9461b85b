//! What the filter would do with a system call, for people who ask.

use super::rules::{Answer, Check, GROUPS, Rule};
use super::{Choice, LISTING, OLD_LISTING, group, table};
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
    /// How the arguments decide, where they do: a sentence for each call and group.
    pub arguments: Vec<String>,
    /// What is refused is answered with `ENOSYS`, so that programs fall back to something older; else with `EPERM`.
    pub not_implemented: bool,
    /// What becomes of it instead where the policy hides something in a folder that it shows; `None` if that changes nothing.
    pub where_names_are_hidden: Option<&'static str>,
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
        let arguments = match refused {
            true => group.checks.iter().map(sentence).collect(),
            false => Vec::new(),
        };
        return Ok(Some(SyscallVerdict {
            is_group: true,
            answer,
            groups: vec![group.name],
            works_if_allowed: group.works_if_allowed,
            arguments,
            not_implemented: refused && group.answer == Answer::NotImplemented,
            where_names_are_hidden: None,
        }));
    }
    let Some(call) = table::find(name) else { return Ok(None) };
    let mut verdict = SyscallVerdict {
        is_group: false,
        answer: SyscallAnswer::Allowed,
        groups: Vec::new(),
        works_if_allowed: true,
        arguments: Vec::new(),
        not_implemented: false,
        where_names_are_hidden: None,
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
        let checks = group.checks.iter().filter(|check| check.call == call);
        verdict.arguments.extend(checks.map(sentence));
        verdict.not_implemented |= whole && group.answer == Answer::NotImplemented;
    }
    if !unfiltered && choice.denied.contains(&call) {
        verdict.answer = SyscallAnswer::Refused;
        verdict.not_implemented = false;
    }
    if verdict.answer == SyscallAnswer::Refused {
        verdict.arguments.clear();
    }
    if !unfiltered && verdict.answer == SyscallAnswer::Allowed {
        verdict.where_names_are_hidden = match name {
            LISTING => Some("it is answered in the kernel's place, without those names"),
            OLD_LISTING => Some("it is answered with ENOSYS: programs use getdents64"),
            _ => None,
        };
    }
    Ok(Some(verdict))
}

fn sentence(check: &Check) -> String {
    let call = check.call.name();
    let place = |argument: u8| match argument {
        0 => "first",
        1 => "second",
        2 => "third",
        3 => "fourth",
        4 => "fifth",
        _ => "sixth",
    };
    match &check.rule {
        Rule::RefuseIf(conditions) => {
            let mut words = Vec::new();
            for condition in *conditions {
                words.push(format!(
                    "{} in its {} argument",
                    condition.name,
                    place(condition.argument)
                ));
            }
            // One place is said once.
            let same = conditions
                .windows(2)
                .all(|pair| matches!(pair, [a, b] if a.argument == b.argument));
            match conditions.first().filter(|_| same) {
                Some(first) => {
                    let names: Vec<&str> = conditions.iter().map(|one| one.name).collect();
                    let place = place(first.argument);
                    format!("{call} is refused with {} in its {place} argument", names.join(", "))
                }
                None => format!("{call} is refused with {}", words.join(", ")),
            }
        }
        Rule::AllowOnly(alternatives) => {
            let names: Vec<&str> = alternatives.iter().map(|one| one.name).collect();
            format!("{call} is allowed for these alone: {}", names.join(", "))
        }
    }
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
    fn what_decides_is_said_of_those_alone_whose_arguments_decide() {
        let arguments = |name: &str| {
            explain_syscall(&SyscallPolicy::default(), name).unwrap().unwrap().arguments.join("; ")
        };
        assert!(arguments("openat").contains("openat is allowed for these alone: makes nothing"));
        assert!(arguments("clone").contains("is refused with CLONE_NEWNS, "));
        assert!(arguments("clone").ends_with("CLONE_NEWNET in its first argument"));
        assert!(arguments("namespaces").contains("unshare is refused with"));
        for name in ["read", "bpf", "clone3"] {
            assert_eq!(arguments(name), "", "{name}");
        }
    }

    /// Each name is asked of the filter's own rules, for every call that they know: the word is what the verdicts are made of.
    #[test]
    fn the_word_agrees_with_what_is_compiled() {
        use super::super::program::Verdict;
        use super::super::{Surroundings, filter_rules, verdicts};
        let policy = SyscallPolicy::default();
        let native = table::Architecture::NATIVE;
        let (compiled, _) = verdicts(native, &policy, Surroundings::Namespaces).unwrap();
        for rule in filter_rules() {
            let said = explain_syscall(&policy, rule.call).unwrap().unwrap();
            let expected = match compiled.get(&rule.number) {
                None | Some(Verdict::Allow | Verdict::Ask) => SyscallAnswer::Allowed,
                Some(Verdict::Refuse(answer)) => {
                    assert_eq!(said.not_implemented, *answer == Answer::NotImplemented);
                    SyscallAnswer::Refused
                }
                Some(Verdict::Look(_)) => SyscallAnswer::ByArguments,
            };
            assert_eq!(said.answer, expected, "{}", rule.call);
        }
    }

    #[test]
    fn what_leaves_hidden_names_out_is_said_of_the_calls_that_list() {
        let said = |allow: &[&str], name: &str| {
            let allow = allow.iter().map(ToString::to_string).collect();
            let policy = SyscallPolicy { allow, deny: Vec::new() };
            explain_syscall(&policy, name).unwrap().unwrap().where_names_are_hidden
        };
        assert!(said(&[], "getdents64").unwrap().contains("without those names"));
        assert!(said(&[], "getdents").unwrap().contains("ENOSYS"));
        assert_eq!(said(&[], "read"), None);
        assert_eq!(said(&["all"], "getdents"), None);
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
