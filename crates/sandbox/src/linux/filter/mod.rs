//! The seccomp filter (spec 5.2): one program in two parts.
//!
//! The **guard** is ours: architecture and x32 first (seccompiler has no x32 check), numbers newer than the table, then the
//! special ones by binary search, since the length of the way through a filter counts on every call: the kernel walks it for
//! every number when the filter is installed. What is not special is allowed at once; the numbers whose arguments must be looked
//! at fall through into rules made by seccompiler.

mod arguments;
mod groups;

use groups::{GROUPS, NEWEST};
use stockade_plan::BpfInstruction;
use stockade_policy::SyscallPolicy;
use stockade_types::Refusal;

/// What a refused system call gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `EPERM`.
    NotPermitted,
    /// `ENOSYS`: programs fall back to something older.
    NotImplemented,
}

/// Groups with conditions on arguments, in [`arguments`].
const ARGUMENT_GROUPS: [&str; 4] = ["namespaces", "terminal_injection", "sockets", "personality"];

// linux/bpf_common.h, linux/seccomp.h, linux/audit.h.
const LOAD_WORD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER: u16 = 0x25;
const JUMP_GREATER_OR_EQUAL: u16 = 0x35;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;
const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCHITECTURE: u32 = 4;
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
#[cfg(target_arch = "x86_64")]
const X32_BIT: u32 = 0x4000_0000;

/// Builds the filter for a policy; `None` where it asks for none (`allow = ["all"]`).
pub fn compile(policy: &SyscallPolicy) -> Result<Option<Vec<BpfInstruction>>, Refusal> {
    let refuse = |reason: String| Refusal { by: "policy".into(), reason };
    if policy.allow.iter().any(|group| group == "all") {
        return Ok(None);
    }
    for name in &policy.allow {
        let known = GROUPS.iter().map(|group| group.name).chain(ARGUMENT_GROUPS);
        if !known.clone().any(|group| group == name) {
            let known: Vec<_> = known.collect();
            return Err(refuse(format!(
                "[syscalls] allow names {name:?}, which is no group of system calls; there are {}",
                known.join(", ")
            )));
        }
    }
    if let Some(name) = policy.deny.first() {
        return Err(refuse(format!(
            "[syscalls] deny = [{name:?}] cannot be enforced yet: leave it out"
        )));
    }
    let allowed = |name: &str| policy.allow.iter().any(|group| group == name);
    let cannot_be_built = |error: seccompiler::BackendError| {
        refuse(format!("the filter for system calls cannot be built: {error}"))
    };
    let rules = arguments::rules(&allowed).map_err(cannot_be_built)?;
    let mut special: Vec<(u32, Verdict)> = GROUPS
        .iter()
        .filter(|group| !allowed(group.name))
        .flat_map(|group| {
            group.calls.iter().map(|call| (*call as u32, Verdict::Refuse(group.answer)))
        })
        .chain(rules.keys().map(|call| (*call as u32, Verdict::LookAtArguments)))
        .collect();
    special.sort_unstable_by_key(|(number, _)| *number);
    let mut program = guard(&special);
    // seccompiler needs at least one rule; without any, nothing falls through.
    if !rules.is_empty() {
        let arguments = arguments::compile(rules).map_err(cannot_be_built)?;
        program.extend(arguments.iter().map(|instruction| BpfInstruction {
            code: instruction.code,
            jt: instruction.jt,
            jf: instruction.jf,
            k: instruction.k,
        }));
    }
    Ok(Some(program))
}

/// What the guard does with a special number.
#[derive(Clone, Copy)]
enum Verdict {
    Refuse(Answer),
    LookAtArguments,
}

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> BpfInstruction {
    BpfInstruction { code, jt, jf, k }
}

fn answer(answer: Answer) -> BpfInstruction {
    let errno = match answer {
        Answer::NotPermitted => libc::EPERM,
        Answer::NotImplemented => libc::ENOSYS,
    };
    instruction(RETURN, 0, 0, ERRNO | errno as u32)
}

/// Ends behind its last instruction for numbers whose arguments must be looked at; everything else returns.
fn guard(special: &[(u32, Verdict)]) -> Vec<BpfInstruction> {
    let kill = instruction(RETURN, 0, 0, KILL_PROCESS);
    let mut program = vec![
        instruction(LOAD_WORD, 0, 0, OFFSET_ARCHITECTURE),
        instruction(JUMP_EQUAL, 1, 0, ARCHITECTURE),
        kill,
        instruction(LOAD_WORD, 0, 0, OFFSET_NUMBER),
    ];
    #[cfg(target_arch = "x86_64")]
    {
        // A number of -1 is what a tracer sets to skip a call; it has the bit too, and names nothing.
        program.push(instruction(JUMP_GREATER_OR_EQUAL, 0, 1, X32_BIT));
        program.push(kill);
    }
    program.push(instruction(JUMP_GREATER, 0, 1, NEWEST));
    program.push(answer(Answer::NotImplemented));
    program.extend(search(special));
    program
}

/// A binary search over sorted numbers. Allows what is not among them; ends behind its last instruction where arguments must
/// be looked at.
fn search(special: &[(u32, Verdict)]) -> Vec<BpfInstruction> {
    let allow = instruction(RETURN, 0, 0, ALLOW);
    match special {
        [] => vec![allow],
        [(number, Verdict::Refuse(refusal))] => {
            vec![instruction(JUMP_EQUAL, 0, 1, *number), answer(*refusal), allow]
        }
        [(number, Verdict::LookAtArguments)] => vec![instruction(JUMP_EQUAL, 1, 0, *number), allow],
        _ => {
            let (lower, upper) = special.split_at(special.len() / 2);
            let pivot = upper.first().map_or(0, |(number, _)| *number);
            let (lower, upper) = (search(lower), search(upper));
            // The lower half ends with a jump over the upper one, for what falls through.
            let over_lower = lower.len() as u32 + 1;
            let mut program = match u8::try_from(over_lower) {
                Ok(short) => vec![instruction(JUMP_GREATER_OR_EQUAL, short, 0, pivot)],
                // The offsets of conditional jumps end at 255.
                Err(_) => vec![
                    instruction(JUMP_GREATER_OR_EQUAL, 0, 1, pivot),
                    instruction(JUMP, 0, 0, over_lower),
                ],
            };
            program.extend(lower);
            program.push(instruction(JUMP, 0, 0, upper.len() as u32));
            program.extend(upper);
            program
        }
    }
}

#[cfg(test)]
mod tests;
