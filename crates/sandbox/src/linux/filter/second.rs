//! The rules compiled once more, by seccompiler, which knows nothing of how [`super::program`] goes about it; the two must answer alike.
//! It cannot take its place: one program of its has one answer for all that it refuses, and no answer that asks a listener.

use super::program::{ALLOW, ERRNO, audit_architecture};
use super::rules::{Answer, Condition, Rule, Test};
use super::tests::{Asked, run};
use super::*;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use stockade_plan::BpfInstruction;
use stockade_policy::syscalls::NEWEST;

const NOT_PERMITTED: u32 = ERRNO | libc::EPERM as u32;

fn target(architecture: Architecture) -> TargetArch {
    match architecture {
        Architecture::X86_64 => TargetArch::x86_64,
        Architecture::Aarch64 => TargetArch::aarch64,
    }
}

/// The conditions under which one of these holds, each by itself.
fn conditions(condition: &Condition) -> Vec<SeccompCondition> {
    let masked = |mask: u32, value: u32| {
        let op = SeccompCmpOp::MaskedEq(mask.into());
        SeccompCondition::new(condition.argument, SeccompCmpArgLen::Dword, op, value.into())
            .unwrap()
    };
    match condition.test {
        Test::Is { mask, value } => vec![masked(mask, value)],
        Test::HasBits(bits) => {
            (0..32).map(|at| 1 << at).filter(|bit| bits & bit != 0).map(|b| masked(b, b)).collect()
        }
    }
}

fn program(
    architecture: Architecture,
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    matched: SeccompAction,
    otherwise: SeccompAction,
) -> Vec<BpfInstruction> {
    let filter = SeccompFilter::new(rules, otherwise, matched, target(architecture)).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    program
        .into_iter()
        .map(|i| BpfInstruction { code: i.code, jt: i.jt, jf: i.jf, k: i.k })
        .collect()
}

/// What seccompiler makes of the rule of one call.
fn second(architecture: Architecture, number: u32, verdict: &Verdict) -> Vec<BpfInstruction> {
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let rule = |conditions| SeccompRule::new(conditions).unwrap();
    let one = |rules: Vec<SeccompRule>| BTreeMap::from([(i64::from(number), rules)]);
    match verdict {
        // What is asked for is nobody's rule.
        Verdict::Allow | Verdict::Ask => {
            program(architecture, BTreeMap::new(), refused, SeccompAction::Allow)
        }
        // A call without a rule is one whose every use counts.
        Verdict::Refuse(_) => program(architecture, one(Vec::new()), refused, SeccompAction::Allow),
        Verdict::Look(Rule::RefuseIf(any)) => {
            let rules = any.iter().flat_map(conditions).map(|one| rule(vec![one])).collect();
            program(architecture, one(rules), refused, SeccompAction::Allow)
        }
        Verdict::Look(Rule::AllowOnly(alternatives)) => {
            let rules = alternatives.iter().map(|alternative| {
                let all = alternative.conditions.iter();
                rule(all.map(|condition| conditions(condition).remove(0)).collect())
            });
            program(architecture, one(rules.collect()), SeccompAction::Allow, refused)
        }
    }
}

/// Values that lie at, beside and across what the rules ask for.
fn values(rule: &Rule) -> Vec<u64> {
    let mut asked: Vec<u32> = match rule {
        Rule::RefuseIf(any) => any.iter().map(value).collect(),
        Rule::AllowOnly(alternatives) => {
            alternatives.iter().flat_map(|one| one.conditions).map(value).collect()
        }
    };
    asked.extend([0, 1, u32::MAX]);
    let beside = |value: u32| [value, value ^ 1, value ^ 0x80_0000, value.wrapping_add(1)];
    let mut values: Vec<u64> = asked.into_iter().flat_map(beside).map(u64::from).collect();
    // What the kernel takes no notice of.
    values.extend(values.clone().into_iter().map(|value| value | 1 << 40));
    values.sort_unstable();
    values.dedup();
    values
}

fn value(condition: &Condition) -> u32 {
    match condition.test {
        Test::HasBits(bits) => bits & bits.wrapping_neg(),
        Test::Is { value, .. } => value,
    }
}

// spec 5.2
#[test]
fn a_second_compiler_makes_the_same_of_every_rule() {
    let mut compared = 0;
    for architecture in [Architecture::X86_64, Architecture::Aarch64] {
        let first = Asked::new(architecture, &[], &[]);
        let (verdicts, _) =
            verdicts(architecture, &SyscallPolicy::default(), Surroundings::Namespaces).unwrap();
        for number in 0..=NEWEST {
            let verdict = verdicts.get(&number).copied().unwrap_or(Verdict::Allow);
            let second = second(architecture, number, &verdict);
            let mut ask = |arguments: &[u64]| {
                let expected = run(&second, audit_architecture(architecture), number, arguments);
                let expected = match verdict {
                    Verdict::Refuse(Answer::NotImplemented) => ERRNO | libc::ENOSYS as u32,
                    _ => expected,
                };
                let answer = first.number(number, arguments);
                assert_eq!(answer, expected, "{architecture:?} {number} {arguments:x?}");
                assert!(answer != ALLOW || expected != NOT_PERMITTED);
                compared += 1;
            };
            ask(&[0; 6]);
            if let Verdict::Look(rule) = verdict {
                let values = values(rule);
                for first in &values {
                    for next in &values {
                        for place in 0..5 {
                            let mut arguments = [0; 6];
                            (arguments[place], arguments[place + 1]) = (*first, *next);
                            ask(&arguments);
                        }
                    }
                }
            }
        }
    }
    assert!(compared > 10_000, "{compared}");
}
