//! `policy explain`: whether a policy allows something, by which entry, and which grant would allow it.

use crate::effective::{Effective, Line};
use crate::expand::expand_entry;
use crate::lattice::{Access, Grant};
use crate::network::HostPattern;
use crate::{EntryError, NetworkMode, PathPattern, Place, ProtectPattern, Variables};
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// What a policy says about one thing that may be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// What: `read`, `write`, `connect`, or the name of what was asked about.
    pub action: String,
    /// Whether it is allowed.
    pub allowed: bool,
    /// The entry that decides; `None` where no entry speaks of it.
    pub by: Option<Decider>,
    /// The grant that would allow it: an argument of `stockade run`. `None` where it is allowed, or where no grant can.
    pub grant: Option<String>,
}

/// The entry that decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decider {
    /// Its key, such as `filesystem.hide`.
    pub key: String,
    /// The entry, as written.
    pub entry: String,
    /// Where; nowhere for a default.
    pub origin: Option<Place>,
}

impl From<&Line> for Decider {
    fn from(line: &Line) -> Self {
        Self { key: line.key.clone(), entry: line.value.clone(), origin: line.origin.clone() }
    }
}

impl fmt::Display for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?}", self.key, self.entry)?;
        match &self.origin {
            Some(place) => write!(f, " ({place})"),
            None => f.write_str(" (the default)"),
        }
    }
}

/// The keys that speak of paths, the strongest last: as they are applied at one folder.
const KEYS: [&str; 5] = [
    "filesystem.protect",
    "filesystem.read",
    "network.unix_sockets",
    "filesystem.write",
    "filesystem.hide",
];

/// Something that may be done with a path.
struct Action {
    name: &'static str,
    allowed: fn(&Access) -> bool,
    /// The keys that decide it.
    keys: &'static [&'static str],
    grant: fn(PathBuf) -> Grant,
    /// The option of `stockade run` that grants it, if there is one.
    option: Option<&'static str>,
}

/// The strongest at the deepest folder.
fn decider<'a>(entries: &[(usize, usize, &'a Line)], keys: &[&str]) -> Option<&'a Line> {
    let relevant = entries.iter().filter(|(_, _, line)| keys.contains(&line.key.as_str()));
    relevant.max_by_key(|(depth, strength, _)| (*depth, *strength)).map(|(.., line)| *line)
}

impl Effective {
    /// Reading, writing and connecting to a path: absolute, and without `..`. `real` is where it leads to if it is a link, or lies
    /// behind one: what is hidden or protected there is so by this way too.
    pub fn explain_path(
        &self,
        path: &Path,
        real: &Path,
        variables: &Variables,
    ) -> Result<Vec<Verdict>, EntryError> {
        let named = self.policy.access(path, variables)?;
        let there = self.policy.access(real, variables)?;
        let (at_path, at_real) = (self.entries(path, variables)?, self.entries(real, variables)?);
        let mut verdicts = Vec::new();
        for action in self.actions() {
            // What denies where the path leads to, denies here.
            let denial = decider(&at_real, action.keys).filter(|line| {
                !(action.allowed)(&there)
                    && matches!(line.key.as_str(), "filesystem.hide" | "filesystem.protect")
            });
            let allowed = (action.allowed)(&named) && denial.is_none();
            let by = denial.or_else(|| decider(&at_path, action.keys));
            let grant = (action.grant)(path.to_owned());
            let helps = !allowed && self.policy.widen(&[grant], None, variables).is_ok();
            let wanted = match action.option {
                Some(option) => format!("{option} {}", path.display()),
                None => format!(
                    "sandbox_permissions {{\"unix_sockets\": [{:?}]}}",
                    path.display().to_string()
                ),
            };
            verdicts.push(Verdict {
                action: action.name.to_owned(),
                allowed,
                by: by.map(Decider::from),
                grant: (helps && denial.is_none()).then_some(wanted),
            });
        }
        Ok(verdicts)
    }

    fn actions(&self) -> [Action; 3] {
        [
            Action {
                name: "read",
                allowed: |access| access.read,
                keys: &[
                    "filesystem.read",
                    "network.unix_sockets",
                    "filesystem.write",
                    "filesystem.hide",
                ],
                grant: Grant::Read,
                option: Some("--read"),
            },
            Action {
                name: "write",
                allowed: |access| access.write,
                keys: &["filesystem.protect", "filesystem.write", "filesystem.hide"],
                grant: Grant::Write,
                option: Some("--write"),
            },
            Action {
                name: "connect",
                allowed: |access| access.connect,
                // Full access connects to every socket.
                keys: match self.policy.is_full_access() {
                    true => &["filesystem.write"],
                    false => &["network.unix_sockets", "filesystem.hide"],
                },
                grant: Grant::UnixSocket,
                option: None,
            },
        ]
    }

    /// The lines that speak of a path, each with the depth at which it does, and its strength there.
    fn entries(
        &self,
        path: &Path,
        variables: &Variables,
    ) -> Result<Vec<(usize, usize, &Line)>, EntryError> {
        let roots = self.policy.expand(variables)?.write;
        let pattern = |line: &Line| expand_entry(&line.value, variables).transpose();
        let mut hidden = Vec::new();
        for line in self.lines.iter().filter(|line| line.key == "filesystem.hide") {
            let covering = pattern(line)?.filter(|pattern| pattern.covers(path));
            hidden.extend(covering.map(|pattern| pattern.depth()));
        }
        // A wildcard names nothing that lies in a hidden folder.
        let led_into_hidden = |shown: &PathPattern| {
            let fixed = shown.depth() - shown.rest().len();
            hidden.iter().any(|folder| fixed < *folder)
        };
        let mut found = Vec::new();
        for line in &self.lines {
            let Some(strength) = KEYS.iter().position(|key| *key == line.key) else { continue };
            let depth = if strength == 0 {
                let pattern = ProtectPattern::parse(&line.value)?.expand(variables)?;
                pattern.and_then(|pattern| pattern.depth_at(path, &roots))
            } else {
                let pattern = pattern(line)?.filter(|pattern| pattern.covers(path));
                let hides = line.key == "filesystem.hide";
                let counts = pattern.filter(|pattern| hides || !led_into_hidden(pattern));
                counts.map(|pattern| pattern.depth())
            };
            found.extend(depth.map(|depth| (depth, strength, line)));
        }
        Ok(found)
    }

    /// Reaching a `host[:port]`.
    pub fn explain_host(&self, host: &str) -> Result<Verdict, EntryError> {
        let target = HostPattern::parse(host)?;
        let network = &self.policy.network;
        let named = |key: &str| {
            let entry = |line: &&Line| {
                HostPattern::parse(&line.value).is_ok_and(|entry| entry.covers(&target))
            };
            self.lines.iter().filter(|line| line.key == key).find(entry)
        };
        let mode = self.lines_of("network.mode").next();
        let (allowed, by) = match network.mode {
            NetworkMode::None => (false, mode),
            NetworkMode::Host => (true, mode),
            NetworkMode::Proxy => match (named("network.deny"), named("network.allow")) {
                (Some(denied), _) => (false, Some(denied)),
                (None, allowed) => (allowed.is_some(), allowed.or(mode)),
            },
        };
        let refused = by.is_some_and(|line| line.key == "network.deny");
        Ok(Verdict {
            action: "connect".to_owned(),
            allowed,
            by: by.map(Decider::from),
            grant: (!allowed && !refused).then(|| format!("--net {target}")),
        })
    }

    /// The line of `[syscalls]` that names one of these, the stronger first: `deny`, then `allow`.
    pub fn syscalls_line(&self, names: &[&str]) -> Option<Decider> {
        ["syscalls.deny", "syscalls.allow"].into_iter().find_map(|key| {
            let mut lines = self.lines.iter().filter(|line| line.key == key);
            lines.find(|line| names.contains(&line.value.as_str())).map(Decider::from)
        })
    }
}

impl ProtectPattern {
    /// How deep the folder lies at which it protects this path, if it does.
    fn depth_at(&self, path: &Path, roots: &[PathPattern]) -> Option<usize> {
        let at = |folder: &Path, names: &[String]| {
            let pattern = PathPattern::new(folder.to_owned(), names.to_vec());
            pattern.covers(path).then(|| pattern.depth())
        };
        match self {
            Self::At(pattern) => pattern.covers(path).then(|| pattern.depth()),
            Self::Anywhere(names) => path.ancestors().filter_map(|folder| at(folder, names)).max(),
            Self::BelowRoots(names) => path
                .ancestors()
                .filter(|folder| {
                    let depth = PathPattern::literal(*folder).depth();
                    roots.iter().any(|root| root.covers(folder) && root.depth() == depth)
                })
                .filter_map(|folder| at(folder, names))
                .max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::testing::variables;
    use std::ffi::OsStr;

    fn effective(text: &str) -> Effective {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p.toml");
        std::fs::write(&file, text).unwrap();
        Policy::load_effective(file.as_os_str()).unwrap()
    }

    const NESTED: &str = r#"
[filesystem]
read = ["~", "~/.config/git/ignore"]
write = ["$WORKSPACE", "$WORKSPACE/.github/workflows"]
hide = ["~/.config", "$WORKSPACE/*.key"]
protect = [".github/workflows", "**/.envrc", "$WORKSPACE/vendor"]
[network]
unix_sockets = ["/run/db"]
"#;

    fn told(effective: &Effective, path: &str, action: &str) -> (bool, String, bool) {
        let path = Path::new(path);
        let verdicts = effective.explain_path(path, path, &variables()).unwrap();
        let verdict = verdicts.into_iter().find(|verdict| verdict.action == action).unwrap();
        let by = verdict.by.map_or("-".to_owned(), |by| format!("{} {}", by.key, by.entry));
        (verdict.allowed, by, verdict.grant.is_some())
    }

    #[test]
    fn a_verdict_names_the_entry_that_decides_and_the_grant_that_would_help() {
        // issue 3: policy explain
        let effective = effective(NESTED);
        for (path, action, allowed, by, helps) in [
            ("/home/u/x", "read", true, "filesystem.read ~", false),
            ("/home/u/x", "write", false, "-", true),
            ("/home/u/.config/x", "read", false, "filesystem.hide ~/.config", false),
            ("/home/u/.config/x", "write", false, "filesystem.hide ~/.config", false),
            (
                "/home/u/.config/git/ignore",
                "read",
                true,
                "filesystem.read ~/.config/git/ignore",
                false,
            ),
            ("/srv", "read", false, "-", true),
            ("/w/a", "write", true, "filesystem.write $WORKSPACE", false),
            ("/w/a.key", "read", false, "filesystem.hide $WORKSPACE/*.key", false),
            (
                "/w/.github/workflows/x",
                "write",
                true,
                "filesystem.write $WORKSPACE/.github/workflows",
                false,
            ),
            ("/w/n/.envrc", "write", false, "filesystem.protect **/.envrc", false),
            ("/w/vendor/x", "write", false, "filesystem.protect $WORKSPACE/vendor", false),
            ("/w/vendor/x", "read", true, "filesystem.write $WORKSPACE", false),
            ("/run/db/s", "connect", true, "network.unix_sockets /run/db", false),
            ("/run/x", "connect", false, "-", true),
        ] {
            let expected = (allowed, by.to_owned(), helps);
            assert_eq!(told(&effective, path, action), expected, "{action} {path}");
        }
    }

    #[test]
    fn what_a_link_leads_to_is_hidden_by_that_way_too() {
        let effective = effective(NESTED);
        let verdicts = effective
            .explain_path(Path::new("/home/u/link"), Path::new("/home/u/.config/x"), &variables())
            .unwrap();
        assert!(verdicts.iter().all(|verdict| !verdict.allowed && verdict.grant.is_none()));
        assert_eq!(verdicts[0].by.as_ref().unwrap().entry, "~/.config");
    }

    #[test]
    fn a_verdict_on_a_host_names_the_mode_or_the_entry() {
        // spec 5.5
        let told = |text: &str, host: &str| {
            let verdict = effective(text).explain_host(host).unwrap();
            (verdict.allowed, verdict.by.unwrap().to_string(), verdict.grant)
        };
        let none = told("", "a.org:443");
        assert_eq!(
            none,
            (
                false,
                "network.mode = \"none\" (the default)".to_owned(),
                Some("--net a.org:443".to_owned())
            )
        );
        let proxy = "[network]\nmode = \"proxy\"\nallow = [\"*.a.org\"]\ndeny = [\"x.a.org\"]\n";
        let (allowed, by, _) = told(proxy, "b.a.org:1");
        assert!(allowed && by.starts_with("network.allow = \"*.a.org\" ("), "{by}");
        let (allowed, by, grant) = told(proxy, "x.a.org");
        assert!(!allowed && by.starts_with("network.deny") && grant.is_none(), "{by}");
        assert!(!told(proxy, "c.org").0);
        assert!(told("[network]\nmode = \"host\"\n", "c.org").0);
        assert!(effective("").explain_host("https://a").is_err());
    }

    #[test]
    fn every_verdict_agrees_with_the_lattice() {
        let effective = Policy::load_effective(OsStr::new("workspace-write")).unwrap();
        for path in
            ["/", "/usr/bin", "/etc/shadow", "/w/.git/hooks/x", "/w/a", "/home/u/.ssh/id", "/var"]
        {
            let path = Path::new(path);
            let access = effective.policy.access(path, &variables()).unwrap();
            let verdicts = effective.explain_path(path, path, &variables()).unwrap();
            let allowed: Vec<bool> = verdicts.iter().map(|verdict| verdict.allowed).collect();
            assert_eq!(allowed, [access.read, access.write, access.connect], "{path:?}");
        }
    }
}
