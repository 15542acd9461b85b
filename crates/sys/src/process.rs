//! Processes: clone3(2), fork(2), wait4(2), pidfds.

use crate::{check, check_int};
use std::ffi::CStr;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Proof that the process has one thread whenever this is used, which clone and fork need: in the child of a process with several,
/// a lock (the allocator's, say) may be held for ever by a thread that does not exist there.
#[derive(Clone, Copy)]
pub struct SingleThreaded(PhantomData<*const ()>);

impl SingleThreaded {
    /// Asks the kernel: unshare(2) of `CLONE_THREAD` changes nothing, and fails with `EINVAL` in a process with
    /// several threads. Of threads that the caller starts afterwards, none outlives the call that started it (`std::thread::scope`):
    /// this value cannot be sent to them, so no process is cloned while they run.
    pub fn check() -> io::Result<Self> {
        // SAFETY: unshare with CLONE_THREAD alone only checks; no memory is involved.
        check(unsafe { libc::syscall(libc::SYS_unshare, libc::CLONE_THREAD) })?;
        Ok(Self(PhantomData))
    }
}

/// Which side of a clone this is.
pub enum Cloned {
    /// The new process.
    Child,
    /// The old one.
    Parent {
        /// The child's pid, in the caller's pid namespace.
        pid: i32,
        /// Its pidfd, close-on-exec.
        pidfd: OwnedFd,
    },
}

/// Namespaces for a new process, as `CLONE_NEW*` bits of clone(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Namespaces(u64);

impl Namespaces {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// A user namespace.
    pub const USER: Self = Self(libc::CLONE_NEWUSER as u64);
    /// A pid namespace.
    pub const PID: Self = Self(libc::CLONE_NEWPID as u64);
    /// A mount namespace.
    pub const MOUNT: Self = Self(libc::CLONE_NEWNS as u64);
    /// A network namespace.
    pub const NETWORK: Self = Self(libc::CLONE_NEWNET as u64);
    /// A System V IPC and POSIX message queue namespace.
    pub const IPC: Self = Self(libc::CLONE_NEWIPC as u64);
    /// A host name namespace.
    pub const UTS: Self = Self(libc::CLONE_NEWUTS as u64);
    /// A cgroup namespace.
    pub const CGROUP: Self = Self(libc::CLONE_NEWCGROUP as u64);

    /// Both.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// clone3(2), or clone(2) where that is not to be had, with its own copy of the memory, `SIGCHLD` at its end, a pidfd, and new namespaces. The child goes on
/// from here. Async-signal-safe.
pub fn clone_process(_proof: SingleThreaded, namespaces: Namespaces) -> io::Result<Cloned> {
    let mut pidfd: libc::c_int = -1;
    let flags = namespaces.0 | libc::CLONE_PIDFD as u64;
    // SAFETY: all-zero is a valid clone_args: every field is an integer, and 0 means "not used".
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = flags;
    args.pidfd = &raw mut pidfd as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    // SAFETY: without CLONE_VM the child has its own copy of the memory and of this stack, so both return from here
    // independently, as with fork; the process is single-threaded (`_proof`), so no lock is held by a thread that the
    // child lacks. `args` and `pidfd` outlive the call, and the size is that of `args`.
    let mut result = unsafe {
        libc::syscall(libc::SYS_clone3, &raw mut args, std::mem::size_of::<libc::clone_args>())
    };
    if result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
        // What containers answer, so that their filter sees the flags.
        let flags = flags | libc::SIGCHLD as u64;
        // SAFETY: as above. With CLONE_PIDFD the third argument, on both architectures, is where the pidfd goes; a stack of 0 is
        // the parent's own, copied.
        result = unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0) };
    }
    match check(result)? {
        0 => Ok(Cloned::Child),
        pid => {
            // SAFETY: the kernel has just put a new descriptor there, which nothing else owns.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Cloned::Parent { pid: pid as i32, pidfd })
        }
    }
}

/// The stack of a child that shares its parent's memory.
pub struct ChildStack(Vec<u128>);

impl ChildStack {
    /// 64 KiB: what runs on it calls the kernel and little else.
    pub fn new() -> Self {
        Self(vec![0; 64 * 1024 / size_of::<u128>()])
    }
}

impl Default for ChildStack {
    fn default() -> Self {
        Self::new()
    }
}

/// Starts a child that shares the caller's memory, and waits until it has executed a program or ended: clone(2) with `CLONE_VM |
/// CLONE_VFORK`, as posix_spawn(3) does it. No page table is copied. `body` must end in an exec or `_exit`, and must leave
/// memory as it is but for its own stack and atomics. The table of descriptors is shared as well until then (`CLONE_FILES`): what
/// the child opens stays open here. Returns the child's pid. Async-signal-safe.
pub fn clone_until_exec<T>(
    _proof: SingleThreaded,
    stack: &mut ChildStack,
    body: fn(&T) -> !,
    data: &T,
) -> io::Result<i32> {
    struct Entry<'a, T> {
        body: fn(&T) -> !,
        data: &'a T,
    }
    extern "C" fn enter<T>(entry: *mut libc::c_void) -> libc::c_int {
        // SAFETY: it points to the Entry below, in a frame that cannot go away: its owner waits for this child.
        let entry = unsafe { &*entry.cast::<Entry<'_, T>>() };
        (entry.body)(entry.data)
    }
    let mut entry = Entry { body, data };
    let top = stack.0.as_mut_ptr_range().end;
    // SAFETY: the stack is exclusively borrowed, grows down from its aligned end, and outlives the child's use of it, since
    // CLONE_VFORK suspends this process until the child has executed a program or ended. There is one thread (`_proof`), so
    // nobody else runs in this memory meanwhile, and no lock can be held that the child would need. `body` takes what it reads
    // by shared reference and never returns.
    let pid = unsafe {
        libc::clone(
            enter::<T>,
            top.cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::SIGCHLD,
            (&raw mut entry).cast(),
        )
    };
    check_int(pid)
}

/// As [`clone_until_exec`], with the child in the cgroup of this folder from its first moment on (`CLONE_INTO_CGROUP`, Linux 5.7): to
/// move it there later takes the kernel milliseconds. `ENOSYS` where a filter hides clone3(2). Async-signal-safe.
pub fn clone_until_exec_into<T>(
    _proof: SingleThreaded,
    stack: &mut ChildStack,
    body: fn(&T) -> !,
    data: &T,
    group: BorrowedFd<'_>,
) -> io::Result<i32> {
    struct Entry<'a, T> {
        body: fn(&T) -> !,
        data: &'a T,
    }
    extern "C" fn enter<T>(entry: *mut libc::c_void) -> ! {
        // SAFETY: it points to the Entry below, in a frame that cannot go away: its owner waits for this child.
        let entry = unsafe { &*entry.cast::<Entry<'_, T>>() };
        (entry.body)(entry.data)
    }
    let mut entry = Entry { body, data };
    // SAFETY: all-zero is a valid clone_args: every field is an integer, and 0 means "not used".
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags =
        (libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES) as u64 | CLONE_INTO_CGROUP;
    args.exit_signal = libc::SIGCHLD as u64;
    args.stack = stack.0.as_mut_ptr() as u64;
    args.stack_size = size_of_val(stack.0.as_slice()) as u64;
    args.cgroup = group.as_raw_fd() as u64;
    // SAFETY: `args` outlives the call, and the size is that of `args`. The child shares the memory, and begins on a stack of its
    // own, exclusively borrowed and aligned at its end, with which it enters `body` and never comes back here; this process is
    // suspended until then (CLONE_VFORK). It has one thread (`_proof`), so nobody else runs in this memory meanwhile.
    let result = unsafe {
        clone3_and_enter(&raw const args, enter::<T>, (&raw mut entry).cast::<libc::c_void>())
    };
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-(result as i32)));
    }
    Ok(result as i32)
}

/// include/uapi/linux/sched.h; the C library's crate has none.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

type Enter = extern "C" fn(*mut libc::c_void) -> !;

/// clone3(2), after which the child calls `enter` on its new stack, which a function of the C library's cannot do: it would return
/// there. What the kernel returns, an error as its negative number.
///
/// # Safety
///
/// `args` must be valid and ask for a stack; `data` must be what `enter` takes, for as long as the child uses it.
#[cfg(target_arch = "x86_64")]
unsafe fn clone3_and_enter(
    args: *const libc::clone_args,
    enter: Enter,
    data: *mut libc::c_void,
) -> i64 {
    let result;
    // SAFETY: the kernel keeps all registers but rax, rcx and r11, in the child too; that one leaves these instructions by
    // the call alone, with a stack that ends on 16 bytes, and the parent finds its own memory and stack as they were.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            in("rdi") args,
            in("rsi") size_of::<libc::clone_args>(),
            in("r12") data,
            in("r13") enter,
            inlateout("rax") libc::SYS_clone3 => result,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// As on x86-64.
///
/// # Safety
///
/// The same.
#[cfg(target_arch = "aarch64")]
unsafe fn clone3_and_enter(
    args: *const libc::clone_args,
    enter: Enter,
    data: *mut libc::c_void,
) -> i64 {
    let result;
    // SAFETY: the kernel keeps all registers but x0, in the child too; that one leaves these instructions by the call alone, with
    // a stack that ends on 16 bytes, and the parent finds its own memory and stack as they were.
    unsafe {
        std::arch::asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x20",
            "blr x21",
            "brk #1",
            "2:",
            in("x8") libc::SYS_clone3,
            in("x1") size_of::<libc::clone_args>(),
            in("x20") data,
            in("x21") enter,
            inlateout("x0") args => result,
            lateout("x30") _,
        );
    }
    result
}

/// fork(2): for a child that will use all of the C library (threads included), which keeps books that a raw clone
/// leaves wrong. Returns `None` in the child.
pub fn fork(_proof: SingleThreaded) -> io::Result<Option<i32>> {
    // SAFETY: the process is single-threaded (`_proof`), so the child may go on with ordinary code.
    let result = unsafe { libc::fork() };
    match check(result.into())? {
        0 => Ok(None),
        pid => Ok(Some(pid as i32)),
    }
}

/// pidfd_open(2).
pub fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: the kernel has just made this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// pidfd_send_signal(2).
pub fn pidfd_kill(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    let no_info: *const libc::siginfo_t = std::ptr::null();
    // SAFETY: a null siginfo is allowed (pidfd_send_signal(2)); no memory is involved.
    check(unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, no_info, 0)
    })?;
    Ok(())
}

/// What a process and its reaped children used.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChildUsage {
    /// User time, in microseconds.
    pub user_us: u64,
    /// System time, in microseconds.
    pub system_us: u64,
    /// Peak resident set of the largest one, in KiB.
    pub max_rss_kib: u64,
    /// Context switches because a process waited.
    pub voluntary_switches: u64,
    /// Context switches because its time slice was up.
    pub involuntary_switches: u64,
}

/// getrusage(2) of all children reaped so far. Async-signal-safe.
pub fn children_usage() -> ChildUsage {
    // SAFETY: all-zero is a valid rusage: every field is an integer.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid place for one rusage.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) } != 0 {
        return ChildUsage::default();
    }
    let micros = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
    ChildUsage {
        user_us: micros(usage.ru_utime),
        system_us: micros(usage.ru_stime),
        max_rss_kib: usage.ru_maxrss as u64,
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
    }
}

/// What [`reap`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaped {
    /// A child ended: its pid and its wait status.
    Ended(i32, i32),
    /// There are children, and all are alive.
    Alive,
    /// There are no children.
    NoChildren,
}

/// wait4(2) for any child, without waiting. Async-signal-safe.
pub fn reap() -> Reaped {
    let mut status = 0;
    // SAFETY: `status` is a valid place for an int; a null rusage is allowed.
    let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, std::ptr::null_mut()) };
    match pid {
        0 => Reaped::Alive,
        pid if pid > 0 => Reaped::Ended(pid, status),
        _ => Reaped::NoChildren,
    }
}

/// Waits for a child to end, for at most so many milliseconds, and takes its status away (waitid(2)), so that nothing is left of it. Whether
/// it has ended. What is no child of the caller's is only waited for.
pub fn await_end(pidfd: BorrowedFd<'_>, timeout_ms: i32) -> bool {
    let has_ended = crate::signal::wait_readable([pidfd], timeout_ms).is_ok_and(|[ended]| ended);
    if has_ended {
        let (nothing, id) = (std::ptr::null_mut(), pidfd.as_raw_fd() as libc::id_t);
        // SAFETY: a null siginfo is allowed (waitid(2)); no memory is involved.
        unsafe { libc::waitid(libc::P_PIDFD, id, nothing, libc::WEXITED | libc::WNOHANG) };
    }
    has_ended
}

/// kill(2) of every process of the caller's pid namespace but itself. Does nothing unless the caller is the namespace's pid 1: anyone
/// else would signal whatever its user may signal. Async-signal-safe.
pub fn kill_all(signal: i32) {
    // SAFETY: no memory is involved.
    if unsafe { libc::getpid() } != 1 {
        return;
    }
    // SAFETY: no memory is involved. The only error of interest, ESRCH, means that there is nobody left.
    unsafe { libc::kill(-1, signal) };
}

/// kill(2) of one process. That it is gone is no error. Async-signal-safe.
pub fn kill_one(pid: i32, signal: i32) {
    // Zero and negative numbers are whole groups.
    if pid > 0 {
        // SAFETY: no memory is involved.
        unsafe { libc::kill(pid, signal) };
    }
}

/// The caller's pid, and its parent's. Async-signal-safe.
pub fn own_and_parent_pid() -> (i32, i32) {
    // SAFETY: no memory is involved.
    let own = unsafe { libc::getpid() };
    // SAFETY: no memory is involved.
    let parent = unsafe { libc::getppid() };
    (own, parent)
}

/// Makes the caller the parent of whatever its descendants leave behind (`PR_SET_CHILD_SUBREAPER`, prctl(2)). Async-signal-safe.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: no memory is involved.
    check_int(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })?;
    Ok(())
}

/// Has the kernel signal the caller when the thread that is its parent ends (`PR_SET_PDEATHSIG`, prctl(2)). Async-signal-safe.
pub fn signal_at_parents_end(signal: i32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check_int(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0) })?;
    Ok(())
}

/// `_exit(2)`: ends the process without running anything else. Async-signal-safe.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: no memory is involved, and nothing runs after it.
    unsafe { libc::_exit(code) }
}

/// The calling process's name, of which the first 15 bytes count, until its next exec (`PR_SET_NAME`, prctl(2)). Async-signal-safe.
pub fn set_name(name: &CStr) -> io::Result<()> {
    Ok(nix::sys::prctl::set_name(name)?)
}

/// Calls `each` with the name of every process that a /proc shows: its pid in digits. Async-signal-safe if `each` is. False if
/// /proc cannot be read.
pub fn each_in_proc(proc: BorrowedFd<'_>, each: &mut dyn FnMut(&CStr)) -> bool {
    each_name(proc, &mut |name| {
        if name.to_bytes().first().is_some_and(u8::is_ascii_digit) {
            each(name);
        }
        true
    })
}

/// Calls `each` with every name in an open folder, `.` and `..` among them, until it answers false. Async-signal-safe if `each` is.
/// False if the folder cannot be read, or not to its end.
pub fn each_name(folder: BorrowedFd<'_>, each: &mut dyn FnMut(&CStr) -> bool) -> bool {
    let mut buffer = [0u8; 4096];
    // SAFETY: no memory is involved; the descriptor is borrowed, so it is open.
    if unsafe { libc::lseek(folder.as_raw_fd(), 0, libc::SEEK_SET) } < 0 {
        return false;
    }
    loop {
        // SAFETY: the buffer is writable for its whole length.
        let read = unsafe {
            libc::syscall(
                libc::SYS_getdents64,
                folder.as_raw_fd(),
                buffer.as_mut_ptr(),
                buffer.len(),
            )
        };
        let Some(entries) = usize::try_from(read).ok().and_then(|read| buffer.get(..read)) else {
            return false;
        };
        if entries.is_empty() {
            return true;
        }
        // struct linux_dirent64 (getdents64(2)): ino 8, off 8, reclen 2, type 1, name.
        let mut rest = entries;
        while let Some(name) = rest.get(19..) {
            let length = usize::from(u16::from_ne_bytes([rest[16], rest[17]]));
            if let Ok(name) = CStr::from_bytes_until_nul(name)
                && !each(name)
            {
                return false;
            }
            match rest.get(length..) {
                Some(next) if length > 0 => rest = next,
                _ => break,
            }
        }
    }
}

/// Sets the kernel's "not dumpable" flag (`PR_SET_DUMPABLE`, prctl(2)): other processes of the same user can then neither
/// trace this one nor read its memory, environment or descriptors. Async-signal-safe.
pub fn set_not_dumpable() -> io::Result<()> {
    // SAFETY: no memory is involved.
    check_int(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) })?;
    Ok(())
}

/// unshare(2) of namespaces for the calling process.
pub fn unshare(namespaces: Namespaces) -> io::Result<()> {
    // SAFETY: no memory is involved; namespaces do not change what memory the process sees.
    check(unsafe { libc::syscall(libc::SYS_unshare, namespaces.0) })?;
    Ok(())
}
