use super::hosts::reaches;
use super::{Excess, rest};
use crate::merge::check_syscall;
use crate::network::HostPattern;
use crate::paths::is_plain;
use crate::{
    EntryError, LimitSetting, NetworkMode, PathPattern, Policy, PolicyError, ProtectPattern,
    Variables,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

/// One permission more than a policy gives (spec 7, 10.4). Paths are absolute and taken as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// To read what is below this path.
    Read(PathBuf),
    /// To write what is below this path.
    Write(PathBuf),
    /// To reach this `host[:port]`.
    Network(String),
    /// To connect to this socket.
    UnixSocket(PathBuf),
    /// To use this group of system calls.
    Syscalls(String),
    /// This limit, instead of a narrower one.
    Limit(LimitSetting),
    /// No confinement.
    FullAccess,
}

/// The kinds of grants: what `always_ask` lists.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum GrantKind {
    Read,
    Write,
    Network,
    UnixSockets,
    Syscalls,
    Limits,
    FullAccess,
}

impl GrantKind {
    /// All of them.
    pub const ALL: [GrantKind; 7] = [
        GrantKind::Read,
        GrantKind::Write,
        GrantKind::Network,
        GrantKind::UnixSockets,
        GrantKind::Syscalls,
        GrantKind::Limits,
        GrantKind::FullAccess,
    ];

    /// Its name in files, and in `sandbox_permissions`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Network => "network",
            Self::UnixSockets => "unix_sockets",
            Self::Syscalls => "syscalls",
            Self::Limits => "limits",
            Self::FullAccess => "full_access",
        }
    }
}

impl Grant {
    /// Its kind.
    pub fn kind(&self) -> GrantKind {
        match self {
            Self::Read(_) => GrantKind::Read,
            Self::Write(_) => GrantKind::Write,
            Self::Network(_) => GrantKind::Network,
            Self::UnixSocket(_) => GrantKind::UnixSockets,
            Self::Syscalls(_) => GrantKind::Syscalls,
            Self::Limit(_) => GrantKind::Limits,
            Self::FullAccess => GrantKind::FullAccess,
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind().name();
        match self {
            Self::Read(path) | Self::Write(path) | Self::UnixSocket(path) => {
                write!(f, "{kind} {}", path.display())
            }
            Self::Network(name) | Self::Syscalls(name) => write!(f, "{kind} {name}"),
            Self::Limit(setting) => write!(f, "{kind} {setting}"),
            Self::FullAccess => f.write_str(kind),
        }
    }
}

/// Why a policy is not widened. Nobody needs to be asked then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WidenError {
    /// The grant is malformed.
    #[error("{grant}: {problem}")]
    Malformed {
        /// The grant.
        grant: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The policy hides, protects or refuses it by name, and no grant undoes that.
    #[error("{grant}: {by:?} of the policy {what} it, and no grant undoes that")]
    Denied {
        /// The grant.
        grant: String,
        /// `hides`, `protects` or `refuses`.
        what: &'static str,
        /// The entry.
        by: String,
    },
    /// The policy allows all of it already (spec 7.2).
    #[error("{grants}: the policy allows this already")]
    NothingMore {
        /// What was asked for.
        grants: String,
    },
    /// More than the ceiling.
    #[error("{grants}: beyond the ceiling {ceiling}, which does not allow {excess}")]
    BeyondCeiling {
        /// What was asked for.
        grants: String,
        /// The ceiling's name.
        ceiling: String,
        /// What it does not allow.
        excess: String,
    },
    /// A new writable root brings its own protected paths, some of which are writable now.
    #[error("{grants}: this would take away what the policy allows now: {excess}")]
    Narrows {
        /// What was asked for.
        grants: String,
        /// What would be lost.
        excess: String,
    },
    /// An entry of a policy means nothing.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The policy of full access could not be loaded.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

impl Policy {
    /// The policy with these grants: strictly more than before, and within the ceiling, if there is one (spec 7.2). What is hidden
    /// stays hidden, and what is protected stays protected, unless full access is granted, which confines nothing.
    pub fn widen(
        &self,
        grants: &[Grant],
        ceiling: Option<&Policy>,
        variables: &Variables,
    ) -> Result<Policy, WidenError> {
        let mut wider = self.clone();
        for grant in grants {
            self.add(grant, &mut wider, variables)?;
        }
        wider.require_as(self);
        let all = || grants.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        if let Some(Excess(excess)) = self.excess_over(&[&wider], variables)? {
            return Err(WidenError::Narrows { grants: all(), excess });
        }
        if wider.excess_over(&[self], variables)?.is_none() {
            return Err(WidenError::NothingMore { grants: all() });
        }
        if let Some(ceiling) = ceiling
            && let Some(Excess(excess)) = wider.excess_over(&[self, ceiling], variables)?
        {
            return Err(WidenError::BeyondCeiling {
                grants: all(),
                ceiling: ceiling.name.clone(),
                excess,
            });
        }
        Ok(wider)
    }

    fn add(
        &self,
        grant: &Grant,
        wider: &mut Policy,
        variables: &Variables,
    ) -> Result<(), WidenError> {
        let malformed =
            |problem: String| WidenError::Malformed { grant: grant.to_string(), problem };
        let denied = |what: &'static str, by: String| WidenError::Denied {
            grant: grant.to_string(),
            what,
            by,
        };
        match grant {
            Grant::Read(path) | Grant::Write(path) | Grant::UnixSocket(path) => {
                if !is_plain(path) {
                    return Err(malformed("the path must be absolute and without '..'".to_owned()));
                }
                let path: PathBuf = path.components().collect();
                let write = matches!(grant, Grant::Write(_));
                if write && path == Path::new("/") {
                    return Err(malformed(
                        "this is full_access, which is asked for by name".to_owned(),
                    ));
                }
                if let Some((what, by)) = self.denies(&path, write, variables)? {
                    return Err(denied(what, by));
                }
                let access = self.access(&path, variables)?;
                let literal = &mut wider.filesystem.literal;
                if !literal.granted.contains(&path) {
                    literal.granted.push(path.clone());
                }
                // A root within a root would bring protected paths of its own, and nothing else.
                match grant {
                    Grant::Write(_) if !access.write => literal.write.push(path),
                    Grant::Read(_) if !access.read => literal.read.push(path),
                    Grant::UnixSocket(_) if !access.connect => literal.unix_sockets.push(path),
                    _ => {}
                }
            }
            Grant::Network(host) => {
                let pattern = HostPattern::parse(host).map_err(|error| malformed(error.problem))?;
                let refused = self.network.deny.iter().find(|entry| {
                    HostPattern::parse(entry).is_ok_and(|entry| entry.covers(&pattern))
                });
                if let Some(entry) = refused {
                    return Err(denied("refuses", entry.clone()));
                }
                if wider.network.mode == NetworkMode::None {
                    wider.network.mode = NetworkMode::Proxy;
                }
                if !reaches(&wider.network, &pattern) {
                    wider.network.allow.push(host.clone());
                }
            }
            Grant::Syscalls(name) => {
                check_syscall(name).map_err(|error| malformed(error.problem))?;
                if name == "all" {
                    return Err(malformed(
                        "this is a part of full_access, which is asked for by name".to_owned(),
                    ));
                }
                if wider.syscalls.deny.contains(name) {
                    return Err(denied("refuses", name.clone()));
                }
                if !rest::all_calls(&wider.syscalls) && !wider.syscalls.allow.contains(name) {
                    wider.syscalls.allow.push(name.clone());
                }
            }
            Grant::Limit(setting) => {
                let mut limits = wider.limits.clone();
                limits.apply(setting);
                // Narrower limits are no grants: what is asked for beside them is looked at.
                wider.limits = rest::limits_join(&wider.limits, &limits);
            }
            Grant::FullAccess => {
                let full = Policy::load(OsStr::new("danger-full-access"))?;
                let set = wider.environment.set.clone();
                *wider = Policy {
                    name: wider.name.clone(),
                    limits: rest::limits_join(&wider.limits, &full.limits),
                    escalation: wider.escalation.clone(),
                    ..full
                };
                wider.environment.set.extend(set);
            }
        }
        Ok(())
    }

    /// The entry that no grant undoes: a hidden folder in which the path lies, or a protected one for writing.
    fn denies(
        &self,
        path: &Path,
        write: bool,
        variables: &Variables,
    ) -> Result<Option<(&'static str, String)>, EntryError> {
        let files = self.expand(variables)?;
        let access = self.access(path, variables)?;
        if !access.read
            && let Some(by) = files.hide.iter().find(|hidden| hidden.covers(path))
        {
            return Ok(Some(("hides", by.to_string())));
        }
        // Also where nothing is writable yet: a hook that is planted elsewhere runs as well.
        let by = files.protect.iter().find(|pattern| pattern.is_above(path, &files.write));
        Ok(by.filter(|_| write && !access.write).map(|by| ("protects", by.to_string())))
    }
}

impl ProtectPattern {
    /// Whether the path is named by it, or lies below what it names: below these roots, or below any folder at all.
    pub(crate) fn is_above(&self, path: &Path, roots: &[PathPattern]) -> bool {
        let covers = |folder: &Path, names: &[String]| {
            PathPattern::new(folder.to_owned(), names.to_vec()).covers(path)
        };
        match self {
            Self::At(pattern) => pattern.covers(path),
            Self::Anywhere(names) => path.ancestors().any(|folder| covers(folder, names)),
            Self::BelowRoots(names) => path
                .ancestors()
                .filter(|folder| roots.iter().any(|root| root.covers(folder)))
                .any(|folder| covers(folder, names)),
        }
    }
}
