//! All processes of a call, and how they are signalled. In a pid namespace the kernel knows them, and ends them with their init.
//! Without one this is the best effort: the init is a subreaper, so what its descendants leave behind becomes its child, and
//! the tree is swept until nothing is left. What forks faster than a sweep sees it gets its signal by the next one. No heap.

use crate::cgroup::CallGroup;
use crate::hunt::Hunt;
use crate::memory::last_pid;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use stockade_sys::process;

/// The most descendants that one sweep signals; the next one finds the others.
const SWEEP_MAX: usize = 16 * 1024;

/// How often more is looked for that was forked before its parent was stopped.
const AGAIN: usize = 4;

/// The most processes that are asked one by one whether they are ending: each takes some ten microseconds.
const ASKED_MAX: u32 = 64;

/// include/linux/sched.h: the process is past all of its own code, and lets go of what it holds.
const PF_EXITING: u64 = 0x4;

/// How a call's processes are found.
pub enum Tree<'a> {
    /// They are those of the caller's pid namespace, whose /proc this is.
    Namespace(OwnedFd),
    /// They descend from the caller; the /proc is the host's. With a cgroup, none of them outruns the end.
    Descendants(OwnedFd, Option<&'a CallGroup>),
}

impl Tree<'_> {
    /// The /proc that shows the tree and nothing else, if there is one.
    pub fn own_proc(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Namespace(proc) => Some(proc.as_fd()),
            Self::Descendants(..) => None,
        }
    }

    /// Its /proc, whatever else that shows.
    pub fn proc(&self) -> BorrowedFd<'_> {
        match self {
            Self::Namespace(proc) | Self::Descendants(proc, _) => proc.as_fd(),
        }
    }

    /// Signals every process of the tree but the caller.
    pub fn signal(&self, signal: i32) {
        match self {
            Self::Namespace(_) => process::kill_all(signal),
            Self::Descendants(proc, group) => {
                if let Some(group) = group.filter(|_| signal == nix::libc::SIGKILL) {
                    group.kill();
                }
                Found::descendants(proc.as_fd()).each(|pid| process::kill_one(pid, signal));
            }
        }
    }

    /// How many processes it has but for the caller. Those that are ending already are no others, as far as it can be asked of each.
    pub fn others(&self) -> u32 {
        match self {
            Self::Namespace(proc) => {
                let (mut all, mut ending) = (0u32, 0u32);
                process::each_in_proc(proc.as_fd(), &mut |name| {
                    if name == c"1" {
                        return;
                    }
                    all += 1;
                    let is_ending = || Stat::of(proc.as_fd(), name).is_none_or(|s| s.is_ending);
                    if all <= ASKED_MAX && is_ending() {
                        ending += 1;
                    }
                });
                all - ending
            }
            Self::Descendants(proc, _) => Found::descendants(proc.as_fd()).length as u32,
        }
    }

    /// SIGTERM to every process of the tree but the caller, with SIGCONT, so that stopped ones hear it. To how many.
    pub fn terminate(&self) -> u32 {
        match self {
            Self::Namespace(_) => {
                let processes = self.others();
                process::kill_all(nix::libc::SIGTERM);
                process::kill_all(nix::libc::SIGCONT);
                processes
            }
            Self::Descendants(proc, _) => terminate_descendants(proc.as_fd()),
        }
    }

    /// SIGKILL once more, to what the last time did not reach. True if there were others than then.
    pub fn hunt(&self, hunt: &mut Hunt) -> bool {
        hunt.round(self.proc(), &|_| false, &|| self.signal(nix::libc::SIGKILL))
    }

    /// Whether a SIGKILL of ours may miss a process: nothing but who descends from whom says which they are.
    pub fn is_best_effort(&self) -> bool {
        matches!(self, Self::Descendants(_, None))
    }

    /// Whether the kernel ends the tree with the caller.
    pub fn ends_with_caller(&self) -> bool {
        matches!(self, Self::Namespace(_))
    }
}

/// As kill(2) to all of a namespace is: to every process that is there at one moment, once, and to none that is started at the
/// signal, which is somebody's way to tidy up. So all are stopped before the first of them hears anything.
#[inline(never)] // as `Found::descendants`
fn terminate_descendants(proc: BorrowedFd<'_>) -> u32 {
    let stop = |pid| process::kill_one(pid, nix::libc::SIGSTOP);
    let mut reached = Found::descendants(proc);
    reached.each(stop);
    for _ in 0..AGAIN {
        let before = reached.length;
        Found::descendants(proc).each(|pid| {
            if !reached.has(pid) {
                stop(pid);
                reached.add(pid);
            }
        });
        if reached.length == before {
            break;
        }
    }
    reached.each(|pid| process::kill_one(pid, nix::libc::SIGTERM));
    reached.each(|pid| process::kill_one(pid, nix::libc::SIGCONT));
    reached.length as u32
}

/// The host's /proc.
pub fn host_proc() -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(nix::fcntl::open(c"/proc", flags, Mode::empty())?)
}

/// SIGKILL to every child of the caller that is not one of `known`, and to all that descends from those.
pub fn kill_strays(proc: BorrowedFd<'_>, known: &dyn Fn(i32) -> bool) {
    Hunt::rounds(proc, known, &|| sweep_strays(proc, known));
}

#[inline(never)] // as `Found::descendants`
fn sweep_strays(proc: BorrowedFd<'_>, known: &dyn Fn(i32) -> bool) {
    let own = process::own_and_parent_pid().0;
    let strays = Seen::read(proc).with_descendants(&|pid, parent| parent == own && !known(pid));
    strays.each(|pid| process::kill_one(pid, nix::libc::SIGKILL));
}

/// Some of the processes that a /proc shows, found by one reading of it: a tree that grows while it is read level by level is never
/// read to its end.
struct Found {
    pids: [i32; SWEEP_MAX],
    length: usize,
}

/// The most processes that are looked at; a host has seldom more, and what is missed once is found by the next sweep.
const SEEN_MAX: usize = 16 * 1024;

/// Every process that lives, in ascending order, as /proc lists them, with its parent, and whether it is one of those that are looked
/// for.
struct Seen {
    list: [(i32, i32, bool); SEEN_MAX],
    length: usize,
}

impl Seen {
    fn read(proc: BorrowedFd<'_>) -> Self {
        let mut seen = Self { list: [(0, 0, false); SEEN_MAX], length: 0 };
        let mut newer = Newer::than_now(proc);
        process::each_in_proc(proc, &mut |name| {
            if newer.has(name, proc) {
                return;
            }
            if let Some(stat) = Stat::of(proc, name)
                && !stat.is_ending
                && let Some(slot) = seen.list.get_mut(seen.length)
            {
                *slot = (stat.pid, stat.parent, false);
                seen.length += 1;
            }
        });
        seen
    }

    fn is_looked_for(&self, pid: i32) -> bool {
        let list = self.list.get(..self.length).unwrap_or_default();
        let at = list.binary_search_by_key(&pid, |(pid, ..)| *pid).ok();
        at.and_then(|at| list.get(at)).is_some_and(|(.., looked_for)| *looked_for)
    }

    /// Those for which `first` answers, and all that descends from them.
    fn with_descendants(&mut self, first: &dyn Fn(i32, i32) -> bool) -> Found {
        let mut found = Found { pids: [0; SWEEP_MAX], length: 0 };
        loop {
            let before = found.length;
            for index in 0..self.length {
                let Some(&(pid, parent, looked_for)) = self.list.get(index) else { break };
                if !looked_for && (first(pid, parent) || self.is_looked_for(parent)) {
                    if let Some(entry) = self.list.get_mut(index) {
                        entry.2 = true;
                    }
                    found.add(pid);
                }
            }
            // A parent has mostly the lower number, so that one more round is rare.
            if found.length == before || found.length == SWEEP_MAX {
                return found;
            }
        }
    }
}

/// The processes that came after a moment. Where many fork without end, /proc grows as fast as it is read, and each look at one of
/// them takes ten times as long as to pass it over; they are met by the next sweep.
struct Newer {
    then: u32,
    now: u32,
}

impl Newer {
    fn than_now(proc: BorrowedFd<'_>) -> Self {
        let now = last_pid(proc).unwrap_or(u32::MAX);
        Self { then: now, now }
    }

    fn has(&mut self, name: &CStr, proc: BorrowedFd<'_>) -> bool {
        let Some(pid) = number(name.to_bytes()).and_then(|pid| u32::try_from(pid).ok()) else {
            return false;
        };
        // Numbers begin anew some day: higher ones are either new, or left from before.
        if pid > self.now {
            self.now = last_pid(proc).unwrap_or(self.now);
        }
        self.then < pid && pid <= self.now
    }
}

impl Found {
    /// Not a part of its callers: a function touches all of its stack when it is entered, and an init that needs none of this would
    /// have 100 pages made for it.
    #[inline(never)]
    fn descendants(proc: BorrowedFd<'_>) -> Self {
        let own = process::own_and_parent_pid().0;
        Seen::read(proc).with_descendants(&|_, parent| parent == own)
    }

    fn add(&mut self, pid: i32) {
        if let Some(slot) = self.pids.get_mut(self.length) {
            *slot = pid;
            self.length += 1;
        }
    }

    fn has(&self, pid: i32) -> bool {
        self.pids.iter().take(self.length).any(|known| *known == pid)
    }

    fn each(&self, mut what: impl FnMut(i32)) {
        self.pids.iter().take(self.length).for_each(|pid| what(*pid));
    }
}

/// What proc_pid_stat(5) tells of a process.
struct Stat {
    pid: i32,
    parent: i32,
    /// A zombie, or about to be one. Not while other threads of it go on, whatever has become of its first.
    is_ending: bool,
}

impl Stat {
    /// `None` if it has gone.
    fn of(proc: BorrowedFd<'_>, name: &CStr) -> Option<Self> {
        let digits = name.to_bytes();
        let pid = number(digits)?;
        let mut path = [0u8; 32];
        path.get_mut(..digits.len())?.copy_from_slice(digits);
        path.get_mut(digits.len()..digits.len() + 5)?.copy_from_slice(b"/stat");
        let path = CStr::from_bytes_until_nul(&path).ok()?;
        let file = openat(proc, path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).ok()?;
        let mut buffer = [0u8; 256];
        let read = nix::unistd::read(file.as_fd(), &mut buffer).ok()?;
        let text = buffer.get(..read)?;
        // The name in parentheses may hold any character.
        let behind_name = text.iter().rposition(|byte| *byte == b')')? + 1;
        // " S parent group session terminal foreground flags …", eleven fields on the number of threads.
        let mut fields = text.get(behind_name..)?.split(|byte| *byte == b' ').skip(1);
        let state = fields.next()?;
        let parent = number(fields.next()?)?;
        let flags = long(fields.nth(4)?)?;
        let threads = long(fields.nth(10)?)?;
        let is_ending = threads <= 1 && (matches!(state, b"Z" | b"X") || flags & PF_EXITING != 0);
        Some(Self { pid, parent, is_ending })
    }
}

fn number(digits: &[u8]) -> Option<i32> {
    long(digits).and_then(|value| i32::try_from(value).ok())
}

fn long(digits: &[u8]) -> Option<u64> {
    let add = |value: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    };
    (!digits.is_empty()).then(|| digits.iter().try_fold(0, add))?
}
