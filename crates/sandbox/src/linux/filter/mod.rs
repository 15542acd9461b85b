//! The seccomp filter (spec 5.2): [`rules`] says what is refused, [`program`] makes BPF of
//! it, and [`denied`] words of what the filter refused.

mod denied;
mod explain;
mod program;
mod rules;

pub use denied::denial;
pub use explain::{SyscallAnswer, SyscallVerdict, explain_syscall};
pub use program::Refusals;

use program::Verdict;
use rules::{Answer, GROUPS, Group, Rule};
use std::collections::BTreeMap;
use stockade_plan::{SeccompPlan, TellingArguments};
use stockade_policy::SyscallPolicy;
use stockade_policy::syscalls::{self as table, INDISPENSABLE};
use stockade_types::Refusal;
use table::{Architecture, Call};

/// What the filter has to hold beside what it always does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surroundings {
    /// Nothing: namespaces keep the host's sockets and its shared memory away.
    Namespaces,
    /// The host's unix sockets and its System V objects, which no namespace keeps away and Landlock knows nothing of.
    HostNetwork,
    /// The same, and the network.
    NoNetwork,
}

/// Who says what a folder holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listings {
    /// The kernel.
    Whole,
    /// Whoever listens, without what is hidden.
    Asked,
}

/// Builds the filter for a policy; `None` where it asks for none (`allow = ["all"]`).
pub fn compile(
    policy: &SyscallPolicy,
    refusals: Refusals,
    surroundings: Surroundings,
    listings: Listings,
) -> Result<Option<SeccompPlan>, Refusal> {
    compile_for(Architecture::NATIVE, policy, refusals, surroundings, listings)
}

fn compile_for(
    architecture: Architecture,
    policy: &SyscallPolicy,
    refusals: Refusals,
    surroundings: Surroundings,
    listings: Listings,
) -> Result<Option<SeccompPlan>, Refusal> {
    if policy.allow.iter().any(|name| name == "all") {
        return Ok(None);
    }
    let (mut verdicts, telling) = verdicts(architecture, policy, surroundings)?;
    let listings = listings == Listings::Asked
        && refusals == Refusals::Named
        && ask_for_listings(architecture, &mut verdicts);
    let verdicts: Vec<_> = verdicts.into_iter().collect();
    let program = program::build(architecture, refusals, &verdicts);
    Ok(Some(SeccompPlan { program, telling, listings }))
}

const LISTING: &str = "getdents64";
/// The C libraries have not called it for twenty years, and its answers have another form.
const OLD_LISTING: &str = "getdents";

/// False where the policy refuses them.
fn ask_for_listings(architecture: Architecture, verdicts: &mut BTreeMap<u32, Verdict>) -> bool {
    let number = |name| table::find(name).and_then(|call| call.number(architecture));
    let Some(listing) = number(LISTING).filter(|number| !verdicts.contains_key(number)) else {
        return false;
    };
    verdicts.insert(listing, Verdict::Ask);
    if let Some(old) = number(OLD_LISTING) {
        verdicts.entry(old).or_insert(Verdict::Refuse(Answer::NotImplemented));
    }
    true
}

/// What is done with each number that is not simply allowed, and which of the arguments that are looked at tell attempts apart.
fn verdicts(
    architecture: Architecture,
    policy: &SyscallPolicy,
    surroundings: Surroundings,
) -> Result<(BTreeMap<u32, Verdict>, Vec<TellingArguments>), Refusal> {
    let choice = Choice::new(policy)?;
    let mut verdicts = BTreeMap::new();
    let mut telling = Vec::new();
    for group in GROUPS.iter().filter(|group| choice.refuses_group(group)) {
        for call in group.calls.iter().filter(|call| !choice.allows_call(group, **call)) {
            if let Some(number) = call.number(architecture) {
                verdicts.insert(number, Verdict::Refuse(group.answer));
            }
        }
        for check in group.checks.iter().filter(|check| !choice.allows_call(group, check.call)) {
            if let Some(number) = check.call.number(architecture) {
                verdicts.insert(number, Verdict::Look(&check.rule));
                telling.push(TellingArguments { number, arguments: check.telling });
            }
        }
    }
    for number in choice.denied.iter().filter_map(|call| call.number(architecture)) {
        verdicts.insert(number, Verdict::Refuse(Answer::NotPermitted));
    }
    let sockets = match surroundings {
        Surroundings::Namespaces => None,
        Surroundings::HostNetwork => Some(&rules::NO_UNIX_SOCKETS),
        Surroundings::NoNetwork => Some(&rules::NO_SOCKETS),
    };
    if let Some(sockets) = sockets {
        if let Some(number) = rules::SOCKET.number(architecture) {
            verdicts.insert(number, Verdict::Look(sockets));
            telling.retain(|known: &TellingArguments| known.number != number);
            telling.push(TellingArguments { number, arguments: 0b111 });
        }
        for number in rules::SHARED_OBJECTS.iter().filter_map(|call| call.number(architecture)) {
            verdicts.insert(number, Verdict::Refuse(Answer::NotPermitted));
        }
    }
    Ok((verdicts, telling))
}

/// A policy's `[syscalls]`, with its names looked up. A name is a group's if there is one, else a call's; deny is stronger than
/// allow.
struct Choice<'a> {
    policy: &'a SyscallPolicy,
    allowed: Vec<Call>,
    denied: Vec<Call>,
}

impl<'a> Choice<'a> {
    fn new(policy: &'a SyscallPolicy) -> Result<Self, Refusal> {
        let calls = |key: &str, names: &[String]| -> Result<Vec<Call>, Refusal> {
            let calls = names.iter().filter(|name| group(name).is_none());
            calls.map(|name| table::find(name).ok_or_else(|| unknown(key, name))).collect()
        };
        if let Some(name) = policy.deny.iter().find(|name| INDISPENSABLE.contains(&name.as_str())) {
            return Err(refused(format!(
                "[syscalls] deny names {name:?}, without which no command can run"
            )));
        }
        Ok(Self {
            policy,
            allowed: calls("allow", &policy.allow)?,
            denied: calls("deny", &policy.deny)?,
        })
    }

    fn refuses_group(&self, group: &Group) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == group.name);
        named(&self.policy.deny) || (group.refused && !named(&self.policy.allow))
    }

    /// Whether a call of a refused group is allowed by its own name.
    fn allows_call(&self, group: &Group, call: Call) -> bool {
        self.allowed.contains(&call) && !self.policy.deny.iter().any(|name| name == group.name)
    }
}

fn group(name: &str) -> Option<&'static Group> {
    GROUPS.iter().find(|group| group.name == name)
}

fn unknown(key: &str, name: &str) -> Refusal {
    let known: Vec<_> = GROUPS.iter().map(|group| group.name).collect();
    refused(format!(
        "[syscalls] {key} names {name:?}, which is neither a system call nor a group of them; the groups are {}",
        known.join(", ")
    ))
}

fn refused(reason: String) -> Refusal {
    Refusal { by: "policy".into(), reason }
}

/// One thing that the filter refuses, or lets through although it refuses the rest of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterRule {
    /// The group, as a policy names it.
    pub group: &'static str,
    /// Whether the shipped policies refuse the group.
    pub refused: bool,
    /// The system call.
    pub call: &'static str,
    /// Its number.
    pub number: u32,
    /// The argument that decides, if one does.
    pub argument: Option<&'static str>,
    /// Whether such an argument is what is allowed, rather than refused.
    pub allows: bool,
}

/// Every rule of the filter, on this architecture.
pub fn filter_rules() -> Vec<FilterRule> {
    let mut all = Vec::new();
    let here = |call: &Call| call.number(Architecture::NATIVE).is_some();
    for group in GROUPS {
        let rule = |call: Call, argument, allows| FilterRule {
            group: group.name,
            refused: group.refused,
            call: call.name(),
            number: call.number(Architecture::NATIVE).unwrap_or(u32::MAX),
            argument,
            allows,
        };
        let calls = group.calls.iter().copied().filter(here);
        all.extend(calls.map(|call| rule(call, None, false)));
        for check in group.checks.iter().filter(|check| here(&check.call)) {
            match &check.rule {
                Rule::RefuseIf(conditions) => {
                    all.extend(conditions.iter().map(|one| rule(check.call, Some(one.name), false)))
                }
                Rule::AllowOnly(alternatives) => {
                    all.push(rule(check.call, None, false));
                    all.extend(
                        alternatives.iter().map(|one| rule(check.call, Some(one.name), true)),
                    );
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod second;
#[cfg(test)]
mod tests;
