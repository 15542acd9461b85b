//! The names and numbers of all system calls, for both architectures. Kept as text, which costs a start-up nothing: the rules'
//! numbers are looked up when they are compiled, all else only when somebody asks for a name. What is refused of them, and with which
//! arguments, is the filter's.

/// The names under which a policy's `[syscalls]` can speak of several at once: the groups of the filter's rules.
pub const GROUPS: [&str; 20] = [
    "mount",
    "list_mounts",
    "namespaces",
    "setns",
    "clone3",
    "bpf",
    "perf",
    "userfaultfd",
    "io_uring",
    "keyring",
    "kernel",
    "clock",
    "file_handles",
    "terminal_injection",
    "sockets",
    "personality",
    "limits_of_others",
    "set_user_id",
    "openat2",
    "ptrace",
];

/// What a filter must let through: after it stands, the command is executed with one of these, or ends; and no program returns
/// from a signal handler without the last.
pub const INDISPENSABLE: [&str; 4] = ["execve", "exit_group", "exit", "rt_sigreturn"];

const TABLE: &str = include_str!("syscalls.txt");

/// The newest number that the table knows: `file_setattr`, Linux 6.17.
pub const NEWEST: u32 = 469;

/// An architecture that filters are made for. The other one's are made by the tests, which run them as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// x86-64.
    X86_64,
    /// aarch64.
    Aarch64,
}

impl Architecture {
    /// The one that this program was compiled for.
    #[cfg(target_arch = "x86_64")]
    pub const NATIVE: Self = Self::X86_64;
    /// The one that this program was compiled for.
    #[cfg(target_arch = "aarch64")]
    pub const NATIVE: Self = Self::Aarch64;
}

/// A system call's numbers; `None` where the architecture has none by this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    x86_64: Option<u16>,
    aarch64: Option<u16>,
}

impl Call {
    /// Its number on an architecture.
    pub fn number(self, architecture: Architecture) -> Option<u32> {
        match architecture {
            Architecture::X86_64 => self.x86_64.map(u32::from),
            Architecture::Aarch64 => self.aarch64.map(u32::from),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        lines().find(|(_, call)| *call == self).map_or("unknown", |(name, _)| name)
    }
}

/// The call with this name. Used for constants alone: a name that the table does not have fails the build.
pub const fn call(name: &str) -> Call {
    let (table, name) = (TABLE.as_bytes(), name.as_bytes());
    let mut line = 0;
    while line < table.len() {
        let mut at = 0;
        while at < name.len() && table[line + at] == name[at] {
            at += 1;
        }
        if at == name.len() && table[line + at] == b' ' {
            let (x86_64, rest) = number(table, line + at + 1);
            let (aarch64, _) = number(table, rest + 1);
            return Call { x86_64, aarch64 };
        }
        while table[line] != b'\n' {
            line += 1;
        }
        line += 1;
    }
    panic!("the table has no such system call")
}

/// The number that starts here, and where it ends.
const fn number(table: &[u8], start: usize) -> (Option<u16>, usize) {
    if table[start] == b'-' {
        return (None, start + 1);
    }
    let (mut value, mut at) = (0u16, start);
    while table[at].is_ascii_digit() {
        value = value * 10 + (table[at] - b'0') as u16;
        at += 1;
    }
    (Some(value), at)
}

/// The call with this name, if there is one.
pub fn find(name: &str) -> Option<Call> {
    lines().find(|(known, _)| *known == name).map(|(_, call)| call)
}

/// What the call with this number is called.
pub fn name_of(number: u32, architecture: Architecture) -> Option<&'static str> {
    lines().find(|(_, call)| call.number(architecture) == Some(number)).map(|(name, _)| name)
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    lines().map(|(name, _)| name)
}

fn lines() -> impl Iterator<Item = (&'static str, Call)> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut fields = line.split(' ');
        let (name, x86_64, aarch64) = (fields.next()?, fields.next()?, fields.next()?);
        Some((name, Call { x86_64: x86_64.parse().ok(), aarch64: aarch64.parse().ok() }))
    })
}
