//! The rules of the filter as data: which system calls are refused, with which arguments, and why.
//!
//! What the table of system calls knows and no rule names is allowed; what is newer than the table is answered with `ENOSYS`, as
//! an older kernel would, so that a new system call is never allowed unseen.

use stockade_policy::syscalls::{Call, call};

/// What a refused system call gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// `EPERM`. It counts as a denial.
    NotPermitted,
    /// `ENOSYS`: programs fall back to something older, and nothing was denied to anybody.
    NotImplemented,
}

/// System calls that belong together, under a name that a policy's `[syscalls]` can use.
pub struct Group {
    /// The name.
    pub name: &'static str,
    /// Whether they are refused unless a policy allows them; else they are allowed unless a policy refuses them.
    pub refused: bool,
    /// What a process gets that tries.
    pub answer: Answer,
    /// Whether to allow the group is enough to make the calls work: most of them need capabilities too, which no call has.
    pub works_if_allowed: bool,
    /// Refused whatever their arguments.
    pub calls: &'static [Call],
    /// Refused with some arguments.
    pub checks: &'static [Check],
}

/// A system call whose arguments decide.
pub struct Check {
    /// Which.
    pub call: Call,
    /// How they decide.
    pub rule: Rule,
    /// Which arguments tell one attempt from another, as bits from the first one up; the others may be pointers.
    pub telling: u8,
}

/// How arguments decide.
pub enum Rule {
    /// Refused if one of them holds.
    RefuseIf(&'static [Condition]),
    /// Refused unless all conditions of one of them hold.
    AllowOnly(&'static [Alternative]),
}

impl Rule {
    /// Whether it refuses a call with these arguments.
    pub fn refuses(&self, arguments: &[u64; 6]) -> bool {
        match self {
            Self::RefuseIf(conditions) => conditions.iter().any(|one| one.holds(arguments)),
            Self::AllowOnly(alternatives) => !alternatives
                .iter()
                .any(|alternative| alternative.conditions.iter().all(|one| one.holds(arguments))),
        }
    }
}

/// One way in which a call is allowed.
pub struct Alternative {
    /// What it is for.
    pub name: &'static str,
    /// What must hold.
    pub conditions: &'static [Condition],
}

/// What is asked of one argument. Only the lower 32 bits count, as for the kernel, in all calls that are looked at here.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// What it is called in the kernel's headers.
    pub name: &'static str,
    /// Which argument, from 0 on.
    pub argument: u8,
    /// What is looked for.
    pub test: Test,
}

impl Condition {
    fn holds(&self, arguments: &[u64; 6]) -> bool {
        let argument = arguments.get(usize::from(self.argument)).map_or(0, |value| *value as u32);
        match self.test {
            Test::HasBits(bits) => argument & bits != 0,
            Test::Is { mask, value } => argument & mask == value,
        }
    }
}

/// What is looked for in an argument.
#[derive(Clone, Copy, Debug)]
pub enum Test {
    /// One of these bits.
    HasBits(u32),
    /// This value of the bits of the mask.
    Is {
        /// The mask.
        mask: u32,
        /// The value.
        value: u32,
    },
}

const fn has(name: &'static str, argument: u8, bits: libc::c_int) -> Condition {
    Condition { name, argument, test: Test::HasBits(bits as u32) }
}

const fn is(name: &'static str, argument: u8, value: u32) -> Condition {
    Condition { name, argument, test: Test::Is { mask: u32::MAX, value } }
}

/// None of these bits.
const fn lacks(name: &'static str, argument: u8, bits: u32) -> Condition {
    Condition { name, argument, test: Test::Is { mask: bits, value: 0 } }
}

/// The set-user-ID bit of a mode.
const fn set_user_id(argument: u8) -> Condition {
    has("S_ISUID", argument, libc::S_ISUID as libc::c_int)
}

/// The kind of a socket, without `SOCK_CLOEXEC` and `SOCK_NONBLOCK`.
const fn kind(name: &'static str, value: libc::c_int) -> Condition {
    Condition { name, argument: 1, test: Test::Is { mask: 0xf, value: value as u32 } }
}

const REFUSED: Group = Group {
    name: "",
    refused: true,
    answer: Answer::NotPermitted,
    works_if_allowed: false,
    calls: &[],
    checks: &[],
};

/// An open that makes no set-user-ID file, by the places of its flags and of its mode.
macro_rules! ordinary_open {
    ($flags:literal, $mode:literal) => {
        Rule::AllowOnly(&[
            Alternative {
                name: "makes nothing",
                conditions: &[lacks("O_CREAT|O_TMPFILE", $flags, MAKING)],
            },
            Alternative {
                name: "ordinary mode",
                conditions: &[lacks("S_ISUID", $mode, libc::S_ISUID)],
            },
        ])
    };
}

/// The rules.
pub const GROUPS: &[Group] = &[
    // Mounting, by the old calls and the new ones. Landlock forbids it too; without capabilities the kernel does.
    Group {
        name: "mount",
        calls: &[
            call("mount"),
            call("umount2"),
            call("pivot_root"),
            call("chroot"),
            call("open_tree"),
            call("move_mount"),
            call("fsopen"),
            call("fsconfig"),
            call("fsmount"),
            call("fspick"),
            call("mount_setattr"),
            call("open_tree_attr"),
        ],
        ..REFUSED
    },
    // Listing mounts by number: what /proc/self/mountinfo shows, and programs fall back to it.
    Group {
        name: "list_mounts",
        answer: Answer::NotImplemented,
        works_if_allowed: true,
        calls: &[call("statmount"), call("listmount")],
        ..REFUSED
    },
    // New namespaces: in a user namespace of its own a process has all capabilities, and with them a way to code of the kernel
    // that nobody without privileges reaches otherwise. CLONE_NEWTIME shares its bit with clone's exit signal, and counts for
    // unshare alone.
    Group {
        name: "namespaces",
        works_if_allowed: true,
        checks: &[
            Check {
                call: call("clone"),
                rule: Rule::RefuseIf(&[
                    has("CLONE_NEWNS", 0, libc::CLONE_NEWNS),
                    has("CLONE_NEWCGROUP", 0, libc::CLONE_NEWCGROUP),
                    has("CLONE_NEWUTS", 0, libc::CLONE_NEWUTS),
                    has("CLONE_NEWIPC", 0, libc::CLONE_NEWIPC),
                    has("CLONE_NEWUSER", 0, libc::CLONE_NEWUSER),
                    has("CLONE_NEWPID", 0, libc::CLONE_NEWPID),
                    has("CLONE_NEWNET", 0, libc::CLONE_NEWNET),
                ]),
                telling: 0b1,
            },
            Check {
                call: call("unshare"),
                rule: Rule::RefuseIf(&[
                    has("CLONE_NEWNS", 0, libc::CLONE_NEWNS),
                    has("CLONE_NEWCGROUP", 0, libc::CLONE_NEWCGROUP),
                    has("CLONE_NEWUTS", 0, libc::CLONE_NEWUTS),
                    has("CLONE_NEWIPC", 0, libc::CLONE_NEWIPC),
                    has("CLONE_NEWUSER", 0, libc::CLONE_NEWUSER),
                    has("CLONE_NEWPID", 0, libc::CLONE_NEWPID),
                    has("CLONE_NEWNET", 0, libc::CLONE_NEWNET),
                    has("CLONE_NEWTIME", 0, 0x80),
                ]),
                telling: 0b1,
            },
        ],
        ..REFUSED
    },
    // Entering namespaces that exist.
    Group { name: "setns", calls: &[call("setns")], ..REFUSED },
    // A filter cannot see the flags of clone3, which lie in memory: the C library falls back to clone.
    Group {
        name: "clone3",
        answer: Answer::NotImplemented,
        works_if_allowed: true,
        calls: &[call("clone3")],
        ..REFUSED
    },
    // Large interfaces into the kernel with a history of holes, which tools do without.
    Group { name: "bpf", calls: &[call("bpf")], ..REFUSED },
    Group { name: "perf", works_if_allowed: true, calls: &[call("perf_event_open")], ..REFUSED },
    Group { name: "userfaultfd", works_if_allowed: true, calls: &[call("userfaultfd")], ..REFUSED },
    // Does the work of other system calls past the filter. Runtimes fall back.
    Group {
        name: "io_uring",
        answer: Answer::NotImplemented,
        works_if_allowed: true,
        calls: &[call("io_uring_setup"), call("io_uring_enter"), call("io_uring_register")],
        ..REFUSED
    },
    // Keyrings are not divided by namespaces: those of the host's user would be reachable.
    Group {
        name: "keyring",
        works_if_allowed: true,
        calls: &[call("add_key"), call("request_key"), call("keyctl")],
        ..REFUSED
    },
    // Loading code into the kernel, replacing it, ending it; the machine's ports, segments, swap, accounts and log.
    Group {
        name: "kernel",
        calls: &[
            call("init_module"),
            call("finit_module"),
            call("delete_module"),
            call("kexec_load"),
            call("kexec_file_load"),
            call("reboot"),
            call("swapon"),
            call("swapoff"),
            call("acct"),
            call("quotactl"),
            call("quotactl_fd"),
            call("syslog"),
            call("vhangup"),
            call("iopl"),
            call("ioperm"),
            call("modify_ldt"),
        ],
        ..REFUSED
    },
    // The machine's clock and names.
    Group {
        name: "clock",
        calls: &[
            call("settimeofday"),
            call("clock_settime"),
            call("sethostname"),
            call("setdomainname"),
        ],
        ..REFUSED
    },
    // Opens files by number, past every path (the "shocker" escape); watches whole file systems.
    Group {
        name: "file_handles",
        calls: &[call("open_by_handle_at"), call("fanotify_init"), call("lookup_dcookie")],
        ..REFUSED
    },
    // Puts text into the host's terminal as if it had been typed there, or loads a line discipline.
    Group {
        name: "terminal_injection",
        works_if_allowed: true,
        checks: &[Check {
            call: call("ioctl"),
            rule: Rule::RefuseIf(&[
                is("TIOCSTI", 1, libc::TIOCSTI as u32),
                is("TIOCLINUX", 1, libc::TIOCLINUX as u32),
                is("TIOCSETD", 1, libc::TIOCSETD as u32),
            ]),
            telling: 0b10,
        }],
        ..REFUSED
    },
    // Unix sockets; IPv4 and IPv6, but for raw ones; netlink for routing alone, which getifaddrs(3) needs. Not packet, vsock,
    // AF_ALG and all the others, whose code in the kernel is loaded on demand and seldom looked at.
    Group {
        name: "sockets",
        works_if_allowed: true,
        checks: &[
            Check {
                call: call("socket"),
                rule: Rule::AllowOnly(&[
                    Alternative {
                        name: "unix",
                        conditions: &[is("AF_UNIX", 0, libc::AF_UNIX as u32)],
                    },
                    ROUTE,
                    IPV4_STREAM,
                    IPV4_TCP,
                    IPV4_DATAGRAM,
                    IPV4_UDP,
                    IPV4_PING,
                    IPV6_STREAM,
                    IPV6_TCP,
                    IPV6_DATAGRAM,
                    IPV6_UDP,
                    IPV6_PING,
                ]),
                telling: 0b111,
            },
            // Of all other families TIPC alone makes pairs.
            Check {
                call: call("socketpair"),
                rule: Rule::AllowOnly(&[Alternative {
                    name: "unix",
                    conditions: &[is("AF_UNIX", 0, libc::AF_UNIX as u32)],
                }]),
                telling: 0b111,
            },
        ],
        ..REFUSED
    },
    // Other personalities switch protections off. 0xffffffff only asks; ADDR_NO_RANDOMIZE is what debuggers set.
    Group {
        name: "personality",
        works_if_allowed: true,
        checks: &[Check {
            call: call("personality"),
            rule: Rule::AllowOnly(&[
                Alternative { name: "PER_LINUX", conditions: &[is("PER_LINUX", 0, 0)] },
                Alternative {
                    name: "ADDR_NO_RANDOMIZE",
                    conditions: &[is("ADDR_NO_RANDOMIZE", 0, 0x0004_0000)],
                },
                Alternative { name: "ask", conditions: &[is("0xffffffff", 0, u32::MAX)] },
            ]),
            telling: 0b1,
        }],
        ..REFUSED
    },
    // The limits of other processes: a command could end its own init by them, which has the same user, and with it the truth about
    // how it ended.
    Group {
        name: "limits_of_others",
        works_if_allowed: true,
        checks: &[Check {
            call: call("prlimit64"),
            rule: Rule::AllowOnly(&[Alternative { name: "own", conditions: &[is("0", 0, 0)] }]),
            telling: 0b11,
        }],
        ..REFUSED
    },
    // Files that whoever executes them becomes their owner by: nothing in the sandbox obeys the bit, but somebody outside would, and a
    // session of root leaves files of root. A mode that openat2 gives lies in memory: programs fall back to openat.
    Group {
        name: "set_user_id",
        works_if_allowed: true,
        checks: &[
            Check { call: call("chmod"), rule: Rule::RefuseIf(&[set_user_id(1)]), telling: 0b10 },
            Check { call: call("fchmod"), rule: Rule::RefuseIf(&[set_user_id(1)]), telling: 0b10 },
            Check {
                call: call("fchmodat"),
                rule: Rule::RefuseIf(&[set_user_id(2)]),
                telling: 0b100,
            },
            Check {
                call: call("fchmodat2"),
                rule: Rule::RefuseIf(&[set_user_id(2)]),
                telling: 0b100,
            },
            Check { call: call("creat"), rule: Rule::RefuseIf(&[set_user_id(1)]), telling: 0b10 },
            Check { call: call("mknod"), rule: Rule::RefuseIf(&[set_user_id(1)]), telling: 0b10 },
            Check {
                call: call("mknodat"),
                rule: Rule::RefuseIf(&[set_user_id(2)]),
                telling: 0b100,
            },
            // The mode of an open that makes nothing is whatever was in the register.
            Check { call: call("open"), rule: ordinary_open!(1, 2), telling: 0b110 },
            Check { call: call("openat"), rule: ordinary_open!(2, 3), telling: 0b1100 },
        ],
        ..REFUSED
    },
    Group {
        name: "openat2",
        answer: Answer::NotImplemented,
        works_if_allowed: true,
        calls: &[call("openat2")],
        ..REFUSED
    },
    // Looking into other processes. Debuggers and tracers need it for what they start, and reach nothing else: the pid
    // namespace holds the processes of this call alone, and Landlock lets no process look out of its domain.
    Group {
        name: "ptrace",
        refused: false,
        works_if_allowed: true,
        calls: &[
            call("ptrace"),
            call("process_vm_readv"),
            call("process_vm_writev"),
            call("process_madvise"),
            call("pidfd_getfd"),
            call("kcmp"),
        ],
        ..REFUSED
    },
];

/// `O_CREAT`, and of `O_TMPFILE` the bit that is not `O_DIRECTORY` (open(2)).
const MAKING: u32 = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u32;

/// Where no namespace keeps the host's unix sockets away: they can be made in pairs alone.
pub const SOCKET: Call = call("socket");

/// See [`SOCKET`].
pub const NO_UNIX_SOCKETS: Rule = Rule::AllowOnly(&[
    ROUTE,
    IPV4_STREAM,
    IPV4_TCP,
    IPV4_DATAGRAM,
    IPV4_UDP,
    IPV4_PING,
    IPV6_STREAM,
    IPV6_TCP,
    IPV6_DATAGRAM,
    IPV6_UDP,
    IPV6_PING,
]);

/// Where no namespace keeps the network away either.
pub const NO_SOCKETS: Rule = Rule::AllowOnly(&[ROUTE]);

/// Objects of System V and message queues, which belong to an IPC namespace: without one, to the host.
pub const SHARED_OBJECTS: &[Call] = &[
    call("shmget"),
    call("shmat"),
    call("shmctl"),
    call("semget"),
    call("semop"),
    call("semtimedop"),
    call("semctl"),
    call("msgget"),
    call("msgsnd"),
    call("msgrcv"),
    call("msgctl"),
    call("mq_open"),
    call("mq_unlink"),
];

const ROUTE: Alternative = Alternative {
    name: "netlink route",
    conditions: &[
        is("AF_NETLINK", 0, libc::AF_NETLINK as u32),
        is("NETLINK_ROUTE", 2, libc::NETLINK_ROUTE as u32),
    ],
};

/// A socket of one family, kind and protocol. Others of the same kind (MPTCP, SCTP, UDP-Lite) are code that is seldom looked at.
macro_rules! ip_socket {
    ($constant:ident, $name:literal, $family:ident, $kind:ident, $protocol:ident) => {
        const $constant: Alternative = Alternative {
            name: $name,
            conditions: &[
                $family,
                kind(stringify!($kind), libc::$kind),
                is(stringify!($protocol), 2, libc::$protocol as u32),
            ],
        };
    };
}

ip_socket!(IPV4_STREAM, "IPv4 stream", INET, SOCK_STREAM, IPPROTO_IP);
ip_socket!(IPV4_TCP, "IPv4 TCP", INET, SOCK_STREAM, IPPROTO_TCP);
ip_socket!(IPV4_DATAGRAM, "IPv4 datagram", INET, SOCK_DGRAM, IPPROTO_IP);
ip_socket!(IPV4_UDP, "IPv4 UDP", INET, SOCK_DGRAM, IPPROTO_UDP);
ip_socket!(IPV4_PING, "IPv4 ping", INET, SOCK_DGRAM, IPPROTO_ICMP);
ip_socket!(IPV6_STREAM, "IPv6 stream", INET6, SOCK_STREAM, IPPROTO_IP);
ip_socket!(IPV6_TCP, "IPv6 TCP", INET6, SOCK_STREAM, IPPROTO_TCP);
ip_socket!(IPV6_DATAGRAM, "IPv6 datagram", INET6, SOCK_DGRAM, IPPROTO_IP);
ip_socket!(IPV6_UDP, "IPv6 UDP", INET6, SOCK_DGRAM, IPPROTO_UDP);
ip_socket!(IPV6_PING, "IPv6 ping", INET6, SOCK_DGRAM, IPPROTO_ICMPV6);

const INET: Condition = is("AF_INET", 0, libc::AF_INET as u32);
const INET6: Condition = is("AF_INET6", 0, libc::AF_INET6 as u32);
