//! Repositories anywhere below a writable root: nested and bare ones, linked worktrees, submodules (spec 5.4).
//!
//! Those that exist when the session's first call starts are the host's: what git obeys in them is mounted read-only, and so is what
//! else is protected at the root of their worktree. What a call makes, renames or changes is looked at when it ends; settings that run
//! nothing and sample hooks stay, so that `git init`, `clone` and `worktree add` go on working, and all else is put aside. No folder
//! on the way to a nested repository becomes a mount point: it can be renamed and moved, what is mounted in it goes along, and where
//! it then lies it is found again.

use super::git_folder::{self, SENSITIVE};
use super::tree::{FOLDERS_MAX, FOLDERS_MAX_AFTER, Look, OTHERS, Tree};
use super::way::Way;
use super::{FileId, Swept, Unchanged, cover, led, unchanged};
use crate::git_config::{Named, named};
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, SFlag, fstatat};
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
    /// The root of the view.
    view: Rc<OwnedFd>,
    /// The root's path, inside.
    root: Vec<u8>,
    /// What is protected in the root's own `.git` by itself, with the folders on the way.
    own: Vec<CString>,
    /// Protected paths at the root of a worktree, but for git's own: their components.
    patterns: Vec<Vec<CString>>,
    /// What exists can be mounted over.
    mounts: bool,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// `None` before the first look.
    tree: Option<Tree>,
    /// What was mounted.
    covered: Vec<Covered>,
    /// The same, by the folder that it lies in and its name there.
    hosts: HashSet<(FileId, Vec<u8>)>,
    /// What the host's settings said, by path, where that is old enough to be nobody's plant.
    settings: HashMap<Vec<u8>, Vec<u8>>,
    /// What the host's settings name and was not there: the folder of its worktree, and its path below the root.
    named: HashSet<Vec<u8>>,
    /// Links in the place of what git obeys that were there before the first call.
    links: HashSet<Unchanged>,
    /// The worktrees of the host, by path.
    worktrees: HashMap<Vec<u8>, FileId>,
    /// There are more folders than are looked at.
    is_partial: bool,
    /// Something that a call planted may stand there still.
    is_unsure: bool,
}

/// What was mounted over.
struct Covered {
    /// Below the root, without a link on its way.
    path: Vec<u8>,
    read_only: bool,
    /// The folder that it lies in. In the same one, nobody inside can put anything else in its place; but the folder itself may be moved.
    within: FileId,
}

impl Nested {
    /// For a root with these protected paths.
    pub fn new(
        base: Rc<OwnedFd>,
        view: Rc<OwnedFd>,
        root: Vec<u8>,
        own: Vec<CString>,
        patterns: Vec<Vec<CString>>,
        mounts: bool,
    ) -> Self {
        Self { base, view, root, own, patterns, mounts, state: RefCell::default() }
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
        for covered in state.covered.iter().filter(|_| self.mounts) {
            let name = CString::new(covered.path.clone())?;
            let Ok(found) = mount::open_path_beneath(self.base.as_fd(), &name) else { continue };
            if !mount::path_info(found.as_fd())?.is_mount_root
                && self.kind(folder_of(&covered.path)).map(|(_, id)| id) == Some(covered.within)
            {
                cover(&found, covered.read_only)?;
            }
        }
        Ok(())
    }

    /// What has come into being since the last look, while no call ran, is the host's. Settings that run nothing are left as they are: a
    /// call may have made them, and is to work on with them.
    pub fn take_stock(&self) {
        if self.state.borrow().tree.is_none() || self.state.borrow().is_unsure {
            return;
        }
        let mut swept = Swept { stock: Some(Vec::new()), ..Swept::default() };
        self.sweep(&mut swept);
        let mut state = self.state.borrow_mut();
        let root = [&self.root, b"/".as_slice()].concat();
        for path in swept.stock.into_iter().flatten() {
            if let Some(path) = path.strip_prefix(root.as_slice()) {
                self.remember(path.to_vec(), &mut state);
            }
        }
    }

    fn first(&self, look: &Look, state: &mut State) {
        for (path, listing) in &look.found {
            let below = |name: &CStr| [path, name.to_bytes()].concat();
            if listing.is_git_folder {
                SENSITIVE.into_iter().for_each(|name| self.remember(below(name), state));
                self.remember_hooks(&below(c"hooks"), state);
                self.remember_settings(path, state);
            }
            if listing.has_dot_git && !path.is_empty() {
                self.remember_named(path, state);
            }
            if !path.is_empty() {
                for pattern in self.of_others(&listing.names) {
                    let Some(first) = pattern.first() else { continue };
                    // Itself if it is a link: who may change it leads elsewhere.
                    if self.kind(&below(first)).is_some_and(|(kind, _)| kind == SFlag::S_IFLNK) {
                        self.remember(below(first), state);
                    }
                    self.remember(join(path, pattern), state);
                }
            }
            // The root's own are protected one by one, with the folders on the way.
            if path.is_empty() || !listing.has_dot_git {
                continue;
            }
            self.remember(below(c".git"), state);
            if let Some((_, folder)) = self.kind(path) {
                state.worktrees.insert(path.clone(), folder);
            }
            for pattern in self
                .patterns
                .iter()
                .filter(|p| p.first().is_some_and(|n| listing.names.contains(n)))
            {
                self.remember(join(path, pattern), state);
            }
        }
    }

    /// Links among the host's hooks: what they lead to.
    fn remember_hooks(&self, path: &[u8], state: &mut State) {
        let Ok(folder) = self.open(folder_of(path)) else { return };
        let Ok(Some((hooks, live))) = git_folder::live_hooks(&folder, c"hooks") else { return };
        let folder_id = |folder: &dyn AsFd| {
            fstatat(folder.as_fd(), c"", AtFlags::AT_EMPTY_PATH).map(|stat| super::id(&stat))
        };
        // Nothing holds the folder as a whole then: which were there is known by their names.
        if !self.mounts
            && let (Ok(within), Ok(id)) = (folder_id(&folder), folder_id(&hooks))
            && state.hosts.remove(&(within, b"hooks".to_vec()))
        {
            state.hosts.extend(live.iter().map(|name| (id, name.to_bytes().to_vec())));
        }
        for name in live {
            let stat = fstatat(&hooks, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
            if stat.is_ok_and(|stat| super::kind(&stat) == SFlag::S_IFLNK) {
                self.remember([path, b"/", name.to_bytes()].concat(), state);
            }
        }
    }

    fn remember_settings(&self, path: &[u8], state: &mut State) {
        let Ok(folder) = self.open(path) else { return };
        for name in [c"config", c"config.worktree"] {
            if let Some(text) = git_folder::old_settings(&folder, name) {
                state.settings.insert([path, name.to_bytes()].concat(), text);
            }
        }
    }

    /// What the settings of a worktree's repository name in it.
    fn remember_named(&self, worktree: &[u8], state: &mut State) {
        let Ok(folder) = self.open(worktree) else { return };
        let own = match git_folder::pointer(&folder, c".git", b"gitdir: ") {
            Ok(Some(target)) => self.within(worktree, &target),
            _ => Some([worktree, b".git/"].concat()),
        };
        let Some(own) = own else { return };
        let Ok(git) = self.open(&own) else { return };
        let common = git_folder::pointer(&git, c"commondir", b"").ok().flatten();
        let common = common.and_then(|target| self.within(&own, &target)).unwrap_or(own.clone());
        for (folder, name) in [(&common, c"config"), (&own, c"config.worktree")] {
            let Ok(opened) = self.open(folder) else { continue };
            let Some(text) = git_folder::settings(&opened, name) else { continue };
            self.remember_text(&text, worktree, folder, state, 8);
        }
    }

    fn remember_text(
        &self,
        text: &[u8],
        worktree: &[u8],
        folder: &[u8],
        state: &mut State,
        depth: usize,
    ) {
        for named in named(text) {
            let path = match &named {
                Named::Path(path) | Named::Word(path) => led::below(&self.root, worktree, path),
                Named::Settings(path) => led::below(&self.root, folder, path),
            };
            let Some(path) = path.filter(|path| !is_whole_folder(path, worktree)) else { continue };
            if matches!(named, Named::Word(_)) && !led::is_code(&self.base, &path) {
                continue;
            }
            if matches!(named, Named::Settings(_))
                && depth > 0
                && let Ok(name) = CString::new(path.as_slice())
                && let Some(text) = git_folder::settings(&*self.base, &name)
            {
                self.remember_text(&text, worktree, folder_of(&path), state, depth - 1);
            }
            if self.kind(&path).is_some() {
                self.remember(path, state);
            } else if state.named.len() < NAMED_MAX {
                state.named.insert(path);
            }
        }
    }

    /// Has it covered if it exists, or what it leads to.
    fn remember(&self, path: Vec<u8>, state: &mut State) {
        let Some((kind, _)) = self.kind(&path) else { return };
        let is_dot_git = path.ends_with(b"/.git");
        if kind != SFlag::S_IFLNK {
            // A folder `.git` must not be renamed, a file not be changed either.
            let read_only = !(is_dot_git && kind == SFlag::S_IFDIR);
            return self.remember_end(path, read_only, state);
        }
        for step in self.way(&path) {
            if step.kind() == SFlag::S_IFLNK {
                state.links.insert(step.unchanged());
            } else if step.is_last && !is_dot_git {
                // A git folder that a link leads to is found by itself.
                let at = step.at();
                match at.strip_prefix([&self.root, b"/".as_slice()].concat().as_slice()) {
                    Some(path) => self.remember_end(path.to_vec(), true, state),
                    // Nobody can write there, but where another root is.
                    None if self.mounts => drop(cover(&step.found, true)),
                    None => {}
                }
            }
        }
    }

    fn remember_end(&self, path: Vec<u8>, read_only: bool, state: &mut State) {
        if let Some((_, within)) = self.kind(folder_of(&path)) {
            state.hosts.insert((within, name_of(&path).to_vec()));
            state.covered.push(Covered { path, read_only, within });
        }
    }

    fn way(&self, path: &[u8]) -> Way<'_> {
        let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty());
        let names: Vec<CString> = names.filter_map(|name| CString::new(name).ok()).collect();
        Way::new(&self.view, &self.root, names.iter().map(CString::as_c_str))
    }

    fn stat(&self, path: &[u8]) -> Option<FileStat> {
        let path = CString::new(path.strip_suffix(b"/").unwrap_or(path)).ok()?;
        let path = if path.is_empty() { c"." } else { path.as_c_str() };
        fstatat(&*self.base, path, AtFlags::AT_SYMLINK_NOFOLLOW).ok()
    }

    fn kind(&self, path: &[u8]) -> Option<(SFlag, FileId)> {
        self.stat(path).map(|stat| (super::kind(&stat), super::id(&stat)))
    }

    /// Puts aside what has been planted since the first look.
    pub fn sweep(&self, swept: &mut Swept) {
        let mut state = self.state.borrow_mut();
        let Some(tree) = state.tree.as_mut() else { return };
        let look = tree.look(FOLDERS_MAX_AFTER);
        // What was not looked at before the first call cannot be told from what a call planted.
        if state.is_partial || !look.is_complete {
            swept.unchecked.push(self.root());
            state.is_unsure = true;
        }
        if state.is_partial {
            return;
        }
        let mut visited = HashSet::new();
        for path in &state.named {
            let Ok(name) = CString::new(name_of(path)) else { continue };
            let folder = folder_of(path);
            let Ok(opened) = self.open(folder) else { continue };
            if self.is_planted(&opened, folder, &name, &state, swept) {
                self.put_aside(&opened, folder, &name, swept);
            }
        }
        for (path, listing) in &look.found {
            if listing.is_git_folder {
                self.sweep_git_folder(path, &state, &mut visited, swept);
            }
            if listing.has_dot_git && !path.is_empty() {
                self.sweep_dot_git(path, &state, &mut visited, swept);
            }
            if !path.is_empty() {
                self.sweep_patterns(path, self.of_others(&listing.names), &state, swept);
            }
            let is_hosts =
                self.kind(path).is_some_and(|(_, id)| state.worktrees.get(path) == Some(&id));
            if is_hosts {
                self.sweep_worktree(path, &listing.names, &state, swept);
            }
        }
        let is_left = |(_, new): &(Bytes, Bytes)| new.0.is_empty();
        state.is_unsure |= swept.unlisted > 0 || swept.quarantined.iter().any(is_left);
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
        let is_planted = |name: &CStr, swept: &mut Swept| {
            let is_own = path == b".git/" && self.own.iter().any(|own| own.as_c_str() == name);
            !is_own && self.is_planted(&folder, path, name, state, swept)
        };
        for name in [c"config", c"config.worktree"] {
            let before = self.settings(path, name, state);
            if is_planted(name, swept)
                && !git_folder::is_harmless_config(&folder, name, path, before).unwrap_or(false)
            {
                self.put_aside(&folder, path, name, swept);
            }
        }
        if is_planted(c"hooks", swept) {
            match git_folder::live_hooks(&folder, c"hooks") {
                Ok(Some((hooks, live))) => {
                    let path = [path, b"hooks/"].concat();
                    let id =
                        fstatat(&hooks, c"", AtFlags::AT_EMPTY_PATH).map(|stat| super::id(&stat));
                    let is_hosts = |name: &CStr| {
                        let name = name.to_bytes().to_vec();
                        !self.mounts && id.is_ok_and(|id| state.hosts.contains(&(id, name)))
                    };
                    let live = live.iter().filter(|name| !is_hosts(name));
                    live.for_each(|name| self.put_aside(&hooks, &path, name, swept));
                }
                Ok(None) | Err(_) => self.put_aside(&folder, path, c"hooks", swept),
            }
        }
        if is_planted(c"commondir", swept) {
            let target = git_folder::pointer(&folder, c"commondir", b"").ok().flatten();
            match target.and_then(|target| self.within(path, &target)) {
                Some(common) => self.sweep_git_folder(&common, state, visited, swept),
                None => self.put_aside(&folder, path, c"commondir", swept),
            }
        }
    }

    /// What the host's settings said there.
    fn settings<'a>(&self, path: &[u8], name: &CStr, state: &'a State) -> &'a [u8] {
        let key = [path, name.to_bytes()].concat();
        state.settings.get(&key).map_or(b"", Vec::as_slice)
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
            Some((kind, _)) if self.is_planted(&folder, path, c".git", state, swept) => {
                let target = git_folder::pointer(&folder, c".git", b"gitdir: ").ok().flatten();
                let target = target.filter(|_| kind == SFlag::S_IFREG);
                match target.and_then(|target| self.within(path, &target)) {
                    Some(target) => self.sweep_git_folder(&target, state, visited, swept),
                    None => self.put_aside(&folder, path, c".git", swept),
                }
            }
            Some(_) => {}
        }
    }

    /// The patterns of other version control systems whose folders are among the names.
    fn of_others<'a>(&'a self, names: &'a [CString]) -> impl Iterator<Item = &'a Vec<CString>> {
        let is_there =
            |first: &CString| OTHERS.contains(&first.as_c_str()) && names.contains(first);
        self.patterns.iter().filter(move |pattern| pattern.first().is_some_and(is_there))
    }

    /// In a worktree of the host, what is protected there and was not there before.
    fn sweep_worktree(&self, path: &[u8], names: &[CString], state: &State, swept: &mut Swept) {
        let is_there =
            |first: &CString| names.contains(first) && !OTHERS.contains(&first.as_c_str());
        let patterns = self.patterns.iter().filter(|p| p.first().is_some_and(is_there));
        self.sweep_patterns(path, patterns, state, swept);
    }

    fn sweep_patterns<'a>(
        &self,
        path: &[u8],
        patterns: impl Iterator<Item = &'a Vec<CString>>,
        state: &State,
        swept: &mut Swept,
    ) {
        for pattern in patterns {
            let Some((last, above)) = pattern.split_last() else { continue };
            // A link that leads elsewhere.
            if let Some(first) = above.first()
                && let Ok(folder) = self.open(path)
                && self
                    .kind(&[path, first.to_bytes()].concat())
                    .is_some_and(|(kind, _)| kind == SFlag::S_IFLNK)
            {
                if self.is_planted(&folder, path, first, state, swept) {
                    self.put_aside(&folder, path, first, swept);
                }
                continue;
            }
            let mut folder = path.to_vec();
            above.iter().for_each(|name| folder.extend([name.to_bytes(), b"/"].concat()));
            let Ok(opened) = self.open(&folder) else { continue };
            if self.is_planted(&opened, &folder, last, state, swept) {
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
                // Behind a link, or what is not there, it leads elsewhere than its text says. The kernel is asked without it: with it, it
                // gives up whenever something is renamed or mounted anywhere meanwhile (openat2(2), EAGAIN).
                b".." => {
                    let above = CString::new(names.join(&b'/')).ok().filter(|p| !p.is_empty());
                    if above.is_some_and(|above| !self.is_plain_folder(&above)) {
                        return None;
                    }
                    names.pop();
                }
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

    /// Whether a path of the view is a folder and has no link on its way.
    fn is_plain_folder(&self, path: &CStr) -> bool {
        let found = mount::open_path_beneath(self.view.as_fd(), path);
        found.is_ok_and(|found| mount::path_info(found.as_fd()).is_ok_and(|info| info.is_folder))
    }

    fn put_aside(&self, folder: impl AsFd, path: &[u8], name: &CStr, swept: &mut Swept) {
        swept.put_aside(folder, name, &self.whole(path));
    }

    fn whole(&self, path: &[u8]) -> Vec<u8> {
        [&self.root, b"/".as_slice(), path].concat()
    }

    /// Whether it exists and is neither what was mounted over the host's own nor a link of the host's. Behind such a link, what is planted is put aside.
    fn is_planted(
        &self,
        folder: impl AsFd,
        path: &[u8],
        name: &CStr,
        state: &State,
        swept: &mut Swept,
    ) -> bool {
        let Ok(stat) = fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) else { return false };
        let is_link = super::kind(&stat) == SFlag::S_IFLNK;
        if is_link && state.links.contains(&unchanged(&stat)) {
            // Where git's own folder is, it is found by itself.
            if name != c".git" {
                self.sweep_behind(&[path, name.to_bytes()].concat(), state, swept);
            }
            return false;
        }
        let found = mount::open_path_beneath(folder.as_fd(), name);
        if found.is_ok_and(|f| mount::path_info(f.as_fd()).is_ok_and(|info| info.is_mount_root)) {
            return false;
        }
        let within = fstatat(&folder, c"", AtFlags::AT_EMPTY_PATH).map(|stat| super::id(&stat));
        let is_hosts = within.is_ok_and(|id| state.hosts.contains(&(id, name.to_bytes().to_vec())));
        if is_hosts && self.mounts {
            // Whatever stands in its place may be the call's: it is looked at as such.
            swept.replaced([self.whole(path).as_slice(), name.to_bytes()].concat());
            return true;
        }
        !is_hosts
    }

    fn sweep_behind(&self, path: &[u8], state: &State, swept: &mut Swept) {
        for step in self.way(path) {
            let is_link = step.kind() == SFlag::S_IFLNK;
            if (is_link && state.links.contains(&step.unchanged())) || !(is_link || step.is_last) {
                continue;
            }
            let is_covered = step.is_mount_root().unwrap_or(false);
            let at = step.folder.strip_prefix([&self.root, b"/".as_slice()].concat().as_slice());
            // Elsewhere nobody can write, but where another root is.
            let Some(folder) = at.filter(|_| !is_covered) else { return };
            let within = self.kind(folder).map(|(_, id)| id);
            let key = within.map(|id| (id, step.name.to_bytes().to_vec()));
            match self.open(folder) {
                _ if !self.mounts && key.is_some_and(|key| state.hosts.contains(&key)) => {}
                Ok(opened) => self.put_aside(opened, folder, &step.name, swept),
                Err(_) => swept.failed(Bytes(step.at())),
            }
            return;
        }
    }
}

/// So many paths that settings name and that do not exist are remembered.
const NAMED_MAX: usize = 1024;

/// Whether a path is a worktree as a whole, its git folder or what both lie in, which cannot be read-only.
fn is_whole_folder(path: &[u8], worktree: &[u8]) -> bool {
    let worktree = worktree.strip_suffix(b"/").unwrap_or(worktree);
    path.is_empty()
        || path == worktree
        || worktree.strip_prefix(path).is_some_and(|rest| rest.starts_with(b"/"))
        || path.ends_with(b"/.git")
        || path == b".git"
}

/// The folder of a path, with a slash at its end unless empty.
fn folder_of(path: &[u8]) -> &[u8] {
    path.strip_suffix(name_of(path)).unwrap_or_default()
}

fn name_of(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

fn join(folder: &[u8], names: &[CString]) -> Vec<u8> {
    let names: Vec<&[u8]> = names.iter().map(|name| name.to_bytes()).collect();
    [folder, names.join(&b'/').as_slice()].concat()
}
