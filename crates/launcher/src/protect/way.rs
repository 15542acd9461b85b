//! The way to a protected path, one name after the other, through the links that lie on it.

use super::{Unchanged, kind, unchanged};
use nix::fcntl::readlinkat;
use nix::sys::stat::{FileStat, SFlag, fstat};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use stockade_sys::mount;

/// The kernel follows no more (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// One name on a way: a folder, a link, or what stands at its end.
pub struct Step {
    /// The folder that it lies in, without links on its own way, and a slash at its end.
    pub folder: Vec<u8>,
    /// Its name there.
    pub name: CString,
    /// It itself: of a link, the link.
    pub found: OwnedFd,
    stat: FileStat,
    /// Nothing comes behind it, unless it is a link.
    pub is_last: bool,
}

impl Step {
    /// Its whole path.
    pub fn at(&self) -> Vec<u8> {
        [&self.folder, self.name.to_bytes()].concat()
    }

    /// What it is.
    pub fn kind(&self) -> SFlag {
        kind(&self.stat)
    }

    /// Which it is.
    pub fn unchanged(&self) -> Unchanged {
        unchanged(&self.stat)
    }

    /// Whether a mount begins here.
    pub fn is_mount_root(&self) -> io::Result<bool> {
        Ok(mount::path_info(self.found.as_fd())?.is_mount_root)
    }
}

/// Walks from a folder whose own path has no links. Ends where nothing is, or behind what is neither folder nor link. Each name is
/// looked up from the root and through no link, so that nobody can lead a walk astray under way.
pub struct Way<'a> {
    root: &'a OwnedFd,
    here: Vec<u8>,
    /// The next one last.
    pending: Vec<Vec<u8>>,
    links: usize,
    /// The step before was a link or a folder: what it leads to.
    behind: Option<Behind>,
}

enum Behind {
    Folder(Vec<u8>),
    Link(OwnedFd),
    Nothing,
}

impl<'a> Way<'a> {
    /// From the folder at `start`, an absolute path, along these names.
    pub fn new<'n>(
        root: &'a OwnedFd,
        start: &[u8],
        names: impl DoubleEndedIterator<Item = &'n CStr>,
    ) -> Self {
        let mut here = start.to_vec();
        if here.last() != Some(&b'/') {
            here.push(b'/');
        }
        let pending = names.rev().map(|name| name.to_bytes().to_vec()).collect();
        Self { root, here, pending, links: 0, behind: None }
    }

    fn go_on(&mut self) -> Option<()> {
        match self.behind.take() {
            None => {}
            Some(Behind::Nothing) => return None,
            Some(Behind::Folder(path)) => self.here = path,
            Some(Behind::Link(link)) => {
                self.links += 1;
                if self.links > LINKS_MAX {
                    return None;
                }
                let target = readlinkat(&link, c"").ok()?;
                let target = target.as_bytes();
                if target.starts_with(b"/") {
                    self.here = b"/".to_vec();
                }
                let names = target.split(|&byte| byte == b'/').rev();
                let names = names.filter(|name| !matches!(*name, b"" | b"."));
                self.pending.extend(names.map(<[u8]>::to_vec));
            }
        }
        Some(())
    }

    fn go_up(&mut self) {
        self.here.pop();
        let end = self.here.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
        self.here.truncate(end);
        if self.here.is_empty() {
            self.here.push(b'/');
        }
    }
}

impl Iterator for Way<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        self.go_on()?;
        let name = loop {
            let name = self.pending.pop()?;
            if name != b".." {
                break name;
            }
            self.go_up();
        };
        let at = [&self.here, name.as_slice()].concat();
        let path = CString::new(at.get(1..)?).ok()?;
        let found = mount::open_path_beneath(self.root.as_fd(), &path).ok()?;
        let stat = fstat(&found).ok()?;
        self.behind = Some(match kind(&stat) {
            SFlag::S_IFDIR => Behind::Folder([&at, b"/".as_slice()].concat()),
            SFlag::S_IFLNK => Behind::Link(found.try_clone().ok()?),
            _ => Behind::Nothing,
        });
        let is_last = self.pending.is_empty();
        Some(Step {
            folder: self.here.clone(),
            name: CString::new(name).ok()?,
            found,
            stat,
            is_last,
        })
    }
}
