//! Words for a system call that the filter refused.

use super::rules::{Check, GROUPS, Rule, Test};
use stockade_policy::syscalls::{Architecture, name_of};
use stockade_types::{Denial, DenialKind, Evidence};

/// What is reported of a refused system call: its number on this machine, those arguments that tell attempts apart (the others
/// are 0), and the process that tried, as its pid namespace numbers it.
pub fn denial(number: u32, arguments: [u64; 6], pid: u32) -> Denial {
    let name = name_of(number, Architecture::NATIVE);
    let is_this = |call: &super::Call| call.number(Architecture::NATIVE) == Some(number);
    let group = GROUPS.iter().find(|group| {
        group.calls.iter().any(is_this) || group.checks.iter().any(|check| is_this(&check.call))
    });
    let check = group.and_then(|group| group.checks.iter().find(|check| is_this(&check.call)));
    // With such arguments it was not the check that refused it: a policy names the call, or there is no network namespace. To allow the
    // group would not do then.
    let by_check = check.is_none_or(|check| check.rule.refuses(&arguments));
    let group = group.filter(|_| by_check);
    let check = check.filter(|check| by_check || is_socket(check));
    let name = name.map_or_else(|| format!("number {number}"), str::to_owned);
    let target = match check {
        Some(check) => format!("{name}({})", describe(check, arguments)),
        None => name,
    };
    Denial {
        kind: DenialKind::Syscall,
        target,
        evidence: Evidence::Kernel,
        grant: match group {
            Some(group) if group.works_if_allowed => {
                format!("[syscalls] allow = [{:?}]", group.name)
            }
            _ => String::new(),
        },
        note: format!("pid {pid}"),
    }
}

/// The arguments as the headers name them where that decides, else as numbers.
fn describe(check: &Check, arguments: [u64; 6]) -> String {
    let shown = (0..6u8).filter(|argument| check.telling & 1 << argument != 0);
    let words = shown.map(|argument| {
        let value = arguments.get(usize::from(argument)).map_or(0, |value| *value as u32);
        let names: Vec<&str> = match &check.rule {
            Rule::RefuseIf(conditions) => conditions
                .iter()
                .filter(|condition| condition.argument == argument)
                .filter(|condition| match condition.test {
                    Test::HasBits(bits) => value & bits != 0,
                    Test::Is { mask, value: wanted } => value & mask == wanted,
                })
                .map(|condition| condition.name)
                .collect(),
            Rule::AllowOnly(_) => Vec::new(),
        };
        match names.as_slice() {
            [] => number(check, argument, value),
            names => names.join("|"),
        }
    });
    words.collect::<Vec<_>>().join(", ")
}

fn is_socket(check: &Check) -> bool {
    matches!(check.call.name(), "socket" | "socketpair")
}

fn number(check: &Check, argument: u8, value: u32) -> String {
    let is_socket = is_socket(check);
    let known = match argument {
        0 if is_socket => FAMILIES.iter().find(|(family, _)| *family as u32 == value),
        1 if is_socket => KINDS.iter().find(|(kind, _)| *kind as u32 == value & 0xf),
        _ => None,
    };
    match known {
        Some((_, name)) => (*name).to_owned(),
        None if value > 0xffff => format!("{value:#x}"),
        None => value.to_string(),
    }
}

const FAMILIES: [(libc::c_int, &str); 12] = [
    (libc::AF_UNIX, "AF_UNIX"),
    (libc::AF_INET, "AF_INET"),
    (libc::AF_INET6, "AF_INET6"),
    (libc::AF_NETLINK, "AF_NETLINK"),
    (libc::AF_PACKET, "AF_PACKET"),
    (libc::AF_VSOCK, "AF_VSOCK"),
    (libc::AF_ALG, "AF_ALG"),
    (libc::AF_BLUETOOTH, "AF_BLUETOOTH"),
    (libc::AF_CAN, "AF_CAN"),
    (libc::AF_TIPC, "AF_TIPC"),
    (libc::AF_XDP, "AF_XDP"),
    (libc::AF_KEY, "AF_KEY"),
];

const KINDS: [(libc::c_int, &str); 4] = [
    (libc::SOCK_STREAM, "SOCK_STREAM"),
    (libc::SOCK_DGRAM, "SOCK_DGRAM"),
    (libc::SOCK_RAW, "SOCK_RAW"),
    (libc::SOCK_SEQPACKET, "SOCK_SEQPACKET"),
];
