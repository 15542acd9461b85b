use super::resolve::{PassedLink, Target};
use nix::fcntl::AtFlags;
use nix::sys::stat::fstatat;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use stockade_plan::file::FileError;
use stockade_plan::{Bytes, WorkerPlan};

/// What in a git directory makes git run programs, or look for such things elsewhere.
const GIT_SENSITIVE: [&str; 5] = ["hooks", "config", "config.worktree", "commondir", "gitdir"];

/// What makes a folder a git directory.
const GIT_MARKS: [&str; 4] = ["head", "objects", "refs", "commondir"];

/// The protected patterns (spec 5.4), which hold below the writable roots at any depth. The mounts
/// protect what can be named when the cell is built; this protects what appears later, in nested
/// repositories and under other names.
pub(super) struct Protection {
    roots: Vec<Bytes>,
    patterns: Vec<Pattern>,
    /// Protected themselves, with what is below.
    paths: Vec<Bytes>,
    /// A pattern speaks of `.git`: git directories under other names are protected as well.
    git: bool,
}

struct Pattern {
    names: Vec<String>,
    text: String,
}

impl Protection {
    pub(super) fn new(plan: &WorkerPlan) -> Protection {
        let (paths, patterns): (Vec<&Bytes>, Vec<&Bytes>) =
            plan.protected.iter().partition(|entry| entry.0.starts_with(b"/"));
        let patterns: Vec<Pattern> = patterns
            .into_iter()
            .map(|pattern| Pattern {
                names: components(pattern.as_path()).iter().map(|name| folded(name)).collect(),
                text: String::from_utf8_lossy(&pattern.0).into_owned(),
            })
            .filter(|pattern| !pattern.names.is_empty())
            .collect();
        let git = patterns.iter().any(|pattern| pattern.names.iter().any(|name| name == ".git"));
        let paths = paths.into_iter().cloned().collect();
        Protection { roots: plan.write_roots.clone(), patterns, paths, git }
    }

    /// Whether the path is itself a writable root: a single file that may be changed.
    pub(super) fn is_root(&self, target: &Target) -> bool {
        self.roots
            .iter()
            .any(|root| depth_below(target.names(), root.as_path()) == Some(target.names().len()))
    }

    /// Whether a writable root lies in what is protected, down to its component number `end`, and the target in that root: it was
    /// named on purpose.
    fn is_named_within(&self, names: &[OsString], end: usize) -> bool {
        self.roots
            .iter()
            .filter_map(|root| depth_below(names, root.as_path()))
            .any(|depth| depth >= end)
    }

    /// Refuses a resolved path that is protected, or that was reached through a link by a name that is.
    pub(super) fn check(&self, target: &Target) -> Result<(), FileError> {
        self.check_names(target.names())?;
        for depth in self.root_depths(target.names()) {
            self.check_git(target, depth)?;
        }
        for link in target.passed() {
            self.check_names(&link.names)?;
            self.check_link_in_git(link)?;
        }
        Ok(())
    }

    /// How many of these names lead to each writable root that they lie in.
    fn root_depths(&self, names: &[OsString]) -> Vec<usize> {
        let mut depths = Vec::new();
        for root in &self.roots {
            // A root may be spelled with a link in it; the target never is.
            let real = root.as_path().canonicalize().ok();
            let spellings = [Some(root.as_path()), real.as_deref()];
            depths.extend(
                spellings.into_iter().flatten().filter_map(|root| depth_below(names, root)),
            );
        }
        depths
    }

    /// What the names alone say.
    fn check_names(&self, path: &[OsString]) -> Result<(), FileError> {
        let refuse = |pattern: String| {
            Err(FileError::Protected { path: super::resolve::joined(path), pattern })
        };
        for protected in &self.paths {
            let depth = depth_below(path, protected.as_path());
            if depth.is_some_and(|end| !self.is_named_within(path, end)) {
                return refuse(protected.as_path().display().to_string());
            }
        }
        for depth in self.root_depths(path) {
            let names: Vec<String> =
                path.get(depth..).unwrap_or_default().iter().map(|name| folded(name)).collect();
            for pattern in &self.patterns {
                let long = pattern.names.len();
                let found = names.windows(long).enumerate().find(|(at, run)| {
                    *run == pattern.names && !self.is_named_within(path, depth + at + long)
                });
                if found.is_some() {
                    return refuse(pattern.text.clone());
                }
            }
            // A file `.git` makes git take any folder for the repository, with hooks of that folder's.
            if self.git && names.last().is_some_and(|leaf| leaf == ".git") {
                return refuse(".git as a file".into());
            }
        }
        Ok(())
    }

    /// Hooks and settings of a git directory that are a link themselves.
    fn check_link_in_git(&self, link: &PassedLink) -> Result<(), FileError> {
        let name = link.names.get(link.depth).map(|name| folded(name)).unwrap_or_default();
        let within = || !self.root_depths(&link.names).is_empty();
        if self.git
            && GIT_SENSITIVE.contains(&name.as_str())
            && within()
            && is_git_directory(link.folder.as_fd(), None)
            && !self.is_named_within(&link.names, link.depth + 1)
        {
            let path = super::resolve::joined(&link.names);
            return Err(FileError::Protected {
                path,
                pattern: format!("{name} of a git directory"),
            });
        }
        Ok(())
    }

    fn check_git(&self, target: &Target, root_depth: usize) -> Result<(), FileError> {
        let refuse = |pattern: &str| {
            Err(FileError::Protected { path: target.path(), pattern: pattern.into() })
        };
        let below = target.names().get(root_depth..).unwrap_or_default();
        let names: Vec<String> = below.iter().map(|name| folded(name)).collect();
        if !self.git {
            return Ok(());
        }
        for (index, name) in names.iter().enumerate() {
            let Some(folder) = target.folder(root_depth + index) else {
                break;
            };
            if GIT_SENSITIVE.contains(&name.as_str())
                && is_git_directory(folder, None)
                && !self.is_named_within(target.names(), root_depth + index + 1)
            {
                return refuse(&format!("{name} of a git directory"));
            }
            // The other way round: hooks first, and then what makes the folder a git directory.
            if GIT_MARKS.contains(&name.as_str())
                && !is_git_directory(folder, None)
                && is_git_directory(folder, Some(name))
                && GIT_SENSITIVE.iter().any(|sensitive| exists(folder, sensitive))
            {
                return refuse(&format!(
                    "{name} would make a git directory of a folder with hooks"
                ));
            }
        }
        Ok(())
    }
}

/// Whether git would take the folder for a git directory, also one that had `added` in it.
fn is_git_directory(folder: BorrowedFd<'_>, added: Option<&str>) -> bool {
    let has = |name: &str| {
        added.is_some_and(|added| added.eq_ignore_ascii_case(name)) || exists(folder, name)
    };
    has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
}

fn exists(folder: BorrowedFd<'_>, name: &str) -> bool {
    fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok()
}

/// How many components the root has, if the target is it or below it.
fn depth_below(names: &[OsString], root: &Path) -> Option<usize> {
    let root = components(root);
    names.starts_with(&root).then_some(root.len())
}

fn components(path: &Path) -> Vec<OsString> {
    let names = path.as_os_str().as_bytes().split(|byte| *byte == b'/');
    let names = names.filter(|name| !name.is_empty() && *name != b".");
    names.map(|name| OsStr::from_bytes(name).to_os_string()).collect()
}

/// The name as a case-insensitive file system compares it: without case (the Kelvin sign is a `k`
/// there, the long s an `s`) and without characters that cannot be seen.
fn folded(name: &OsStr) -> String {
    let seen = |c: &char| {
        !matches!(c, '\u{ad}' | '\u{34f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
    };
    let text = String::from_utf8_lossy(name.as_bytes());
    text.chars().filter(seen).flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}
