//! The rules that look at arguments, by the `seccompiler` crate: a system call that the guard sends here is allowed if one of
//! its rules matches, else refused.

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

/// For each system call, the rules of which one must match.
pub type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The rules, less those of the groups that a policy allows.
pub fn rules(allowed: &dyn Fn(&str) -> bool) -> Result<Rules, BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let mut rules = Rules::new();
    if !allowed("namespaces") {
        let none_of = |mask| all(&[(0, MaskedEq(mask), 0)]);
        rules.insert(libc::SYS_clone, vec![none_of(NEW_NAMESPACES)?]);
        rules.insert(libc::SYS_unshare, vec![none_of(NEW_NAMESPACES | NEW_TIME)?]);
    }
    if !allowed("terminal_injection") {
        // TIOCSTI and TIOCLINUX put text into the host's terminal as if it had been typed there; TIOCSETD loads line
        // disciplines. The kernel looks at the lower half of the number alone.
        let injecting = [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSETD];
        rules.insert(libc::SYS_ioctl, vec![all(&injecting.map(|number| (1, Ne, number)))?]);
    }
    if !allowed("sockets") {
        rules.insert(libc::SYS_socket, sockets()?);
    }
    if !allowed("personality") {
        // Other personalities switch protections off. 0xffffffff only asks; ADDR_NO_RANDOMIZE is what debuggers set.
        let harmless = [0, 0x0004_0000, 0xffff_ffff].map(|value| all(&[(0, Eq, value)]));
        rules.insert(libc::SYS_personality, harmless.into_iter().collect::<Result<_, _>>()?);
    }
    Ok(rules)
}

/// Compiles rules.
pub fn compile(rules: Rules) -> Result<BpfProgram, BackendError> {
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, refuse, SeccompAction::Allow, architecture())?.try_into()
}

/// Unix sockets; IPv4 and IPv6 but for raw sockets; netlink for routing alone, which getifaddrs(3) needs. Not packet, vsock,
/// AF_ALG and all the others.
fn sockets() -> Result<Vec<SeccompRule>, BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq};
    let mut rules = vec![
        all(&[(0, Eq, libc::AF_UNIX as u64)])?,
        all(&[(0, Eq, libc::AF_NETLINK as u64), (2, Eq, libc::NETLINK_ROUTE as u64)])?,
    ];
    for family in [libc::AF_INET, libc::AF_INET6] {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET] {
            rules.push(all(&[(0, Eq, family as u64), (1, MaskedEq(0xf), kind as u64)])?);
        }
    }
    Ok(rules)
}

/// A rule that matches if all conditions (argument, operator, value) hold, of which the lower 32 bits count.
fn all(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, BackendError> {
    let conditions = conditions.iter().map(|(argument, operator, value)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

#[cfg(target_arch = "x86_64")]
fn architecture() -> TargetArch {
    TargetArch::x86_64
}

#[cfg(target_arch = "aarch64")]
fn architecture() -> TargetArch {
    TargetArch::aarch64
}
