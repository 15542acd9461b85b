use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use stockade_types::Layer;

use crate::GrantKind;

/// A policy as written, with everything it extends merged in (spec 5.1). Paths still hold their variables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// The layers without which nothing may run.
    pub require: Vec<Layer>,
    /// Files.
    pub filesystem: FilesystemPolicy,
    /// Network.
    pub network: NetworkPolicy,
    /// Environment.
    pub environment: EnvironmentPolicy,
    /// Limits.
    pub limits: LimitsPolicy,
    /// System calls.
    pub syscalls: SyscallPolicy,
    /// What may be granted beyond it.
    #[serde(default)]
    pub escalation: EscalationPolicy,
}

/// Which files may be read and written. Every entry is a path pattern: absolute, or starting with a variable or `~`;
/// `*` stands for any characters within one component. Of the entries that a path lies in, the deepest decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesystemPolicy {
    /// Readable (and executable), with everything below.
    pub read: Vec<String>,
    /// Writable, with everything below.
    pub write: Vec<String>,
    /// Absent, whatever a wider entry says; a deeper one brings back what it names.
    pub hide: Vec<String>,
    /// Read-only inside writable roots, whether it exists or not: see [`crate::ProtectPattern`].
    pub protect: Vec<String>,
    /// Paths that were not written in a file, but named on the command line or granted.
    #[serde(default)]
    pub literal: LiteralPaths,
}

/// Absolute paths that are taken as they are: no variable, no `~`, no `*`, any bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiteralPaths {
    /// As [`FilesystemPolicy::read`].
    pub read: Vec<PathBuf>,
    /// As [`FilesystemPolicy::write`].
    pub write: Vec<PathBuf>,
    /// As [`FilesystemPolicy::hide`].
    pub hide: Vec<PathBuf>,
    /// As [`FilesystemPolicy::protect`]: exactly these.
    #[serde(default)]
    pub protect: Vec<PathBuf>,
    /// As [`NetworkPolicy::unix_sockets`].
    #[serde(default)]
    pub unix_sockets: Vec<PathBuf>,
    /// Those of all of these that somebody has approved: no link may lie on the way to them when a cell is built, or the approval would
    /// lead elsewhere.
    #[serde(default)]
    pub granted: Vec<PathBuf>,
}

/// Which network a call sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkPolicy {
    /// The mode.
    pub mode: NetworkMode,
    /// `host[:port]` patterns, in proxy mode.
    pub allow: Vec<String>,
    /// `host[:port]` patterns that are refused although `allow` names them, in proxy mode.
    #[serde(default)]
    pub deny: Vec<String>,
    /// Sockets of the host that may be connected to, whatever the mode: path patterns as in [`FilesystemPolicy`].
    #[serde(default)]
    pub unix_sockets: Vec<String>,
}

/// The network modes (spec 5.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkMode {
    /// A network namespace of its own, with loopback alone.
    #[default]
    None,
    /// Through the allowlist proxy.
    Proxy,
    /// The host's network.
    Host,
}

/// How the environment is made (spec 5.6): what `keep` names, less what `scrub` names and what the two built-in
/// scrubbers find, plus `set`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentPolicy {
    /// Names to take over from the host; `*` stands for any characters.
    pub keep: Vec<String>,
    /// Names to set. Values may hold variables.
    pub set: BTreeMap<String, String>,
    /// Names to remove from what `keep` took; `*` stands for any characters.
    pub scrub: Vec<String>,
    /// Whether to remove what looks like a secret, by its name or its value.
    pub scrub_secrets: bool,
    /// Whether to remove what makes programs load or run something (`LD_PRELOAD`, `BASH_ENV`), and what leads back to
    /// the session on the host (`SSH_AUTH_SOCK`).
    pub scrub_loaders: bool,
}

impl NetworkMode {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Proxy => "proxy",
            Self::Host => "host",
        }
    }
}

impl Default for EnvironmentPolicy {
    /// Nothing is kept, and both built-in scrubbers are on.
    fn default() -> Self {
        Self {
            keep: Vec::new(),
            set: BTreeMap::new(),
            scrub: Vec::new(),
            scrub_secrets: true,
            scrub_loaders: true,
        }
    }
}

/// Limits; `None` is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitsPolicy {
    /// Wall time of a call.
    pub wall: Option<Duration>,
    /// From SIGTERM to SIGKILL.
    pub grace: Option<Duration>,
    /// Bytes of memory of the whole tree.
    pub memory: Option<u64>,
    /// Processes and threads of the whole tree.
    pub pids: Option<u64>,
    /// CPU seconds of each process.
    pub cpu: Option<u64>,
    /// Open descriptors of each process.
    pub files: Option<u64>,
    /// Bytes of the largest file.
    pub file_size: Option<u64>,
    /// Bytes of output kept in memory, each of stdout and stderr.
    pub output: Option<u64>,
    /// Bytes of a background task's output kept on disk: the first half from its beginning, the rest from its end.
    pub task_output: Option<u64>,
}

/// Groups of system calls to allow although the default filter refuses them, and more to refuse.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyscallPolicy {
    /// Groups or names to allow; `all` stands for no filter at all.
    pub allow: Vec<String>,
    /// Groups or names to refuse.
    pub deny: Vec<String>,
}

/// What may be granted beyond the policy (spec 7).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscalationPolicy {
    /// The policy that is the most that may ever be granted: a name, or a file. See [`Policy::ceiling`].
    pub ceiling: Option<PathBuf>,
    /// Which grants are asked for each time, and never hold for longer than one call.
    pub always_ask: Vec<GrantKind>,
}

/// What a policy's variables stand for: absolute paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variables {
    /// `$WORKSPACE`.
    pub workspace: PathBuf,
    /// `$HOME` and `~`.
    pub home: PathBuf,
    /// `$SESSION`: the folder of the session's own files, where there is one.
    pub session: Option<PathBuf>,
}
