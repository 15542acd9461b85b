//! Protected paths (spec 5.4): what exists of them is made read-only, and the folders on the way to it are made mount points, so that
//! neither can be renamed, removed or replaced.

use crate::server::failure;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use stockade_plan::{ProtectedPath, Stage, StageFailure};
use stockade_sys::mount::{self, MountAttributes};

/// Protects what exists now. Called again before each call, for what has come to exist since: what is a mount point already is
/// left as it is, so a second time costs a look-up for each path.
pub fn protect(paths: &[ProtectedPath]) -> Result<(), StageFailure> {
    if paths.is_empty() {
        return Ok(());
    }
    let root = nix::fcntl::open(
        "/",
        nix::fcntl::OFlag::O_PATH | nix::fcntl::OFlag::O_CLOEXEC,
        nix::sys::stat::Mode::empty(),
    )
    .map_err(|error| failure(Stage::Protect, &error.into(), "/"))?;
    for path in paths {
        protect_one(&root, path).map_err(|error| {
            let mut subject = path.root.clone();
            subject.0.push(b'/');
            subject.0.extend_from_slice(&path.relative.0);
            failure(Stage::Protect, &error, subject)
        })?;
    }
    Ok(())
}

fn protect_one(root: &OwnedFd, path: &ProtectedPath) -> io::Result<()> {
    let components: Vec<&[u8]> =
        path.relative.0.split(|&b| b == b'/').filter(|c| !c.is_empty()).collect();
    let mut so_far = path.root.0.clone();
    for (index, component) in components.iter().enumerate() {
        so_far.push(b'/');
        so_far.extend_from_slice(component);
        let last = index + 1 == components.len();
        // Links are followed: what is protected is what a program outside would find there.
        let found = match mount::open_path_in_root(root.as_fd(), &CString::new(so_far.clone())?) {
            Ok(found) => found,
            // Absent, or a dangling or circular link: nothing to protect yet.
            Err(_) => return Ok(()),
        };
        let info = mount::path_info(found.as_fd())?;
        if info.is_mount_root {
            continue;
        }
        if !last && !info.is_folder {
            // A linked worktree's `.git` is a file.
            return Ok(());
        }
        let tree = mount::clone_tree(found.as_fd(), c"")?;
        if last {
            mount::set_attributes(tree.as_fd(), MountAttributes::READ_ONLY, true)?;
        }
        mount::attach(tree.as_fd(), found.as_fd())?;
    }
    Ok(())
}
