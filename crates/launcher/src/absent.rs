//! Covers for what is to be absent: whoever asks for what they cover is told that it does not exist.
//!
//! A setting of a network namespace that has ended (proc_sys(5)) is a file, or a folder, that the kernel answers every question about with
//! `ENOENT`: there is nothing behind it any more. Mounted over what is hidden while that namespace still exists, it stays there.

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use stockade_sys::mount::{self, MountAttributes};
use stockade_sys::process::{self, Cloned, Namespaces, SingleThreaded};
use stockade_sys::socket;

/// Every network namespace has these, in the session's root below the host's tree.
const FILE: &str = "/host/proc/sys/net/ipv4/conf/lo/forwarding";
const FOLDER: &str = "/host/proc/sys/net/ipv4/conf/lo";

/// How long the namespace may take to end. What is seen until then, should it take longer, is a setting without meaning.
const PATIENCE: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_millis(1);

/// A file and a folder of a network namespace that a process holds.
pub struct AbsentCovers {
    file: OwnedFd,
    folder: OwnedFd,
    /// The process ends with it.
    holder: OwnedFd,
}

impl AbsentCovers {
    /// Starts the process. The caller must have no other child.
    pub fn make(proof: SingleThreaded) -> io::Result<Self> {
        let (ours, theirs) = socket::packet_pair()?;
        match process::clone_process(proof, Namespaces::NETWORK)? {
            Cloned::Child => {
                drop(ours);
                let _ = hold(&theirs);
                process::exit_now(0)
            }
            Cloned::Parent { .. } => {}
        }
        drop(theirs);
        let received = socket::receive_message(ours.as_fd(), 16)?;
        let fds = received.map(|(_, fds)| fds).unwrap_or_default();
        let [file, folder] = <[OwnedFd; 2]>::try_from(fds).map_err(|_| {
            io::Error::other("the settings of a network namespace cannot be opened")
        })?;
        Ok(Self { file, folder, holder: ours })
    }

    /// A cover, to be attached before [`AbsentCovers::expire`].
    pub fn cover(&self, is_folder: bool) -> Option<OwnedFd> {
        let of = if is_folder { &self.folder } else { &self.file };
        let cover = mount::clone_tree(of.as_fd(), c"").ok()?;
        // Neither read-only nor without execution: either would be an answer of its own, before the one that nothing is there.
        let quiet = MountAttributes::NO_SUID.and(MountAttributes::NO_DEV);
        mount::set_attributes(cover.as_fd(), quiet, true).ok()?;
        Some(cover)
    }

    /// Ends the namespace.
    pub fn expire(self) {
        drop(self.holder);
        let until = Instant::now() + PATIENCE;
        while mount::path_info(self.file.as_fd()).is_ok() && Instant::now() < until {
            process::reap();
            std::thread::sleep(INTERVAL);
        }
    }
}

/// Hands both over, and waits until nobody needs them.
fn hold(socket: &OwnedFd) -> io::Result<()> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let open = |path: &str| openat(nix::fcntl::AT_FDCWD, path, flags, Mode::empty());
    let (file, folder) = (open(FILE)?, open(FOLDER)?);
    socket::send_message(socket.as_fd(), b"x", &[file.as_fd(), folder.as_fd()])?;
    socket::receive_message(socket.as_fd(), 16).map(drop)
}
