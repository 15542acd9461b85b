//! What is the host's: everything that git obeys, and what else is protected, as it was found before the first call.

use super::super::git_folder::{self, SENSITIVE, SETTINGS};
use super::super::tree::Look;
use super::super::{cover, id, kind, led};
use super::{Covered, Nested, State, folder_of, join, name_of};
use crate::git_config::{Named, named};
use nix::fcntl::AtFlags;
use nix::sys::stat::{SFlag, fstat, fstatat};
use std::ffi::{CStr, CString};
use std::os::fd::AsFd;

impl Nested {
    pub(super) fn first(&self, look: &Look, state: &mut State) {
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
                    // A link or a file on the way: who may change it leads elsewhere.
                    if let Some(end) = self.no_folder_on_the_way(path, pattern) {
                        self.remember(join(path, end), state);
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
        self.remember_other_names(state);
    }

    /// The host's hooks.
    fn remember_hooks(&self, path: &[u8], state: &mut State) {
        let Ok(folder) = self.open(folder_of(path)) else { return };
        let Ok(Some((hooks, live))) = git_folder::live_hooks(&folder, c"hooks") else { return };
        let folder_id = |folder: &dyn AsFd| {
            fstatat(folder.as_fd(), c"", AtFlags::AT_EMPTY_PATH).map(|stat| id(&stat))
        };
        // Nothing holds the folder as a whole then: which were there is known by their names.
        if !self.mounts
            && let (Ok(within), Ok(id)) = (folder_id(&folder), folder_id(&hooks))
            && state.hosts.remove(&(within, b"hooks".to_vec()))
        {
            state.hosts.extend(live.iter().map(|name| (id, name.to_bytes().to_vec())));
        }
    }

    fn remember_settings(&self, path: &[u8], state: &mut State) {
        let Ok(folder) = self.open(path) else { return };
        let Ok(id) = fstat(&folder).map(|stat| id(&stat)) else { return };
        for name in SETTINGS {
            if let Some(text) = git_folder::old_settings(&folder, name) {
                state.settings.insert((id, name), text);
            }
        }
    }

    /// What the settings of a worktree's repository name in it.
    fn remember_named(&self, worktree: &[u8], state: &mut State) {
        let Some((_, id)) = self.kind(worktree) else { return };
        self.each_named(worktree, &mut |named, path| {
            if let Named::Word(word) | Named::Code(word) = named {
                if !led::is_code(&self.base, &path, named) {
                    return false;
                }
                state.words.insert((id, word.clone()));
            }
            self.remember(path, state);
            true
        });
    }

    /// Visits what the settings of a worktree's repository name now, as a path below the root. The visitor tells whether settings are to
    /// be read on there.
    pub(super) fn each_named(
        &self,
        worktree: &[u8],
        visit: &mut dyn FnMut(&Named, Vec<u8>) -> bool,
    ) {
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
            self.each_in_text(&text, worktree, folder, visit, 8);
        }
    }

    fn each_in_text(
        &self,
        text: &[u8],
        worktree: &[u8],
        folder: &[u8],
        visit: &mut dyn FnMut(&Named, Vec<u8>) -> bool,
        depth: usize,
    ) {
        for named in named(text) {
            let path = match &named {
                Named::Path(path) | Named::Word(path) | Named::Code(path) => {
                    led::below(&self.root, worktree, path)
                }
                Named::Settings(path) => led::below(&self.root, folder, path),
            };
            let Some(path) = path else { continue };
            if matches!(named, Named::Path(_)) && worktree.strip_suffix(b"/") == Some(&path) {
                for hook in led::HOOKS {
                    visit(&named, [worktree, hook.as_bytes()].concat());
                }
            }
            if is_whole_folder(&path, worktree) || !visit(&named, path.clone()) {
                continue;
            }
            if matches!(named, Named::Settings(_))
                && depth > 0
                && let Ok(name) = CString::new(path.as_slice())
                && let Some(text) = git_folder::settings(&*self.base, &name)
            {
                self.each_in_text(&text, worktree, folder_of(&path), visit, depth - 1);
            }
        }
    }

    /// Has it covered if it exists, or what it leads to. The links on its way are the host's, whether or not it exists.
    pub(super) fn remember(&self, path: Vec<u8>, state: &mut State) {
        let is_dot_git = path.ends_with(b"/.git");
        let kind = self.open(&path).ok().and(self.kind(&path)).map(|(kind, _)| kind);
        if let Some(kind) = kind.filter(|kind| *kind != SFlag::S_IFLNK) {
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

    pub(super) fn remember_end(&self, path: Vec<u8>, read_only: bool, state: &mut State) {
        let Some((_, within)) = self.kind(folder_of(&path)) else { return };
        state.hosts.insert((within, name_of(&path).to_vec()));
        if let Some(stat) = self.stat(&path).filter(|_| read_only) {
            match kind(&stat) {
                SFlag::S_IFDIR => self.look_through(&path, state),
                SFlag::S_IFREG if stat.st_nlink > 1 => {
                    state.of_many_names.insert((id(&stat), stat.st_nlink));
                }
                _ => {}
            }
        }
        state.covered.push(Covered { path, read_only, within });
    }
}

/// Whether a path is a worktree as a whole, its git folder or what both lie in, which cannot be read-only.
fn is_whole_folder(path: &[u8], worktree: &[u8]) -> bool {
    let worktree = worktree.strip_suffix(b"/").unwrap_or(worktree);
    path.is_empty()
        || path == worktree
        || worktree.strip_prefix(path).is_some_and(|rest| rest.starts_with(b"/"))
        || path.ends_with(b"/.git")
        || path == b".git"
}
