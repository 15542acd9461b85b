//! The folders below a writable root, and what in them matters to git. Looked at before the first call and at each call's end; what
//! is known from one look to the next makes it cheap: a folder whose time of change (which no program can set) is the same is not
//! read again, and a folder without folders in it is asked four names instead of being read.

use super::{FileId, id};
use nix::dir::{Dir, Type};
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat};
use nix::sys::statfs::{self, fstatfs};
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use stockade_sys::mount;

/// More folders than that are not looked at before a call, and that is said: some 100 ms.
pub const FOLDERS_MAX: usize = 50_000;

/// The same when a call has ended: it cannot hide what it planted behind as many folders as it can quickly make, which takes it longer than
/// looking at them.
pub const FOLDERS_MAX_AFTER: usize = 20 * FOLDERS_MAX;

/// Of so many it is kept how they were; of more, only of those with something in them.
const KNOWN_MAX: usize = 4 * FOLDERS_MAX;

/// Folders of other version control systems, which obey settings in them. They may be links, which are not counted.
pub const OTHERS: [&CStr; 2] = [c".hg", c".jj"];

/// A path that is longer cannot be named in one system call, by git or anybody (path_resolution(7)).
const PATH_MAX: usize = 4096;

/// How coarse the times of a file system may be: a change so soon after a look might not show.
const COARSE: Duration = Duration::from_millis(50);

/// What is known of a folder.
#[derive(Default)]
pub struct Listing {
    id: FileId,
    /// Seconds and nanoseconds; `None` if a change might not show in it.
    changed: Option<(i64, i64)>,
    folders: Vec<CString>,
    /// It has a `.git` in it, of whatever kind.
    pub has_dot_git: bool,
    /// git takes it for a git folder, or would after `git init`.
    pub is_git_folder: bool,
    /// Which of the names that were asked for are in it.
    pub names: Vec<CString>,
}

/// A writable root's folders.
pub struct Tree {
    base: Rc<OwnedFd>,
    device: u64,
    /// The file system's times of change and numbers of links are what they are on a local disk.
    is_local: bool,
    /// Names to look for, besides git's.
    wanted: HashSet<CString>,
    known: HashMap<Vec<u8>, Rc<Listing>>,
}

/// What a look came to.
pub struct Look {
    /// Each folder in which something was found, by its path below the root, with a slash at its end unless empty.
    pub found: Vec<(Vec<u8>, Rc<Listing>)>,
    /// Nothing was left out.
    pub is_complete: bool,
}

impl Tree {
    /// Nothing is looked at yet.
    pub fn new(base: Rc<OwnedFd>, wanted: HashSet<CString>) -> Self {
        let local = [
            statfs::EXT4_SUPER_MAGIC,
            statfs::XFS_SUPER_MAGIC,
            statfs::TMPFS_MAGIC,
            statfs::F2FS_SUPER_MAGIC,
            statfs::BTRFS_SUPER_MAGIC,
        ];
        let is_local = fstatfs(&*base).is_ok_and(|found| local.contains(&found.filesystem_type()));
        let device = mount::path_info(base.as_fd()).map_or(0, |info| info.device);
        Self { base, device, is_local, wanted, known: HashMap::new() }
    }

    /// Looks at all folders, if there are no more than that.
    pub fn look(&mut self, folders_max: usize) -> Look {
        let mut old = std::mem::take(&mut self.known);
        let mut look = Look { found: Vec::new(), is_complete: true };
        let mut pending = vec![Vec::new()];
        let mut looked_at = 0;
        while let Some(path) = pending.pop() {
            looked_at += 1;
            if looked_at > folders_max || path.len() >= PATH_MAX {
                look.is_complete = false;
                continue;
            }
            // What cannot be looked at has gone meanwhile, or is closed to git as well.
            let Ok(Some(listing)) = self.folder(&path, old.remove(&path)) else { continue };
            // Also in what a git folder keeps for itself: whoever is led there, or makes what looks like one, finds all that lies below.
            for name in &listing.folders {
                pending.push([&path, name.to_bytes(), b"/"].concat());
            }
            let has_something =
                listing.has_dot_git || listing.is_git_folder || !listing.names.is_empty();
            if has_something {
                look.found.push((path.clone(), Rc::clone(&listing)));
            }
            if has_something || !listing.folders.is_empty() || self.known.len() < KNOWN_MAX {
                self.known.insert(path, listing);
            }
        }
        look
    }

    fn folder(&self, path: &[u8], old: Option<Rc<Listing>>) -> io::Result<Option<Rc<Listing>>> {
        let name = named(path)?;
        let stat = fstatat(&*self.base, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
        if super::kind(&stat) != SFlag::S_IFDIR {
            return Ok(None);
        }
        if let Some(old) = old
            && old.id == id(&stat)
            && old.changed.is_some_and(|then| then == (stat.st_ctime, stat.st_ctime_nsec))
        {
            return Ok(Some(old));
        }
        let mut listing = Listing { id: id(&stat), ..Listing::default() };
        // Taken before it is read: what comes into it meanwhile must show the next time.
        listing.changed = self.trusted_time(&stat);
        // git would later take a folder of that name for a git folder, whatever it is now: `git init` keeps what is in it.
        let is_dot_git = path.ends_with(b"/.git/") || path == b".git/";
        // Without `HEAD` git takes none for a git folder; objects, refs and hooks may be links, which are not counted.
        if is_dot_git
            || !self.is_leaf(&stat)
            || self.has(path, b".git")
            || self.has(path, b"HEAD")
            || OTHERS
                .iter()
                .any(|name| self.wanted.contains(*name) && self.has(path, name.to_bytes()))
        {
            self.read(&name, &mut listing)?;
        }
        listing.is_git_folder |= is_dot_git;
        Ok(Some(Rc::new(listing)))
    }

    fn trusted_time(&self, stat: &FileStat) -> Option<(i64, i64)> {
        let changed = Duration::new(
            u64::try_from(stat.st_ctime).ok()?,
            u32::try_from(stat.st_ctime_nsec).ok()?,
        );
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let is_past = changed + COARSE < now;
        (self.is_local && self.is_here(stat) && is_past)
            .then_some((stat.st_ctime, stat.st_ctime_nsec))
    }

    /// It has no folder in it: two links, its own name and its `.`. Where they are not counted it has one.
    fn is_leaf(&self, stat: &FileStat) -> bool {
        self.is_local && self.is_here(stat) && stat.st_nlink == 2
    }

    /// Another file system may be mounted below the root.
    fn is_here(&self, stat: &FileStat) -> bool {
        stat.st_dev == self.device
    }

    fn has(&self, path: &[u8], name: &[u8]) -> bool {
        CString::new([path, name].concat()).is_ok_and(|name| {
            fstatat(&*self.base, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW).is_ok()
        })
    }

    fn read(&self, name: &CStr, listing: &mut Listing) -> io::Result<()> {
        let folder = mount::open_path_beneath(self.base.as_fd(), name)?;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut folder = Dir::from_fd(openat(&folder, c".", flags, Mode::empty())?)?;
        let (mut head, mut objects, mut refs, mut commondir) = (false, false, false, false);
        let mut unknown = Vec::new();
        for entry in folder.iter() {
            let entry = entry?;
            let name = entry.file_name();
            match name.to_bytes() {
                b"." | b".." => continue,
                b".git" => listing.has_dot_git = true,
                b"HEAD" => head = true,
                b"objects" => objects = true,
                b"refs" => refs = true,
                b"commondir" => commondir = true,
                _ => {}
            }
            match entry.file_type() {
                Some(Type::Directory) => listing.folders.push(name.to_owned()),
                None => unknown.push(name.to_owned()),
                Some(_) => {}
            }
            if self.wanted.contains(name) {
                listing.names.push(name.to_owned());
            }
        }
        for name in unknown {
            let stat = fstatat(&folder, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
            if stat.is_ok_and(|stat| super::kind(&stat) == SFlag::S_IFDIR) {
                listing.folders.push(name);
            }
        }
        listing.is_git_folder = head && (commondir || (objects && refs));
        Ok(())
    }
}

/// The path as a system call takes it.
fn named(path: &[u8]) -> io::Result<CString> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    Ok(CString::new(if path.is_empty() { b".".as_slice() } else { path })?)
}
