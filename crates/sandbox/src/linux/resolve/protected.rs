//! What is protected below each writable root.

use super::{ResolveError, Resolved, list, refused};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use stockade_plan::ProtectedPath;
use stockade_policy::{ExpandedFilesystem, PathPattern, ProtectPattern};

/// Fills in what is protected. `named` are all writable roots that the policy names, those within others too: one at a protected path
/// was named on purpose.
pub(super) fn protect(
    resolved: &mut Resolved,
    files: &ExpandedFilesystem,
    named: &BTreeSet<PathBuf>,
) -> Result<(), ResolveError> {
    for root in resolved.write_roots.clone() {
        let inner: Vec<&PathBuf> =
            named.iter().filter(|path| **path != root && path.starts_with(&root)).collect();
        for pattern in &files.protect {
            let relative = match pattern {
                ProtectPattern::BelowRoots(names) if !is_glob(names) => names.join("/").into(),
                ProtectPattern::At(path) => {
                    match path.as_literal().map(|path| path.strip_prefix(&root)) {
                        Some(Ok(relative)) if relative != Path::new("") => relative.to_owned(),
                        // At another root, or above this one, which was named on purpose.
                        Some(_) => continue,
                        None => continue,
                    }
                }
                // Named by `seal`: no pattern comes this far.
                ProtectPattern::BelowRoots(_) | ProtectPattern::Anywhere(_) => continue,
            };
            let path = root.join(&relative);
            if inner.contains(&&path) {
                continue;
            }
            if let Some(inside) = inner.iter().find(|inner| inner.starts_with(&path)) {
                return Err(refused(format!(
                    "{} cannot be writable inside {}, which is protected by {:?}: name {} itself as writable, or nothing in it",
                    inside.display(),
                    path.display(),
                    pattern.to_string(),
                    path.display(),
                )));
            }
            push(resolved, &root, relative);
        }
        for relative in submodules(&root) {
            push(resolved, &root, relative);
        }
        for pattern in absent_below(&files.hide, &root) {
            let Some(relative) =
                pattern.as_literal().and_then(|path| path.strip_prefix(&root).ok())
            else {
                continue;
            };
            push(resolved, &root, relative.to_owned());
            resolved.protect.push(ProtectPattern::At(pattern.clone()));
        }
    }
    Ok(())
}

/// What is hidden below a writable root and does not exist: nothing can be covered, but what a command puts there would be obeyed as if
/// it were the host's.
fn absent_below<'a>(hide: &'a [PathPattern], root: &Path) -> impl Iterator<Item = &'a PathPattern> {
    let bytes = root.as_os_str().as_encoded_bytes();
    hide.iter().filter(move |pattern| {
        pattern.as_literal().is_some_and(|path| {
            // By the bytes first: nearly all lie elsewhere.
            path.as_os_str().as_encoded_bytes().starts_with(bytes)
                && path != root
                && path.starts_with(root)
                && std::fs::symlink_metadata(path).is_err()
        })
    })
}

fn push(resolved: &mut Resolved, root: &Path, relative: PathBuf) {
    resolved
        .protected
        .push(ProtectedPath { root: root.into(), relative: relative.as_path().into() });
}

fn is_glob(names: &[String]) -> bool {
    names.iter().any(|name| name.contains('*'))
}

/// The most submodules that are looked at.
const SUBMODULES_MAX: usize = 256;

/// What git obeys in the git folders of a repository's submodules, as they are now.
fn submodules(root: &Path) -> Vec<PathBuf> {
    list(&root.join(".git/modules"))
        .into_iter()
        .take(SUBMODULES_MAX)
        .flat_map(|name| {
            let folder = Path::new(".git/modules").join(name);
            ["hooks", "config"].map(|file| folder.join(file))
        })
        .collect()
}
