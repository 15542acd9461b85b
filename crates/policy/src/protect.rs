use crate::error::EntryError;
use crate::paths::WrittenPath;
use crate::{PathPattern, Variables};
use std::fmt;

/// What an entry of `protect` names (spec 5.4). What it names is read-only, with everything below it, whether it exists yet or
/// not, unless a writable root lies as deep or deeper: that was named on purpose. `*` stands for any characters within one
/// component.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ProtectPattern {
    /// `.git/hooks`: at the top of every writable root.
    BelowRoots(Vec<String>),
    /// `**/.git/hooks`: these components one after another, at any depth.
    Anywhere(Vec<String>),
    /// `$WORKSPACE/vendor`: this path.
    At(PathPattern),
}

/// An entry that is understood, its variables still in it.
pub(crate) enum Written {
    Below(ProtectPattern),
    At(WrittenPath),
}

impl Written {
    /// `None` for what lies in the session's folder where there is none.
    pub fn expand(self, variables: &Variables) -> Result<Option<ProtectPattern>, EntryError> {
        match self {
            Self::Below(pattern) => Ok(Some(pattern)),
            Self::At(path) if path.is_of_session() && variables.session.is_none() => Ok(None),
            Self::At(path) => path.expand(variables).map(|path| Some(ProtectPattern::At(path))),
        }
    }
}

impl ProtectPattern {
    pub(crate) fn parse(entry: &str) -> Result<Written, EntryError> {
        let refuse = |problem: &str| {
            Err(EntryError { entry: entry.to_owned(), problem: problem.to_owned() })
        };
        if entry.starts_with(['/', '~', '$']) {
            let path = WrittenPath::parse(entry)?;
            if path.is_root() {
                return refuse("protecting \"/\" leaves nothing to write: leave `write` empty");
            }
            return Ok(Written::At(path));
        }
        let (anywhere, names) = match entry.strip_prefix("**/") {
            Some(names) => (true, names),
            None => (false, entry),
        };
        if entry.is_empty() {
            return refuse("a protected path cannot be empty");
        }
        if names.contains('\0') {
            return refuse("a path cannot hold a NUL character");
        }
        let names: Vec<String> = names.split('/').map(str::to_owned).collect();
        if names.iter().any(|name| matches!(name.as_str(), "" | "." | "..")) {
            return refuse("a protected path is made of names, without '.', '..' or '//'");
        }
        if names.iter().any(|name| name.contains("**")) {
            return refuse(
                "'**' stands for folders at the beginning alone, as in \"**/.git/hooks\"",
            );
        }
        if anywhere && names.iter().all(|name| name.bytes().all(|byte| byte == b'*')) {
            return refuse("this protects everything: leave `write` empty");
        }
        Ok(Written::Below(if anywhere { Self::Anywhere(names) } else { Self::BelowRoots(names) }))
    }

    /// Checks an entry without expanding it.
    pub(crate) fn check(entry: &str) -> Result<(), EntryError> {
        Self::parse(entry).map(drop)
    }
}

impl fmt::Display for ProtectPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BelowRoots(names) => f.write_str(&names.join("/")),
            Self::Anywhere(names) => write!(f, "**/{}", names.join("/")),
            Self::At(path) => path.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::variables;

    fn expand(entry: &str) -> ProtectPattern {
        ProtectPattern::parse(entry).unwrap().expand(&variables()).unwrap().unwrap()
    }

    #[test]
    fn an_entry_counts_below_every_root_at_any_depth_or_at_one_path() {
        // spec 5.4
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(expand(".git/hooks"), ProtectPattern::BelowRoots(names(&[".git", "hooks"])));
        assert_eq!(expand("a*/b c"), ProtectPattern::BelowRoots(names(&["a*", "b c"])));
        assert_eq!(expand("**/.envrc"), ProtectPattern::Anywhere(names(&[".envrc"])));
        assert_eq!(expand("$WORKSPACE/x").to_string(), "/w/x");
        for entry in [".git/hooks", "**/.git/config", "a/*/b"] {
            assert_eq!(expand(entry).to_string(), entry);
        }
    }

    #[test]
    fn what_names_nothing_or_everything_is_refused() {
        for bad in [
            "",
            "a/../b",
            "..",
            "./a",
            "a//b",
            "a/",
            "/",
            "a\0",
            "**",
            "**/",
            "**/*",
            "a/**/b",
            "**/**/a",
            "$NOWHERE/x",
            "/a/../b",
        ] {
            assert!(ProtectPattern::check(bad).is_err(), "{bad}");
        }
    }
}
