use crate::error::{EntryError, did_you_mean};
use crate::{Variables, wildcard};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// A path entry of a policy, taken apart: where it starts, and the components below. Only text that stands in the policy
/// can hold a `*`; what a variable stands for is taken literally, whatever it is named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WrittenPath {
    anchor: Anchor,
    components: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Anchor {
    Root,
    Workspace,
    Home,
    Session,
}

pub(crate) const VARIABLES: [&str; 3] = ["$WORKSPACE", "$HOME", "$SESSION"];

impl WrittenPath {
    pub fn parse(entry: &str) -> Result<Self, EntryError> {
        let refuse = |problem: String| EntryError { entry: entry.to_owned(), problem };
        if entry.contains('\0') {
            return Err(refuse("a path cannot hold a NUL character".into()));
        }
        let (first, rest) = entry.split_once('/').unwrap_or((entry, ""));
        let anchor = match first {
            "" if entry.starts_with('/') => Anchor::Root,
            "$WORKSPACE" => Anchor::Workspace,
            "$HOME" | "~" => Anchor::Home,
            "$SESSION" => Anchor::Session,
            _ if first.starts_with('$') => return Err(refuse(unknown_variable(&first[1..]))),
            _ if first.starts_with('~') => {
                return Err(refuse(
                    "the home folders of other users have no short form; write the whole path"
                        .into(),
                ));
            }
            _ => {
                return Err(refuse(
                    "a path must be absolute or start with $WORKSPACE, $HOME, $SESSION or ~".into(),
                ));
            }
        };
        let mut components = Vec::new();
        for component in rest.split('/') {
            match component {
                "" | "." => {}
                ".." => return Err(refuse("a path cannot hold '..'".into())),
                _ if component.contains("**") => {
                    return Err(refuse(
                        "'**' means nothing here: a path stands for everything below it, and '*' for any characters within one component".into(),
                    ));
                }
                _ => components.push(component.to_owned()),
            }
        }
        Ok(Self { anchor, components })
    }

    /// Whether it stands for the whole file system.
    pub fn is_root(&self) -> bool {
        self.anchor == Anchor::Root && self.components.is_empty()
    }

    /// Whether it lies in what every cell has of its own: /proc, and /dev but for the memory that is shared there.
    pub fn own_folder(&self) -> Option<&'static str> {
        let mut names = self.components.iter().map(String::as_str);
        match (self.anchor, names.next(), names.next()) {
            (Anchor::Root, Some("proc"), _) => Some("/proc"),
            (Anchor::Root, Some("dev"), below) if below != Some("shm") => Some("/dev"),
            _ => None,
        }
    }

    /// Whether it lies in the session's folder: where there is none, it stands for nothing.
    pub fn is_of_session(&self) -> bool {
        self.anchor == Anchor::Session
    }

    pub fn expand(self, variables: &Variables) -> Result<PathPattern, EntryError> {
        let mut base = match self.anchor {
            Anchor::Root => PathBuf::from("/"),
            Anchor::Workspace => checked("$WORKSPACE", &variables.workspace)?,
            Anchor::Home => checked("$HOME", &variables.home)?,
            Anchor::Session => session(variables)?.to_owned(),
        };
        let literal = self.components.iter().take_while(|c| !c.contains('*')).count();
        let (below, rest) = self.components.split_at(literal);
        base.reserve_exact(below.iter().map(|component| component.len() + 1).sum());
        below.iter().for_each(|component| base.push(component));
        let rest = rest.to_vec();
        Ok(PathPattern { base, rest })
    }
}

/// A variable's value must be a path that the kernel reads as it is written: otherwise `$WORKSPACE` could stand for
/// another folder than the one that was checked.
fn checked(name: &str, path: &Path) -> Result<PathBuf, EntryError> {
    if is_plain(path) {
        Ok(path.to_owned())
    } else {
        Err(EntryError {
            entry: name.to_owned(),
            problem: format!(
                "it stands for {}, which is not an absolute path without '..'",
                path.display()
            ),
        })
    }
}

/// The session's folder.
pub(crate) fn session(variables: &Variables) -> Result<PathBuf, EntryError> {
    match &variables.session {
        Some(folder) => checked("$SESSION", folder),
        None => Err(EntryError {
            entry: "$SESSION".to_owned(),
            problem: "there is no session folder here: `stockade run` has none".to_owned(),
        }),
    }
}

/// Absolute, without `..` and NUL.
pub(crate) fn is_plain(path: &Path) -> bool {
    // Byte by byte, since it is asked for every entry of every policy.
    let bytes = path.as_os_str().as_bytes();
    bytes.starts_with(b"/")
        && !bytes.contains(&0)
        && bytes.split(|byte| *byte == b'/').all(|component| component != b"..")
}

pub(crate) fn unknown_variable(name: &str) -> String {
    let name = format!("${name}");
    format!(
        "there is no variable {name}{} (known: $WORKSPACE, $HOME, $SESSION, ~)",
        did_you_mean(&name, VARIABLES)
    )
}

/// A path of the host that a policy names, its variables replaced: a literal path, or a literal path with components
/// below it in which `*` stands for any characters. Everything below it is meant too.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathPattern {
    base: PathBuf,
    rest: Vec<String>,
}

impl PathPattern {
    /// Exactly this path, whatever characters it holds.
    pub fn literal(path: impl Into<PathBuf>) -> Self {
        Self { base: path.into(), rest: Vec::new() }
    }

    /// The path, if no `*` is in it.
    pub fn as_literal(&self) -> Option<&Path> {
        self.rest.is_empty().then_some(self.base.as_path())
    }

    /// How many components it has.
    pub fn depth(&self) -> usize {
        self.base.components().filter(|part| matches!(part, Component::Normal(_))).count()
            + self.rest.len()
    }

    /// The components in which `*` may stand, below [`base`](Self::base).
    pub(crate) fn rest(&self) -> &[String] {
        &self.rest
    }

    /// The pattern of a base and the components below it.
    pub(crate) fn new(base: PathBuf, rest: Vec<String>) -> Self {
        Self { base, rest }
    }

    /// The longest part that holds no `*`.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// The same bytes for the same pattern, as it is written.
    pub(crate) fn key(&self) -> Vec<u8> {
        let mut key = self.base.as_os_str().as_bytes().to_vec();
        for component in &self.rest {
            key.push(0);
            key.extend_from_slice(component.as_bytes());
        }
        key
    }

    /// The paths that match now. `list` names what is in a folder (nothing, if it cannot be listed); it is only asked where
    /// a component holds `*`, so the last component of a path need not exist.
    pub fn matches(&self, mut list: impl FnMut(&Path) -> Vec<OsString>) -> Vec<PathBuf> {
        let mut found = vec![self.base.clone()];
        for component in &self.rest {
            let mut next = Vec::new();
            for folder in found {
                if component.contains('*') {
                    let mut names = list(&folder);
                    names.sort();
                    next.extend(
                        names
                            .into_iter()
                            .filter(|name| wildcard::matches(component.as_bytes(), name.as_bytes()))
                            .map(|name| folder.join(name)),
                    );
                } else {
                    next.push(folder.join(component));
                }
            }
            found = next;
        }
        found
    }

    /// Whether it stands for this path: the path matches, or lies below a match.
    pub fn covers(&self, path: &Path) -> bool {
        let Ok(below) = path.strip_prefix(&self.base) else {
            return false;
        };
        let mut names = below.components().map(Component::as_os_str);
        self.rest.iter().all(|component| {
            names.next().is_some_and(|name: &OsStr| {
                wildcard::matches(component.as_bytes(), name.as_bytes())
            })
        })
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.base.display().fmt(f)?;
        let mut slash = if self.base == Path::new("/") { "" } else { "/" };
        for component in &self.rest {
            write!(f, "{slash}{component}")?;
            slash = "/";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    fn variables() -> Variables {
        Variables { workspace: "/w".into(), home: "/home/u".into(), session: None }
    }

    fn expand(entry: &str) -> PathPattern {
        WrittenPath::parse(entry).unwrap().expand(&variables()).unwrap()
    }

    #[test]
    fn variables_stand_at_the_start_of_a_path() {
        // spec 5.1
        for (entry, expected) in [
            ("/usr", "/usr"),
            ("/", "/"),
            ("//usr/./lib/", "/usr/lib"),
            ("$WORKSPACE", "/w"),
            ("$WORKSPACE/src", "/w/src"),
            ("$HOME/.cargo", "/home/u/.cargo"),
            ("~", "/home/u"),
            ("~/.ssh", "/home/u/.ssh"),
            ("/etc/ssh/ssh_host_*_key", "/etc/ssh/ssh_host_*_key"),
            ("/*", "/*"),
        ] {
            assert_eq!(expand(entry).to_string(), expected);
        }
    }

    #[test]
    fn what_is_no_path_is_refused_with_a_reason() {
        // spec 5.1
        for (entry, reason) in [
            ("usr/bin", "a path must be absolute or start with $WORKSPACE, $HOME, $SESSION or ~"),
            ("", "a path must be absolute"),
            ("./x", "a path must be absolute"),
            ("/usr/../etc", "a path cannot hold '..'"),
            ("$WORKSPACE/..", "a path cannot hold '..'"),
            ("$WORKSPCE/x", "there is no variable $WORKSPCE; did you mean \"$WORKSPACE\"?"),
            ("$SESION", "there is no variable $SESION; did you mean \"$SESSION\"?"),
            ("$TMP", "there is no variable $TMP (known: $WORKSPACE, $HOME, $SESSION, ~)"),
            ("$HOMEX", "there is no variable $HOMEX"),
            ("~root/x", "the home folders of other users"),
            ("/a/**/b", "'**' means nothing here"),
            ("/a\0", "NUL"),
        ] {
            let error = WrittenPath::parse(entry).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn a_workspace_with_a_star_or_bytes_that_are_no_utf8_is_taken_literally() {
        let workspace = PathBuf::from(OsString::from_vec(b"/w/a*b[id]\xff $HOME".to_vec()));
        let variables =
            Variables { workspace: workspace.clone(), home: "/home/u".into(), session: None };
        let pattern = WrittenPath::parse("$WORKSPACE").unwrap().expand(&variables).unwrap();
        assert_eq!(pattern.as_literal(), Some(workspace.as_path()));
        assert!(!pattern.covers(Path::new("/w/aXb")));
    }

    #[test]
    fn a_variable_that_is_no_plain_path_is_refused() {
        for workspace in ["w", "", "/w/../etc"] {
            let variables =
                Variables { workspace: workspace.into(), home: "/h".into(), session: None };
            assert!(WrittenPath::parse("$WORKSPACE").unwrap().expand(&variables).is_err());
        }
    }

    #[test]
    fn stars_are_matched_one_component_at_a_time() {
        let list = |folder: &Path| -> Vec<OsString> {
            match folder.to_str() {
                Some("/p") => vec!["b".into(), "a".into(), ".c".into()],
                Some("/p/a") => vec!["x1".into(), "y".into()],
                _ => Vec::new(),
            }
        };
        let paths = |entry: &str| expand(entry).matches(list);
        assert_eq!(paths("/p/*"), ["/p/.c", "/p/a", "/p/b"].map(PathBuf::from));
        assert_eq!(paths("/p/*/x*"), ["/p/a/x1"].map(PathBuf::from));
        assert_eq!(paths("/p/*/z"), ["/p/.c/z", "/p/a/z", "/p/b/z"].map(PathBuf::from));
        assert_eq!(paths("/q"), ["/q"].map(PathBuf::from));
    }

    #[test]
    fn a_pattern_covers_what_lies_below_it_and_nothing_beside_it() {
        assert!(expand("/a").covers(Path::new("/a/b/c")));
        assert!(expand("/a").covers(Path::new("/a")));
        assert!(!expand("/a").covers(Path::new("/ab")));
        assert!(!expand("/a/b").covers(Path::new("/a")));
        assert!(expand("/a/*/k").covers(Path::new("/a/x/k/y")));
        assert!(!expand("/a/*/k").covers(Path::new("/a/x/y/k")));
    }
}
