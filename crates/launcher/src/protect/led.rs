//! What protected things of the host lead to: links in a protected folder, other names of a protected file, and what git's settings
//! name (core.hooksPath, filters, included files and their like). It is protected as they are themselves.

use super::git_folder;
use super::{Place, Protected, components, kind, may_exist};
use crate::git_config::{Named, named};
use nix::dir::{Dir, Type};
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use stockade_plan::{Bytes, ProtectedPath};
use stockade_sys::mount;

/// So many are followed in a session.
const LED_MAX: usize = 256;

/// So many names in protected folders are looked at before each call.
pub(super) const ENTRIES_MAX: usize = 4096;

/// So many names of a whole root are looked at for the other names of a file.
pub(super) const NAMES_MAX: usize = 500_000;

/// Git's hooks (githooks(5)), for a folder of them that cannot be read-only as a whole.
pub(super) const HOOKS: [&str; 17] = [
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-rewrite",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "prepare-commit-msg",
    "reference-transaction",
];

/// What marks a file as a program's code, in the words behind a program's name.
const CODE: [&[u8]; 14] = [
    b".sh", b".bash", b".zsh", b".py", b".js", b".mjs", b".cjs", b".ts", b".rb", b".pl", b".awk",
    b".sed", b".lua", b".php",
];

impl Protected {
    /// Adds what the places lead to that exist now.
    pub(super) fn find_led(&self) {
        let mut entries = ENTRIES_MAX;
        let mut at = 0;
        loop {
            let places = self.places();
            let Some(rest) = places.get(at..).filter(|rest| !rest.is_empty()) else { return };
            for (place, _) in rest.iter().zip(may_exist(rest)).filter(|(_, may_exist)| *may_exist) {
                self.leads_to(place, &mut entries);
            }
            at = places.len();
        }
    }

    fn leads_to(&self, place: &Place, entries: &mut usize) {
        let mut last = None;
        for step in place.way(&self.root) {
            last = Some(step);
        }
        let Some(step) = last.filter(|step| step.is_last) else { return };
        match step.kind() {
            SFlag::S_IFDIR => {
                self.look_through(place, &step.found, &place.path.relative.0, entries)
            }
            SFlag::S_IFREG => {
                if fstat(&step.found).is_ok_and(|stat| stat.st_nlink > 1) {
                    self.add_other_names(place, &step.found);
                }
                if place.is_settings()
                    && let Ok(folder) = self.folder_of(&step)
                    && let Some(text) = git_folder::settings(folder, &step.name)
                {
                    self.add_named(place, &text, b".git", 8);
                }
            }
            _ => {}
        }
    }

    /// Links in a folder and below.
    fn look_through(&self, place: &Place, folder: &OwnedFd, path: &[u8], entries: &mut usize) {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let Ok(mut names) = Dir::openat(folder, c".", flags, Mode::empty()) else { return };
        let mut found = Vec::new();
        for entry in names.iter().filter_map(Result::ok) {
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || name.ends_with(b".sample") {
                continue;
            }
            if *entries == 0 {
                return;
            }
            *entries -= 1;
            found.push((entry.file_name().to_owned(), entry.file_type()));
        }
        for (name, kind_of) in found {
            let path = [path, b"/", name.to_bytes()].concat();
            let flags = AtFlags::AT_SYMLINK_NOFOLLOW;
            match kind_of {
                Some(Type::Symlink) => self.add(place, &path),
                Some(Type::Directory) => {
                    if let Ok(below) = mount::open_path_beneath(names.as_fd(), &name) {
                        self.look_through(place, &below, &path, entries);
                    }
                }
                _ => match fstatat(&names, name.as_c_str(), flags) {
                    Ok(stat) if kind(&stat) == SFlag::S_IFLNK => self.add(place, &path),
                    Ok(stat) if kind(&stat) == SFlag::S_IFREG && stat.st_nlink > 1 => {
                        if let Ok(file) = mount::open_path_beneath(names.as_fd(), &name) {
                            self.add_other_names(place, &file);
                        }
                    }
                    _ => {}
                },
            }
        }
    }

    /// Other names of a file in the same root: by any of them it could be changed.
    fn add_other_names(&self, place: &Place, file: &OwnedFd) {
        let Ok(wanted) = fstat(file) else { return };
        if !self.searched.borrow_mut().insert((super::id(&wanted), wanted.st_nlink)) {
            return;
        }
        let mut left = wanted.st_nlink;
        let mut names = NAMES_MAX;
        let mut pending: Vec<Vec<u8>> = vec![Vec::new()];
        while let Some(path) = pending.pop() {
            let Ok(name) = CString::new(if path.is_empty() { b"." } else { path.as_slice() })
            else {
                continue;
            };
            let Ok(folder) = mount::open_path_beneath(place.base.as_fd(), &name) else { continue };
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            let Ok(mut folder) = Dir::openat(&folder, c".", flags, Mode::empty()) else { continue };
            for entry in folder.iter().filter_map(Result::ok) {
                let name = entry.file_name().to_bytes();
                if matches!(name, b"." | b"..") {
                    continue;
                }
                if names == 0 || left == 0 {
                    return;
                }
                names -= 1;
                let path = if path.is_empty() {
                    name.to_vec()
                } else {
                    [&path, b"/".as_slice(), name].concat()
                };
                if entry.ino() == wanted.st_ino {
                    left -= 1;
                    self.add(place, &path);
                }
                if matches!(entry.file_type(), Some(Type::Directory) | None) {
                    pending.push(path);
                }
            }
        }
    }

    /// What settings name; `folder` is that of their file, below the root.
    fn add_named(&self, place: &Place, text: &[u8], folder: &[u8], depth: usize) {
        for named in named(text) {
            match named {
                Named::Path(path) => {
                    let Some(path) = below(&place.path.root.0, b"", &path) else { continue };
                    if path.is_empty() {
                        HOOKS.iter().for_each(|hook| self.add(place, hook.as_bytes()));
                    } else {
                        self.add(place, &path);
                    }
                }
                Named::Word(ref word) | Named::Code(ref word) => {
                    let path = below(&place.path.root.0, b"", word);
                    if let Some(path) = path.filter(|path| is_code(&place.base, path, &named)) {
                        self.add(place, &path);
                    }
                }
                Named::Settings(path) => {
                    let Some(path) = below(&place.path.root.0, folder, &path) else { continue };
                    self.add(place, &path);
                    if depth > 0
                        && let Ok(name) = CString::new(path.as_slice())
                        && let Some(text) = git_folder::settings(&*place.base, &name)
                    {
                        let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                        self.add_named(
                            place,
                            &text,
                            path.get(..end).unwrap_or_default(),
                            depth - 1,
                        );
                    }
                }
            }
        }
    }

    /// Protects a path below the same root as well.
    fn add(&self, like: &Place, relative: &[u8]) {
        let mut places = self.places.borrow_mut();
        let components = components(relative);
        let is_git = matches!(components.as_slice(), [only] if only.as_c_str() == c".git");
        let is_known =
            |place: &Rc<Place>| place.path.root == like.path.root && place.components == components;
        let led = places.iter().filter(|place| place.is_led).count();
        // A git folder as a whole is written by every commit.
        if components.is_empty() || is_git || led >= LED_MAX || places.iter().any(is_known) {
            return;
        }
        let relative = Bytes(relative.to_vec());
        let path = ProtectedPath { root: like.path.root.clone(), relative };
        places.push(Rc::new(Place {
            path,
            base: Arc::clone(&like.base),
            components,
            is_led: true,
        }));
    }
}

/// A path that settings name, below the root; `None` if it is elsewhere. Its `..` are taken by the text, as long as git's own folder is no link.
pub(super) fn below(root: &[u8], folder: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    if path.starts_with(b"~") {
        return None;
    }
    let is_whole = path.starts_with(b"/");
    let start = if is_whole { [b"".as_slice(), b""] } else { [root, folder] };
    let mut names: Vec<&[u8]> = Vec::new();
    for part in start.into_iter().chain([path]) {
        for name in part.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => drop(names.pop()),
                name => names.push(name),
            }
        }
    }
    let root: Vec<&[u8]> =
        root.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
    Some(names.strip_prefix(root.as_slice())?.join(&b'/'))
}

/// Whether a word of a command is the name of a file that is a program or its code.
pub(super) fn is_code(base: &OwnedFd, path: &[u8], word: &Named) -> bool {
    let Ok(name) = CString::new(path) else { return false };
    let is_code = matches!(word, Named::Code(_)) || CODE.iter().any(|end| path.ends_with(end));
    let stat = fstatat(base, name.as_c_str(), AtFlags::empty());
    let is_file =
        |stat: FileStat| kind(&stat) == SFlag::S_IFREG && (is_code || stat.st_mode & 0o111 != 0);
    !path.is_empty() && stat.is_ok_and(is_file)
}
