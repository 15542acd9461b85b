use serde::{Deserialize, Serialize};

/// Something that the sandbox refused to a running command (spec 5.9).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// What kind of thing was refused.
    pub kind: DenialKind,
    /// Which path, address or system call.
    pub target: String,
    /// How sure we are.
    pub evidence: Evidence,
    /// The grant that would allow it, as an argument of `--read`, `--write` and so on, or for a system call as a line of a
    /// policy; empty where no grant can.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub grant: String,
    /// More for people: where a planted file was put aside, which process made a refused system call; may be empty.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub note: String,
}

/// How many denials of one kind are named one by one.
pub const DENIALS_OF_A_KIND: usize = 64;

impl Denial {
    /// At most [`DENIALS_OF_A_KIND`] of each kind, in their order, and for the others of a kind one that tells their number: a command
    /// can bring about any number of them, and those of one kind must not crowd out another.
    pub fn bounded(denials: Vec<Denial>) -> Vec<Denial> {
        let mut kept = Vec::new();
        let mut rest: Vec<(usize, Denial)> = Vec::new();
        for denial in denials {
            let of_kind = kept.iter().filter(|kept: &&Denial| kept.kind == denial.kind).count();
            if of_kind < DENIALS_OF_A_KIND {
                kept.push(denial);
                continue;
            }
            match rest.iter_mut().find(|(_, first)| first.kind == denial.kind) {
                Some((count, first)) => {
                    *count += 1;
                    first.evidence = first.evidence.min(denial.evidence);
                }
                None => rest.push((1, denial)),
            }
        }
        kept.extend(rest.into_iter().map(|(count, first)| Denial {
            target: format!("{count} more"),
            grant: String::new(),
            note: format!("not named one by one; the first is {}", first.target),
            ..first
        }));
        kept
    }
}

/// What kind of thing a [`Denial`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DenialKind {
    /// Reading a path.
    Read,
    /// Writing, creating, renaming or removing a path.
    Write,
    /// Connecting, binding or sending.
    Network,
    /// A system call.
    Syscall,
}

/// How sure a [`Denial`] is. Texts that a command prints are forgeable and are never evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// From an error text, checked against the policy.
    Inferred,
    /// Stockade itself saw or did it (a file tool's refusal, a quarantined file).
    Observed,
    /// The kernel reported it.
    Kernel,
}

impl Denial {
    /// Whether it is evidence at all: the word of the kernel, or of Stockade. The rest comes from a text that a command printed.
    pub fn is_evidence(&self) -> bool {
        self.evidence >= Evidence::Observed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_denials_of_a_kind_are_counted_and_crowd_out_none_of_another() {
        let denial = |kind, target: String| Denial {
            kind,
            target,
            evidence: Evidence::Observed,
            grant: String::new(),
            note: String::new(),
        };
        let mut all: Vec<_> =
            (0..20_000).map(|n| denial(DenialKind::Write, n.to_string())).collect();
        all.push(denial(DenialKind::Syscall, "unshare".into()));
        let bounded = Denial::bounded(all);
        assert_eq!(bounded.len(), DENIALS_OF_A_KIND + 2);
        assert_eq!(bounded[DENIALS_OF_A_KIND].target, "unshare");
        assert_eq!(bounded[DENIALS_OF_A_KIND + 1].target, "19936 more");
    }
}
