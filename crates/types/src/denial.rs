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
