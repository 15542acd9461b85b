use crate::error::EntryError;
use crate::paths::WrittenPath;
use crate::{PathPattern, Policy, Variables, paths};
use std::collections::HashSet;
use std::hash::Hash;
use std::path::PathBuf;

/// A policy's files with the variables replaced. Nothing here was looked up: entries need not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpandedFilesystem {
    /// Readable and executable, with everything below.
    pub read: Vec<PathPattern>,
    /// Readable and writable, with everything below.
    pub write: Vec<PathPattern>,
    /// Absent inside, whatever `read` and `write` say.
    pub hide: Vec<PathPattern>,
    /// Relative paths that are read-only inside every writable root.
    pub protect: Vec<PathBuf>,
}

impl Policy {
    /// Replaces the variables in the file entries, and adds the literal paths of an overlay. It fails if a variable is
    /// not an absolute path; a loaded policy's entries themselves are right.
    pub fn expand(&self, variables: &Variables) -> Result<ExpandedFilesystem, EntryError> {
        let files = &self.filesystem;
        let expand = |written: &[String], literal: &[PathBuf]| {
            let written = written.iter().map(|entry| WrittenPath::parse(entry)?.expand(variables));
            let literal = literal.iter().map(|path| Ok(PathPattern::literal(path)));
            unique(written.chain(literal))
        };
        Ok(ExpandedFilesystem {
            read: expand(&files.read, &files.literal.read)?,
            write: expand(&files.write, &files.literal.write)?,
            hide: expand(&files.hide, &files.literal.hide)?,
            protect: unique(files.protect.iter().map(|entry| {
                paths::check_protected(entry)?;
                Ok(PathBuf::from(entry))
            }))?,
        })
    }

    /// Whether the policy writes everywhere: no file is confined then, none hidden and none protected.
    pub fn is_full_access(&self) -> bool {
        let files = &self.filesystem;
        files.write.iter().any(|entry| WrittenPath::parse(entry).is_ok_and(|path| path.is_root()))
    }
}

fn unique<T: Clone + Eq + Hash>(
    items: impl Iterator<Item = Result<T, EntryError>>,
) -> Result<Vec<T>, EntryError> {
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for item in items {
        let item = item?;
        if seen.insert(item.clone()) {
            all.push(item);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FilesystemPolicy;
    use crate::testing::policy;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn entries_and_literal_paths_are_expanded_together_without_doubles() {
        // spec 5.1, 5.4
        let odd = PathBuf::from(OsString::from_vec(b"/data/\xff*".to_vec()));
        let mut policy = policy();
        policy.filesystem = FilesystemPolicy {
            read: vec!["/usr".into(), "$HOME/bin".into(), "~/bin".into()],
            write: vec!["$WORKSPACE".into()],
            hide: vec!["~/.ssh".into()],
            protect: vec![".git/hooks".into()],
            ..FilesystemPolicy::default()
        };
        policy.filesystem.literal.read.push(odd.clone());
        let variables = Variables { workspace: "/w".into(), home: "/h".into() };
        assert_eq!(
            policy.expand(&variables).unwrap(),
            ExpandedFilesystem {
                read: vec![
                    PathPattern::literal("/usr"),
                    PathPattern::literal("/h/bin"),
                    PathPattern::literal(odd),
                ],
                write: vec![PathPattern::literal("/w")],
                hide: vec![PathPattern::literal("/h/.ssh")],
                protect: vec![PathBuf::from(".git/hooks")],
            }
        );
    }

    #[test]
    fn an_entry_that_cannot_be_understood_fails_instead_of_vanishing() {
        // A hide entry that were skipped would show what it was to hide.
        let mut policy = policy();
        policy.filesystem.hide = vec!["$NOWHERE/.ssh".into()];
        let variables = Variables { workspace: "/w".into(), home: "/h".into() };
        assert!(policy.expand(&variables).is_err());
    }

    #[test]
    fn full_access_is_writing_the_root() {
        let mut policy = policy();
        for (write, full) in [("/", true), ("//.", true), ("/usr", false), ("$WORKSPACE", false)] {
            policy.filesystem.write = vec![write.into()];
            assert_eq!(policy.is_full_access(), full, "{write}");
        }
    }
}
