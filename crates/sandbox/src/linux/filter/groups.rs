//! The seccomp filter as data: which system calls are refused, and why.
//!
//! Everything that the kernel of the table below knows and that is not named here is allowed; what is newer than the
//! table is answered with `ENOSYS`, as an older kernel would, so that a new system call is never allowed unseen.

use super::Answer;

/// The newest system call number that the table was made for: `file_setattr`, Linux 6.17. Numbers from 424 on are the same on all
/// architectures.
pub const NEWEST: u32 = 469;

/// System calls that are refused together, under a name that a policy's `[syscalls] allow` can use.
pub struct Group {
    /// The name.
    pub name: &'static str,
    /// What a process gets that tries.
    pub answer: Answer,
    /// The numbers.
    pub calls: &'static [i64],
}

/// Numbers that the C library's headers here do not name yet.
mod newer {
    pub const OPEN_TREE_ATTR: i64 = 467;
    pub const STATMOUNT: i64 = 457;
    pub const LISTMOUNT: i64 = 458;
}

/// The groups.
pub const GROUPS: &[Group] = &[
    // Mounting, and looking at mounts by number. Landlock forbids it too; without privileges the kernel does.
    Group {
        name: "mount",
        answer: Answer::NotPermitted,
        calls: &[
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_chroot,
            libc::SYS_open_tree,
            libc::SYS_move_mount,
            libc::SYS_fsopen,
            libc::SYS_fsconfig,
            libc::SYS_fsmount,
            libc::SYS_fspick,
            libc::SYS_mount_setattr,
            newer::OPEN_TREE_ATTR,
            newer::STATMOUNT,
            newer::LISTMOUNT,
        ],
    },
    // Entering other namespaces. Making new ones goes through `clone` and `unshare`, whose flags are looked at.
    Group { name: "setns", answer: Answer::NotPermitted, calls: &[libc::SYS_setns] },
    // A filter cannot see the flags of clone3, which lie in memory: the C library falls back to clone on ENOSYS.
    Group { name: "clone3", answer: Answer::NotImplemented, calls: &[libc::SYS_clone3] },
    // Large interfaces into the kernel with a history of holes, which tools do without.
    Group { name: "bpf", answer: Answer::NotPermitted, calls: &[libc::SYS_bpf] },
    Group { name: "perf", answer: Answer::NotPermitted, calls: &[libc::SYS_perf_event_open] },
    Group { name: "userfaultfd", answer: Answer::NotPermitted, calls: &[libc::SYS_userfaultfd] },
    // Does work of other system calls past the filter. Runtimes fall back on ENOSYS.
    Group {
        name: "io_uring",
        answer: Answer::NotImplemented,
        calls: &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register],
    },
    // Keyrings are not divided by namespaces: those of the host's user would be reachable.
    Group {
        name: "keyring",
        answer: Answer::NotPermitted,
        calls: &[libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl],
    },
    // Loading code into the kernel, replacing it, ending it.
    Group {
        name: "kernel",
        answer: Answer::NotPermitted,
        calls: &[
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_delete_module,
            libc::SYS_kexec_load,
            libc::SYS_kexec_file_load,
            libc::SYS_reboot,
            libc::SYS_swapon,
            libc::SYS_swapoff,
            libc::SYS_acct,
            libc::SYS_quotactl,
            libc::SYS_quotactl_fd,
            libc::SYS_syslog,
            libc::SYS_vhangup,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_iopl,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_ioperm,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_modify_ldt,
        ],
    },
    // The host's clock and names.
    Group {
        name: "clock",
        answer: Answer::NotPermitted,
        calls: &[
            libc::SYS_settimeofday,
            libc::SYS_clock_settime,
            libc::SYS_sethostname,
            libc::SYS_setdomainname,
        ],
    },
    // Opens files by number, past every path (the "shocker" escape); watches whole file systems.
    Group {
        name: "file_handles",
        answer: Answer::NotPermitted,
        calls: &[libc::SYS_open_by_handle_at, libc::SYS_fanotify_init, libc::SYS_lookup_dcookie],
    },
];
