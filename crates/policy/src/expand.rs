use crate::error::EntryError;
use crate::paths::WrittenPath;
use crate::{PathPattern, Policy, ProtectPattern, Variables};
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
    /// Read-only inside writable roots.
    pub protect: Vec<ProtectPattern>,
    /// Sockets that may be connected to.
    pub unix_sockets: Vec<PathPattern>,
}

impl Policy {
    /// Replaces the variables in the file entries, and adds the literal paths of an overlay. It fails if a variable is
    /// not an absolute path; a loaded policy's entries themselves are right.
    pub fn expand(&self, variables: &Variables) -> Result<ExpandedFilesystem, EntryError> {
        let files = &self.filesystem;
        let expand = |written: &[String], literal: &[PathBuf]| {
            let written = written.iter().filter_map(|entry| expand_entry(entry, variables));
            let literal = literal.iter().map(|path| Ok(PathPattern::literal(path)));
            unique(written.chain(literal), PathPattern::key)
        };
        let protect = files.protect.iter().filter_map(|entry| {
            ProtectPattern::parse(entry).and_then(|pattern| pattern.expand(variables)).transpose()
        });
        let literal_protect = files
            .literal
            .protect
            .iter()
            .map(|path| Ok(ProtectPattern::At(PathPattern::literal(path))));
        let written = files.write.iter().map(|entry| WrittenPath::parse(entry)?.expand(variables));
        let literal = files.literal.write.iter().map(|path| Ok(PathPattern::literal(path)));
        Ok(ExpandedFilesystem {
            read: expand(&files.read, &files.literal.read)?,
            // What is to be writable must be there; of the others, what is not there is nothing.
            write: unique(written.chain(literal), PathPattern::key)?,
            hide: expand(&files.hide, &files.literal.hide)?,
            protect: unique(protect.chain(literal_protect), ProtectPattern::clone)?,
            unix_sockets: expand(&self.network.unix_sockets, &files.literal.unix_sockets)?,
        })
    }

    /// What it hides that no shipped policy does.
    pub fn hidden_by_user(&self, variables: &Variables) -> Result<Vec<PathPattern>, EntryError> {
        let files = &self.filesystem;
        let written = crate::shipped::not_shipped(&files.hide);
        let written = written.filter_map(|entry| expand_entry(entry, variables));
        let literal = files.literal.hide.iter().map(|path| Ok(PathPattern::literal(path)));
        written.chain(literal).collect()
    }

    /// Whether the policy writes everywhere: no file is confined then, none hidden and none protected.
    pub fn is_full_access(&self) -> bool {
        let files = &self.filesystem;
        files.write.iter().any(|entry| WrittenPath::parse(entry).is_ok_and(|path| path.is_root()))
    }
}

/// `None` for what lies in the session's folder where there is none.
pub(crate) fn expand_entry(
    entry: &str,
    variables: &Variables,
) -> Option<Result<PathPattern, EntryError>> {
    match WrittenPath::parse(entry) {
        Ok(path) if path.is_of_session() && variables.session.is_none() => None,
        Ok(path) => Some(path.expand(variables)),
        Err(error) => Some(Err(error)),
    }
}

/// Told apart by a key: hashing a path as a path takes it apart, which on the way of a cold start is to be felt.
fn unique<T, K: Eq + Hash>(
    items: impl Iterator<Item = Result<T, EntryError>>,
    key: impl Fn(&T) -> K,
) -> Result<Vec<T>, EntryError> {
    let mut seen = HashSet::new();
    let mut all = Vec::with_capacity(items.size_hint().0);
    for item in items {
        let item = item?;
        if seen.insert(key(&item)) {
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
        let variables = Variables { workspace: "/w".into(), home: "/h".into(), session: None };
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
                protect: vec![ProtectPattern::BelowRoots(vec![".git".into(), "hooks".into()])],
                unix_sockets: Vec::new(),
            }
        );
    }

    #[test]
    fn an_entry_that_cannot_be_understood_fails_instead_of_vanishing() {
        // A hide entry that were skipped would show what it was to hide.
        let mut policy = policy();
        policy.filesystem.hide = vec!["$NOWHERE/.ssh".into()];
        let variables = Variables { workspace: "/w".into(), home: "/h".into(), session: None };
        assert!(policy.expand(&variables).is_err());
    }

    #[test]
    fn the_sessions_folder_is_nothing_where_there_is_none_and_cannot_be_written() {
        // spec 5.1
        let mut policy = policy();
        policy.filesystem.read = vec!["$SESSION/spill".into()];
        policy.filesystem.protect = vec!["$SESSION/x".into(), "**/.git/hooks".into()];
        let mut variables = crate::testing::variables();
        assert_eq!(policy.expand(&variables).unwrap().read, [PathPattern::literal("/s/1/spill")]);
        assert_eq!(policy.expand(&variables).unwrap().protect.len(), 2);
        variables.session = None;
        assert_eq!(policy.expand(&variables).unwrap().read, []);
        assert_eq!(policy.expand(&variables).unwrap().protect.len(), 1);
        policy.filesystem.write = vec!["$SESSION/out".into()];
        let error = policy.expand(&variables).unwrap_err();
        assert!(error.problem.contains("there is no session folder"), "{error}");
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
