//! A cgroup for each call (cgroups(7), version 2): a process cannot leave it, since it may write nothing there, and `cgroup.kill` ends
//! all of it at once, however fast it forks. Where the runtime was delegated controllers, it has limits, in every tier. Without them
//! it is made where no pid namespace ends the processes, for its end alone.

use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, UnlinkatFlags, unlinkat};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use stockade_plan::CommandPlan;
use stockade_sys::cgroup::PREFIX;
use stockade_sys::process::{self, SingleThreaded};
use stockade_sys::{cgroup, fd};

pub use stockade_sys::cgroup::remove_stale_of_own;

/// The number of no call.
const TRIAL: u64 = u64::MAX;

const FOLDER: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
const READING: OFlag = OFlag::O_RDONLY.union(OFlag::O_CLOEXEC);
const WRITING: OFlag = OFlag::O_WRONLY.union(OFlag::O_CLOEXEC);

/// A cell's cgroup, in which its calls have theirs.
pub struct CellGroup {
    folder: OwnedFd,
    name: PathBuf,
}

/// A call's cgroup, as its init holds it.
pub struct CallGroup {
    folder: OwnedFd,
    procs: OwnedFd,
    /// From Linux 5.14 on.
    kill: Option<OwnedFd>,
    /// It has a `memory.max`.
    pub bounds_memory: bool,
    /// It has a `pids.max`.
    pub bounds_pids: bool,
}

impl CellGroup {
    /// The one that the runtime has made, by its folder and its name. It goes with this.
    pub fn given(folder: OwnedFd, name: &Path) -> Self {
        Self { folder, name: name.to_owned() }
    }

    /// Makes one without limits, if that can be done and a process can enter it. What cells that were killed have left behind is removed.
    pub fn make(proof: SingleThreaded) -> Option<Self> {
        let home_path = cgroup::own()?;
        cgroup::remove_stale(&home_path);
        let home = open(&home_path, FOLDER, Mode::empty()).ok()?;
        let name = PathBuf::from(format!("{PREFIX}{}", process::own_and_parent_pid().0));
        mkdirat(&home, &name, Mode::from_bits_truncate(0o755)).ok()?;
        let folder = openat(&home, &name, FOLDER, Mode::empty()).ok()?;
        let group = Self { folder, name };
        let trial = group.make_call(TRIAL).ok().filter(|trial| trial.kill.is_some())?;
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

    /// The cgroup of a call, with the limits that its plan has for it.
    pub fn for_call(&self, plan: &CommandPlan) -> io::Result<CallGroup> {
        let mut call = self.make_call(plan.id)?;
        if let Some(bytes) = plan.memory_max {
            call.set(c"memory.max", bytes)?;
            // What would go to the swap is over the limit. Without a swap there is no such file.
            match call.set(c"memory.swap.max", 0) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                set => set?,
            }
            // A call that loses a process at random is no result that anybody could judge.
            call.set(c"memory.oom.group", 1)?;
            call.bounds_memory = true;
        }
        if let Some(processes) = plan.pids_max {
            call.set(c"pids.max", processes)?;
            call.bounds_pids = true;
        }
        Ok(call)
    }

    fn make_call(&self, id: u64) -> io::Result<CallGroup> {
        let name = call_name(id);
        mkdirat(&self.folder, &name, Mode::from_bits_truncate(0o755))?;
        let folder = openat(&self.folder, &name, FOLDER, Mode::empty())?;
        Ok(CallGroup {
            procs: openat(&folder, c"cgroup.procs", WRITING, Mode::empty())?,
            kill: openat(&folder, c"cgroup.kill", WRITING, Mode::empty()).ok(),
            folder,
            bounds_memory: false,
            bounds_pids: false,
        })
    }

    /// A call has ended. Whatever were left of it, since its init was killed, ends now.
    pub fn ended(&self, id: u64) {
        let call = call_name(id);
        let kill = call.join("cgroup.kill");
        if let Ok(kill) = openat(&self.folder, &kill, WRITING, Mode::empty()) {
            let _ = fd::write_once(kill.as_fd(), b"1");
        }
        let _ = unlinkat(&self.folder, &call, UnlinkatFlags::RemoveDir);
    }
}

impl Drop for CellGroup {
    fn drop(&mut self) {
        let own = Path::new("..").join(&self.name);
        let _ = unlinkat(&self.folder, &own, UnlinkatFlags::RemoveDir);
    }
}

fn call_name(id: u64) -> PathBuf {
    PathBuf::from(id.to_string())
}

impl CallGroup {
    fn set(&self, file: &CStr, value: u64) -> io::Result<()> {
        let file = openat(&self.folder, file, WRITING, Mode::empty())?;
        fd::write_once(file.as_fd(), value.to_string().as_bytes())
    }

    /// Puts the calling process in. Async-signal-safe.
    pub fn enter(&self) -> io::Result<()> {
        fd::write_once(self.procs.as_fd(), b"0")
    }

    /// SIGKILL to all that is in it. Async-signal-safe.
    pub fn kill(&self) {
        if let Some(kill) = &self.kill {
            let _ = fd::write_once(kill.as_fd(), b"1");
        }
    }

    /// Its folder, by which a child can be born in it.
    pub fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// What it takes to be born in it, to enter it, and to kill.
    pub fn descriptors(&self) -> [Option<BorrowedFd<'_>>; 3] {
        [Some(self.folder.as_fd()), Some(self.procs.as_fd()), self.kill.as_ref().map(AsFd::as_fd)]
    }

    /// Whether the kernel has killed it for its memory. Async-signal-safe, as what follows.
    pub fn memory_exceeded(&self) -> bool {
        self.bounds_memory && self.counted(c"memory.events", b"oom_kill ").is_some_and(|n| n > 0)
    }

    /// Whether a fork was refused, since it had as many processes as it may.
    pub fn pids_met(&self) -> bool {
        self.bounds_pids && self.counted(c"pids.events", b"max ").is_some_and(|n| n > 0)
    }

    /// The most memory that it had at one time, in bytes, what of files is cached for it included; from Linux 5.19 on.
    pub fn memory_peak(&self) -> Option<u64> {
        self.bounds_memory.then(|| self.counted(c"memory.peak", b"")).flatten()
    }

    fn counted(&self, file: &CStr, key: &[u8]) -> Option<u64> {
        let file = openat(&self.folder, file, READING, Mode::empty()).ok()?;
        let mut buffer = [0u8; 512];
        let read = nix::unistd::read(file.as_fd(), &mut buffer).ok()?;
        value(buffer.get(..read)?, key)
    }
}

/// The number in the line that begins with `key`.
fn value(text: &[u8], key: &[u8]) -> Option<u64> {
    let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(key))?;
    let add = |value: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    };
    (!line.is_empty()).then(|| line.iter().try_fold(0, add))?
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 6.4
    #[test]
    fn what_the_kernel_counted_is_read_by_its_whole_name() {
        let events = b"low 0\nhigh 0\nmax 61\noom 1\noom_kill 3\noom_group_kill 1\n";
        assert_eq!(value(events, b"oom_kill "), Some(3));
        assert_eq!(value(events, b"max "), Some(61));
        assert_eq!(value(events, b"swap "), None);
        assert_eq!(value(b"4096\n", b""), Some(4096));
        assert_eq!(value(b"max\n", b""), None);
        assert_eq!(value(b"99999999999999999999\n", b""), None);
        assert_eq!(value(b"", b""), None);
    }

    // spec 6.4: on folders that only look like cgroups; what a kernel does is shown by `scripts/kernels`
    #[test]
    fn a_call_is_judged_by_what_its_own_cgroup_says_of_the_limits_that_it_has() {
        let home = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("cgroup.procs", ""),
            ("memory.events", "oom 1\noom_kill 2\n"),
            ("pids.events", "max 0\n"),
            ("memory.peak", "8192\n"),
        ] {
            std::fs::write(home.path().join(file), text).unwrap();
        }
        let folder = open(home.path(), FOLDER, Mode::empty()).unwrap();
        let procs = openat(&folder, c"cgroup.procs", WRITING, Mode::empty()).unwrap();
        let mut call =
            CallGroup { folder, procs, kill: None, bounds_memory: true, bounds_pids: true };
        assert!(call.memory_exceeded());
        assert!(!call.pids_met(), "none was refused");
        assert_eq!(call.memory_peak(), Some(8192));
        std::fs::write(home.path().join("pids.events"), "max 7\n").unwrap();
        assert!(call.pids_met());
        (call.bounds_memory, call.bounds_pids) = (false, false);
        assert!(!call.memory_exceeded() && !call.pids_met());
        assert_eq!(call.memory_peak(), None, "it counts what no limit holds");
    }
}
