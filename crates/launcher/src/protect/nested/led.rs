//! What the host's protected files and folders below lead to: links in such a folder, and other names of such a file. The counterpart
//! of what is done at the root.

use super::super::led::{ENTRIES_MAX, NAMES_MAX};
use super::super::{id, kind, open_to_read};
use super::{Nested, OfManyNames, State};
use nix::dir::{Dir, Type};
use nix::fcntl::AtFlags;
use nix::sys::stat::{SFlag, fstatat};
use std::collections::HashSet;

impl Nested {
    /// Links in a folder and below, and the files there that have other names.
    pub(super) fn look_through(&self, path: &[u8], state: &mut State) {
        // A link may lead back to where it lies.
        let is_new = self.kind(path).is_some_and(|(_, id)| state.looked_through.insert(id));
        let folder = self.open(path).and_then(|folder| open_to_read(&folder));
        let Some(Ok(mut folder)) = folder.ok().filter(|_| is_new).map(Dir::from_fd) else { return };
        let mut found = Vec::new();
        for entry in folder.iter().filter_map(Result::ok) {
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") || name.to_bytes().ends_with(b".sample") {
                continue;
            }
            if state.entries == ENTRIES_MAX {
                break;
            }
            state.entries += 1;
            found.push(name.to_owned());
        }
        for name in found {
            let flags = AtFlags::AT_SYMLINK_NOFOLLOW;
            let Ok(stat) = fstatat(&folder, name.as_c_str(), flags) else { continue };
            let path = [path, b"/", name.to_bytes()].concat();
            match kind(&stat) {
                SFlag::S_IFLNK => self.remember_led(path, state),
                SFlag::S_IFDIR => self.look_through(&path, state),
                SFlag::S_IFREG if stat.st_nlink > 1 => {
                    state.of_many_names.insert((id(&stat), stat.st_nlink));
                }
                _ => {}
            }
        }
    }

    /// What a link leads to, but for a folder in which work goes on: one that the link itself lies in, or a worktree.
    fn remember_led(&self, link: Vec<u8>, state: &mut State) {
        let end = self.way(&link).last().filter(|end| end.kind() == SFlag::S_IFDIR);
        if let Some(end) = end {
            let mut at = end.at();
            at.push(b'/');
            let is_above = self.whole(&link).starts_with(&at);
            at.extend_from_slice(b".git");
            let root = [&self.root, b"/".as_slice()].concat();
            let git = at.strip_prefix(root.as_slice());
            if is_above || git.is_some_and(|git| self.kind(git).is_some()) {
                return;
            }
        }
        self.remember(link, state);
    }

    /// Other names of protected files: by any of them they could be changed. All are looked for at once.
    pub(super) fn remember_other_names(&self, state: &mut State) {
        let found = std::mem::take(&mut state.of_many_names);
        // Without mounts, what exists stays as it is.
        let new: HashSet<_> = found.difference(&state.searched).copied().collect();
        if new.is_empty() || !self.mounts {
            return;
        }
        let inodes: HashSet<u64> = new.iter().map(|((_, inode), _)| *inode).collect();
        let mut left = NAMES_MAX;
        let mut pending: Vec<Vec<u8>> = vec![Vec::new()];
        while let Some(path) = pending.pop() {
            let folder = self.open(&path).and_then(|folder| open_to_read(&folder));
            let Some(Ok(mut folder)) = folder.ok().map(Dir::from_fd) else { continue };
            for entry in folder.iter().filter_map(Result::ok) {
                let name = entry.file_name().to_bytes();
                if matches!(name, b"." | b"..") {
                    continue;
                }
                if left == 0 {
                    break;
                }
                left -= 1;
                let whole = [&path, name].concat();
                if inodes.contains(&entry.ino()) && self.is_one_of(&whole, &new) {
                    self.remember_end(whole.clone(), true, state);
                }
                if matches!(entry.file_type(), Some(Type::Directory) | None) {
                    pending.push([&whole, b"/".as_slice()].concat());
                }
            }
        }
        state.of_many_names.clear();
        state.searched.extend(new);
    }

    /// Whether it is one of these files.
    fn is_one_of(&self, path: &[u8], files: &HashSet<OfManyNames>) -> bool {
        self.stat(path).is_some_and(|stat| files.contains(&(id(&stat), stat.st_nlink)))
    }
}
