//! Policies by what they allow: which one allows more, and what two of them allow both (spec 7.2). Paths are compared as they are
//! written, with the variables replaced: nothing asks the file system.

mod files;
mod grant;
mod hosts;
#[cfg(test)]
mod laws;
mod meet;
mod name;
mod rest;

use crate::{EntryError, Policy, Variables};
use files::FileExcess;
use std::fmt;

pub use files::Access;
pub(crate) use files::Files;
pub use grant::{Grant, GrantKind, WidenError};

/// Something that a policy allows and the policies above it do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excess(String);

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Policy {
    /// Whether this policy allows all that the other allows. Reflexive and transitive. Patterns that are too many to be compared are
    /// not covered.
    pub fn covers(&self, other: &Policy, variables: &Variables) -> Result<bool, EntryError> {
        Ok(other.excess_over(&[self], variables)?.is_none())
    }

    /// The first thing found that this policy allows and that none of `uppers` allows.
    pub fn excess_over(
        &self,
        uppers: &[&Policy],
        variables: &Variables,
    ) -> Result<Option<Excess>, EntryError> {
        // Without comparing: a policy allows what it allows, however long.
        if uppers.contains(&self) {
            return Ok(None);
        }
        let of = |part: Option<String>| part.map(Excess);
        fn each<'a, T>(uppers: &[&'a Policy], part: fn(&'a Policy) -> &'a T) -> Vec<&'a T> {
            uppers.iter().copied().map(part).collect()
        }
        let parts = of(hosts::excess(&self.network, &each(uppers, |policy| &policy.network)))
            .or_else(|| {
                let uppers = each(uppers, |policy| &policy.environment);
                of(rest::environment_excess(&self.environment, &uppers))
            })
            .or_else(|| of(rest::limits_excess(&self.limits, &each(uppers, |p| &p.limits))))
            .or_else(|| of(rest::syscalls_excess(&self.syscalls, &each(uppers, |p| &p.syscalls))))
            .or_else(|| of(rest::layers_excess(self, uppers)));
        if parts.is_some() {
            return Ok(parts);
        }
        let lower = Files::new(&self.expand(variables)?);
        let uppers = uppers.iter().map(|upper| Ok(Files::new(&upper.expand(variables)?)));
        let uppers = uppers.collect::<Result<Vec<Files>, EntryError>>()?;
        let uppers: Vec<&Files> = uppers.iter().collect();
        Ok(files::excess(&lower, &uppers).map(|excess| match excess {
            FileExcess::At(path, beyond) => {
                let what = if beyond.write {
                    "to write"
                } else if beyond.connect {
                    "to connect to"
                } else {
                    "to read"
                };
                Excess(format!("{what} {}", path.display()))
            }
            FileExcess::Undecided => Excess("paths by too many patterns to compare".to_owned()),
        }))
    }

    /// The most that both policies allow: covered by both, and covering whatever both cover. Its name, what it sets in the
    /// environment and its escalation are this policy's.
    pub fn meet(&self, other: &Policy, variables: &Variables) -> Result<Policy, EntryError> {
        let (filesystem, unix_sockets) =
            meet::meet(&self.expand(variables)?, &other.expand(variables)?);
        let mut met = Policy {
            name: self.name.clone(),
            require: Vec::new(),
            filesystem,
            network: hosts::meet(&self.network, &other.network),
            environment: rest::environment_meet(&self.environment, &other.environment),
            limits: rest::limits_meet(&self.limits, &other.limits),
            syscalls: rest::syscalls_meet(&self.syscalls, &other.syscalls),
            escalation: self.escalation.clone(),
        };
        met.network.unix_sockets = unix_sockets;
        for path in [self, other].into_iter().flat_map(|policy| &policy.filesystem.literal.granted)
        {
            if !met.filesystem.literal.granted.contains(path) {
                met.filesystem.literal.granted.push(path.clone());
            }
        }
        met.require = met.requested_layers();
        met.require.retain(|layer| self.require.contains(layer) || other.require.contains(layer));
        Ok(met)
    }

    /// What may be done with a path: absolute, and without `..`. Symbolic links are not followed.
    pub fn access(
        &self,
        path: &std::path::Path,
        variables: &Variables,
    ) -> Result<Access, EntryError> {
        Ok(Files::new(&self.expand(variables)?).access(path))
    }
}
