//! The folders below a writable root, and what in them matters to git. Looked at before the first call and at each call's end; what
//! is known from one look to the next makes it cheap: a folder whose time of change (which no program can set) is the same is not
//! read again, and a folder without folders in it is asked four names instead of being read. Names are looked up from the folder
//! that they are in: in a large tree it is the kernel's look-ups that take the time, one for each part of a path.

mod many_hands;

use super::{FileId, id};
use nix::dir::{Dir, Type};
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::sys::statfs::{self, fstatfs};
use nix::unistd::Pid;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
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

/// Where there are more folders, several threads look at them: starting one takes as long as a hundred folders.
const MANY: usize = 500;

/// More of them gain little: the kernel's look-ups wait for memory.
const THREADS_MAX: usize = 4;

/// What in a folder matters to git.
#[derive(Default)]
pub struct Listing {
    /// It has a `.git` in it, of whatever kind.
    pub has_dot_git: bool,
    /// git takes it for a git folder, or would after `git init`.
    pub is_git_folder: bool,
    /// Which of the names that were asked for are in it.
    pub names: Vec<CString>,
}

/// A folder's identity, and its time of change: seconds and nanoseconds.
type Version = (FileId, (i64, i64));

/// A folder that has been read.
struct Folder {
    /// `None` if a change might not show in it.
    version: Option<Version>,
    folders: Vec<Child>,
    listing: Arc<Listing>,
}

/// A folder in one that has been read.
struct Child {
    name: CString,
    /// When it was seen to have no folder in it and nothing that matters; it has not been read.
    empty: Option<Version>,
}

/// A writable root's folders.
pub struct Tree {
    base: Arc<OwnedFd>,
    device: u64,
    /// The file system's times of change and numbers of links are what they are on a local disk.
    is_local: bool,
    /// Names to look for, besides git's.
    wanted: HashSet<CString>,
    /// What a folder without folders is asked.
    asked: Vec<&'static CStr>,
    /// By path. Folders that are empty in the sense of [`Child`], most of them all, are known to the one that they are in.
    known: HashMap<Vec<u8>, Folder>,
}

/// What one thread has come to.
#[derive(Default)]
struct Seen {
    folders: Vec<(Vec<u8>, Folder)>,
    is_partial: bool,
    is_too_deep: bool,
}

/// What a look came to.
pub struct Look {
    /// Each folder in which something was found, by its path below the root, with a slash at its end unless empty.
    pub found: Vec<(Vec<u8>, Arc<Listing>)>,
    /// There are no more folders than were to be looked at.
    pub is_complete: bool,
    /// Some lie so deep that no path names them: those were left out.
    pub is_too_deep: bool,
}

impl Tree {
    /// Nothing is looked at yet.
    pub fn new(base: Arc<OwnedFd>, wanted: HashSet<CString>) -> Self {
        let local = [
            statfs::EXT4_SUPER_MAGIC,
            statfs::XFS_SUPER_MAGIC,
            statfs::TMPFS_MAGIC,
            statfs::F2FS_SUPER_MAGIC,
            statfs::BTRFS_SUPER_MAGIC,
        ];
        let is_local = fstatfs(&*base).is_ok_and(|found| local.contains(&found.filesystem_type()));
        let device = mount::path_info(base.as_fd()).map_or(0, |info| info.device);
        // Without `HEAD` git takes none for a git folder; objects, refs and hooks may be links, which are not counted.
        let others = OTHERS.into_iter().filter(|name| wanted.contains(*name));
        let asked = [c".git", c"HEAD"].into_iter().chain(others).collect();
        Self { base, device, is_local, wanted, asked, known: HashMap::new() }
    }

    /// Looks at all folders, if there are no more than that.
    pub fn look(&mut self, folders_max: usize) -> Look {
        let old = Mutex::new(std::mem::take(&mut self.known));
        // The root is the first.
        let (looked_at, remembered) = (AtomicUsize::new(1), AtomicUsize::new(0));
        let tree = &*self;
        let visit = |path: Vec<u8>, pending: &mut Vec<Vec<u8>>, seen: &mut Seen| {
            let before = old.lock().unwrap_or_else(PoisonError::into_inner).remove(&path);
            // What cannot be looked at has gone meanwhile, or is closed to git as well.
            let Ok((handle, mut folder)) = tree.folder(&path, before) else { return };
            // Also in what a git folder keeps for itself: whoever is led there, or makes what looks like one, finds all that lies below.
            for child in &mut folder.folders {
                let length = path.len() + child.name.as_bytes_with_nul().len();
                if looked_at.fetch_add(1, Relaxed) >= folders_max {
                    seen.is_partial = true;
                } else if length >= PATH_MAX {
                    seen.is_too_deep = true;
                } else if !tree.is_empty(&handle, child) {
                    pending.push([&path, child.name.to_bytes(), b"/"].concat());
                } else if remembered.fetch_add(1, Relaxed) >= KNOWN_MAX {
                    child.empty = None;
                }
            }
            seen.folders.push((path, folder));
        };
        let (mut seen, mut pending) = (Seen::default(), vec![Vec::new()]);
        while looked_at.load(Relaxed) < MANY
            && let Some(path) = pending.pop()
        {
            visit(path, &mut pending, &mut seen);
        }
        let rest = match pending.is_empty() {
            true => Vec::new(),
            false => many_hands::share(pending, threads(), visit),
        };
        let mut look = Look { found: Vec::new(), is_complete: true, is_too_deep: false };
        for Seen { folders, is_partial, is_too_deep } in rest.into_iter().chain([seen]) {
            look.is_complete &= !is_partial;
            look.is_too_deep |= is_too_deep;
            for (path, folder) in folders {
                let Listing { has_dot_git, is_git_folder, names } = &*folder.listing;
                if *has_dot_git || *is_git_folder || !names.is_empty() {
                    look.found.push((path.clone(), Arc::clone(&folder.listing)));
                }
                self.known.insert(path, folder);
            }
        }
        // A folder before what lies in it.
        look.found.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        look
    }

    /// A folder as it is now, open as a place, and what is in it, which is read if it has changed.
    fn folder(&self, path: &[u8], old: Option<Folder>) -> io::Result<(OwnedFd, Folder)> {
        let handle = mount::open_path_beneath(self.base.as_fd(), &named(path)?)?;
        let stat = fstat(&handle)?;
        if let Some(old) = old
            && old.version == Some((id(&stat), changed(&stat)))
        {
            return Ok((handle, old));
        }
        // Taken before it is read: what comes into it meanwhile must show the next time.
        let mut folder = Folder {
            version: self.trusted_version(&stat),
            folders: Vec::new(),
            listing: Arc::default(),
        };
        let mut listing = self.read(&handle, &mut folder.folders)?;
        // git would later take a folder of that name for a git folder, whatever it is now: `git init` keeps what is in it.
        listing.is_git_folder |= path.ends_with(b"/.git/") || path == b".git/";
        folder.listing = Arc::new(listing);
        Ok((handle, folder))
    }

    /// Whether there is no folder in it and nothing that matters, or no such folder any more; else it is to be read.
    fn is_empty(&self, folder: &OwnedFd, child: &mut Child) -> bool {
        let before = child.empty.take();
        let name = child.name.as_c_str();
        let Ok(stat) = fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) else { return true };
        if super::kind(&stat) != SFlag::S_IFDIR {
            return true;
        }
        if before == Some((id(&stat), changed(&stat))) {
            child.empty = before;
            return true;
        }
        let is_empty =
            name != c".git" && self.is_leaf(&stat) && !has_any(folder, name, &self.asked);
        child.empty = self.trusted_version(&stat).filter(|_| is_empty);
        is_empty
    }

    fn trusted_version(&self, stat: &FileStat) -> Option<Version> {
        let changed = changed(stat);
        let then = Duration::new(u64::try_from(changed.0).ok()?, u32::try_from(changed.1).ok()?);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let is_past = then + COARSE < now;
        (self.is_local && self.is_here(stat) && is_past).then_some((id(stat), changed))
    }

    /// It has no folder in it: two links, its own name and its `.`. Where they are not counted it has one.
    fn is_leaf(&self, stat: &FileStat) -> bool {
        self.is_local && self.is_here(stat) && stat.st_nlink == 2
    }

    /// Another file system may be mounted below the root.
    fn is_here(&self, stat: &FileStat) -> bool {
        stat.st_dev == self.device
    }

    fn read(&self, handle: &OwnedFd, folders: &mut Vec<Child>) -> io::Result<Listing> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut folder = Dir::from_fd(openat(handle, c".", flags, Mode::empty())?)?;
        let mut listing = Listing::default();
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
                Some(Type::Directory) => folders.push(Child { name: name.to_owned(), empty: None }),
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
                folders.push(Child { name, empty: None });
            }
        }
        listing.is_git_folder = head && (commondir || (objects && refs));
        Ok(listing)
    }
}

/// The path as a system call takes it.
fn named(path: &[u8]) -> io::Result<CString> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    Ok(CString::new(if path.is_empty() { b".".as_slice() } else { path })?)
}

/// As many as there are processors for.
fn threads() -> usize {
    let here = sched_getaffinity(Pid::from_raw(0)).map_or(1, |processors| {
        (0..CpuSet::count()).filter(|&number| processors.is_set(number).unwrap_or(false)).count()
    });
    here.clamp(1, THREADS_MAX)
}

fn changed(stat: &FileStat) -> (i64, i64) {
    (stat.st_ctime, stat.st_ctime_nsec)
}

/// Whether a folder in this one has an entry of any of these names.
fn has_any(folder: &OwnedFd, name: &CStr, entries: &[&CStr]) -> bool {
    let mut path = [name.to_bytes(), b"/"].concat();
    let length = path.len();
    entries.iter().any(|entry| {
        path.truncate(length);
        path.extend_from_slice(entry.to_bytes());
        fstatat(folder, path.as_slice(), AtFlags::AT_SYMLINK_NOFOLLOW).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::OwnedFd;
    use std::path::Path;

    fn found(tree: &mut Tree) -> Vec<String> {
        let look = tree.look(FOLDERS_MAX);
        assert!(look.is_complete);
        look.found.into_iter().map(|(path, _)| String::from_utf8(path).unwrap()).collect()
    }

    fn folder(root: &Path, one: usize, two: usize) -> std::path::PathBuf {
        root.join(format!("{one}/{two}"))
    }

    #[test] // spec 5.4
    fn all_that_matters_is_found_in_a_tree_that_several_threads_look_at_and_what_comes_later_too() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        for number in 0..2 * MANY {
            fs::create_dir_all(folder(root, number / 20, number % 20)).unwrap();
        }
        fs::create_dir_all(folder(root, 3, 7).join("bare.git/refs")).unwrap();
        fs::create_dir(folder(root, 3, 7).join("bare.git/objects")).unwrap();
        fs::write(folder(root, 3, 7).join("bare.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(folder(root, 44, 19).join(".git"), "gitdir: elsewhere\n").unwrap();
        let base = OwnedFd::from(fs::File::open(root).unwrap());
        let wanted = HashSet::from([c".hg".to_owned()]);
        let mut tree = Tree::new(Arc::new(base), wanted);
        let first = ["3/7/bare.git/", "44/19/"].map(str::to_owned).to_vec();
        assert_eq!(found(&mut tree), first);
        std::thread::sleep(2 * COARSE);
        assert_eq!(found(&mut tree), first, "what is the same is known");

        std::os::unix::fs::symlink("/nowhere", folder(root, 12, 0).join(".hg")).unwrap();
        fs::create_dir(folder(root, 40, 0).join(".git")).unwrap();
        fs::remove_file(folder(root, 44, 19).join(".git")).unwrap();
        assert_eq!(found(&mut tree), ["12/0/", "3/7/bare.git/", "40/0/", "40/0/.git/"]);
        assert!(!tree.look(MANY + 100).is_complete, "so many are not looked at");
        assert_eq!(found(&mut tree), ["12/0/", "3/7/bare.git/", "40/0/", "40/0/.git/"]);
    }
}
