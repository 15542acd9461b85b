//! From a policy's paths to the steps that build a cell's mount tree: variables, globs and symbolic links are resolved here, on the
//! host's tree, so that the confined side follows none.

mod hidden;
mod protected;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use stockade_plan::{Bytes, FileIdentity, LandlockRule, MountStep, ProtectedPath, SessionFolder};
use stockade_policy::{
    EntryError, ExpandedFilesystem, PathPattern, Policy, ProtectPattern, Variables,
};
use stockade_types::{Refusal, SetupFailure};

/// Where things lie inside a cell.
#[derive(Debug, Default)]
pub struct Resolved {
    /// The mounts, parents before children.
    pub mounts: Vec<MountStep>,
    /// Landlock's view of the same.
    pub rules: Vec<LandlockRule>,
    /// Protected paths below each writable root.
    pub protected: Vec<ProtectedPath>,
    /// The writable roots.
    pub write_roots: Vec<PathBuf>,
    /// All that are named, those within others too.
    pub named_roots: BTreeSet<PathBuf>,
    /// What `protect` names, for the file tools.
    pub protect: Vec<ProtectPattern>,
    /// What the user's own policy hides.
    pub hidden: HiddenByUser,
}

/// What others than the shipped policies hide, and what of that there was.
#[derive(Debug, Default)]
pub struct HiddenByUser {
    patterns: Vec<PathPattern>,
    home: PathBuf,
    found: BTreeSet<PathBuf>,
}

impl HiddenByUser {
    fn new(patterns: Vec<PathPattern>, home: &Path) -> Self {
        let found = match patterns.is_empty() {
            true => BTreeSet::new(),
            false => hidden::hidden(&patterns, home),
        };
        Self { patterns, home: home.to_owned(), found }
    }

    /// Whether something has come into being that is to be hidden, which a mount tree that stands does not cover.
    pub fn has_grown(&self) -> bool {
        !self.patterns.is_empty()
            && !hidden::hidden(&self.patterns, &self.home).is_subset(&self.found)
    }
}

/// Why a policy's paths cannot be resolved.
#[derive(Debug)]
pub enum ResolveError {
    /// A path that must exist does not, or cannot be reached.
    Setup(SetupFailure),
    /// The paths contradict each other or grant too much.
    Refused(Refusal),
}

fn refused(reason: String) -> ResolveError {
    ResolveError::Refused(Refusal { by: "policy".into(), reason })
}

/// Folders that a cell always has of its own.
const OWN: [&str; 3] = ["/dev", "/proc", "/tmp"];

/// A path of a policy's, and where it leads.
struct Named {
    path: PathBuf,
    real: PathBuf,
    writable: bool,
    /// The links on its way.
    links: Vec<PathBuf>,
}

impl Named {
    /// A link on its way that lies in one of these folders.
    fn link_in<'a>(&'a self, folders: &BTreeSet<PathBuf>) -> Option<&'a PathBuf> {
        let is_in = |link: &&PathBuf| link.ancestors().skip(1).any(|above| folders.contains(above));
        self.links.iter().find(is_in)
    }
}

#[derive(Default)]
struct Roots {
    /// All that the policy names.
    named: Vec<Named>,
    /// The links on the way of what was followed last.
    passed: Vec<PathBuf>,
    /// Canonical path → writable.
    binds: BTreeMap<PathBuf, bool>,
    /// Link path → its content.
    links: BTreeMap<PathBuf, PathBuf>,
    /// As `binds`: what is shown inside a hidden folder.
    shown: BTreeMap<PathBuf, bool>,
    /// Paths that are known to be no links. By their bytes, since hashing a path takes it apart.
    plain: HashSet<OsString>,
}

/// Resolves a policy's files.
pub fn resolve(policy: &Policy, variables: &Variables) -> Result<Resolved, ResolveError> {
    let at_entry = |error: EntryError| refused(error.to_string());
    let files = policy.expand(variables).map_err(at_entry)?;
    let mut roots = Roots::default();
    for path in &policy.filesystem.literal.granted {
        // What is not there is found out below, where that matters.
        if let Ok(real) = roots.follow(path)
            && real != *path
        {
            return Err(refused(format!(
                "{} was granted, and leads to {} now: name that, if it is meant",
                path.display(),
                real.display()
            )));
        }
    }
    for path in paths(&files.read) {
        for path in if path == Path::new("/") { top_level() } else { vec![path] } {
            // A read root that does not exist, or cannot be reached, is nothing to be read.
            if let Ok(real) = roots.follow(&path) {
                roots.name(path, real, false);
            }
        }
    }
    for path in paths(&files.write) {
        let real = match roots.follow(&path) {
            Ok(real) => real,
            // What a home folder has differs from person to person: the session's own one takes its place.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && path.starts_with(&variables.home)
                    && !path.starts_with(&variables.workspace)
                    && !policy.filesystem.literal.write.contains(&path) =>
            {
                continue;
            }
            Err(error) => return Err(missing(&path, &error)),
        };
        if real == Path::new("/") {
            return Err(refused(
                "the root folder cannot be a writable root: name the folders, or use danger-full-access".into(),
            ));
        }
        let in_dev = real.starts_with("/dev") && !real.starts_with("/dev/shm/");
        if in_dev || real.starts_with("/proc") {
            return Err(refused(format!(
                "{} cannot be a writable root: a cell has its own",
                real.display()
            )));
        }
        roots.name(path, real, true);
    }
    for path in paths(&files.unix_sockets) {
        // A socket that is not there yet cannot be shown: who makes it must do so before the session begins.
        if let Ok(real) = roots.follow(&path) {
            roots.name(path, real, false);
        }
    }
    roots.bind_named()?;
    let named: BTreeSet<PathBuf> = roots
        .binds
        .iter()
        .filter(|(_, writable)| **writable)
        .map(|(path, _)| path.clone())
        .collect();
    let hidden = hidden::hidden(&files.hide, &variables.home);
    // What shipped policies hide everybody knows to exist, on every machine; to have it absent from listings too would cost time.
    let by_user = policy.hidden_by_user(variables).map_err(at_entry)?;
    let by_user = HiddenByUser::new(by_user, &variables.home);
    roots.take_hidden(&hidden, &files, policy, variables).map_err(at_entry)?;
    roots.drop_covered();
    roots.drop_shown_twice(&hidden);
    let mut resolved = assemble(&roots, hidden, &files, &by_user.found, variables);
    resolved.hidden = by_user;
    protected::protect(&mut resolved, &files, &named)?;
    resolved.named_roots = named;
    Ok(resolved)
}

fn missing(path: &Path, error: &io::Error) -> ResolveError {
    ResolveError::Setup(SetupFailure {
        step: "resolve".into(),
        subject: Some(path.display().to_string()),
        errno: error.raw_os_error(),
        detail: format!("a writable root cannot be used: {error}"),
        remedy: "create it, or take it out of the policy".into(),
    })
}

fn paths(patterns: &[PathPattern]) -> impl Iterator<Item = PathBuf> {
    patterns.iter().flat_map(|pattern| pattern.matches(list))
}

fn list(folder: &Path) -> Vec<OsString> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries.filter_map(|entry| entry.ok().map(|entry| entry.file_name())).collect()
}

/// Reading `/` means reading what lies in it: the root itself is always the cell's.
fn top_level() -> Vec<PathBuf> {
    list(Path::new("/"))
        .into_iter()
        .map(|name| Path::new("/").join(name))
        .filter(|path| !OWN.iter().any(|own| path == Path::new(own)))
        .collect()
}

impl Roots {
    /// Notes what has been followed just now.
    fn name(&mut self, path: PathBuf, real: PathBuf, writable: bool) {
        let links = std::mem::take(&mut self.passed);
        self.named.push(Named { path, real, writable, links });
    }

    /// Binds what is named. A link in what commands may write can have been put there by one, in this session or one before: through it
    /// nothing is bound that is not named without it.
    fn bind_named(&mut self) -> Result<(), ResolveError> {
        let writable = self.named.iter().filter(|named| named.writable);
        let open: BTreeSet<PathBuf> = writable.map(|named| named.real.clone()).collect();
        let (led, sure): (Vec<_>, Vec<_>) = std::mem::take(&mut self.named)
            .into_iter()
            .partition(|named| named.link_in(&open).is_some());
        for named in sure {
            *self.binds.entry(named.real).or_default() |= named.writable;
        }
        for named in &led {
            let bound = named.real.ancestors().filter_map(|above| self.binds.get(above));
            let is_bound = bound.into_iter().any(|writable| *writable || !named.writable);
            if let Some(link) = named.link_in(&open).filter(|_| named.writable && !is_bound) {
                return Err(refused(format!(
                    "{} cannot be a writable root: it leads to {} through the link {}, which commands of this policy may have put there; name what it leads to, if it is meant",
                    named.path.display(),
                    named.real.display(),
                    link.display()
                )));
            }
        }
        Ok(())
    }

    /// The canonical path behind `path`, noting the links on the way so that they exist inside as well.
    fn follow(&mut self, path: &Path) -> io::Result<PathBuf> {
        self.passed.clear();
        let mut real = PathBuf::from("/");
        let mut rest: Vec<OsString> = components(path);
        rest.reverse();
        // As the kernel's own limit (path_resolution(7)).
        let mut links_left = 40;
        while let Some(name) = rest.pop() {
            if name == ".." {
                real.pop();
                continue;
            }
            real.push(&name);
            let known = !rest.is_empty() && self.plain.contains(real.as_os_str());
            if !known && !fs::symlink_metadata(&real)?.is_symlink() {
                self.plain.insert(real.clone().into_os_string());
            } else if !known {
                if links_left == 0 {
                    return Err(io::Error::from_raw_os_error(libc::ELOOP));
                }
                links_left -= 1;
                let to = fs::read_link(&real)?;
                self.links.insert(real.clone(), to.clone());
                self.passed.push(real.clone());
                real.pop();
                if to.is_absolute() {
                    real = PathBuf::from("/");
                }
                rest.extend(components(&to).into_iter().rev());
            }
        }
        Ok(real)
    }

    /// Drops what another root shows already: a folder is bound with everything below it.
    fn drop_covered(&mut self) {
        let all = self.binds.clone();
        let covered = |path: &Path, writable: bool| {
            let mut above = path.ancestors().skip(1).filter_map(|folder| all.get(folder));
            above.any(|root_writable| *root_writable || !writable)
        };
        self.binds.retain(|path, writable| !covered(path, *writable));
        self.links.retain(|path, _| !path.ancestors().any(|folder| all.contains_key(folder)));
    }

    fn shows(&self, path: &Path) -> bool {
        path.ancestors()
            .any(|folder| self.binds.contains_key(folder) || self.shown.contains_key(folder))
    }
}

fn components(path: &Path) -> Vec<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

fn assemble(
    roots: &Roots,
    hidden: BTreeSet<PathBuf>,
    files: &ExpandedFilesystem,
    by_user: &BTreeSet<PathBuf>,
    variables: &Variables,
) -> Resolved {
    let mut resolved = Resolved { protect: files.protect.clone(), ..Resolved::default() };
    // Keyed by target, so that parents come before children.
    let mut steps: BTreeMap<PathBuf, MountStep> = BTreeMap::new();
    let mut own = vec![
        (SessionFolder::Tmp, PathBuf::from("/tmp")),
        (SessionFolder::VarTmp, PathBuf::from("/var/tmp")),
    ];
    let home = &variables.home;
    if home.is_absolute() && home != Path::new("/") && !roots.shows(home) {
        own.push((SessionFolder::Home, home.clone()));
    }
    for (folder, target) in own {
        if !roots.binds.contains_key(&target) {
            resolved.rules.push(rule(&target, true, false));
            steps.insert(target.clone(), MountStep::Session { folder, target: target.into() });
        }
    }
    // A folder of the session between its own root and a bind could be renamed, and the bind with it.
    let session_roots: Vec<PathBuf> = steps.keys().cloned().collect();
    for path in roots.binds.keys() {
        for session_root in session_roots.iter().filter(|root| path.starts_with(root)) {
            for folder in between(session_root, path) {
                let target = folder.clone().into();
                steps.entry(folder).or_insert(MountStep::Pin { target });
            }
        }
    }
    for (link, to) in &roots.links {
        steps.insert(
            link.clone(),
            MountStep::Symlink { target: link.clone().into(), to: to.clone().into() },
        );
    }
    for (path, writable) in &roots.binds {
        resolved.rules.push(rule(path, *writable, false));
        if *writable {
            resolved.write_roots.push(path.clone());
        }
        let identity = writable.then(|| identity(path)).flatten();
        steps.insert(
            path.clone(),
            MountStep::Bind {
                source: path.clone().into(),
                target: path.clone().into(),
                writable: *writable,
                identity,
            },
        );
    }
    steps.insert("/dev".into(), MountStep::Dev);
    // Empty here: each call mounts its own on it.
    steps.insert("/proc".into(), MountStep::Folder { target: "/proc".into(), mode: 0o555 });
    resolved.rules.push(rule(Path::new("/dev"), true, true));
    resolved.rules.push(rule(Path::new("/proc"), false, false));
    resolved.rules.push(LandlockRule {
        path: "/".into(),
        list: true,
        read: false,
        write: false,
        ioctl: false,
    });
    resolved.mounts = steps.into_values().collect();
    for (path, writable) in &roots.shown {
        resolved.rules.push(rule(path, *writable, false));
        if *writable {
            resolved.write_roots.push(path.clone());
        }
    }
    let last = hidden::steps(roots, hidden, &resolved.write_roots, by_user, identity);
    resolved.mounts.extend(last);
    resolved
}

/// The folders strictly between two paths, outermost first.
fn between(root: &Path, path: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        path.ancestors().skip(1).take_while(|folder| *folder != root).map(Path::to_owned).collect();
    folders.reverse();
    folders
}

fn identity(path: &Path) -> Option<FileIdentity> {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some(FileIdentity { device: metadata.dev(), inode: metadata.ino() })
}

fn rule(path: &Path, write: bool, ioctl: bool) -> LandlockRule {
    LandlockRule { path: Bytes::from(path), list: true, read: true, write, ioctl }
}

#[cfg(test)]
mod tests;
