//! From verdicts to classic BPF (bpf(4), seccomp_filter(2)): architecture and x32 first, then a binary search, since the length of
//! the way counts twice: the kernel walks it for every number when the filter is installed, and for the numbers whose arguments
//! are looked at on every call.

use super::rules::{Answer, Condition, Rule, Test};
use stockade_plan::BpfInstruction;
use stockade_policy::syscalls::{Architecture, NEWEST};

// linux/bpf_common.h, linux/seccomp.h, linux/audit.h.
pub const LOAD_WORD: u16 = 0x20;
pub const JUMP: u16 = 0x05;
pub const JUMP_EQUAL: u16 = 0x15;
pub const JUMP_GREATER_OR_EQUAL: u16 = 0x35;
pub const JUMP_BITS: u16 = 0x45;
pub const AND: u16 = 0x54;
pub const RETURN: u16 = 0x06;
pub const ALLOW: u32 = 0x7fff_0000;
pub const KILL_PROCESS: u32 = 0x8000_0000;
pub const ERRNO: u32 = 0x0005_0000;
pub const NOTIFY: u32 = stockade_plan::SECCOMP_NOTIFY;
const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCHITECTURE: u32 = 4;
const OFFSET_ARGUMENTS: u32 = 16;
pub const X32_BIT: u32 = 0x4000_0000;

/// `AUDIT_ARCH_*`.
pub fn audit_architecture(architecture: Architecture) -> u32 {
    match architecture {
        Architecture::X86_64 => 0xc000_003e,
        Architecture::Aarch64 => 0xc000_00b7,
    }
}

/// What is done with a number.
#[derive(Clone, Copy)]
pub enum Verdict {
    Allow,
    Refuse(Answer),
    /// Whoever listens does it, if anybody does.
    Ask,
    /// The arguments decide; what they refuse is not permitted.
    Look(&'static Rule),
}

/// How a call is refused that is not permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusals {
    /// The kernel answers `EPERM`, and nobody hears of it.
    Silent,
    /// Whoever listens is asked, and answers `EPERM`.
    Named,
}

/// The program. `verdicts` must be sorted by number, each number once.
pub fn build(
    architecture: Architecture,
    refusals: Refusals,
    verdicts: &[(u32, Verdict)],
) -> Vec<BpfInstruction> {
    let mut program = vec![
        instruction(LOAD_WORD, 0, 0, OFFSET_ARCHITECTURE),
        instruction(JUMP_EQUAL, 1, 0, audit_architecture(architecture)),
        instruction(RETURN, 0, 0, KILL_PROCESS),
        instruction(LOAD_WORD, 0, 0, OFFSET_NUMBER),
    ];
    if architecture == Architecture::X86_64 {
        // −1, which has the bit too, is what a tracer sets to skip a call: it names nothing.
        program.push(instruction(JUMP_GREATER_OR_EQUAL, 0, 3, X32_BIT));
        program.push(instruction(JUMP_EQUAL, 0, 1, u32::MAX));
        program.push(instruction(RETURN, 0, 0, ALLOW));
        program.push(instruction(RETURN, 0, 0, KILL_PROCESS));
    }
    Writer { refusals }.search(&intervals(verdicts), &mut program);
    program
}

/// Where each verdict starts to count, from 0 on.
fn intervals(verdicts: &[(u32, Verdict)]) -> Vec<(u32, Verdict)> {
    let mut intervals = vec![(0, Verdict::Allow)];
    for &(number, verdict) in verdicts {
        start(&mut intervals, number, verdict);
        start(&mut intervals, number + 1, Verdict::Allow);
    }
    start(&mut intervals, NEWEST + 1, Verdict::Refuse(Answer::NotImplemented));
    intervals
}

fn start(intervals: &mut Vec<(u32, Verdict)>, number: u32, verdict: Verdict) {
    if intervals.last().is_some_and(|(last, _)| *last == number) {
        intervals.pop();
    }
    let same = match (intervals.last(), verdict) {
        (Some((_, Verdict::Allow)), Verdict::Allow) => true,
        (Some((_, Verdict::Refuse(before))), Verdict::Refuse(now)) => *before == now,
        _ => false,
    };
    if !same {
        intervals.push((number, verdict));
    }
}

struct Writer {
    refusals: Refusals,
}

impl Writer {
    /// Every way through what is written here ends in a return.
    fn search(&self, intervals: &[(u32, Verdict)], program: &mut Vec<BpfInstruction>) {
        let (lower, upper) = match intervals {
            [] => return program.push(instruction(RETURN, 0, 0, ALLOW)),
            [(_, verdict)] => return self.verdict(*verdict, program),
            _ => intervals.split_at(intervals.len() / 2),
        };
        let pivot = upper.first().map_or(0, |(number, _)| *number);
        let mut below = Vec::new();
        self.search(lower, &mut below);
        match u8::try_from(below.len()) {
            Ok(over) => program.push(instruction(JUMP_GREATER_OR_EQUAL, over, 0, pivot)),
            // The offsets of conditional jumps end at 255.
            Err(_) => program.extend([
                instruction(JUMP_GREATER_OR_EQUAL, 0, 1, pivot),
                instruction(JUMP, 0, 0, below.len() as u32),
            ]),
        }
        program.extend(below);
        self.search(upper, program);
    }

    fn verdict(&self, verdict: Verdict, program: &mut Vec<BpfInstruction>) {
        match verdict {
            Verdict::Allow => program.push(instruction(RETURN, 0, 0, ALLOW)),
            Verdict::Refuse(answer) => program.push(self.refusal(answer)),
            Verdict::Ask => program.push(instruction(RETURN, 0, 0, NOTIFY)),
            Verdict::Look(Rule::RefuseIf(conditions)) => {
                for (argument, test) in merged(conditions) {
                    self.test(argument, test, &[self.refusal(Answer::NotPermitted)], program);
                }
                program.push(instruction(RETURN, 0, 0, ALLOW));
            }
            Verdict::Look(Rule::AllowOnly(alternatives)) => {
                for alternative in *alternatives {
                    // From the inside out: each test guards what the next one does.
                    let mut body = vec![instruction(RETURN, 0, 0, ALLOW)];
                    for condition in alternative.conditions.iter().rev() {
                        let mut guarded = Vec::new();
                        self.test(condition.argument, condition.test, &body, &mut guarded);
                        body = guarded;
                    }
                    program.extend(body);
                }
                program.push(self.refusal(Answer::NotPermitted));
            }
        }
    }

    /// Does `body` if the test holds, else goes on behind it. Bodies are a few instructions long.
    fn test(
        &self,
        argument: u8,
        test: Test,
        body: &[BpfInstruction],
        program: &mut Vec<BpfInstruction>,
    ) {
        // Little endian on both architectures: the lower half comes first.
        program.push(instruction(LOAD_WORD, 0, 0, OFFSET_ARGUMENTS + 8 * u32::from(argument)));
        let over = body.len() as u8;
        match test {
            Test::HasBits(bits) => program.push(instruction(JUMP_BITS, 0, over, bits)),
            Test::Is { mask, value } => {
                if mask != u32::MAX {
                    program.push(instruction(AND, 0, 0, mask));
                }
                program.push(instruction(JUMP_EQUAL, 0, over, value));
            }
        }
        program.extend_from_slice(body);
    }

    fn refusal(&self, answer: Answer) -> BpfInstruction {
        let value = match (answer, self.refusals) {
            (Answer::NotImplemented, _) => ERRNO | libc::ENOSYS as u32,
            (Answer::NotPermitted, Refusals::Silent) => ERRNO | libc::EPERM as u32,
            (Answer::NotPermitted, Refusals::Named) => NOTIFY,
        };
        instruction(RETURN, 0, 0, value)
    }
}

/// Bits of one argument are asked for at once.
fn merged(conditions: &[Condition]) -> Vec<(u8, Test)> {
    let mut tests: Vec<(u8, Test)> = Vec::new();
    for condition in conditions {
        match (tests.last_mut(), condition.test) {
            (Some((argument, Test::HasBits(all))), Test::HasBits(bits))
                if *argument == condition.argument =>
            {
                *all |= bits;
            }
            _ => tests.push((condition.argument, condition.test)),
        }
    }
    tests
}

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> BpfInstruction {
    BpfInstruction { code, jt, jf, k }
}
