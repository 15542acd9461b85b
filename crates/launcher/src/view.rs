//! The mount tree of a cell: an allowlist. What no step names does not exist inside.

use crate::absent::AbsentCovers;
use crate::listing::HiddenName;
use crate::server::failure;
use crate::session_root::{COVER_FILE, COVER_FOLDER, HOST, NEW_ROOT, folder_path};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, open, openat};
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmodat, mkdirat, mknodat, umask};
use nix::unistd::{fchdir, symlinkat};
use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use stockade_plan::{Bytes, FileIdentity, MountStep, ShownPath, Stage, StageFailure};
use stockade_sys::mount::{self, MountAttributes};
use stockade_sys::process::SingleThreaded;

const QUIET: MountAttributes = MountAttributes::NO_SUID.and(MountAttributes::NO_DEV);
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Makes the host's own tree the root (full access).
pub fn enter_host() -> Result<(), StageFailure> {
    std::env::set_current_dir(HOST)
        .and_then(|()| mount::pivot_into_working_directory())
        .map_err(|error| failure(Stage::PivotRoot, &error, Bytes::default()))
}

/// Attaches a /proc of the caller's pid namespace on top of whatever is at /proc. Async-signal-safe.
pub fn mount_proc(proc: BorrowedFd<'_>, read_only: bool) -> io::Result<()> {
    let mut attributes = QUIET.and(MountAttributes::NO_EXEC);
    if read_only {
        // Root's user id alone may write much below /proc/sys, without any capability.
        attributes = attributes.and(MountAttributes::READ_ONLY);
    }
    mount::set_attributes(proc, attributes, false)?;
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let place = openat(AT_FDCWD, c"/proc", flags, Mode::empty())?;
    mount::attach(proc, place.as_fd())
}

/// What /proc tells of the whole machine, to each user of his own keys, and to root's user id alone of memory page by page, addresses
/// and timers. No namespace makes it the call's own.
const KEYS: &CStr = c"keys";
const OF_THE_MACHINE: [&CStr; 10] = [
    c"kpagecount",
    c"kpageflags",
    c"kpagecgroup",
    c"vmallocinfo",
    c"slabinfo",
    c"timer_list",
    c"pagetypeinfo",
    c"iomem",
    c"ioports",
    c"kallsyms",
];

/// Puts an empty file over each of those in a /proc that is mounted, of which the caller would see something. Async-signal-safe.
pub fn mask_proc(proc: BorrowedFd<'_>) -> io::Result<()> {
    let of_the_machine: &[&CStr] =
        if nix::unistd::geteuid().is_root() { &OF_THE_MACHINE } else { &[] };
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let empty = openat(AT_FDCWD, c"/dev/null", flags, Mode::empty())?;
    for name in of_the_machine.iter().chain([&KEYS]) {
        match openat(proc, *name, flags, Mode::empty()) {
            Ok(file) => {
                let cover = mount::clone_tree(empty.as_fd(), c"")?;
                mount::attach(cover.as_fd(), file.as_fd())?;
            }
            // Kernels are built without one or the other.
            Err(Errno::ENOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// What became of a tree.
#[derive(Default)]
pub struct Built {
    /// The sources that did not exist any more.
    pub skipped: Vec<Bytes>,
    /// What listings leave out.
    pub hidden: Vec<HiddenName>,
}

/// Builds the tree and makes it the root.
pub fn build(proof: SingleThreaded, steps: &[MountStep]) -> Result<Built, StageFailure> {
    let at_root = |error: io::Error| failure(Stage::Mount, &error, "/");
    let old_mask = umask(Mode::empty());
    let absent = steps.iter().any(|step| matches!(step, MountStep::Hide { absent: true, .. }));
    // Where the kernel does not give them, an empty and closed file has to do.
    let absent = absent.then(|| AbsentCovers::make(proof).ok()).flatten();
    let view = View::new(absent).map_err(at_root)?;
    let mut skipped = Vec::new();
    for step in steps {
        match view.apply(step) {
            Ok(()) => {}
            Err(StepError::Skipped) => skipped.push(subject(step)),
            Err(StepError::Failed(error)) => {
                return Err(failure(Stage::Mount, &error, subject(step)));
            }
        }
    }
    umask(old_mask);
    // The root itself holds nothing but mount points: nobody needs to write there.
    mount::set_attributes(view.root.as_fd(), QUIET.and(MountAttributes::READ_ONLY), false)
        .map_err(at_root)?;
    fchdir(&view.root)
        .map_err(io::Error::from)
        .and_then(|()| mount::pivot_into_working_directory())
        .map_err(|error| failure(Stage::PivotRoot, &error, Bytes::default()))?;
    if let Some(absent) = view.absent {
        absent.expire();
    }
    Ok(Built { skipped, hidden: view.hidden.into_inner() })
}

fn subject(step: &MountStep) -> Bytes {
    match step {
        MountStep::Folder { target, .. }
        | MountStep::Symlink { target, .. }
        | MountStep::Session { target, .. }
        | MountStep::Pin { target }
        | MountStep::HideExcept { target, .. }
        | MountStep::Hide { target, .. } => target.clone(),
        MountStep::Bind { source, .. } => source.clone(),
        MountStep::Dev => "/dev".into(),
    }
}

enum StepError {
    Skipped,
    Failed(io::Error),
}

impl From<io::Error> for StepError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Errno> for StepError {
    fn from(error: Errno) -> Self {
        Self::Failed(error.into())
    }
}

struct View {
    /// The new root, as an `O_PATH` descriptor: every target is looked up beneath it, through no symbolic link.
    root: OwnedFd,
    host: OwnedFd,
    /// Folders of the new root that are known to exist.
    known: RefCell<HashSet<CString>>,
    /// What covers what is to be absent, if anything is.
    absent: Option<AbsentCovers>,
    hidden: RefCell<Vec<HiddenName>>,
}

fn folder(dir: BorrowedFd<'_>, path: &str) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(openat(dir, path, flags, Mode::empty())?)
}

fn relative(path: &Bytes) -> io::Result<CString> {
    let bytes = path.0.iter().copied().skip_while(|&b| b == b'/').collect::<Vec<_>>();
    Ok(CString::new(if bytes.is_empty() { vec![b'.'] } else { bytes })?)
}

impl View {
    fn new(absent: Option<AbsentCovers>) -> io::Result<Self> {
        let tmpfs =
            mount::new_filesystem(c"tmpfs", &[(c"mode", c"0755"), (c"size", c"1m")], QUIET)?;
        mount::attach(tmpfs.as_fd(), folder(AT_FDCWD, NEW_ROOT)?.as_fd())?;
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let host = open(HOST, flags, Mode::empty())?;
        Ok(Self {
            root: tmpfs,
            host,
            known: RefCell::default(),
            absent,
            hidden: RefCell::default(),
        })
    }

    fn apply(&self, step: &MountStep) -> Result<(), StepError> {
        match step {
            MountStep::Folder { target, mode } => {
                let path = self.make_folder(target)?;
                let mode = Mode::from_bits_truncate(*mode);
                Ok(fchmodat(&self.root, path.as_c_str(), mode, FchmodatFlags::FollowSymlink)?)
            }
            MountStep::Symlink { target, to } => {
                let path = relative(target)?;
                self.make_parents(&path)?;
                match symlinkat(to.as_path(), &self.root, path.as_c_str()) {
                    Ok(()) | Err(Errno::EEXIST) => Ok(()),
                    Err(error) => Err(error.into()),
                }
            }
            MountStep::Bind { source, target, writable, identity } => {
                self.bind(source, target, *writable, identity.as_ref())
            }
            MountStep::Session { folder, target } => {
                let source = self::folder(AT_FDCWD, folder_path(*folder))?;
                let tree = mount::clone_tree(source.as_fd(), c"")?;
                mount::set_attributes(tree.as_fd(), QUIET, true)?;
                let path = self.make_folder(target)?;
                Ok(self.attach(&tree, &path)?)
            }
            MountStep::Dev => Ok(self.dev()?),
            MountStep::Pin { target } => Ok(self.pin(target)?),
            MountStep::HideExcept { target, shown } => self.hide_except(target, shown),
            MountStep::Hide { target, absent } => self.hide(target, *absent),
        }
    }

    fn bind(
        &self,
        source: &Bytes,
        target: &Bytes,
        writable: bool,
        identity: Option<&FileIdentity>,
    ) -> Result<(), StepError> {
        let found = match mount::open_path_beneath(self.host.as_fd(), &relative(source)?) {
            Ok(found) => found,
            // A read root may come and go; a writable one, or one whose identity is known, may not.
            Err(error) if error.kind() == io::ErrorKind::NotFound && identity.is_none() => {
                return Err(StepError::Skipped);
            }
            Err(error) => return Err(error.into()),
        };
        let info = mount::path_info(found.as_fd())?;
        let now = FileIdentity { device: info.device, inode: info.inode };
        if identity.is_some_and(|then| *then != now) {
            let text =
                "it is not the file or folder any more that was there when the policy was resolved";
            return Err(StepError::Failed(io::Error::other(text)));
        }
        let tree = mount::clone_tree(found.as_fd(), c"")?;
        let attributes = if writable { QUIET } else { QUIET.and(MountAttributes::READ_ONLY) };
        mount::set_attributes(tree.as_fd(), attributes, true)?;
        let path = if info.is_folder { self.make_point(target)? } else { self.make_file(target)? };
        Ok(self.attach(&tree, &path)?)
    }

    fn attach(&self, tree: &OwnedFd, path: &CStr) -> io::Result<()> {
        let target = mount::open_path_beneath(self.root.as_fd(), path)?;
        mount::attach(tree.as_fd(), target.as_fd())
    }

    fn make_parents(&self, path: &CStr) -> io::Result<()> {
        let bytes = path.to_bytes();
        for (at, _) in bytes.iter().enumerate().filter(|&(_, &byte)| byte == b'/') {
            self.make_one_folder(&CString::new(&bytes[..at])?)?;
        }
        Ok(())
    }

    fn make_one_folder(&self, path: &CStr) -> io::Result<()> {
        if self.known.borrow().contains(path) {
            return Ok(());
        }
        // Made first and looked at only if something is there, since most of them are new.
        match mkdirat(&self.root, path, Mode::from_bits_truncate(0o755)) {
            Ok(()) => {}
            Err(Errno::EEXIST) => mount::open_path_beneath(self.root.as_fd(), path).map(drop)?,
            Err(error) => return Err(error.into()),
        }
        self.known.borrow_mut().insert(path.to_owned());
        Ok(())
    }

    fn make_folder(&self, target: &Bytes) -> io::Result<CString> {
        let path = relative(target)?;
        self.make_parents(&path)?;
        self.make_one_folder(&path)?;
        Ok(path)
    }

    /// Where a folder of the host is to be. Nobody may write to it: in a session's own /tmp it outlives a call's grant, and what a later call
    /// writes there would seem to have gone where the grant was for.
    fn make_point(&self, target: &Bytes) -> io::Result<CString> {
        let path = relative(target)?;
        self.make_parents(&path)?;
        if !self.known.borrow().contains(&path) {
            match mkdirat(&self.root, path.as_c_str(), Mode::from_bits_truncate(0o555)) {
                Ok(()) => {}
                Err(Errno::EEXIST) => {
                    mount::open_path_beneath(self.root.as_fd(), &path).map(drop)?;
                }
                Err(error) => return Err(error.into()),
            }
            self.known.borrow_mut().insert(path.clone());
        }
        Ok(path)
    }

    fn make_file(&self, target: &Bytes) -> io::Result<CString> {
        let path = relative(target)?;
        self.make_parents(&path)?;
        let mode = Mode::from_bits_truncate(0o444);
        match mknodat(&self.root, path.as_c_str(), SFlag::S_IFREG, mode, 0) {
            Ok(()) | Err(Errno::EEXIST) => Ok(path),
            Err(error) => Err(error.into()),
        }
    }

    fn pin(&self, target: &Bytes) -> io::Result<()> {
        let path = match self.make_folder(target) {
            Ok(path) => path,
            // A link lies on the way: what it leads to is named by itself.
            Err(error) if error.raw_os_error() == Some(Errno::ELOOP as i32) => return Ok(()),
            Err(error) => return Err(error),
        };
        let folder = mount::open_path_beneath(self.root.as_fd(), &path)?;
        if mount::path_info(folder.as_fd())?.is_mount_root {
            return Ok(());
        }
        let tree = mount::clone_tree(folder.as_fd(), c"")?;
        mount::attach(tree.as_fd(), folder.as_fd())
    }

    fn hide(&self, target: &Bytes, absent: bool) -> Result<(), StepError> {
        let path = relative(target)?;
        let found = match mount::open_path_beneath(self.root.as_fd(), &path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // ELOOP: a link leads there; the runtime names the place that it leads to as well.
            Err(error) if error.raw_os_error() == Some(Errno::ELOOP as i32) => return Ok(()),
            // ENOTDIR: a file lies where a folder would have to.
            Err(error) if error.raw_os_error() == Some(Errno::ENOTDIR as i32) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let is_folder = mount::path_info(found.as_fd())?.is_folder;
        if absent {
            self.note_hidden(&path)?;
            if let Some(cover) = self.absent.as_ref().and_then(|absent| absent.cover(is_folder)) {
                return Ok(mount::attach(cover.as_fd(), found.as_fd())?);
            }
        }
        let cover = if is_folder { COVER_FOLDER } else { COVER_FILE };
        let cover = openat(AT_FDCWD, cover, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
        let cover = mount::clone_tree(cover.as_fd(), c"")?;
        let attributes = QUIET.and(MountAttributes::NO_EXEC).and(MountAttributes::READ_ONLY);
        mount::set_attributes(cover.as_fd(), attributes, true)?;
        Ok(mount::attach(cover.as_fd(), found.as_fd())?)
    }

    /// What listings of its folder leave out.
    fn note_hidden(&self, path: &CStr) -> io::Result<()> {
        let bytes = path.to_bytes();
        let at = bytes.iter().rposition(|byte| *byte == b'/');
        let (folder, name) = match at {
            Some(at) => (CString::new(&bytes[..at])?, &bytes[at + 1..]),
            None => (c".".to_owned(), bytes),
        };
        let folder = mount::open_path_beneath(self.root.as_fd(), &folder)?;
        let info = mount::path_info(folder.as_fd())?;
        let folder = FileIdentity { device: info.device, inode: info.inode };
        self.hidden.borrow_mut().push(HiddenName { folder, name: name.to_vec() });
        Ok(())
    }

    fn hide_except(&self, target: &Bytes, shown: &[ShownPath]) -> Result<(), StepError> {
        let path = relative(target)?;
        match mount::open_path_beneath(self.root.as_fd(), &path) {
            Ok(found) if mount::path_info(found.as_fd())?.is_folder => {}
            // A link, or no folder any more: there is nothing to be shown in it.
            _ => return self.hide(target, false),
        }
        let cover =
            mount::new_filesystem(c"tmpfs", &[(c"mode", c"0555"), (c"size", c"64k")], QUIET)?;
        self.attach(&cover, &path)?;
        // What was known to exist there is covered now.
        self.known.borrow_mut().retain(|known| !known.to_bytes().starts_with(path.to_bytes()));
        for ShownPath { source, writable, identity } in shown {
            match self.bind(source, source, *writable, identity.as_ref()) {
                Ok(()) | Err(StepError::Skipped) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(mount::set_attributes(cover.as_fd(), QUIET.and(MountAttributes::READ_ONLY), false)?)
    }

    fn dev(&self) -> io::Result<()> {
        let dev = mount::new_filesystem(
            c"tmpfs",
            &[(c"mode", c"0755"), (c"size", c"64k")],
            MountAttributes::NO_SUID.and(MountAttributes::NO_EXEC),
        )?;
        for name in DEVICES {
            mknodat(&dev, name, SFlag::S_IFREG, Mode::from_bits_truncate(0o444), 0)?;
        }
        for name in ["pts", "shm"] {
            mkdirat(&dev, name, Mode::from_bits_truncate(0o755))?;
        }
        for (name, to) in [
            ("ptmx", "pts/ptmx"),
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
        ] {
            symlinkat(to, &dev, name)?;
        }
        let path = self.make_folder(&"/dev".into())?;
        self.attach(&dev, &path)?;
        for name in DEVICES {
            let device = CString::new(format!("dev/{name}"))?;
            let tree = mount::clone_tree(self.host.as_fd(), &device)?;
            // The node is the host's own, and root's user id alone may change its mode. Devices can be written to all the same.
            let attributes = MountAttributes::NO_SUID
                .and(MountAttributes::NO_EXEC)
                .and(MountAttributes::READ_ONLY);
            mount::set_attributes(tree.as_fd(), attributes, true)?;
            self.attach(&tree, &device)?;
        }
        let quiet = MountAttributes::NO_SUID.and(MountAttributes::NO_EXEC);
        let pts = mount::new_filesystem(
            c"devpts",
            &[(c"newinstance", c""), (c"ptmxmode", c"0666"), (c"mode", c"0620")],
            quiet,
        )?;
        self.attach(&pts, c"dev/pts")?;
        let shm = folder(AT_FDCWD, folder_path(stockade_plan::SessionFolder::Shm))?;
        let shm = mount::clone_tree(shm.as_fd(), c"")?;
        mount::set_attributes(shm.as_fd(), QUIET, true)?;
        self.attach(&shm, c"dev/shm")?;
        mount::set_attributes(dev.as_fd(), quiet.and(MountAttributes::READ_ONLY), false)
    }
}
