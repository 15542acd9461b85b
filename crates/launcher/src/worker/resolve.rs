use super::{fault, open};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat};
use nix::libc;
use nix::sys::stat::{FileStat, Mode, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use stockade_plan::Bytes;
use stockade_plan::file::FileError;

/// As many links as the kernel follows.
const LINKS_MAX: u32 = 40;

/// Folders on the way, each of which holds a descriptor open meanwhile.
const DEPTH_MAX: usize = 200;

/// Where a path really leads: the folders on the way, opened, and the names below them. What is done
/// next is done relative to those descriptors, so that a link swapped in meanwhile redirects nothing.
pub(super) struct Target {
    root: OwnedFd,
    /// The folders that exist below `/`, one for each of the first names.
    folders: Vec<OwnedFd>,
    /// The names of the existing folders, then of the missing ones, then of the file: none is a link
    /// or `..` any more.
    names: Vec<OsString>,
    /// How many of the folders were made here.
    made: usize,
    /// The links that were followed.
    passed: Vec<PassedLink>,
}

/// A link that a path led through. Whoever reads what it leads to by the link's name, as an editor does with its settings, meets what is
/// written through it.
pub(super) struct PassedLink {
    /// The path as it was there: without links up to this one, then as written.
    pub(super) names: Vec<OsString>,
    /// How many of the names lead to the folder in which the link is.
    pub(super) depth: usize,
    /// That folder.
    pub(super) folder: OwnedFd,
}

/// Resolves a path to be written, as the kernel would: every link is followed, that of the last
/// component and one that dangles as well. A folder is refused.
pub(super) fn resolve(path: &Bytes) -> Result<Target, FileError> {
    let target = follow(path)?;
    if target.is_folder() { Err(a_folder(path)) } else { Ok(target) }
}

/// The same for a path that may be a folder's.
pub(super) fn follow(path: &Bytes) -> Result<Target, FileError> {
    open::absolute(path)?;
    let os = |errno| fault::os("resolve", path, errno);
    let root = nix::fcntl::open("/", folder_flags(), Mode::empty()).map_err(os)?;
    let mut target =
        Target { root, folders: Vec::new(), names: Vec::new(), made: 0, passed: Vec::new() };
    let mut pending = Vec::new();
    push_components(&mut pending, &path.0);
    let mut links = 0;
    let mut found_file = false;

    while let Some(name) = pending.pop() {
        if found_file {
            return Err(os(Errno::ENOTDIR));
        }
        let missing = target.names.len() > target.folders.len();
        if name == "." {
            if missing && pending.is_empty() {
                return Err(a_folder(path));
            }
            continue;
        }
        if name == ".." {
            if missing {
                return Err(os(Errno::ENOENT));
            }
            if target.names.pop().is_some() {
                target.folders.pop();
            }
            continue;
        }
        if missing {
            target.names.push(name);
            continue;
        }
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened = match openat(target.deepest(), name.as_os_str(), flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::ENOENT) => {
                target.names.push(name);
                continue;
            }
            Err(errno) => return Err(os(errno)),
        };
        match fstat(&opened).map_err(os)?.st_mode & libc::S_IFMT {
            libc::S_IFLNK => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(os(Errno::ELOOP));
                }
                let to = readlinkat(&opened, "").map_err(os)?;
                target.note_link(name, &pending).map_err(os)?;
                if to.as_bytes().first() == Some(&b'/') {
                    target.folders.clear();
                    target.names.clear();
                }
                push_components(&mut pending, to.as_bytes());
            }
            libc::S_IFDIR => {
                if target.folders.len() >= DEPTH_MAX {
                    return Err(os(Errno::ENAMETOOLONG));
                }
                target.names.push(name);
                target.folders.push(opened);
            }
            _ => {
                target.names.push(name);
                found_file = true;
            }
        }
    }
    Ok(target)
}

fn a_folder(path: &Bytes) -> FileError {
    FileError::NotAFile { path: path.clone(), kind: "a folder".into() }
}

/// Puts the components on the stack, the first on top. `a/` is `a/.`, as for the kernel: it must be a
/// folder.
fn push_components(pending: &mut Vec<OsString>, path: &[u8]) {
    if path.last() == Some(&b'/') {
        pending.push(".".into());
    }
    let names = path.split(|byte| *byte == b'/').rev().filter(|name| !name.is_empty());
    pending.extend(names.map(|name| OsString::from_vec(name.to_vec())));
}

fn folder_flags() -> OFlag {
    OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
}

pub(super) fn joined(names: &[OsString]) -> Bytes {
    let mut path = Vec::new();
    for name in names {
        path.push(b'/');
        path.extend_from_slice(name.as_bytes());
    }
    Bytes(path)
}

impl Target {
    fn note_link(&mut self, name: OsString, pending: &[OsString]) -> Result<(), Errno> {
        let depth = self.names.len();
        let mut names = self.names.clone();
        names.push(name);
        for name in pending.iter().rev().filter(|name| *name != ".") {
            if name != ".." {
                names.push(name.clone());
            } else if names.len() > depth + 1 {
                names.pop();
            } else {
                // The path leaves again what the link leads to.
                return Ok(());
            }
        }
        let folder = self
            .deepest()
            .try_clone_to_owned()
            .map_err(|error| error.raw_os_error().map_or(Errno::EMFILE, Errno::from_raw))?;
        self.passed.push(PassedLink { names, depth, folder });
        Ok(())
    }

    /// The links that the path led through.
    pub(super) fn passed(&self) -> &[PassedLink] {
        &self.passed
    }

    /// The resolved path.
    pub(super) fn path(&self) -> Bytes {
        joined(&self.names)
    }

    /// Its components.
    pub(super) fn names(&self) -> &[OsString] {
        &self.names
    }

    /// The folder after this many components, if it exists.
    pub(super) fn folder(&self, components: usize) -> Option<BorrowedFd<'_>> {
        match components.checked_sub(1) {
            None => Some(self.root.as_fd()),
            Some(index) => self.folders.get(index).map(AsFd::as_fd),
        }
    }

    /// The file's own name.
    pub(super) fn leaf(&self) -> &OsStr {
        self.names.last().map_or(OsStr::new(""), OsString::as_os_str)
    }

    /// The deepest folder that exists: the file's own, unless folders are missing.
    pub(super) fn deepest(&self) -> BorrowedFd<'_> {
        self.folders.last().unwrap_or(&self.root).as_fd()
    }

    /// How many names lead to the deepest folder that exists.
    pub(super) fn depth(&self) -> usize {
        self.folders.len()
    }

    /// Whether it is a folder itself.
    pub(super) fn is_folder(&self) -> bool {
        self.names.len() == self.folders.len()
    }

    /// The file as it is now; `None` if it or its folder does not exist.
    pub(super) fn stat(&self) -> Result<Option<FileStat>, Errno> {
        if self.lacks_folders() {
            return Ok(None);
        }
        match fstatat(self.deepest(), self.leaf(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Makes the folders that are missing, 0777 but for the umask.
    pub(super) fn make_folders(&mut self) -> Result<(), FileError> {
        while self.lacks_folders() {
            let names = self.names.get(..=self.folders.len()).unwrap_or_default();
            let Some(name) = names.last() else { break };
            let os = |step| move |errno| fault::os(step, &joined(names), errno);
            match mkdirat(self.deepest(), name.as_os_str(), Mode::from_bits_truncate(0o777)) {
                Ok(()) => self.made += 1,
                // Somebody else made it in the meantime; if it is a link now, the open refuses it.
                Err(Errno::EEXIST) => self.made = 0,
                Err(errno) => return Err(os("make folder")(errno)),
            }
            let opened = openat(self.deepest(), name.as_os_str(), folder_flags(), Mode::empty())
                .map_err(os("open folder"))?;
            self.folders.push(opened);
        }
        Ok(())
    }

    /// Removes the folders that were made here, unless somebody put something in them already.
    pub(super) fn unmake_folders(&mut self) {
        while self.made > 0 {
            self.made -= 1;
            self.folders.pop();
            if let Some(name) = self.names.get(self.folders.len()) {
                let _ = unlinkat(self.deepest(), name.as_os_str(), UnlinkatFlags::RemoveDir);
            }
        }
    }

    fn lacks_folders(&self) -> bool {
        self.folders.len() + 1 < self.names.len()
    }
}
