use stockade_sandbox::{Cell, Exit};
use stockade_types::{Evidence, LimitMet, LimitName, Outcome, Usage};

/// The limits whose overrun the kernel tells by a signal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignalledLimits {
    pub(crate) cpu: bool,
    pub(crate) file_size: bool,
}

impl SignalledLimits {
    /// What it means that the main process ended like this. Only a limit that was set can have been exceeded: the
    /// same signals can be sent by hand.
    pub(crate) fn outcome(self, exit: Exit) -> Outcome {
        match exit {
            Exit::Code(code) => Outcome::Exited { code },
            Exit::Signal(libc::SIGXCPU) if self.cpu => {
                Outcome::LimitExceeded { limit: LimitName::Cpu }
            }
            Exit::Signal(libc::SIGXFSZ) if self.file_size => {
                Outcome::LimitExceeded { limit: LimitName::FileSize }
            }
            Exit::Signal(signal) => Outcome::Signaled { signal },
        }
    }
}

/// Which limits a cell's policy sets.
pub(crate) fn set_in(cell: &dyn Cell) -> impl Fn(LimitName) -> bool {
    let limits = cell.limits();
    move |limit| match limit {
        LimitName::Memory => limits.memory.is_some(),
        LimitName::Pids => limits.pids.is_some(),
        LimitName::Cpu => limits.cpu.is_some(),
        LimitName::Files => limits.files.is_some(),
        LimitName::FileSize => limits.file_size.is_some(),
        LimitName::Output => limits.output.is_some(),
    }
}

/// The words in which programs tell of a limit (`strerror` of EAGAIN after a fork, EFBIG, EMFILE; `strsignal` of SIGXFSZ and
/// SIGXCPU), lower case.
const WORDS: [(LimitName, &[&str]); 4] = [
    (
        LimitName::Pids,
        &[
            "fork: retry: resource temporarily unavailable",
            "fork: resource temporarily unavailable",
            "cannot fork",
            "can't fork",
            "can't start new thread",
            "[errno 11] resource temporarily unavailable",
            "unable to create new native thread",
        ],
    ),
    (LimitName::FileSize, &["file too large", "file size limit exceeded"]),
    (LimitName::Files, &["too many open files"]),
    (LimitName::Cpu, &["cpu time limit exceeded"]),
];

/// How a shell tells that the signal of a limit ended its command.
const CODES: [(LimitName, i32); 2] =
    [(LimitName::FileSize, 128 + libc::SIGXFSZ), (LimitName::Cpu, 128 + libc::SIGXCPU)];

/// What a command that failed printed of limits that were set: no evidence, since anybody can print it.
/// `set` says which were.
pub(crate) fn inferred(
    set: impl Fn(LimitName) -> bool,
    outcome: &Outcome,
    texts: [&[u8]; 2],
) -> Vec<LimitMet> {
    if *outcome == (Outcome::Exited { code: 0 }) {
        return Vec::new();
    }
    let texts = texts.map(|text| String::from_utf8_lossy(text).to_lowercase());
    let by_code = |limit| {
        CODES.iter().any(|(of, code)| *of == limit && *outcome == Outcome::Exited { code: *code })
    };
    WORDS
        .iter()
        .filter(|(limit, words)| {
            let told = words.iter().any(|word| texts.iter().any(|text| text.contains(word)));
            set(*limit) && (told || by_code(*limit))
        })
        .map(|(limit, _)| LimitMet { limit: *limit, evidence: Evidence::Inferred })
        .filter(|met| *outcome != Outcome::LimitExceeded { limit: met.limit })
        .collect()
}

/// A command that ignores SIGXCPU is killed by a signal that names nothing, when it has spent all of its processor time (in seconds).
pub(crate) fn of_time_spent(
    cpu: Option<u64>,
    outcome: &Outcome,
    usage: &Usage,
) -> Option<LimitMet> {
    let killed = [
        Outcome::Signaled { signal: libc::SIGKILL },
        // As a shell tells it of its command.
        Outcome::Exited { code: 128 + libc::SIGKILL },
    ];
    let spent = usage.user_us.saturating_add(usage.system_us);
    let is_spent = cpu.is_some_and(|seconds| spent >= seconds.saturating_mul(1_000_000));
    (is_spent && killed.contains(outcome))
        .then_some(LimitMet { limit: LimitName::Cpu, evidence: Evidence::Inferred })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_is_the_limits_only_where_the_time_is_spent() {
        let met = |cpu, outcome, user_us, system_us| {
            of_time_spent(cpu, &outcome, &Usage { user_us, system_us, ..Usage::default() })
        };
        let killed = || Outcome::Signaled { signal: libc::SIGKILL };
        let cpu = Some(LimitMet { limit: LimitName::Cpu, evidence: Evidence::Inferred });
        assert_eq!(met(Some(2), killed(), 1_500_000, 600_000), cpu);
        assert_eq!(met(Some(2), Outcome::Exited { code: 137 }, 2_000_000, 0), cpu);
        assert_eq!(met(Some(2), killed(), 1_500_000, 400_000), None);
        assert_eq!(met(None, killed(), 9_000_000, 0), None);
        assert_eq!(met(Some(2), Outcome::Exited { code: 1 }, 9_000_000, 0), None);
    }

    #[test]
    fn only_a_limit_that_was_set_is_supposed_and_only_of_a_command_that_failed() {
        let both = |limit| matches!(limit, LimitName::Pids | LimitName::FileSize);
        let met = |set: fn(LimitName) -> bool, code, text: &str| {
            let met = inferred(set, &Outcome::Exited { code }, [text.as_bytes(), b""]);
            met.into_iter().map(|met| met.limit).collect::<Vec<_>>()
        };
        let forked = "bash: fork: retry: Resource temporarily unavailable\n";
        assert_eq!(met(both, 254, forked), [LimitName::Pids]);
        assert_eq!(met(both, 0, forked), []);
        assert_eq!(met(|_| false, 254, forked), []);
        assert_eq!(met(both, 1, "OSError: [Errno 27] File too large"), [LimitName::FileSize]);
        assert_eq!(met(both, 153, ""), [LimitName::FileSize]);
        assert_eq!(met(both, 1, "Too many open files"), []);
        assert_eq!(met(both, 152, "CPU time limit exceeded"), [], "it was not set");
        assert_eq!(met(|_| true, 152, ""), [LimitName::Cpu]);
        assert_eq!(met(|_| true, 1, "bash: line 1: 7 CPU time limit exceeded"), [LimitName::Cpu]);
    }
}
