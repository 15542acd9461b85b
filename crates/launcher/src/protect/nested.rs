//! Repositories anywhere below a writable root: nested and bare ones, linked worktrees, submodules (spec 5.4).
//!
//! Those that exist when the session's first call starts are the host's: what git obeys in them is mounted read-only, and so is what
//! else is protected at the root of their worktree. What a call makes, renames or changes is looked at when it ends; settings that run
//! nothing and sample hooks stay, so that `git init`, `clone` and `worktree add` go on working, and all else is put aside. No folder
//! on the way to a nested repository becomes a mount point: it can be renamed and moved, what is mounted in it goes along, and where
//! it then lies it is found again.

use super::git_folder::{self, SENSITIVE};
use super::tree::{FOLDERS_MAX, FOLDERS_MAX_AFTER, Look, Tree};
use super::{FileId, SUFFIX, Unchanged, cover, put_aside, unchanged};
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use stockade_plan::Bytes;
use stockade_sys::mount;

/// The repositories of one writable root.
pub struct Nested {
    base: Rc<OwnedFd>,
    /// The root's path, inside.
    root: Vec<u8>,
    /// Protected paths at the root of a worktree, but for git's own: their components.
    patterns: Vec<Vec<CString>>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// `None` before the first look.
    tree: Option<Tree>,
    /// What was mounted, below the root, and whether read-only.
    covered: Vec<(Vec<u8>, bool)>,
    /// Links in the place of what git obeys that were there before the first call.
    links: HashSet<Unchanged>,
    /// The worktrees of the host, by path.
    worktrees: HashMap<Vec<u8>, FileId>,
    /// There are more folders than are looked at.
    is_partial: bool,
}

/// What a sweep came to.
#[derive(Default)]
pub struct Swept {
    /// Paths and where they have been put; an empty new path if that failed.
    pub quarantined: Vec<(Bytes, Bytes)>,
    /// Roots below which not all was looked at.
    pub unchecked: Vec<Bytes>,
}

impl Nested {
    /// For a root with these protected paths.
    pub fn new(base: Rc<OwnedFd>, root: Vec<u8>, patterns: Vec<Vec<CString>>) -> Self {
        Self { base, root, patterns, state: RefCell::default() }
    }

    /// Its path, inside.
    pub fn root(&self) -> Bytes {
        Bytes(self.root.clone())
    }

    /// Protects the repositories that exist; a second time, only what has lost its protection since, which is what the host itself
    /// replaced.
    pub fn protect(&self) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        if state.tree.is_none() {
            let wanted = self.patterns.iter().filter_map(|path| path.first().cloned()).collect();
            let mut tree = Tree::new(Rc::clone(&self.base), wanted);
            let look = tree.look(FOLDERS_MAX);
            state.tree = Some(tree);
            state.is_partial = !look.is_complete;
            self.first(&look, &mut state);
        }
        for (path, read_only) in &state.covered {
            let name = CString::new(path.clone())?;
            let found = mount::open_path_beneath(self.base.as_fd(), &name).and_then(|found| {
                // What a link leads to is what a program outside would find.
                let is_link = mount::path_info(found.as_fd())?.is_symlink;
                if is_link { self.open_followed(path) } else { Ok(found) }
            });
            if let Ok(found) = found {
                cover(&found, *read_only)?;
            }
        }
        Ok(())
    }

    fn first(&self, look: &Look, state: &mut State) {
        for (path, listing) in &look.found {
            let below = |name: &CStr| [path, name.to_bytes()].concat();
            if listing.is_git_folder {
                let present = SENSITIVE.into_iter().filter(|name| self.exists(&below(name)));
                let present: Vec<_> = present.map(|name| (below(name), true)).collect();
                state.links.extend(present.iter().filter_map(|(path, _)| self.link(path)));
                state.covered.extend(present);
            }
            // The root's own are protected one by one, with the folders on the way.
            if path.is_empty() || !listing.has_dot_git {
                continue;
            }
            let dot_git = below(c".git");
            match self.kind(&dot_git) {
                Some((SFlag::S_IFLNK, _)) => state.links.extend(self.link(&dot_git)),
                // A folder must not be renamed, a file not be changed either.
                Some((kind, _)) => state.covered.push((dot_git, kind != SFlag::S_IFDIR)),
                None => {}
            }
            if let Some((_, folder)) = self.kind(path) {
                state.worktrees.insert(path.clone(), folder);
            }
            for pattern in self
                .patterns
                .iter()
                .filter(|p| p.first().is_some_and(|n| listing.names.contains(n)))
            {
                let whole = join(path, pattern);
                if self.exists(&whole) {
                    state.covered.push((whole, true));
                }
            }
        }
    }

    fn exists(&self, path: &[u8]) -> bool {
        self.kind(path).is_some()
    }

    fn stat(&self, path: &[u8]) -> Option<FileStat> {
        let path = CString::new(path.strip_suffix(b"/").unwrap_or(path)).ok()?;
        let path = if path.is_empty() { c"." } else { path.as_c_str() };
        fstatat(&*self.base, path, AtFlags::AT_SYMLINK_NOFOLLOW).ok()
    }

    fn kind(&self, path: &[u8]) -> Option<(SFlag, FileId)> {
        self.stat(path).map(|stat| (super::kind(&stat), super::id(&stat)))
    }

    /// Which link it is, if it is one.
    fn link(&self, path: &[u8]) -> Option<Unchanged> {
        let stat = self.stat(path)?;
        (super::kind(&stat) == SFlag::S_IFLNK).then(|| unchanged(&stat))
    }

    fn open_followed(&self, path: &[u8]) -> io::Result<OwnedFd> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = nix::fcntl::open("/", flags, Mode::empty())?;
        let whole = CString::new([&self.root, b"/".as_slice(), path].concat())?;
        mount::open_path_in_root(root.as_fd(), &whole)
    }

    /// Puts aside what has been planted since the first look.
    pub fn sweep(&self, swept: &mut Swept) {
        let mut state = self.state.borrow_mut();
        let Some(tree) = state.tree.as_mut() else { return };
        let look = tree.look(FOLDERS_MAX_AFTER);
        // What was not looked at before the first call cannot be told from what a call planted.
        if state.is_partial || !look.is_complete {
            swept.unchecked.push(self.root());
        }
        if state.is_partial {
            return;
        }
        let mut visited = HashSet::new();
        for (path, listing) in &look.found {
            if listing.is_git_folder {
                self.sweep_git_folder(path, &state, &mut visited, swept);
            }
            if listing.has_dot_git && !path.is_empty() {
                self.sweep_dot_git(path, &state, &mut visited, swept);
            }
            let is_hosts =
                self.kind(path).is_some_and(|(_, id)| state.worktrees.get(path) == Some(&id));
            if is_hosts {
                self.sweep_worktree(path, &listing.names, &state, swept);
            }
        }
    }

    /// What a git folder has in it, wherever that lies and whatever leads there.
    fn sweep_git_folder(
        &self,
        path: &[u8],
        state: &State,
        visited: &mut HashSet<Vec<u8>>,
        swept: &mut Swept,
    ) {
        if !visited.insert(path.to_vec()) {
            return;
        }
        let Ok(folder) = self.open(path) else { return };
        let is_planted = |name: &CStr| {
            let is_hosts_link = || self.link(&[path, name.to_bytes()].concat());
            is_planted(&folder, name)
                && is_hosts_link().is_none_or(|link| !state.links.contains(&link))
        };
        for name in [c"config", c"config.worktree"] {
            if is_planted(name)
                && !git_folder::is_harmless_config(&folder, name, path).unwrap_or(false)
            {
                self.put_aside(&folder, path, name, swept);
            }
        }
        if is_planted(c"hooks") {
            match git_folder::live_hooks(&folder, c"hooks") {
                Ok(Some((hooks, live))) => {
                    let path = [path, b"hooks/"].concat();
                    live.iter().for_each(|name| self.put_aside(&hooks, &path, name, swept));
                }
                Ok(None) | Err(_) => self.put_aside(&folder, path, c"hooks", swept),
            }
        }
        if is_planted(c"commondir") {
            let target = git_folder::pointer(&folder, c"commondir", b"").ok().flatten();
            match target.and_then(|target| self.within(path, &target)) {
                Some(common) => self.sweep_git_folder(&common, state, visited, swept),
                None => self.put_aside(&folder, path, c"commondir", swept),
            }
        }
    }

    fn sweep_dot_git(
        &self,
        path: &[u8],
        state: &State,
        visited: &mut HashSet<Vec<u8>>,
        swept: &mut Swept,
    ) {
        let Ok(folder) = self.open(path) else { return };
        match self.kind(&[path, b".git"].concat()) {
            // Found by itself if git would take it for a git folder.
            None | Some((SFlag::S_IFDIR, _)) => {}
            Some((SFlag::S_IFLNK, _))
                if self
                    .link(&[path, b".git"].concat())
                    .is_some_and(|l| state.links.contains(&l)) => {}
            Some((SFlag::S_IFREG, _)) if is_planted(&folder, c".git") => {
                let target = git_folder::pointer(&folder, c".git", b"gitdir:").ok().flatten();
                match target.and_then(|target| self.within(path, &target)) {
                    Some(target) => self.sweep_git_folder(&target, state, visited, swept),
                    None => self.put_aside(&folder, path, c".git", swept),
                }
            }
            Some((SFlag::S_IFREG, _)) => {}
            Some(_) => self.put_aside(&folder, path, c".git", swept),
        }
    }

    /// In a worktree of the host, what is protected there and was not there before.
    fn sweep_worktree(&self, path: &[u8], names: &[CString], state: &State, swept: &mut Swept) {
        for pattern in self.patterns.iter().filter(|p| p.first().is_some_and(|n| names.contains(n)))
        {
            let whole = join(path, pattern);
            let Some((last, above)) = pattern.split_last() else { continue };
            if state.covered.iter().any(|(covered, _)| *covered == whole) {
                continue;
            }
            let mut folder = path.to_vec();
            above.iter().for_each(|name| folder.extend([name.to_bytes(), b"/"].concat()));
            let Ok(opened) = self.open(&folder) else { continue };
            if is_planted(&opened, last) {
                self.put_aside(&opened, &folder, last, swept);
            }
        }
    }

    fn open(&self, path: &[u8]) -> io::Result<OwnedFd> {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let path = CString::new(if path.is_empty() { b".".as_slice() } else { path })?;
        mount::open_path_beneath(self.base.as_fd(), &path)
    }

    /// Where a pointer in this folder leads, as a path below the root with a slash at its end; `None` if that is not below the root, or
    /// no folder, or has a link on its way.
    fn within(&self, folder: &[u8], target: &[u8]) -> Option<Vec<u8>> {
        let whole = if target.starts_with(b"/") {
            target.to_vec()
        } else {
            [&self.root, b"/".as_slice(), folder, target].concat()
        };
        let mut names: Vec<&[u8]> = Vec::new();
        for name in whole.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => drop(names.pop()),
                name => names.push(name),
            }
        }
        let root: Vec<&[u8]> =
            self.root.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        let mut path = Vec::new();
        for name in names.strip_prefix(root.as_slice())? {
            path.extend_from_slice(name);
            path.push(b'/');
        }
        let (kind, _) = self.kind(&path)?;
        (kind == SFlag::S_IFDIR && self.open(&path).is_ok()).then_some(path)
    }

    fn put_aside(&self, folder: impl AsFd, path: &[u8], name: &CStr, swept: &mut Swept) {
        let here = [&self.root, b"/".as_slice(), path].concat();
        let moved = put_aside(folder, name, &here);
        let old = Bytes([here.as_slice(), name.to_bytes()].concat());
        swept.quarantined.push(moved.unwrap_or((old, Bytes::default())));
    }
}

/// Whether it exists and is not what was mounted over the host's own.
fn is_planted(folder: impl AsFd, name: &CStr) -> bool {
    if name.to_bytes().ends_with(SUFFIX.as_bytes()) {
        return false;
    }
    match mount::open_path_beneath(folder.as_fd(), name) {
        Ok(found) => !mount::path_info(found.as_fd()).is_ok_and(|info| info.is_mount_root),
        // A link in its place.
        Err(_) => fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok(),
    }
}

fn join(folder: &[u8], names: &[CString]) -> Vec<u8> {
    let names: Vec<&[u8]> = names.iter().map(|name| name.to_bytes()).collect();
    [folder, names.join(&b'/').as_slice()].concat()
}
