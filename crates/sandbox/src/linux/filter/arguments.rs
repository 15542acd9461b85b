//! The rules that look at arguments, by the `seccompiler` crate: a system call is refused if one of its rules matches.

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// All `CLONE_NEW*` bits that clone(2) and unshare(2) take.
const NEW_NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

/// `CLONE_NEWTIME` shares its bit with the exit signal of clone(2), and counts for unshare(2) alone.
const NEW_TIME: u64 = 0x80;

type Rules = Vec<SeccompRule>;

/// Builds the program. It ends with "allow" for what no rule matches.
pub fn compile(allowed: &dyn Fn(&str) -> bool) -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<i64, Rules> = BTreeMap::new();
    if !allowed("namespaces") {
        rules.insert(libc::SYS_clone, any_bit(0, NEW_NAMESPACES)?);
        rules.insert(libc::SYS_unshare, any_bit(0, NEW_NAMESPACES | NEW_TIME)?);
    }
    if !allowed("terminal_injection") {
        // TIOCSTI and TIOCLINUX put text into the host's terminal as if it had been typed there; TIOCSETD loads line
        // disciplines. The kernel looks at the lower half of the number alone.
        rules.insert(
            libc::SYS_ioctl,
            [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSETD]
                .iter()
                .map(|number| equal(1, *number))
                .collect::<Result<_, _>>()?,
        );
    }
    if !allowed("sockets") {
        rules.insert(libc::SYS_socket, sockets()?);
    }
    if !allowed("personality") {
        // Other personalities switch protections off. 0xffffffff only asks; ADDR_NO_RANDOMIZE is what debuggers set.
        let odd = [0, 0x0004_0000, 0xffff_ffff]
            .into_iter()
            .map(|value| condition(0, SeccompCmpOp::Ne, value))
            .collect::<Result<_, _>>()?;
        rules.insert(libc::SYS_personality, vec![SeccompRule::new(odd)?]);
    }
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        architecture(),
    )?;
    filter.try_into()
}

/// Families other than unix, IPv4, IPv6 and netlink (packet, vsock, AF_ALG, …); netlink protocols other than routing (which
/// getifaddrs(3) needs); raw sockets.
fn sockets() -> Result<Rules, BackendError> {
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let other_family = families
        .into_iter()
        .map(|family| condition(0, SeccompCmpOp::Ne, family as u64))
        .collect::<Result<_, _>>()?;
    let mut rules = vec![
        SeccompRule::new(other_family)?,
        SeccompRule::new(vec![
            condition(0, SeccompCmpOp::Eq, libc::AF_NETLINK as u64)?,
            condition(2, SeccompCmpOp::Ne, libc::NETLINK_ROUTE as u64)?,
        ])?,
    ];
    for family in [libc::AF_INET, libc::AF_INET6] {
        rules.push(SeccompRule::new(vec![
            condition(0, SeccompCmpOp::Eq, family as u64)?,
            condition(1, SeccompCmpOp::MaskedEq(0xf), libc::SOCK_RAW as u64)?,
        ])?);
    }
    Ok(rules)
}

fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

fn equal(argument: u8, value: u64) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![condition(argument, SeccompCmpOp::Eq, value)?])
}

/// One rule for each bit of `mask`: there is no "any of these bits" condition.
fn any_bit(argument: u8, mask: u64) -> Result<Rules, BackendError> {
    (0..64)
        .map(|bit| 1u64 << bit)
        .filter(|bit| mask & bit != 0)
        .map(|bit| SeccompRule::new(vec![condition(argument, SeccompCmpOp::MaskedEq(bit), bit)?]))
        .collect()
}

#[cfg(target_arch = "x86_64")]
fn architecture() -> TargetArch {
    TargetArch::x86_64
}

#[cfg(target_arch = "aarch64")]
fn architecture() -> TargetArch {
    TargetArch::aarch64
}
