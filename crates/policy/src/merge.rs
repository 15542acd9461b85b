use crate::environment::{check_name, check_name_pattern, check_value};
use crate::error::EntryError;
use crate::file::PolicyFile;
use crate::limits::LimitSetting;
use crate::network::check_host;
use crate::paths::WrittenPath;
use crate::place::{Source, Sourced};
use crate::{GrantKind, NetworkMode, PolicyError, ProtectPattern};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use stockade_types::Layer;
use toml::Spanned;

/// Policy files merged into one (spec 5.1): lists are joined, single values and `require` replaced, `set` replaced name
/// by name. Every value still knows its place.
#[derive(Debug)]
pub(crate) struct Merged {
    /// `None`: the file's own, without its ending.
    pub name: Option<Sourced<String>>,
    pub default_name: String,
    pub require: Option<Vec<Sourced<Layer>>>,
    pub read: Vec<Sourced<String>>,
    pub write: Vec<Sourced<String>>,
    pub hide: Vec<Sourced<String>>,
    pub protect: Vec<Sourced<String>>,
    pub mode: Option<Sourced<NetworkMode>>,
    pub allow: Vec<Sourced<String>>,
    pub deny: Vec<Sourced<String>>,
    pub unix_sockets: Vec<Sourced<String>>,
    pub keep: Vec<Sourced<String>>,
    pub set: BTreeMap<String, Sourced<String>>,
    pub scrub: Vec<Sourced<String>>,
    pub scrub_secrets: Option<Sourced<bool>>,
    pub scrub_loaders: Option<Sourced<bool>>,
    pub limits: Vec<Sourced<LimitSetting>>,
    pub syscalls_allow: Vec<Sourced<String>>,
    pub syscalls_deny: Vec<Sourced<String>>,
    /// As it was written: a file counts from the folder of the file that names it.
    pub ceiling: Option<Sourced<String>>,
    pub always_ask: Option<Vec<Sourced<GrantKind>>>,
}

impl Merged {
    pub fn new(default_name: String) -> Self {
        Self {
            name: None,
            default_name,
            require: None,
            read: Vec::new(),
            write: Vec::new(),
            hide: Vec::new(),
            protect: Vec::new(),
            mode: None,
            allow: Vec::new(),
            deny: Vec::new(),
            unix_sockets: Vec::new(),
            keep: Vec::new(),
            set: BTreeMap::new(),
            scrub: Vec::new(),
            scrub_secrets: None,
            scrub_loaders: None,
            limits: Vec::new(),
            syscalls_allow: Vec::new(),
            syscalls_deny: Vec::new(),
            ceiling: None,
            always_ask: None,
        }
    }

    /// Lays a file over what is merged so far. Each entry is checked by itself here; `check` looks at them together.
    pub fn add(
        &mut self,
        file: PolicyFile,
        source: &Rc<Source>,
        takes_name: bool,
    ) -> Result<(), PolicyError> {
        let PolicyFile {
            name,
            extends: _,
            require,
            filesystem,
            network,
            environment,
            limits,
            syscalls,
            escalation,
        } = file;
        if let Some(name) = name {
            let name = Sourced::new(name, source);
            at(&name, check_policy_name(&name.value))?;
            if takes_name {
                self.name = Some(name);
            }
        }
        if let Some(layers) = require {
            self.require =
                Some(layers.into_iter().map(|layer| Sourced::new(layer, source)).collect());
        }

        let path = |entry: &str| WrittenPath::parse(entry).map(drop);
        // Most files grant little, and hundreds of paths are hidden: each is parsed once.
        let hidden: HashMap<WrittenPath, &Sourced<String>> = self
            .hide
            .iter()
            .filter(|_| !filesystem.read.is_empty() || !filesystem.write.is_empty())
            .filter_map(|hidden| Some((WrittenPath::parse(&hidden.value).ok()?, hidden)))
            .collect();
        let grant = |entry: &str| still_hidden(&hidden, entry, &WrittenPath::parse(entry)?);
        join(&mut self.read, filesystem.read, source, grant)?;
        join(&mut self.write, filesystem.write, source, grant)?;
        join(&mut self.hide, filesystem.hide, source, path)?;
        join(&mut self.protect, filesystem.protect, source, ProtectPattern::check)?;

        replace(&mut self.mode, network.mode, source);
        join(&mut self.allow, network.allow, source, check_host)?;
        join(&mut self.deny, network.deny, source, check_host)?;
        join(&mut self.unix_sockets, network.unix_sockets, source, path)?;

        join(&mut self.keep, environment.keep, source, check_name_pattern)?;
        join(&mut self.scrub, environment.scrub, source, check_name_pattern)?;
        for (name, value) in environment.set {
            let (name, value) = (Sourced::new(name, source), Sourced::new(value, source));
            at(&name, check_name(&name.value))?;
            at(&value, check_value(&value.value))?;
            self.set.insert(name.value, value);
        }
        replace(&mut self.scrub_secrets, environment.scrub_secrets, source);
        replace(&mut self.scrub_loaders, environment.scrub_loaders, source);

        for (name, value) in limits {
            let (name, value) = (Sourced::new(name, source), Sourced::new(value, source));
            let setting = LimitSetting::new(&name.value, &value.value.0).map_err(|error| {
                let place = if error.is_about_name() { name.place() } else { value.place() };
                PolicyError::Invalid { place, problem: error.to_string() }
            })?;
            self.limits.push(Sourced { value: setting, source: name.source, offset: name.offset });
        }

        join(&mut self.syscalls_allow, syscalls.allow, source, check_syscall)?;
        join(&mut self.syscalls_deny, syscalls.deny, source, check_syscall)?;

        replace(&mut self.ceiling, escalation.ceiling, source);
        if let Some(kinds) = escalation.always_ask {
            self.always_ask =
                Some(kinds.into_iter().map(|kind| Sourced::new(kind, source)).collect());
        }
        Ok(())
    }
}

fn join(
    list: &mut Vec<Sourced<String>>,
    more: Vec<Spanned<String>>,
    source: &Rc<Source>,
    check: impl Fn(&str) -> Result<(), EntryError>,
) -> Result<(), PolicyError> {
    let mut seen: HashMap<String, usize> =
        list.iter().enumerate().map(|(at, entry)| (entry.value.clone(), at)).collect();
    for entry in more {
        let entry = Sourced::new(entry, source);
        at(&entry, check(&entry.value))?;
        match seen.get(&entry.value).and_then(|at| list.get_mut(*at)) {
            // Said once more by this file, which must not contradict it then.
            Some(known) => *known = entry,
            None => {
                seen.insert(entry.value.clone(), list.len());
                list.push(entry);
            }
        }
    }
    Ok(())
}

/// What a file hides no file that extends it shows, so a grant of the same path there would say nothing.
fn still_hidden(
    inherited: &HashMap<WrittenPath, &Sourced<String>>,
    entry: &str,
    path: &WrittenPath,
) -> Result<(), EntryError> {
    match inherited.get(path) {
        None => Ok(()),
        Some(hidden) => Err(EntryError {
            entry: entry.to_owned(),
            problem: format!(
                "it is hidden at {}, and what is hidden there stays so for every file that extends that one; name a deeper path",
                hidden.place()
            ),
        }),
    }
}

fn replace<T>(value: &mut Option<Sourced<T>>, new: Option<Spanned<T>>, source: &Rc<Source>) {
    if let Some(new) = new {
        *value = Some(Sourced::new(new, source));
    }
}

fn at<T>(value: &Sourced<T>, checked: Result<(), EntryError>) -> Result<(), PolicyError> {
    checked
        .map_err(|error| PolicyError::Invalid { place: value.place(), problem: error.to_string() })
}

fn check_policy_name(name: &str) -> Result<(), EntryError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if (1..=64).contains(&name.len()) && name.chars().all(fits) {
        return Ok(());
    }
    Err(EntryError {
        entry: name.to_owned(),
        problem: "a policy's name is made of 1 to 64 ASCII letters, digits, '-', '_' or '.'".into(),
    })
}

/// Which groups and calls exist is the sandbox's knowledge: it refuses a name that it does not know.
pub(crate) fn check_syscall(name: &str) -> Result<(), EntryError> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if !name.is_empty() && name.bytes().all(fits) {
        return Ok(());
    }
    Err(EntryError {
        entry: name.to_owned(),
        problem: "the name of a system call or group is made of small letters, digits and '_'"
            .into(),
    })
}
