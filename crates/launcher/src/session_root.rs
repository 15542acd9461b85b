//! The session's root: a file system in memory that holds the session's own folders, with the host's whole tree below `/host`,
//! from where cells take what their policy names.

use crate::server::failure;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, mkdirat, mknodat, umask};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use stockade_plan::{Bytes, SessionFolder, Stage, StageFailure};
use stockade_sys::mount::{self, MountAttributes};
use stockade_sys::process::{self, Namespaces};

/// Where the host's tree lies in the session's root.
pub const HOST: &str = "/host";

/// Where cells build their own root.
pub const NEW_ROOT: &str = "/cell";

/// An empty file and an empty folder without any permission: what is hidden is covered by a copy of one of them. They exist once,
/// since taking a file system for each away again would cost more than all the rest of a cell.
pub const COVER_FILE: &str = "/cover-file";
/// See [`COVER_FILE`].
pub const COVER_FOLDER: &str = "/cover-folder";

/// Where a folder of the session lies in the session's root.
pub fn folder_path(folder: SessionFolder) -> &'static str {
    match folder {
        SessionFolder::Tmp => "/tmp",
        SessionFolder::VarTmp => "/var-tmp",
        SessionFolder::Home => "/home",
        SessionFolder::Shm => "/shm",
    }
}

/// Builds the session's root and moves the calling process into it, in a mount namespace of its own.
pub fn open() -> Result<(), StageFailure> {
    process::unshare(Namespaces::MOUNT)
        .map_err(|error| failure(Stage::SessionRoot, &error, Bytes::default()))?;
    open_in_own_namespace()
}

/// The same, for a process that has its own mount namespace already.
pub fn open_in_own_namespace() -> Result<(), StageFailure> {
    build().map_err(|error| failure(Stage::SessionRoot, &error, Bytes::default()))?;
    // From here on nobody of the same user may look into this process or its children. Not earlier: the runtime has to write
    // the maps of the user namespace, and the kernel gives the files of a process that cannot be dumped to root.
    process::set_not_dumpable()
        .map_err(|error| failure(Stage::SessionRoot, &error, Bytes::default()))
}

fn build() -> io::Result<()> {
    mount::make_private()?;
    let attributes = MountAttributes::NO_SUID.and(MountAttributes::NO_DEV);
    // A quarter of the memory: what calls leave in /tmp must not be able to fill the machine.
    let root =
        mount::new_filesystem(c"tmpfs", &[(c"mode", c"0755"), (c"size", c"25%")], attributes)?;
    let old_mask = umask(Mode::empty());
    for (folder, mode) in [
        (SessionFolder::Tmp, 0o1777),
        (SessionFolder::VarTmp, 0o1777),
        (SessionFolder::Home, 0o700),
        (SessionFolder::Shm, 0o1777),
    ] {
        mkdir(&root, folder_path(folder), mode)?;
    }
    mkdir(&root, HOST, 0o755)?;
    mkdir(&root, NEW_ROOT, 0o755)?;
    mkdir(&root, COVER_FOLDER, 0)?;
    mknodat(&root, COVER_FILE.trim_start_matches('/'), SFlag::S_IFREG, Mode::empty(), 0)?;
    umask(old_mask);
    // It has to be attached somewhere before it can become the root, and leaves that place by doing so: any folder will do.
    let place = ["/usr", "/etc", "/var", "/tmp"]
        .iter()
        .find_map(|path| {
            let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            openat(AT_FDCWD, *path, flags, Mode::empty()).ok()
        })
        .ok_or_else(|| io::Error::other("found no folder to attach the session's root to"))?;
    mount::attach(root.as_fd(), place.as_fd())?;
    nix::unistd::fchdir(&root)?;
    mount::pivot_root(c".", c"host")?;
    std::env::set_current_dir("/")
}

fn mkdir(root: &OwnedFd, path: &str, mode: u32) -> io::Result<()> {
    Ok(mkdirat(root, path.trim_start_matches('/'), Mode::from_bits_truncate(mode))?)
}
