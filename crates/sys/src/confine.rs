//! The layers that a process puts on itself for good. All are async-signal-safe.

use crate::{check, check_int};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `PR_SET_NO_NEW_PRIVS` (prctl(2)).
pub fn no_new_privs() -> io::Result<()> {
    // SAFETY: no memory is involved.
    check_int(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    Ok(())
}

/// landlock_restrict_self(2) with a ruleset's descriptor. Needs no_new_privs first. With `logged`, which takes ABI 7, what is refused
/// after an exec is written to the audit log too.
pub fn landlock(ruleset: BorrowedFd<'_>, logged: bool) -> io::Result<()> {
    const SYS_LANDLOCK_RESTRICT_SELF: libc::c_long = 446;
    /// linux/landlock.h: `LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON`
    const LOG_NEW_EXEC_ON: libc::c_uint = 1 << 1;
    let flags = if logged { LOG_NEW_EXEC_ON } else { 0 };
    // SAFETY: no memory is involved.
    check(unsafe { libc::syscall(SYS_LANDLOCK_RESTRICT_SELF, ruleset.as_raw_fd(), flags) })?;
    Ok(())
}

/// landlock_add_rule(2): reading and listing below a folder, in a ruleset that handles both.
pub fn landlock_allow_reading(ruleset: BorrowedFd<'_>, folder: BorrowedFd<'_>) -> io::Result<()> {
    const SYS_LANDLOCK_ADD_RULE: libc::c_long = 445;
    const PATH_BENEATH: libc::c_int = 1;
    const READ_FILE_AND_DIR: u64 = 0b1100;
    // struct landlock_path_beneath_attr is packed: a u64 of rights, an s32 descriptor (linux/landlock.h).
    let mut rule = [0u8; 12];
    rule[..8].copy_from_slice(&READ_FILE_AND_DIR.to_ne_bytes());
    rule[8..].copy_from_slice(&folder.as_raw_fd().to_ne_bytes());
    // SAFETY: `rule` has the layout that this rule type asks for, and outlives the call.
    check(unsafe {
        libc::syscall(SYS_LANDLOCK_ADD_RULE, ruleset.as_raw_fd(), PATH_BENEATH, rule.as_ptr(), 0)
    })?;
    Ok(())
}

/// The newest Landlock ABI that the kernel has; an error (`ENOSYS`, `EOPNOTSUPP`) where it has none.
pub fn landlock_abi() -> io::Result<i32> {
    const SYS_LANDLOCK_CREATE_RULESET: libc::c_long = 444;
    const VERSION: libc::c_uint = 1;
    let null: *const libc::c_void = std::ptr::null();
    // SAFETY: with the version flag the attribute must be null and its size 0.
    Ok(check(unsafe { libc::syscall(SYS_LANDLOCK_CREATE_RULESET, null, 0, VERSION) })? as i32)
}

/// `BPF_RET | BPF_K` (linux/bpf_common.h).
const RETURN: u16 = 0x06;

/// A seccomp program in the kernel's own form, so that installing it needs no heap.
pub struct BpfProgram(Vec<libc::sock_filter>);

impl BpfProgram {
    /// Takes instructions as (code, jt, jf, k).
    pub fn new(instructions: impl Iterator<Item = (u16, u8, u8, u32)>) -> Self {
        let filter = |(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k };
        Self(instructions.map(filter).collect())
    }

    /// The same program with another value in each return instruction that has this one.
    pub fn with_returns(&self, value: u32, instead: u32) -> Self {
        let replace = |filter: &libc::sock_filter| libc::sock_filter {
            k: if filter.code == RETURN && filter.k == value { instead } else { filter.k },
            ..*filter
        };
        Self(self.0.iter().map(replace).collect())
    }

    /// The same program, which lets one system call of this architecture (`AUDIT_ARCH_*`) through whatever it says of it.
    pub fn with_allowed(&self, architecture: u32, number: u32) -> Self {
        const LOAD_WORD: u16 = 0x20;
        const JUMP_EQUAL: u16 = 0x15;
        const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
        // struct seccomp_data: the number, then the architecture.
        let before = [
            (LOAD_WORD, 0, 0, 4),
            (JUMP_EQUAL, 0, 3, architecture),
            (LOAD_WORD, 0, 0, 0),
            (JUMP_EQUAL, 0, 1, number),
            (RETURN, 0, 0, ALLOW),
        ];
        let mut program = Self::new(before.into_iter());
        program.0.extend_from_slice(&self.0);
        program
    }

    /// Whether a return instruction has this value.
    pub fn returns(&self, value: u32) -> bool {
        self.0.iter().any(|filter| filter.code == RETURN && filter.k == value)
    }

    /// In the form that the kernel takes. It points into this program.
    pub(crate) fn as_fprog(&self) -> io::Result<libc::sock_fprog> {
        let len =
            u16::try_from(self.0.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        Ok(libc::sock_fprog { len, filter: self.0.as_ptr().cast_mut() })
    }
}

/// seccomp(2) with a classic BPF program. Needs no_new_privs first.
pub fn seccomp(program: &BpfProgram) -> io::Result<()> {
    let program = program.as_fprog()?;
    // SAFETY: the kernel copies the program and checks it; it writes nothing. The slice that it points to is borrowed for the
    // whole of this function.
    check(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    })?;
    Ok(())
}

/// Whether the kernel has seccomp filters: asks for one with a null program, which fails with `EFAULT` where it has.
pub fn has_seccomp_filter() -> bool {
    let null: *const libc::sock_fprog = std::ptr::null();
    // SAFETY: the kernel answers a null program with EFAULT and changes nothing.
    let result =
        check(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, null) });
    result.is_err_and(|error| error.raw_os_error() == Some(libc::EFAULT))
}

/// setrlimit(2).
pub fn rlimit(resource: u32, soft: u64, hard: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
    // SAFETY: `limit` outlives the call.
    check_int(unsafe { libc::setrlimit(resource as _, &raw const limit) })?;
    Ok(())
}

/// The hard limit of a resource (getrlimit(2)): nobody without privileges can set more.
pub fn hard_rlimit(resource: u32) -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for one rlimit.
    check_int(unsafe { libc::getrlimit(resource as _, &raw mut limit) })?;
    Ok(limit.rlim_max)
}
