use crate::error::did_you_mean;
use crate::load::ceiling;
use crate::merge::Merged;
use crate::network::HostPattern;
use crate::paths::WrittenPath;
use crate::place::Sourced;
use crate::syscalls::{self, GROUPS, INDISPENSABLE};
use crate::{
    EnvironmentPolicy, EscalationPolicy, FilesystemPolicy, LimitsPolicy, LiteralPaths, NetworkMode,
    NetworkPolicy, Policy, PolicyError, SyscallPolicy, wildcard,
};
use std::collections::HashMap;

impl Merged {
    /// Refuses what contradicts itself, and makes the policy.
    pub fn into_policy(self) -> Result<Policy, PolicyError> {
        self.check_hidden()?;
        self.check_full_access()?;
        self.check_own()?;
        self.check_network()?;
        self.check_syscalls()?;
        self.check_environment()?;

        let ceiling = self.ceiling.as_ref().map(ceiling).transpose()?;
        let mut limits = LimitsPolicy::default();
        self.limits.iter().for_each(|setting| limits.apply(&setting.value));
        let mut policy = Policy {
            name: self.name.map_or(self.default_name, |name| name.value),
            require: Vec::new(),
            filesystem: FilesystemPolicy {
                read: values(self.read),
                write: values(self.write),
                hide: values(self.hide),
                protect: values(self.protect),
                literal: LiteralPaths::default(),
            },
            network: NetworkPolicy {
                mode: self.mode.map_or(NetworkMode::None, |mode| mode.value),
                allow: values(self.allow),
                deny: values(self.deny),
                unix_sockets: values(self.unix_sockets),
            },
            environment: EnvironmentPolicy {
                keep: values(self.keep),
                set: self.set.into_iter().map(|(name, value)| (name, value.value)).collect(),
                scrub: values(self.scrub),
                scrub_secrets: self.scrub_secrets.is_none_or(|on| on.value),
                scrub_loaders: self.scrub_loaders.is_none_or(|on| on.value),
            },
            limits,
            syscalls: SyscallPolicy {
                allow: values(self.syscalls_allow),
                deny: values(self.syscalls_deny),
            },
            escalation: EscalationPolicy {
                ceiling,
                always_ask: self.always_ask.map(values).unwrap_or_default(),
            },
        };
        policy.require = match self.require {
            None => policy.requested_layers(),
            Some(layers) => {
                if let Some(layer) = layers.iter().find(|layer| !policy.requests(layer.value)) {
                    return Err(invalid(
                        layer,
                        format!(
                            "the layer {} is required, but nothing in this policy asks for it",
                            layer.value
                        ),
                    ));
                }
                let mut layers = values(layers);
                layers.sort();
                layers.dedup();
                layers
            }
        };
        Ok(policy)
    }

    /// One file cannot both grant and hide a path. Across files it can: hiding what is inherited is what `hide` is for.
    fn check_hidden(&self) -> Result<(), PolicyError> {
        // By their parsed form, `~/x/` is `$HOME/x`.
        let mut granted: HashMap<WrittenPath, Vec<&Sourced<String>>> = HashMap::new();
        for entry in self.read.iter().chain(&self.write) {
            if let Ok(path) = WrittenPath::parse(&entry.value) {
                granted.entry(path).or_default().push(entry);
            }
        }
        for hidden in &self.hide {
            let Ok(path) = WrittenPath::parse(&hidden.value) else {
                continue;
            };
            if path.is_root() {
                return Err(invalid(hidden, "hiding \"/\" leaves nothing to run".into()));
            }
            let beside = |entry: &&&Sourced<String>| entry.beside(hidden);
            if let Some(granted) = granted.get(&path).into_iter().flatten().find(beside) {
                return Err(invalid(
                    hidden,
                    format!("{:?} is hidden here and granted at {}", hidden.value, granted.place()),
                ));
            }
        }
        Ok(())
    }

    fn check_full_access(&self) -> Result<(), PolicyError> {
        let root = |entry: &&Sourced<String>| {
            WrittenPath::parse(&entry.value).is_ok_and(|path| path.is_root())
        };
        let Some(write) = self.write.iter().find(root) else {
            return Ok(());
        };
        match self.hide.first().or(self.protect.first()) {
            Some(lost) => Err(invalid(
                write,
                format!(
                    "writing \"/\" is full access, in which nothing can be hidden or protected, but {} says {:?}",
                    lost.place(),
                    lost.value
                ),
            )),
            None => Ok(()),
        }
    }

    /// What each cell has of its own is nobody's to be written to.
    fn check_own(&self) -> Result<(), PolicyError> {
        for entry in &self.write {
            let folder = WrittenPath::parse(&entry.value).ok().and_then(|path| path.own_folder());
            if let Some(folder) = folder {
                let problem = format!(
                    "{:?} cannot be a writable root: every cell has a {folder} of its own",
                    entry.value
                );
                return Err(invalid(entry, problem));
            }
        }
        Ok(())
    }

    fn check_network(&self) -> Result<(), PolicyError> {
        let mode = self.mode.as_ref().map_or(NetworkMode::None, |mode| mode.value);
        if mode == NetworkMode::Proxy {
            return self.check_hosts();
        }
        let (key, entry) = match (self.allow.first(), self.deny.first()) {
            (Some(allowed), _) => ("allow", allowed),
            (None, Some(denied)) => ("deny", denied),
            (None, None) => return Ok(()),
        };
        let name = if mode == NetworkMode::Host { "host" } else { "none" };
        let set_at = match &self.mode {
            Some(mode) => format!(" (set at {})", mode.place()),
            None => String::new(),
        };
        Err(invalid(
            entry,
            format!(
                "network.{key} counts only with mode = \"proxy\", but the mode is {name:?}{set_at}"
            ),
        ))
    }

    /// One file cannot both allow and refuse a host. Across files it can: refusing what is inherited is what `deny` is for.
    fn check_hosts(&self) -> Result<(), PolicyError> {
        for denied in &self.deny {
            let covered = |allowed: &&Sourced<String>| {
                let parse = |entry: &Sourced<String>| HostPattern::parse(&entry.value).ok();
                allowed.beside(denied)
                    && parse(denied)
                        .zip(parse(allowed))
                        .is_some_and(|(denied, allowed)| denied.covers(&allowed))
            };
            if let Some(allowed) = self.allow.iter().find(covered) {
                let problem = format!(
                    "{:?} is refused here, but {} allows {:?}",
                    denied.value,
                    allowed.place(),
                    allowed.value
                );
                return Err(invalid(denied, problem));
            }
        }
        Ok(())
    }

    fn check_syscalls(&self) -> Result<(), PolicyError> {
        for named in self.syscalls_allow.iter().chain(&self.syscalls_deny) {
            let name = named.value.as_str();
            if name != "all" && !GROUPS.contains(&name) && syscalls::find(name).is_none() {
                let known = GROUPS.into_iter().chain(syscalls::names());
                return Err(invalid(
                    named,
                    format!(
                        "{name:?} is neither a system call nor a group of them{}; the groups are {}",
                        did_you_mean(name, known),
                        GROUPS.join(", ")
                    ),
                ));
            }
        }
        let lost = |denied: &&Sourced<String>| INDISPENSABLE.contains(&denied.value.as_str());
        if let Some(denied) = self.syscalls_deny.iter().find(lost) {
            let problem = format!("no command can run without {:?}", denied.value);
            return Err(invalid(denied, problem));
        }
        for denied in &self.syscalls_deny {
            if denied.value == "all" {
                return Err(invalid(
                    denied,
                    "refusing \"all\" system calls leaves nothing to run".into(),
                ));
            }
            let contradicts = |allowed: &&Sourced<String>| {
                allowed.value == denied.value || allowed.value == "all"
            };
            if let Some(allowed) = self.syscalls_allow.iter().find(contradicts) {
                return Err(invalid(
                    denied,
                    format!(
                        "{:?} is refused here, but {} allows {:?}",
                        denied.value,
                        allowed.place(),
                        allowed.value
                    ),
                ));
            }
        }
        Ok(())
    }

    /// One file cannot both keep and scrub a variable. Across files it can: scrubbing what is kept by another is what `scrub` is for.
    fn check_environment(&self) -> Result<(), PolicyError> {
        for kept in &self.keep {
            // A star of the pattern that is covered is one byte more for those of the pattern that covers it.
            let covers = |scrubbed: &&Sourced<String>| {
                scrubbed.beside(kept)
                    && wildcard::matches(scrubbed.value.as_bytes(), kept.value.as_bytes())
            };
            if let Some(scrubbed) = self.scrub.iter().find(covers) {
                let problem = format!(
                    "{:?} is kept here, but {} scrubs {:?}, which wins",
                    kept.value,
                    scrubbed.place(),
                    scrubbed.value
                );
                return Err(invalid(kept, problem));
            }
        }
        Ok(())
    }
}

fn invalid<T>(at: &Sourced<T>, problem: String) -> PolicyError {
    PolicyError::Invalid { place: at.place(), problem }
}

fn values<T>(sourced: Vec<Sourced<T>>) -> Vec<T> {
    sourced.into_iter().map(|entry| entry.value).collect()
}
