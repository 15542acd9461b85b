//! The program is run here by a small interpreter of classic BPF, so that every rule can be asked what it answers.

use super::*;

const NOT_PERMITTED: u32 = ERRNO | libc::EPERM as u32;
const NOT_IMPLEMENTED: u32 = ERRNO | libc::ENOSYS as u32;

struct Call {
    architecture: u32,
    number: u32,
    arguments: [u64; 6],
}

/// Runs a program as bpf(4) describes it, for the instructions that it uses. Panics on any other.
fn run(program: &[BpfInstruction], call: &Call) -> u32 {
    let mut data = Vec::new();
    data.extend(call.number.to_le_bytes());
    data.extend(call.architecture.to_le_bytes());
    data.extend(0u64.to_le_bytes());
    for argument in call.arguments {
        data.extend(argument.to_le_bytes());
    }
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
            JUMP_GREATER => branch(accumulator > i.k),
            JUMP_GREATER_OR_EQUAL => branch(accumulator >= i.k),
            0x54 => accumulator &= i.k,
            RETURN => return i.k,
            other => panic!("instruction {other:#x}"),
        }
    }
}

fn ask(allow: &[&str], number: i64, arguments: &[u64]) -> u32 {
    let policy =
        SyscallPolicy { allow: allow.iter().map(ToString::to_string).collect(), deny: Vec::new() };
    let program = compile(&policy).unwrap().unwrap();
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    run(&program, &Call { architecture: ARCHITECTURE, number: number as u32, arguments: all })
}

#[test]
fn every_plainly_refused_call_gets_its_answer_and_its_neighbours_do_not() {
    // spec 5.2
    let refused: Vec<i64> = GROUPS.iter().flat_map(|group| group.calls).copied().collect();
    for group in GROUPS {
        let expected = match group.answer {
            Answer::NotPermitted => NOT_PERMITTED,
            Answer::NotImplemented => NOT_IMPLEMENTED,
        };
        for call in group.calls {
            assert_eq!(ask(&[], *call, &[]), expected, "{} {call}", group.name);
            assert_eq!(ask(&[group.name], *call, &[]), ALLOW, "{} {call}", group.name);
            for neighbour in [call - 1, call + 1] {
                if !refused.contains(&neighbour)
                    && neighbour >= 0
                    && neighbour <= i64::from(NEWEST)
                    && ![libc::SYS_socket, libc::SYS_personality].contains(&neighbour)
                {
                    assert_eq!(ask(&[], neighbour, &[]), ALLOW, "{neighbour}");
                }
            }
        }
    }
}

#[test]
fn another_architecture_and_x32_end_the_process() {
    // spec 5.2
    let program = compile(&SyscallPolicy::default()).unwrap().unwrap();
    let i386 = Call { architecture: 0x4000_0003, number: 1, arguments: [0; 6] };
    assert_eq!(run(&program, &i386), KILL_PROCESS);
    #[cfg(target_arch = "x86_64")]
    for number in [X32_BIT, X32_BIT | 1, u32::MAX] {
        let x32 = Call { architecture: ARCHITECTURE, number, arguments: [0; 6] };
        assert_eq!(run(&program, &x32), KILL_PROCESS);
    }
}

#[test]
fn a_call_newer_than_the_table_does_not_exist() {
    assert_eq!(ask(&[], i64::from(NEWEST) + 1, &[]), NOT_IMPLEMENTED);
    assert_eq!(ask(&[], 1000, &[]), NOT_IMPLEMENTED);
    assert_eq!(ask(&[], i64::from(NEWEST), &[]), ALLOW);
}

#[test]
fn new_namespaces_are_refused_and_threads_and_forks_are_not() {
    // spec 5.2
    let thread = (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND) as u64;
    assert_eq!(ask(&[], libc::SYS_clone, &[thread]), ALLOW);
    assert_eq!(ask(&[], libc::SYS_clone, &[libc::SIGCHLD as u64]), ALLOW);
    assert_eq!(ask(&[], libc::SYS_unshare, &[libc::CLONE_FILES as u64]), ALLOW);
    for flag in [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ] {
        let flag = flag as u64;
        assert_eq!(ask(&[], libc::SYS_clone, &[flag | 17]), NOT_PERMITTED);
        assert_eq!(ask(&[], libc::SYS_unshare, &[flag]), NOT_PERMITTED);
        assert_eq!(ask(&["namespaces"], libc::SYS_unshare, &[flag]), ALLOW);
    }
}

#[test]
fn text_cannot_be_typed_into_a_terminal() {
    // spec 5.7
    for number in [libc::TIOCSTI, libc::TIOCLINUX] {
        assert_eq!(ask(&[], libc::SYS_ioctl, &[0, number]), NOT_PERMITTED);
        // The kernel ignores the upper half, and so must the filter.
        assert_eq!(ask(&[], libc::SYS_ioctl, &[0, number | 1 << 40]), NOT_PERMITTED);
    }
    assert_eq!(ask(&[], libc::SYS_ioctl, &[0, libc::TCGETS]), ALLOW);
}

#[test]
fn only_ordinary_sockets_can_be_made() {
    let ask = |family: i32, kind: i32, protocol: u64| {
        ask(&[], libc::SYS_socket, &[family as u64, kind as u64, protocol])
    };
    let stream = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    for family in [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6] {
        assert_eq!(ask(family, stream, 0), ALLOW);
    }
    assert_eq!(ask(libc::AF_NETLINK, libc::SOCK_RAW, 0), ALLOW);
    assert_eq!(ask(libc::AF_NETLINK, libc::SOCK_RAW, 9), NOT_PERMITTED);
    assert_eq!(ask(libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 1), NOT_PERMITTED);
    assert_eq!(ask(libc::AF_INET6, libc::SOCK_RAW, 58), NOT_PERMITTED);
    for family in [libc::AF_PACKET, libc::AF_VSOCK, libc::AF_ALG, libc::AF_BLUETOOTH, 999] {
        assert_eq!(ask(family, stream, 0), NOT_PERMITTED);
    }
}

#[test]
fn personalities_that_weaken_are_refused() {
    assert_eq!(ask(&[], libc::SYS_personality, &[0x0040_0000]), NOT_PERMITTED);
    assert_eq!(ask(&[], libc::SYS_personality, &[0xffff_ffff]), ALLOW);
    assert_eq!(ask(&[], libc::SYS_personality, &[0]), ALLOW);
}

#[test]
fn an_unknown_group_is_refused_by_name() {
    let policy = SyscallPolicy { allow: vec!["ptraec".into()], deny: Vec::new() };
    let refusal = compile(&policy).unwrap_err();
    assert!(refusal.reason.contains("\"ptraec\""), "{refusal}");
    let policy = SyscallPolicy { allow: Vec::new(), deny: vec!["chmod".into()] };
    assert!(compile(&policy).unwrap_err().reason.contains("\"chmod\""));
}

#[test]
fn full_access_has_no_filter() {
    let policy = SyscallPolicy { allow: vec!["all".into()], deny: Vec::new() };
    assert_eq!(compile(&policy).unwrap(), None);
}
