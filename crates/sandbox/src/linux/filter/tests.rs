//! The programs are run here by a small interpreter of classic BPF, for both architectures, so that every rule can be asked what
//! it answers.

use super::program::*;
use super::rules::Test;
use super::*;
use stockade_plan::BpfInstruction;
use stockade_policy::syscalls::NEWEST;

/// seccompiler's programs have it.
const JUMP_GREATER: u16 = 0x25;
const NOT_PERMITTED: u32 = ERRNO | libc::EPERM as u32;
const NOT_IMPLEMENTED: u32 = ERRNO | libc::ENOSYS as u32;
const BOTH: [Architecture; 2] = [Architecture::X86_64, Architecture::Aarch64];

/// Runs a program as bpf(4) describes it, for the instructions that it uses. Panics on any other.
pub(super) fn run(
    program: &[BpfInstruction],
    architecture: u32,
    number: u32,
    arguments: &[u64],
) -> u32 {
    let mut data = Vec::new();
    data.extend(number.to_le_bytes());
    data.extend(architecture.to_le_bytes());
    data.extend(0u64.to_le_bytes());
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    all.iter().for_each(|argument| data.extend(argument.to_le_bytes()));
    let (mut at, mut accumulator) = (0usize, 0u32);
    loop {
        let i = program[at];
        at += 1;
        let mut branch = |condition: bool| at += usize::from(if condition { i.jt } else { i.jf });
        match i.code {
            LOAD_WORD => {
                let offset = i.k as usize;
                accumulator = u32::from_le_bytes(data[offset..offset + 4].try_into().unwrap());
            }
            JUMP => at += i.k as usize,
            JUMP_EQUAL => branch(accumulator == i.k),
            JUMP_GREATER_OR_EQUAL => branch(accumulator >= i.k),
            JUMP_GREATER => branch(accumulator > i.k),
            JUMP_BITS => branch(accumulator & i.k != 0),
            AND => accumulator &= i.k,
            RETURN => return i.k,
            other => panic!("instruction {other:#x}"),
        }
    }
}

fn policy(allow: &[&str], deny: &[&str]) -> SyscallPolicy {
    let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    SyscallPolicy { allow: owned(allow), deny: owned(deny) }
}

/// What a filter answers to a call, by its name.
pub(super) struct Asked {
    architecture: Architecture,
    program: Vec<BpfInstruction>,
}

impl Asked {
    pub(super) fn new(architecture: Architecture, allow: &[&str], deny: &[&str]) -> Self {
        let plan = compile_for(
            architecture,
            &policy(allow, deny),
            Refusals::Silent,
            Surroundings::Namespaces,
            Listings::Whole,
        );
        Self { architecture, program: plan.unwrap().unwrap().program }
    }

    pub(super) fn number(&self, number: u32, arguments: &[u64]) -> u32 {
        run(&self.program, audit_architecture(self.architecture), number, arguments)
    }

    /// `None` where the architecture has no such call.
    fn call(&self, name: &str, arguments: &[u64]) -> Option<u32> {
        let number = table::find(name).unwrap().number(self.architecture)?;
        Some(self.number(number, arguments))
    }
}

fn expected(answer: Answer) -> u32 {
    match answer {
        Answer::NotPermitted => NOT_PERMITTED,
        Answer::NotImplemented => NOT_IMPLEMENTED,
    }
}

// spec 5.2
#[test]
fn every_number_gets_the_answer_of_its_rule_and_all_others_are_allowed() {
    for architecture in BOTH {
        let filter = Asked::new(architecture, &[], &[]);
        for number in 0..=NEWEST {
            let is_this = |call: &Call| call.number(architecture) == Some(number);
            let group = GROUPS.iter().find(|group| group.calls.iter().any(is_this));
            let checked = GROUPS.iter().flat_map(|group| group.checks).any(|c| is_this(&c.call));
            let answer = match group {
                Some(group) if group.refused => expected(group.answer),
                _ => ALLOW,
            };
            if !checked {
                assert_eq!(filter.number(number, &[]), answer, "{architecture:?} {number}");
            }
        }
    }
}

// spec 5.1: [syscalls] allow and deny
#[test]
fn a_group_can_be_allowed_or_refused_whole_and_each_of_its_calls_by_name() {
    for architecture in BOTH {
        for group in GROUPS {
            let allowed = Asked::new(architecture, &[group.name], &[]);
            let denied = Asked::new(architecture, &[], &[group.name]);
            for call in group.calls {
                let Some(number) = call.number(architecture) else { continue };
                assert_eq!(allowed.number(number, &[]), ALLOW, "{} {}", group.name, call.name());
                assert_eq!(denied.number(number, &[]), expected(group.answer), "{}", call.name());
                // A group's name is the group's, and not that of the call which is called the same.
                if call.name() != group.name {
                    let one = Asked::new(architecture, &[call.name()], &[]);
                    assert_eq!(one.number(number, &[]), ALLOW, "{}", call.name());
                    let both = Asked::new(architecture, &[call.name()], &[group.name]);
                    assert_eq!(both.number(number, &[]), expected(group.answer), "{}", call.name());
                }
            }
        }
        let denied = Asked::new(architecture, &[], &["fchmodat", "kill"]);
        assert_eq!(denied.call("fchmodat", &[]), Some(NOT_PERMITTED));
        assert_eq!(denied.call("kill", &[]), Some(NOT_PERMITTED));
        assert_eq!(denied.call("fchownat", &[]), Some(ALLOW));
        let whole = Asked::new(architecture, &["sockets"], &["socket"]);
        assert_eq!(whole.call("socket", &[libc::AF_UNIX as u64]), Some(NOT_PERMITTED));
        assert_eq!(whole.call("socketpair", &[libc::AF_TIPC as u64]), Some(ALLOW));
    }
}

// spec 5.2
#[test]
fn another_architecture_and_x32_end_the_process() {
    for architecture in BOTH {
        let filter = Asked::new(architecture, &[], &[]);
        // i386 and 32-bit ARM of the same kernel, then the other of our two.
        for other in [0x4000_0003, 0x4000_0028].into_iter().chain(
            BOTH.iter().filter(|one| **one != architecture).map(|one| audit_architecture(*one)),
        ) {
            for number in [0, 1, 59, 221] {
                assert_eq!(run(&filter.program, other, number, &[]), KILL_PROCESS);
            }
        }
    }
    let filter = Asked::new(Architecture::X86_64, &[], &[]);
    for number in [X32_BIT, X32_BIT | 1, X32_BIT | 520, 0x8000_0000, u32::MAX - 1] {
        assert_eq!(filter.number(number, &[]), KILL_PROCESS, "{number:#x}");
    }
}

#[test]
fn a_call_that_a_tracer_skips_is_let_through_since_it_names_nothing() {
    assert_eq!(Asked::new(Architecture::X86_64, &[], &[]).number(u32::MAX, &[]), ALLOW);
}

#[test]
fn a_call_newer_than_the_table_does_not_exist() {
    for architecture in BOTH {
        let filter = Asked::new(architecture, &[], &[]);
        for number in [NEWEST + 1, 1000, X32_BIT - 1] {
            assert_eq!(filter.number(number, &[]), NOT_IMPLEMENTED);
        }
        assert_eq!(filter.number(NEWEST, &[]), ALLOW);
        let newest = |one| (0..2000).filter(|n| table::name_of(*n, one).is_some()).max();
        assert_eq!(newest(architecture), Some(NEWEST));
    }
}

#[test]
fn numbers_are_those_of_the_c_library() {
    for (name, number) in [
        ("read", libc::SYS_read),
        ("clone3", libc::SYS_clone3),
        ("unshare", libc::SYS_unshare),
        ("keyctl", libc::SYS_keyctl),
        ("mount_setattr", libc::SYS_mount_setattr),
        ("kexec_file_load", libc::SYS_kexec_file_load),
        ("mseal", libc::SYS_mseal),
        ("open_by_handle_at", libc::SYS_open_by_handle_at),
    ] {
        let call = table::find(name).unwrap();
        assert_eq!(call.number(Architecture::NATIVE).map(i64::from), Some(number), "{name}");
        assert_eq!(table::name_of(number as u32, Architecture::NATIVE), Some(name));
    }
}

/// The lowest bit that counts for a condition.
fn lowest_bit(condition: &rules::Condition) -> u64 {
    let mask = match condition.test {
        Test::HasBits(bits) => bits,
        Test::Is { mask, .. } => mask,
    };
    1 << mask.trailing_zeros()
}

// spec 5.2: each condition of each rule, alone
#[test]
fn each_argument_that_a_rule_names_is_refused_or_allowed_as_it_says() {
    for architecture in BOTH {
        let refusing = Asked::new(architecture, &[], &[]);
        for group in GROUPS {
            let allowing = Asked::new(architecture, &[group.name], &[]);
            for check in group.checks {
                // Not every architecture has every call.
                let Some(number) = check.call.number(architecture) else { continue };
                let values = |conditions: &[rules::Condition]| {
                    let mut arguments = [0u64; 6];
                    for condition in conditions {
                        arguments[usize::from(condition.argument)] = match condition.test {
                            Test::HasBits(bits) => bits.into(),
                            Test::Is { value, .. } => value.into(),
                        };
                    }
                    arguments
                };
                match &check.rule {
                    Rule::RefuseIf(conditions) => {
                        assert_eq!(refusing.number(number, &[]), ALLOW);
                        for condition in *conditions {
                            let mut arguments = values(&[*condition]);
                            assert_eq!(refusing.number(number, &arguments), NOT_PERMITTED);
                            assert_eq!(allowing.number(number, &arguments), ALLOW);
                            // The kernel ignores the upper half, and so must the filter.
                            arguments[usize::from(condition.argument)] |= 1 << 40;
                            assert_eq!(
                                refusing.number(number, &arguments),
                                NOT_PERMITTED,
                                "{}",
                                condition.name
                            );
                        }
                    }
                    Rule::AllowOnly(alternatives) => {
                        for alternative in *alternatives {
                            let arguments = values(alternative.conditions);
                            assert_eq!(
                                refusing.number(number, &arguments),
                                ALLOW,
                                "{}",
                                alternative.name
                            );
                            for condition in alternative.conditions {
                                let mut arguments = arguments;
                                arguments[usize::from(condition.argument)] ^= lowest_bit(condition);
                                // Another alternative may hold now.
                                let expected = match check.rule.refuses(&arguments) {
                                    true => NOT_PERMITTED,
                                    false => ALLOW,
                                };
                                assert_eq!(refusing.number(number, &arguments), expected);
                                assert_eq!(allowing.number(number, &arguments), ALLOW);
                            }
                        }
                        let none = [0x0fff_ffff; 6];
                        assert_eq!(refusing.number(number, &none), NOT_PERMITTED);
                        assert_eq!(allowing.number(number, &none), ALLOW);
                    }
                }
            }
        }
    }
}

#[test]
fn threads_and_forks_are_no_namespaces() {
    for architecture in BOTH {
        let filter = Asked::new(architecture, &[], &[]);
        let thread = (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND) as u64;
        assert_eq!(filter.call("clone", &[thread]), Some(ALLOW));
        assert_eq!(filter.call("clone", &[libc::SIGCHLD as u64]), Some(ALLOW));
        assert_eq!(filter.call("unshare", &[libc::CLONE_FILES as u64]), Some(ALLOW));
        let one_of_many = thread | libc::CLONE_NEWUSER as u64;
        assert_eq!(filter.call("clone", &[one_of_many]), Some(NOT_PERMITTED));
    }
}

#[test]
fn only_ordinary_sockets_can_be_made() {
    for architecture in BOTH {
        let filter = Asked::new(architecture, &[], &[]);
        let ask = |family: i32, kind: i32, protocol: u64| {
            filter.call("socket", &[family as u64, kind as u64, protocol]).unwrap()
        };
        let stream = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        for family in [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6] {
            assert_eq!(ask(family, stream, 0), ALLOW);
        }
        assert_eq!(ask(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0), ALLOW);
        assert_eq!(ask(libc::AF_NETLINK, libc::SOCK_RAW, 9), NOT_PERMITTED);
        assert_eq!(ask(libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 1), NOT_PERMITTED);
        assert_eq!(ask(libc::AF_INET6, libc::SOCK_RAW, 58), NOT_PERMITTED);
        for family in [libc::AF_INET, libc::AF_INET6] {
            assert_eq!(ask(family, stream, 6), ALLOW);
            assert_eq!(ask(family, libc::SOCK_DGRAM, 17), ALLOW);
            for protocol in [132, 262, 136, 33] {
                assert_eq!(ask(family, stream, protocol), NOT_PERMITTED);
                assert_eq!(ask(family, libc::SOCK_DGRAM, protocol), NOT_PERMITTED);
            }
        }
        for family in [libc::AF_PACKET, libc::AF_VSOCK, libc::AF_ALG, libc::AF_BLUETOOTH, 999] {
            assert_eq!(ask(family, stream, 0), NOT_PERMITTED);
        }
    }
}

#[test]
fn a_policy_knows_the_groups_of_the_rules() {
    assert!(GROUPS.iter().map(|group| group.name).eq(table::GROUPS));
}

// spec 5.9
#[test]
fn refusals_that_are_named_ask_and_those_that_mean_fall_back_do_not() {
    for architecture in BOTH {
        let plan = compile_for(
            architecture,
            &policy(&[], &["fchmodat"]),
            Refusals::Named,
            Surroundings::Namespaces,
            Listings::Whole,
        );
        let plan = plan.unwrap().unwrap();
        let ask = |name: &str, arguments: &[u64]| {
            let number = table::find(name).unwrap().number(architecture).unwrap();
            run(&plan.program, audit_architecture(architecture), number, arguments)
        };
        assert_eq!(ask("mount", &[]), NOTIFY);
        assert_eq!(ask("fchmodat", &[]), NOTIFY);
        assert_eq!(ask("unshare", &[libc::CLONE_NEWUSER as u64]), NOTIFY);
        assert_eq!(ask("socket", &[libc::AF_VSOCK as u64]), NOTIFY);
        assert_eq!(ask("clone3", &[]), NOT_IMPLEMENTED);
        assert_eq!(ask("io_uring_setup", &[]), NOT_IMPLEMENTED);
        assert_eq!(ask("read", &[]), ALLOW);
    }
}

// spec 5.4: the names of what is hidden
#[test]
fn listings_are_asked_for_only_where_something_is_hidden_and_somebody_listens() {
    for architecture in BOTH {
        for (deny, refusals, listings, expected) in [
            (&[][..], Refusals::Named, Listings::Asked, Some((NOTIFY, true))),
            (&[], Refusals::Named, Listings::Whole, Some((ALLOW, false))),
            (&[], Refusals::Silent, Listings::Asked, Some((ALLOW, false))),
            (&["getdents64"], Refusals::Named, Listings::Asked, Some((NOTIFY, false))),
        ] {
            let policy = policy(&[], deny);
            let plan =
                compile_for(architecture, &policy, refusals, Surroundings::Namespaces, listings);
            let plan = plan.unwrap().unwrap();
            let number = table::find("getdents64").unwrap().number(architecture).unwrap();
            let answer = run(&plan.program, audit_architecture(architecture), number, &[]);
            assert_eq!(Some((answer, plan.listings)), expected, "{deny:?} {refusals:?}");
        }
    }
}

#[test]
fn a_refused_call_is_named_with_what_decided() {
    let number = |name| table::find(name).unwrap().number(Architecture::NATIVE).unwrap();
    let named = |name, arguments: [u64; 6]| denial(number(name), arguments, 7).target;
    assert_eq!(named("mount", [0; 6]), "mount");
    assert_eq!(
        named("unshare", [0x1002_0000, 0, 0, 0, 0, 0]),
        "unshare(CLONE_NEWNS|CLONE_NEWUSER)"
    );
    assert_eq!(named("ioctl", [0, 0x5412, 0, 0, 0, 0]), "ioctl(TIOCSTI)");
    assert_eq!(named("socket", [2, 0x80003, 1, 0, 0, 0]), "socket(AF_INET, SOCK_RAW, 1)");
    assert_eq!(named("socket", [99, 1, 0, 0, 0, 0]), "socket(99, SOCK_STREAM, 0)");
    assert_eq!(named("personality", [0x0040_0000, 0, 0, 0, 0, 0]), "personality(0x400000)");
    let denial = denial(number("keyctl"), [0; 6], 7);
    assert_eq!(denial.grant, "[syscalls] allow = [\"keyring\"]");
    assert_eq!(denial.note, "pid 7");
}

// spec 5.1, 10.7
#[test]
fn a_name_that_nobody_knows_is_refused_and_so_is_what_no_command_can_do_without() {
    let reason = |allow: &[&str], deny: &[&str]| {
        compile(&policy(allow, deny), Refusals::Named, Surroundings::Namespaces, Listings::Whole)
            .unwrap_err()
            .reason
    };
    assert!(reason(&["ptraec"], &[]).contains("\"ptraec\""));
    assert!(reason(&[], &["chmdo"]).contains("\"chmdo\""));
    for name in INDISPENSABLE {
        assert!(reason(&[], &[name]).contains(name));
    }
}

#[test]
fn full_access_has_no_filter() {
    assert_eq!(
        compile(&policy(&["all"], &[]), Refusals::Named, Surroundings::Namespaces, Listings::Whole)
            .unwrap(),
        None
    );
}

#[test]
fn every_group_is_in_the_list_of_rules() {
    let rules = filter_rules();
    for group in GROUPS {
        assert!(rules.iter().any(|rule| rule.group == group.name), "{}", group.name);
    }
    assert!(rules.len() > 60, "{}", rules.len());
}

// spec 5.3
#[test]
fn without_namespaces_no_socket_leads_out_whatever_the_policy_allows() {
    for architecture in BOTH {
        for (surroundings, network) in
            [(Surroundings::HostNetwork, ALLOW), (Surroundings::NoNetwork, NOT_PERMITTED)]
        {
            let plan = compile_for(
                architecture,
                &policy(&["sockets"], &[]),
                Refusals::Silent,
                surroundings,
                Listings::Whole,
            );
            let filter = Asked { architecture, program: plan.unwrap().unwrap().program };
            let socket =
                |family: i32, kind: i32| filter.call("socket", &[family as u64, kind as u64, 0]);
            assert_eq!(socket(libc::AF_UNIX, libc::SOCK_STREAM), Some(NOT_PERMITTED));
            assert_eq!(socket(libc::AF_INET, libc::SOCK_STREAM), Some(network));
            assert_eq!(socket(libc::AF_INET6, libc::SOCK_DGRAM), Some(network));
            assert_eq!(socket(libc::AF_NETLINK, libc::SOCK_RAW), Some(ALLOW));
            assert_eq!(filter.call("socketpair", &[libc::AF_UNIX as u64, 1]), Some(ALLOW));
            assert_eq!(filter.call("shmget", &[]), Some(NOT_PERMITTED));
        }
    }
}
