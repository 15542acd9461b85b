use crate::lattice::GrantKind;
use crate::merge::Merged;
use crate::place::Sourced;
use crate::{Place, Policy, PolicyError};
use serde::Serialize;
use std::ffi::OsStr;
use std::fmt;
use stockade_types::Layer;

/// A policy together with the place of everything in it: what `policy show` and `policy explain` tell.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The policy.
    pub policy: Policy,
    /// Everything it says, in the order of its sections.
    pub lines: Vec<Line>,
}

/// One value of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The key, such as `filesystem.read` or `limits.pids`.
    pub key: String,
    /// The value, or one entry of the list. For `environment.set.NAME`, the variable's value.
    pub value: String,
    /// Where it was written; nowhere, for what a policy is that does not say otherwise.
    pub origin: Option<Place>,
    /// Whether the key is a list.
    #[serde(skip)]
    pub(crate) shape: Shape,
}

/// How a line's key and value stand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One of a list of texts.
    Entry,
    /// A text.
    Text,
    /// A value without quotes.
    Bare,
}

impl Policy {
    /// Loads as [`Policy::load`] does, and keeps the place of everything.
    pub fn load_effective(name_or_file: &OsStr) -> Result<Effective, PolicyError> {
        Effective::of(crate::load::merged(name_or_file)?)
    }
}

impl Effective {
    /// The policy that a text says, which is known by `label` in errors. It can extend the shipped policies, and no file.
    pub fn from_text(label: &str, text: &str) -> Result<Self, PolicyError> {
        Self::of(crate::load::merged_text(label, text)?)
    }

    pub(crate) fn of(merged: Merged) -> Result<Self, PolicyError> {
        let mut lines = Lines::default();
        lines.one("name", Shape::Text, merged.name.as_ref(), String::clone, &merged.default_name);
        lines.list("require", merged.require.as_deref().unwrap_or_default(), |layer| layer.name());
        for (key, list) in [
            ("filesystem.read", &merged.read),
            ("filesystem.write", &merged.write),
            ("filesystem.hide", &merged.hide),
            ("filesystem.protect", &merged.protect),
        ] {
            lines.list(key, list, String::as_str);
        }
        lines.one(
            "network.mode",
            Shape::Text,
            merged.mode.as_ref(),
            |mode| mode.name().into(),
            "none",
        );
        for (key, list) in [
            ("network.allow", &merged.allow),
            ("network.deny", &merged.deny),
            ("network.unix_sockets", &merged.unix_sockets),
            ("environment.keep", &merged.keep),
            ("environment.scrub", &merged.scrub),
        ] {
            lines.list(key, list, String::as_str);
        }
        for (key, on) in [
            ("environment.scrub_secrets", &merged.scrub_secrets),
            ("environment.scrub_loaders", &merged.scrub_loaders),
        ] {
            lines.one(key, Shape::Bare, on.as_ref(), bool::to_string, "true");
        }
        for (name, value) in &merged.set {
            let key = format!("environment.set.{name}");
            lines.one(&key, Shape::Text, Some(value), String::clone, "");
        }
        for (at, setting) in merged.limits.iter().enumerate() {
            let name = setting.value.name();
            let again = merged.limits.iter().skip(at + 1).any(|later| later.value.name() == name);
            if !again {
                let key = format!("limits.{name}");
                lines.one(&key, Shape::Text, Some(setting), |setting| setting.value_text(), "");
            }
        }
        lines.list("syscalls.allow", &merged.syscalls_allow, String::as_str);
        lines.list("syscalls.deny", &merged.syscalls_deny, String::as_str);
        if let Some(ceiling) = &merged.ceiling {
            lines.one("escalation.ceiling", Shape::Text, Some(ceiling), String::clone, "");
        }
        let always = merged.always_ask.as_deref().unwrap_or_default();
        lines.list("escalation.always_ask", always, |kind: &GrantKind| kind.name());
        let is_written = merged.require.is_some();
        let mut lines = lines.0;
        let policy = merged.into_policy()?;
        if !is_written {
            // All that the policy asks for.
            let default = policy.require.iter().map(|layer: &Layer| Line {
                key: "require".to_owned(),
                value: layer.name().to_owned(),
                origin: None,
                shape: Shape::Entry,
            });
            let at = usize::from(!lines.is_empty());
            lines.splice(at..at, default);
        }
        Ok(Self { policy, lines })
    }

    /// The lines of one key.
    pub fn lines_of<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Line> {
        self.lines.iter().filter(move |line| line.key == key)
    }
}

#[derive(Default)]
struct Lines(Vec<Line>);

impl Lines {
    fn list<T>(&mut self, key: &str, list: &[Sourced<T>], text: impl Fn(&T) -> &str) {
        self.0.extend(list.iter().map(|entry| Line {
            key: key.to_owned(),
            value: text(&entry.value).to_owned(),
            origin: Some(entry.place()),
            shape: Shape::Entry,
        }));
    }

    fn one<T>(
        &mut self,
        key: &str,
        shape: Shape,
        value: Option<&Sourced<T>>,
        text: impl Fn(&T) -> String,
        default: &str,
    ) {
        self.0.push(Line {
            key: key.to_owned(),
            value: value.map_or_else(|| default.to_owned(), |value| text(&value.value)),
            origin: value.map(Sourced::place),
            shape,
        });
    }
}

/// As a policy file that says the same, each value with its origin in a comment.
impl fmt::Display for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut section = "";
        let mut open: Option<&str> = None;
        for line in &self.lines {
            let (in_section, key) = line.key.rsplit_once('.').unwrap_or(("", &line.key));
            if open.is_some_and(|open| open != line.key) {
                writeln!(f, "]")?;
                open = None;
            }
            if in_section != section {
                writeln!(f, "\n[{in_section}]")?;
                section = in_section;
            }
            if key == "name" && line.origin.is_none() {
                writeln!(f, "# {}: named after its file", line.value)?;
                continue;
            }
            let value = match line.shape {
                Shape::Bare => line.value.clone(),
                Shape::Entry | Shape::Text => quoted(&line.value),
            };
            let origin = line.origin.as_ref().map_or("default".to_owned(), Place::to_string);
            match line.shape {
                Shape::Entry => {
                    if open.is_none() {
                        writeln!(f, "{key} = [")?;
                        open = Some(&line.key);
                    }
                    writeln!(f, "    {:<40} # {origin}", value + ",")?;
                }
                Shape::Text | Shape::Bare => {
                    writeln!(f, "{:<44} # {origin}", format!("{key} = {value}"))?;
                }
            }
        }
        if open.is_some() {
            writeln!(f, "]")?;
        }
        Ok(())
    }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            _ if character.is_control() => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(character)));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped_names;

    #[test]
    fn what_is_shown_is_a_policy_file_that_says_the_same() {
        // spec 5.1: the effective policy
        let folder = tempfile::tempdir().unwrap();
        for name in shipped_names() {
            let effective = Policy::load_effective(OsStr::new(name)).unwrap();
            assert_eq!(effective.policy, Policy::load(OsStr::new(name)).unwrap());
            let file = folder.path().join("shown.toml");
            std::fs::write(&file, effective.to_string()).unwrap();
            let again = Policy::load(file.as_os_str()).unwrap();
            assert_eq!(again, effective.policy, "{effective}");
        }
    }

    #[test]
    fn every_line_knows_the_file_that_says_it() {
        // issue 3: the origin of every line
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p.toml");
        let text = "extends = \"workspace-write\"\n[filesystem]\nread = [\"/srv\"]\n[limits]\npids = 512\n[environment.set]\nA = \"x\\\"y\"\n";
        std::fs::write(&file, text).unwrap();
        let effective = Policy::load_effective(file.as_os_str()).unwrap();
        let origin = |key: &str, value: &str| {
            let line = effective.lines_of(key).find(|line| line.value == value).unwrap();
            line.origin
                .as_ref()
                .map(|place| format!("{}:{}:{}", place.file, place.line, place.column))
        };
        let mine = file.display().to_string();
        assert_eq!(origin("filesystem.read", "/srv"), Some(format!("{mine}:3:9")));
        assert_eq!(origin("limits.pids", "512"), Some(format!("{mine}:5:1")));
        assert_eq!(effective.lines_of("limits.pids").count(), 1);
        assert_eq!(origin("environment.set.A", "x\"y"), Some(format!("{mine}:7:5")));
        let shipped = origin("filesystem.read", "/usr").unwrap();
        assert!(shipped.starts_with("policies/read-only.toml:"), "{shipped}");
        assert_eq!(origin("require", "landlock"), None);
        assert_eq!(origin("name", "p"), None);
        let shown = effective.to_string();
        assert!(
            shown.contains("\"/srv\",") && shown.contains("# policies/read-only.toml:"),
            "{shown}"
        );
    }
}
