//! What a call has planted since: it is put aside, but for what runs nothing.

use super::super::git_folder::{self, SETTINGS};
use super::super::tree::{FOLDERS_MAX_AFTER, OTHERS};
use super::super::{FileId, Swept, id, kind, led, unchanged};
use super::{Nested, State};
use crate::git_config::Named;
use nix::fcntl::AtFlags;
use nix::sys::stat::{SFlag, fstat, fstatat};
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::os::fd::AsFd;
use stockade_plan::Bytes;
use stockade_sys::mount;

impl Nested {
    /// Puts aside what has been planted since the first look.
    pub fn sweep(&self, swept: &mut Swept) {
        let mut state = self.state.borrow_mut();
        let Some(tree) = state.tree.as_mut() else { return };
        let look = tree.look(FOLDERS_MAX_AFTER);
        // What was not looked at before the first call cannot be told from what a call planted.
        if state.is_partial || !look.is_complete {
            swept.unchecked.push(self.root());
            state.is_unsure = true;
        } else if look.is_too_deep {
            // What lies there now is new to whoever finds it higher up.
            swept.unchecked.push(self.root());
        }
        if state.is_partial {
            return;
        }
        let mut visited = HashSet::new();
        let worktrees: HashSet<_> = state.worktrees.values().copied().collect();
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
            // Wherever it has been moved to.
            if self.kind(path).is_some_and(|(_, id)| worktrees.contains(&id)) {
                self.sweep_worktree(path, &listing.names, &state, swept);
            }
        }
        // Settings that a call wrote have been put aside by now: what is left of them is the host's.
        for (path, _) in look.found.iter().filter(|(_, listing)| listing.has_dot_git) {
            if let Some((_, id)) = self.kind(path).filter(|(_, id)| worktrees.contains(id)) {
                self.sweep_named(path, id, &state, swept);
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
        let folder_id = fstat(&folder).map(|stat| id(&stat));
        for name in SETTINGS {
            let before = folder_id.ok().and_then(|id| state.settings.get(&(id, name)));
            let before = before.map_or(b"".as_slice(), Vec::as_slice);
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
                    for name in live {
                        if self.is_planted(&hooks, &path, &name, state, swept) {
                            self.put_aside(&hooks, &path, &name, swept);
                        }
                    }
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
            // A link that leads elsewhere, or a file that says where to.
            let end = self.no_folder_on_the_way(path, pattern).unwrap_or(pattern);
            let Some((last, above)) = end.split_last() else { continue };
            let mut folder = path.to_vec();
            above.iter().for_each(|name| folder.extend([name.to_bytes(), b"/"].concat()));
            let Ok(opened) = self.open(&folder) else { continue };
            if self.is_planted(&opened, &folder, last, state, swept) {
                self.put_aside(&opened, &folder, last, swept);
            }
        }
    }

    /// What the settings of a worktree of the host name, wherever that has been moved to: no folder on the way there is held.
    fn sweep_named(&self, worktree: &[u8], id: FileId, state: &State, swept: &mut Swept) {
        self.each_named(worktree, &mut |named, path| {
            if let Named::Word(word) | Named::Code(word) = named {
                // A word without a slash may be anything, but was a program's name.
                let is_meant = word.contains(&b'/') || state.words.contains(&(id, word.clone()));
                if !is_meant || !led::is_code(&self.base, &path, named) {
                    return false;
                }
            }
            self.sweep_behind(&path, state, swept)
        });
    }

    fn put_aside(&self, folder: impl AsFd, path: &[u8], name: &CStr, swept: &mut Swept) {
        swept.put_aside(folder, name, &self.whole(path));
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
        let is_link = kind(&stat) == SFlag::S_IFLNK;
        if is_link && state.links.contains(&unchanged(&stat)) {
            // Where git's own folder is, it is found by itself.
            if name != c".git" {
                let _ = self.sweep_behind(&[path, name.to_bytes()].concat(), state, swept);
            }
            return false;
        }
        let found = mount::open_path_beneath(folder.as_fd(), name);
        if found.is_ok_and(|f| mount::path_info(f.as_fd()).is_ok_and(|info| info.is_mount_root)) {
            return false;
        }
        let within = fstatat(&folder, c"", AtFlags::AT_EMPTY_PATH).map(|stat| id(&stat));
        let is_hosts = within.is_ok_and(|id| state.hosts.contains(&(id, name.to_bytes().to_vec())));
        if is_hosts && self.mounts {
            // Whatever stands in its place may be the call's: it is looked at as such.
            swept.replaced([self.whole(path).as_slice(), name.to_bytes()].concat());
            return true;
        }
        !is_hosts
    }

    /// Puts aside whatever is not the host's at the end of this way, or leads elsewhere on it. Returns whether nothing was.
    fn sweep_behind(&self, path: &[u8], state: &State, swept: &mut Swept) -> bool {
        for step in self.way(path) {
            let is_link = step.kind() == SFlag::S_IFLNK;
            if (is_link && state.links.contains(&step.unchanged())) || !(is_link || step.is_last) {
                continue;
            }
            let is_covered = step.is_mount_root().unwrap_or(false);
            let at = step.folder.strip_prefix([&self.root, b"/".as_slice()].concat().as_slice());
            // Elsewhere nobody can write, but where another root is.
            let Some(folder) = at.filter(|_| !is_covered) else { return true };
            let within = self.kind(folder).map(|(_, id)| id);
            let key = within.map(|id| (id, step.name.to_bytes().to_vec()));
            let is_hosts = key.is_some_and(|key| state.hosts.contains(&key));
            if is_hosts && !self.mounts {
                return true;
            }
            if is_hosts {
                swept.replaced(step.at());
            }
            match self.open(folder) {
                Ok(opened) => self.put_aside(opened, folder, &step.name, swept),
                Err(_) => swept.failed(Bytes(step.at())),
            }
            return false;
        }
        true
    }
}
