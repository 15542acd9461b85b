//! A cgroup for each call where no pid namespace ends its processes (cgroups(7), version 2): a process cannot leave it, since it may
//! write nothing there, and `cgroup.kill` ends all of it at once, however fast it forks. No controller is needed for that.

use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, UnlinkatFlags, unlinkat};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use stockade_sys::process::{self, SingleThreaded};
use stockade_sys::{cgroup, fd};

/// What a cell's cgroup is called, before its process number.
const PREFIX: &str = "stockade-";

/// The number of no call.
const TRIAL: u64 = u64::MAX;

const FOLDER: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
const WRITING: OFlag = OFlag::O_WRONLY.union(OFlag::O_CLOEXEC);

/// A cell's cgroup, in which its calls have theirs.
pub struct CellGroup {
    home: OwnedFd,
    name: PathBuf,
}

/// A call's cgroup, as its init holds it.
pub struct CallGroup {
    procs: OwnedFd,
    kill: OwnedFd,
}

impl CellGroup {
    /// Makes one, if that can be done and a process can enter it. What cells that were killed have left behind is removed.
    pub fn make(proof: SingleThreaded) -> Option<Self> {
        let home_path = cgroup::own()?;
        remove_stale(&home_path);
        let home = open(&home_path, FOLDER, Mode::empty()).ok()?;
        let name = PathBuf::from(format!("{PREFIX}{}", process::own_and_parent_pid().0));
        mkdirat(&home, &name, Mode::from_bits_truncate(0o755)).ok()?;
        let group = Self { home, name };
        let trial = group.for_call(TRIAL).ok()?;
        // It takes more rights than can be asked for: of the cgroup above both as well.
        let entered = match process::fork(proof) {
            Ok(None) => process::exit_now(i32::from(trial.enter().is_err())),
            Ok(Some(pid)) => {
                waitpid(Pid::from_raw(pid), None) == Ok(WaitStatus::Exited(Pid::from_raw(pid), 0))
            }
            Err(_) => false,
        };
        group.ended(TRIAL);
        // Dropped, it removes what it has made.
        entered.then_some(group)
    }

    /// The cgroup of a call, by its number.
    pub fn for_call(&self, id: u64) -> io::Result<CallGroup> {
        let folder = self.call(id);
        mkdirat(&self.home, &folder, Mode::from_bits_truncate(0o755))?;
        let folder = openat(&self.home, &folder, FOLDER, Mode::empty())?;
        Ok(CallGroup {
            procs: openat(&folder, c"cgroup.procs", WRITING, Mode::empty())?,
            kill: openat(&folder, c"cgroup.kill", WRITING, Mode::empty())?,
        })
    }

    /// A call has ended. Whatever were left of it, since its init was killed, ends now.
    pub fn ended(&self, id: u64) {
        let folder = self.call(id);
        if let Ok(kill) = openat(&self.home, &folder.join("cgroup.kill"), WRITING, Mode::empty()) {
            let _ = fd::write_once(kill.as_fd(), b"1");
        }
        let _ = unlinkat(&self.home, &folder, UnlinkatFlags::RemoveDir);
    }

    fn call(&self, id: u64) -> PathBuf {
        self.name.join(id.to_string())
    }
}

impl Drop for CellGroup {
    fn drop(&mut self) {
        let _ = unlinkat(&self.home, &self.name, UnlinkatFlags::RemoveDir);
    }
}

impl CallGroup {
    /// Puts the calling process in. Async-signal-safe.
    pub fn enter(&self) -> io::Result<()> {
        fd::write_once(self.procs.as_fd(), b"0")
    }

    /// SIGKILL to all that is in it. Async-signal-safe.
    pub fn kill(&self) {
        let _ = fd::write_once(self.kill.as_fd(), b"1");
    }

    /// What it takes to enter, and to kill.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.procs.as_fd(), self.kill.as_fd()]
    }
}

/// Removes the cgroups of cells that are no more. Those of others that run are not empty, or their process is there.
fn remove_stale(home: &Path) -> Vec<PathBuf> {
    let mut stale = Vec::new();
    let Ok(entries) = fs::read_dir(home) else { return stale };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        if pid.parse::<u32>().is_err() || Path::new("/proc").join(pid).exists() {
            continue;
        }
        for call in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
            // Its files are the kernel's, and go with it.
            let _ = fs::remove_dir(call.path());
        }
        let _ = fs::remove_dir(entry.path());
        stale.push(entry.path());
    }
    stale
}

/// The same below this process's own cgroup; which there were.
pub fn remove_stale_of_own() -> Vec<PathBuf> {
    cgroup::own().map(|home| remove_stale(&home)).unwrap_or_default()
}
