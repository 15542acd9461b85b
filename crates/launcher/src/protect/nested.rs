//! Repositories anywhere below a writable root: nested and bare ones, linked worktrees, submodules (spec 5.4).
//!
//! Those that exist when the session's first call starts are the host's: what git obeys in them is mounted read-only, and so is what
//! else is protected at the root of their worktree. What a call makes, renames or changes is looked at when it ends; settings that run
//! nothing and sample hooks stay, so that `git init`, `clone` and `worktree add` go on working, and all else is put aside. No folder
//! on the way to a nested repository becomes a mount point: it can be renamed and moved, what is mounted in it goes along, and where
//! it then lies it is found again.

mod led;
mod remember;
mod sweep;

use super::tree::{FOLDERS_MAX, OTHERS, Tree};
use super::way::Way;
use super::{FileId, Swept, Unchanged, cover};
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, SFlag, fstatat};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use stockade_plan::Bytes;
use stockade_sys::mount;

/// The repositories of one writable root.
pub struct Nested {
    base: Arc<OwnedFd>,
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
    /// What the host's settings said, by the folder that they lie in and their name, where that is old enough to be nobody's plant. Not by
    /// path: where the folder has been moved away, a copy of it is none of the host's.
    settings: HashMap<(FileId, &'static CStr), Vec<u8>>,
    /// Words in the host's settings that were names of code in its worktree: the worktree, and the word.
    words: HashSet<(FileId, Vec<u8>)>,
    /// Protected files that have other names, which are to be looked for.
    of_many_names: HashSet<OfManyNames>,
    /// Those for which that has been done: inside, nobody can give them one more.
    searched: HashSet<OfManyNames>,
    /// Protected folders whose links have been followed, and how many names were in them.
    looked_through: HashSet<FileId>,
    entries: usize,
    /// Links in the place of what git obeys that were there before the first call.
    links: HashSet<Unchanged>,
    /// The worktrees of the host, by path.
    worktrees: HashMap<Vec<u8>, FileId>,
    /// There are more folders than are looked at.
    is_partial: bool,
    /// Something that a call planted may stand there still.
    is_unsure: bool,
}

/// A file, and how many names it has.
type OfManyNames = (FileId, nix::libc::nlink_t);

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
        base: Arc<OwnedFd>,
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
            let mut tree = Tree::new(Arc::clone(&self.base), wanted);
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
        self.remember_other_names(&mut state);
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

    /// The patterns of other version control systems whose folders are among the names.
    fn of_others<'a>(&'a self, names: &'a [CString]) -> impl Iterator<Item = &'a Vec<CString>> {
        let is_there =
            |first: &CString| OTHERS.contains(&first.as_c_str()) && names.contains(first);
        self.patterns.iter().filter(move |pattern| pattern.first().is_some_and(is_there))
    }

    /// As much of a path below as leads to the first on its way, but for its end, that is there and no folder.
    fn no_folder_on_the_way<'a>(&self, path: &[u8], names: &'a [CString]) -> Option<&'a [CString]> {
        (1..names.len()).filter_map(|length| names.get(..length)).find(|names| {
            self.kind(&join(path, names)).is_some_and(|(kind, _)| kind != SFlag::S_IFDIR)
        })
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

    fn whole(&self, path: &[u8]) -> Vec<u8> {
        [&self.root, b"/".as_slice(), path].concat()
    }
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
