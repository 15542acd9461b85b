//! Protected paths (spec 5.4). What exists of them is made read-only, and the folders on the way to it are made mount points, so
//! that neither can be renamed, removed or replaced. What does not exist gets no stub on the host: what a call planted there
//! is found at its end, before its result is given, and put aside under another name. So is what lies in repositories anywhere below
//! ([`nested`]).

mod git_folder;
mod nested;
mod tree;

use crate::server::failure;
use nested::Nested;
pub use nested::Swept;
use nix::fcntl::{AtFlags, OFlag, RenameFlags, openat, renameat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat};
use std::collections::hash_map::RandomState;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::rc::Rc;
use stockade_plan::{Bytes, ProtectedPath, Stage, StageFailure};
use stockade_sys::mount::{self, MountAttributes};
use stockade_sys::process;

/// What a quarantined file's name ends with.
const SUFFIX: &str = "quarantined";

const FOLDER: OFlag =
    OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// In a folder with more names than that, each is asked for by itself.
const NAMES_MAX: usize = 256;

/// The protected paths of a cell.
pub struct Protected {
    paths: Vec<Place>,
    root: OwnedFd,
    /// One for each writable root whose git settings are protected.
    nested: Vec<Nested>,
    /// What exists can be mounted over.
    mounts: bool,
}

/// One protected path, taken apart.
struct Place {
    path: ProtectedPath,
    /// The writable root.
    base: Rc<OwnedFd>,
    components: Vec<CString>,
}

/// A protected path that did not exist when a call started.
pub struct Absent {
    index: usize,
    /// The link or file that stood on the way already: which component it is, and which it is. It is whoever's it was, not planted
    /// by the call.
    before: Option<(usize, Unchanged)>,
}

/// Device and inode number.
type FileId = (u64, u64);

/// The same, and its time of change: the inode number of what was removed is given to what is made next.
type Unchanged = (FileId, (i64, i64));

fn id(stat: &FileStat) -> FileId {
    (stat.st_dev, stat.st_ino)
}

fn unchanged(stat: &FileStat) -> Unchanged {
    (id(stat), (stat.st_ctime, stat.st_ctime_nsec))
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits())
}

impl Place {
    /// The first component on the way that is no folder.
    fn first_obstacle(&self) -> Option<(usize, Unchanged)> {
        let mut folder = self.base.try_clone().ok()?;
        for (index, component) in self.components.iter().enumerate() {
            let stat = fstatat(&folder, component.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
            if kind(&stat) != SFlag::S_IFDIR {
                return Some((index, unchanged(&stat)));
            }
            folder = openat(&folder, component.as_c_str(), FOLDER, Mode::empty()).ok()?;
        }
        None
    }

    /// Whether its first component exists: most do not, and then this one question is enough.
    fn may_exist(&self) -> bool {
        self.first()
            .is_some_and(|first| fstatat(&*self.base, first, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok())
    }

    fn first(&self) -> Option<&CStr> {
        self.components.first().map(CString::as_c_str)
    }
}

impl Protected {
    /// Takes the paths, inside the finished view. Without `mounts`, what exists stays as it is, and only what is planted is found.
    pub fn new(paths: Vec<ProtectedPath>, mounts: bool) -> Result<Self, StageFailure> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let root = nix::fcntl::open("/", flags, Mode::empty())
            .map_err(|error| failure(Stage::Protect, &error.into(), "/"))?;
        let mut places: Vec<Place> = Vec::new();
        for path in paths {
            let base = match places.last().filter(|last| last.path.root == path.root) {
                Some(last) => Rc::clone(&last.base),
                None => Rc::new(
                    relative(&path.root)
                        .and_then(|name| mount::open_path_beneath(root.as_fd(), &name))
                        .map_err(|error| failure(Stage::Protect, &error, path.root.clone()))?,
                ),
            };
            places.push(Place { base, components: components(&path), path });
        }
        // What lies deeper is found by what is mounted over, and what is not.
        let nested = if mounts { nested(&places) } else { Vec::new() };
        Ok(Self { paths: places, root, nested, mounts })
    }

    /// Protects what exists now, and returns which paths do not. Called again before each call: what is a mount point already
    /// is left as it is, so a second time costs a look-up for each path.
    pub fn protect(&self) -> Result<Vec<Absent>, StageFailure> {
        let mut absent = Vec::new();
        for (index, (place, may_exist)) in self.paths.iter().zip(self.may_exist()).enumerate() {
            if !may_exist {
                absent.push(Absent { index, before: None });
                continue;
            }
            match self.protect_one(place) {
                Ok(true) => {}
                Ok(false) => absent.push(Absent { index, before: place.first_obstacle() }),
                Err(error) => return Err(failure(Stage::Protect, &error, whole(&place.path))),
            }
        }
        for nested in &self.nested {
            nested.protect().map_err(|error| failure(Stage::Protect, &error, nested.root()))?;
        }
        Ok(absent)
    }

    /// Of each path, whether its first component exists. A root with few names in it is read once, instead of being asked for
    /// every one of some thirty.
    fn may_exist(&self) -> Vec<bool> {
        let mut may_exist = Vec::with_capacity(self.paths.len());
        for places in self.paths.chunk_by(|one, next| Rc::ptr_eq(&one.base, &next.base)) {
            let start = may_exist.len();
            may_exist.resize(start + places.len(), false);
            let (Some(found), Some(first)) = (may_exist.get_mut(start..), places.first()) else {
                continue;
            };
            let mut names = 0;
            let was_read = open_to_read(&first.base).is_ok_and(|folder| {
                process::each_name(folder.as_fd(), &mut |name| {
                    for (found, place) in found.iter_mut().zip(places) {
                        *found |= place.first() == Some(name);
                    }
                    names += 1;
                    names <= NAMES_MAX
                })
            });
            if !was_read {
                found.iter_mut().zip(places).for_each(|(found, place)| *found = place.may_exist());
            }
        }
        may_exist
    }

    /// Whether the whole path exists, and is protected now.
    fn protect_one(&self, place: &Place) -> io::Result<bool> {
        let mut so_far = place.path.root.0.clone();
        for (index, component) in place.components.iter().enumerate() {
            so_far.push(b'/');
            so_far.extend_from_slice(component.to_bytes());
            let last = index + 1 == place.components.len();
            // Links are followed: what is protected is what a program outside would find there. Absent, or a dangling or
            // circular link: nothing to protect yet.
            let name = CString::new(so_far.clone())?;
            let Ok(found) = mount::open_path_in_root(self.root.as_fd(), &name) else {
                return Ok(false);
            };
            let info = mount::path_info(found.as_fd())?;
            if !last && !info.is_folder {
                // A linked worktree's `.git` is a file: it leads elsewhere, and must not lead anywhere else.
                return self.cover(&found, true).map(|()| true);
            }
            self.cover(&found, last)?;
        }
        Ok(true)
    }

    fn cover(&self, found: &OwnedFd, read_only: bool) -> io::Result<()> {
        if self.mounts { cover(found, read_only) } else { Ok(()) }
    }

    /// Puts aside what has been planted at paths that were absent. What cannot be put aside is named as well, with an empty
    /// new path.
    pub fn sweep(&self, absent: &[Absent]) -> Swept {
        let mut swept = Swept::default();
        let may_exist = self.may_exist();
        for missing in absent {
            let Some(place) = self.paths.get(missing.index) else { continue };
            let may_exist = may_exist.get(missing.index).is_none_or(|may| *may);
            let quarantined = &mut swept.quarantined;
            if may_exist && self.sweep_one(place, missing, quarantined).is_err() {
                quarantined.push((whole(&place.path), Bytes::default()));
            }
        }
        for nested in &self.nested {
            nested.sweep(&mut swept);
        }
        swept
    }

    fn sweep_one(
        &self,
        place: &Place,
        missing: &Absent,
        quarantined: &mut Vec<(Bytes, Bytes)>,
    ) -> io::Result<()> {
        let Place { path, base, components } = place;
        let mut here = path.root.0.clone();
        let mut folder = base.try_clone()?;
        for (index, component) in components.iter().enumerate() {
            let Ok(stat) = fstatat(&folder, component.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
            else {
                return Ok(());
            };
            let last = index + 1 == components.len();
            let is_folder = kind(&stat) == SFlag::S_IFDIR;
            here.push(b'/');
            if last && is_harmless(path, &folder, component, is_folder)? {
                return self.sweep_hooks(path, &folder, component, quarantined);
            }
            if !is_folder && missing.before == Some((index, unchanged(&stat))) {
                // It stood here before the call. What is behind a link is looked at, if anything is.
                here.extend_from_slice(component.to_bytes());
                let behind = CString::new(here.clone())?;
                let behind = mount::open_path_in_root(self.root.as_fd(), &behind);
                match behind {
                    Ok(behind) if !last && mount::path_info(behind.as_fd())?.is_folder => {
                        folder = behind;
                        continue;
                    }
                    _ => return Ok(()),
                }
            }
            // A link or a file in the place of a folder leads whoever follows it to what lies elsewhere.
            if last || !is_folder {
                quarantined.push(put_aside(&folder, component, &here)?);
                return Ok(());
            }
            here.extend_from_slice(component.to_bytes());
            folder = openat(&folder, component.as_c_str(), FOLDER, Mode::empty())?;
        }
        Ok(())
    }

    /// In a folder of git hooks, everything but the samples that `git init` puts there.
    fn sweep_hooks(
        &self,
        path: &ProtectedPath,
        folder: &OwnedFd,
        name: &CStr,
        quarantined: &mut Vec<(Bytes, Bytes)>,
    ) -> io::Result<()> {
        if path.relative.0 != b".git/hooks" {
            return Ok(());
        }
        let Some((hooks, planted)) = git_folder::live_hooks(folder, name)? else { return Ok(()) };
        let mut here = whole(path).0;
        here.push(b'/');
        for name in planted {
            quarantined.push(put_aside(&hooks, &name, &here)?);
        }
        Ok(())
    }
}

/// A second description of a folder: one that is open as a place alone cannot be read, and readers do not share their position.
fn open_to_read(folder: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(openat(folder, c".", flags, Mode::empty())?)
}

/// Makes it a mount point of its own, unless it is one.
fn cover(found: &OwnedFd, read_only: bool) -> io::Result<()> {
    if mount::path_info(found.as_fd())?.is_mount_root {
        return Ok(());
    }
    let tree = mount::clone_tree(found.as_fd(), c"")?;
    if read_only {
        mount::set_attributes(tree.as_fd(), MountAttributes::READ_ONLY, true)?;
    }
    mount::attach(tree.as_fd(), found.as_fd())
}

/// One for each writable root in which a git folder is protected.
fn nested(places: &[Place]) -> Vec<Nested> {
    let mut roots: Vec<&Place> = Vec::new();
    for place in places {
        let is_git = place.components.first().is_some_and(|name| name.as_c_str() == c".git");
        if is_git && roots.iter().all(|root| root.path.root != place.path.root) {
            roots.push(place);
        }
    }
    let is_other =
        |names: &Vec<CString>| names.first().is_some_and(|first| first.as_c_str() != c".git");
    let others = |root: &Bytes| -> Vec<Vec<CString>> {
        let places = places.iter().filter(|place| place.path.root == *root);
        places.map(|place| place.components.clone()).filter(is_other).collect()
    };
    roots
        .into_iter()
        .map(|place| {
            let root = &place.path.root;
            Nested::new(Rc::clone(&place.base), root.0.clone(), others(root))
        })
        .collect()
}

/// What `git init` and `git clone` make, and nothing else: a folder of hooks (whose content is looked at by itself), and
/// settings that run nothing.
fn is_harmless(
    path: &ProtectedPath,
    folder: &OwnedFd,
    name: &CStr,
    is_folder: bool,
) -> io::Result<bool> {
    match path.relative.0.as_slice() {
        b".git/hooks" => Ok(is_folder),
        b".git/config" if !is_folder => git_folder::is_harmless_config(folder, name, b".git"),
        _ => Ok(false),
    }
}

/// Renames an entry of a folder within it; nothing is overwritten. `here` is the folder's path with a slash, for the report.
fn put_aside(folder: impl AsFd, name: &CStr, here: &[u8]) -> io::Result<(Bytes, Bytes)> {
    let path = |name: &OsStr| Bytes([here, name.as_bytes()].concat());
    let old = OsStr::from_bytes(name.to_bytes());
    for attempt in 0..100 {
        let mut new = OsString::from_vec(old.as_bytes().to_vec());
        // Not to be foreseen: a command could have taken every name that is.
        let random = RandomState::new().build_hasher().finish();
        new.push(if attempt == 0 {
            format!(".{SUFFIX}")
        } else {
            format!(".{random:016x}.{SUFFIX}")
        });
        let flags = RenameFlags::RENAME_NOREPLACE;
        match renameat2(&folder, old, &folder, new.as_os_str(), flags) {
            Ok(()) => return Ok((path(old), path(&new))),
            Err(nix::errno::Errno::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn components(path: &ProtectedPath) -> Vec<CString> {
    path.relative
        .0
        .split(|&byte| byte == b'/')
        .filter(|component| !component.is_empty())
        .filter_map(|component| CString::new(component).ok())
        .collect()
}

fn whole(path: &ProtectedPath) -> Bytes {
    Bytes([path.root.0.as_slice(), b"/", &path.relative.0].concat())
}

fn relative(path: &Bytes) -> io::Result<CString> {
    let start = path.0.iter().take_while(|&&byte| byte == b'/').count();
    let rest = path.0.get(start..).unwrap_or_default();
    Ok(CString::new(if rest.is_empty() { b"." } else { rest })?)
}
