//! How much memory a call's tree uses, and how many processes it started, seen in its own /proc, where no cgroup counts
//! them. No heap: an init looks.

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};
use stockade_sys::{host, process};

/// How often a tree is looked at, in milliseconds, if looking is quick: always where it has a memory limit, at first where
/// it has none.
const SHORTEST_MS: u64 = 20;
/// How seldom in the end where it has none.
const LONGEST_MS: u64 = 250;

/// Looks at a tree from time to time.
pub struct TreeWatch {
    page_size: u64,
    limit: Option<u64>,
    interval_ms: u64,
    next_ms: u64,
    peak: u64,
    last_pid: u32,
    /// Pids that were given out before the numbers last began anew.
    before_wrap: u32,
}

impl TreeWatch {
    /// A watch over a tree that has just begun, and may use so many bytes.
    pub fn new(page_size: u64, limit: Option<u64>) -> Self {
        Self {
            page_size,
            limit,
            interval_ms: SHORTEST_MS,
            next_ms: host::monotonic_ms() + SHORTEST_MS,
            peak: 0,
            last_pid: 1,
            before_wrap: 0,
        }
    }

    /// A watch that never looks: there is no /proc that shows the tree alone.
    pub fn blind() -> Self {
        Self { next_ms: u64::MAX, ..Self::new(1, None) }
    }

    /// In how many milliseconds to look again, for poll(2): −1 is never.
    pub fn next_look_ms(&self) -> i32 {
        if self.next_ms == u64::MAX {
            return -1;
        }
        i32::try_from(self.next_ms.saturating_sub(host::monotonic_ms())).unwrap_or(i32::MAX)
    }

    /// Looks if it is time to; true if the tree uses more than it may. Looking takes at most a tenth of the time.
    pub fn look_if_due(&mut self, proc: BorrowedFd<'_>) -> bool {
        let before = host::monotonic_ms();
        if before < self.next_ms {
            return false;
        }
        // The quick count may be too high, so only what would be a new peak is counted exactly.
        let floor = self.limit.map_or(self.peak, |limit| limit.min(self.peak));
        let used = anonymous(proc, self.page_size, floor);
        self.peak = self.peak.max(used);
        self.count_started(proc);
        if self.limit.is_none() {
            self.interval_ms = (self.interval_ms * 2).min(LONGEST_MS);
        }
        let now = host::monotonic_ms();
        self.next_ms = now + self.interval_ms.max(now.saturating_sub(before) * 10);
        self.limit.is_some_and(|limit| used > limit)
    }

    /// The most that was seen, in bytes.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// How many processes and threads the tree has started, by the numbers that its pid namespace gave out. Numbers that
    /// began anew between two looks more than once are counted once.
    pub fn started(&self) -> u32 {
        // The init has number 1.
        self.before_wrap.saturating_add(self.last_pid).saturating_sub(1)
    }

    /// Whether the tree may have as many processes as it may: with fewer than so many numbers given out it has not.
    pub fn may_have(&self, pids: u32) -> bool {
        self.before_wrap > 0 || self.last_pid.saturating_add(2) >= pids
    }

    /// Reads the last number given out.
    pub fn count_started(&mut self, proc: BorrowedFd<'_>) {
        let Some(last) = last_pid(proc) else { return };
        if last < self.last_pid {
            // After the highest number the kernel goes on with 300 (RESERVED_PIDS).
            self.before_wrap = self.before_wrap.saturating_add(self.last_pid.saturating_sub(300));
        }
        self.last_pid = last;
    }
}

/// The number that was given last to a process or thread of the caller's pid namespace: the last field of proc_loadavg(5).
pub fn last_pid(proc: BorrowedFd<'_>) -> Option<u32> {
    let mut buffer = [0; 128];
    let text = read_file(proc, c"loadavg", &mut buffer)?;
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let last = text.rsplit(|&byte| byte == b' ').next().map(number)?;
    u32::try_from(last).ok()
}

/// How many bytes of anonymous memory the tree uses. First by what each process has resident and does not share with a file
/// (statm), which is quick but counts pages that a fork shares once for each process; only if that is more than `floor`, by
/// the kernel's proportional count (smaps_rollup).
fn anonymous(proc: BorrowedFd<'_>, page_size: u64, floor: u64) -> u64 {
    let quick = sum(proc, |pid| {
        let mut buffer = [0; 128];
        let text = read(proc, pid, b"/statm", &mut buffer)?;
        // size resident shared …, in pages (proc_pid_statm(5)).
        let mut fields = text.split(|&byte| byte == b' ').map(number);
        let (resident, shared) = (fields.nth(1)?, fields.next()?);
        Some(resident.saturating_sub(shared).saturating_mul(page_size))
    });
    if quick <= floor {
        return quick;
    }
    let exact = sum(proc, |pid| {
        let mut buffer = [0; 1024];
        let text = read(proc, pid, b"/smaps_rollup", &mut buffer)?;
        let anonymous = text.windows(9).position(|window| window == b"Pss_Anon:")?;
        let line = text.get(anonymous + 9..)?;
        let digits = line.iter().position(u8::is_ascii_digit)?;
        Some(number(line.get(digits..)?).saturating_mul(1024))
    });
    // A process that has ended between the two counts has no exact one.
    exact.min(quick)
}

/// Adds up what `of` says of each process. One that has just ended counts nothing.
fn sum(proc: BorrowedFd<'_>, of: impl Fn(&CStr) -> Option<u64>) -> u64 {
    let mut total = 0u64;
    process::each_in_proc(proc, &mut |pid| total = total.saturating_add(of(pid).unwrap_or(0)));
    total
}

fn read<'a>(
    proc: BorrowedFd<'_>,
    pid: &CStr,
    file: &[u8],
    buffer: &'a mut [u8],
) -> Option<&'a [u8]> {
    let mut path = [0u8; 48];
    let pid = pid.to_bytes();
    path.get_mut(..pid.len())?.copy_from_slice(pid);
    path.get_mut(pid.len()..pid.len() + file.len())?.copy_from_slice(file);
    read_file(proc, CStr::from_bytes_until_nul(&path).ok()?, buffer)
}

fn read_file<'a>(proc: BorrowedFd<'_>, path: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let file = openat(proc, path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).ok()?;
    let read = nix::unistd::read(file.as_fd(), buffer).ok()?;
    buffer.get(..read)
}

fn number(digits: &[u8]) -> u64 {
    digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0u64, |value, byte| value.saturating_mul(10).saturating_add(u64::from(byte - b'0')))
}
