//! What is hidden, and what of it is shown all the same: a root that the policy names inside a hidden folder.

use super::{Roots, between, list};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};
use stockade_plan::{FileIdentity, MountStep, ShownPath};
use stockade_policy::{EntryError, ExpandedFilesystem, PathPattern, Policy, Variables};

/// Each hidden path that exists, and where it leads to if it is a link.
pub(super) fn hidden(patterns: &[PathPattern], home: &Path) -> BTreeSet<PathBuf> {
    let names = names(home);
    let absent = |path: &Path| {
        let below = names.as_ref().zip(path.strip_prefix(home).ok());
        below.is_some_and(|(names, below)| match below.components().next() {
            Some(Component::Normal(first)) => !names.contains(first),
            _ => false,
        })
    };
    let mut all = BTreeSet::new();
    for path in patterns.iter().flat_map(|pattern| pattern.matches(list)) {
        // Most do not exist, and then one question is enough.
        if absent(&path) || fs::symlink_metadata(&path).is_err() {
            continue;
        }
        if let Ok(real) = fs::canonicalize(&path) {
            all.insert(real);
        }
        all.insert(path);
    }
    all
}

/// The most names in a home folder that are worth being read at once.
const NAMES_MAX: usize = 512;

/// What is in the home folder, below which most hidden paths would lie; `None` if that cannot be told, or is too much.
fn names(home: &Path) -> Option<HashSet<OsString>> {
    let entries = match fs::read_dir(home) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(HashSet::new()),
        Err(_) => return None,
    };
    let names = entries.take(NAMES_MAX + 1).map(|entry| Some(entry.ok()?.file_name()));
    names.collect::<Option<HashSet<_>>>().filter(|names| names.len() <= NAMES_MAX)
}

impl Roots {
    /// Takes the roots out that lie inside what is hidden, and keeps those of them as `shown` that the policy names there.
    ///
    /// Whether it does is a question of what is written. A path that merely *leads* there would let whoever may write that path show
    /// what is hidden: a command could make a link of it.
    pub(super) fn take_hidden(
        &mut self,
        hidden: &BTreeSet<PathBuf>,
        files: &ExpandedFilesystem,
        policy: &Policy,
        variables: &Variables,
    ) -> Result<(), EntryError> {
        for folder in hidden {
            // What hides nothing, since nothing around it is shown, leaves the roots in it as they are, but for those that are there by a
            // wildcard.
            let hides = self.shows(folder);
            let inside: Vec<(PathBuf, bool)> = self
                .binds
                .range::<Path, _>((Bound::Excluded(folder.as_path()), Bound::Unbounded))
                .take_while(|(path, _)| path.starts_with(folder))
                .map(|(path, writable)| (path.clone(), *writable))
                .collect();
            for (path, writable) in inside {
                let entries = || files.read.iter().chain(&files.write).chain(&files.unix_sockets);
                let mut covering = entries().filter(|entry| entry.covers(&path)).peekable();
                let names = |entry: &PathPattern| {
                    entry.base().starts_with(folder)
                        && entry.depth() > PathPattern::literal(folder).depth()
                };
                let by_wildcard = covering.peek().is_some();
                let named = covering.any(names);
                if !hides {
                    if by_wildcard && !named {
                        self.binds.remove(&path);
                    }
                    continue;
                }
                self.binds.remove(&path);
                let access = policy.access(&path, variables)?;
                if named && access.read {
                    self.shown.insert(path, writable && access.write);
                }
            }
        }
        Ok(())
    }

    /// Drops of the shown roots what another shows already, with nothing hidden in between.
    pub(super) fn drop_shown_twice(&mut self, hidden: &BTreeSet<PathBuf>) {
        let all = self.shown.clone();
        self.shown.retain(|path, writable| {
            let above = path.ancestors().skip(1).take_while(|folder| !hidden.contains(*folder));
            let mut above = above.filter_map(|folder| all.get(folder));
            !above.any(|above_writable| *above_writable || !*writable)
        });
    }
}

/// The last steps: what is covered, and what of it is shown again. Parents first, since they are sorted.
pub(super) fn steps(
    roots: &Roots,
    hidden: BTreeSet<PathBuf>,
    write_roots: &[PathBuf],
    by_user: &BTreeSet<PathBuf>,
    identity: impl Fn(&Path) -> Option<FileIdentity>,
) -> Vec<MountStep> {
    let hidden: BTreeSet<PathBuf> = hidden.into_iter().filter(|path| roots.shows(path)).collect();
    // Folders of a writable root on the way to what is hidden could be renamed, and what is hidden with them.
    let pins: BTreeSet<PathBuf> = hidden
        .iter()
        .flat_map(|path| {
            let root = write_roots.iter().filter(|root| path.starts_with(root));
            let deepest = root.max_by_key(|root| root.as_os_str().len());
            deepest.map(|root| between(root, path)).unwrap_or_default()
        })
        .collect();
    let mut shown: BTreeMap<&Path, Vec<ShownPath>> = BTreeMap::new();
    for (path, writable) in &roots.shown {
        let above = path.ancestors().skip(1).find_map(|folder| hidden.get(folder));
        if let Some(above) = above {
            shown.entry(above).or_default().push(ShownPath {
                source: path.clone().into(),
                writable: *writable,
                identity: writable.then(|| identity(path)).flatten(),
            });
        }
    }
    let mut steps: Vec<MountStep> =
        pins.into_iter().map(|path| MountStep::Pin { target: path.into() }).collect();
    for path in &hidden {
        let target = path.clone().into();
        steps.push(match shown.remove(path.as_path()) {
            None => MountStep::Hide { target, absent: by_user.contains(path) },
            Some(shown) => MountStep::HideExcept { target, shown },
        });
    }
    steps
}
