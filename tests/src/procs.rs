//! The host's process table, read from `/proc`: what is alive, who started it, and what it runs.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// A process of the host that is alive (zombies are not).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its pid.
    pub pid: i32,
    /// Its parent's pid.
    pub parent: i32,
    /// When it started, in clock ticks since boot: tells a process from a later one of the same pid.
    pub started: u64,
}

/// Every process that is alive now.
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter_map(read)
        .collect()
}

/// This process, if it is alive.
pub fn read(pid: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The command's name is in parentheses and may hold anything, so count from the last one.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

/// Processes with an argument that contains this.
pub fn with_argument(needle: &str) -> Vec<Process> {
    containing("cmdline", needle)
}

/// Processes with an environment variable that contains this.
pub fn with_variable(needle: &str) -> Vec<Process> {
    containing("environ", needle)
}

/// Processes of which an argument or a variable contains this.
pub fn marked(needle: &str) -> Vec<Process> {
    let both: BTreeSet<_> =
        with_argument(needle).into_iter().chain(with_variable(needle)).collect();
    both.into_iter().collect()
}

fn containing(file: &str, needle: &str) -> Vec<Process> {
    let needle = needle.as_bytes();
    let holds = |p: &Process| {
        let bytes = fs::read(format!("/proc/{}/{file}", p.pid)).unwrap_or_default();
        bytes.windows(needle.len()).any(|window| window == needle)
    };
    all().into_iter().filter(holds).collect()
}

/// Processes that run this executable, the file itself: another hard link to it does not count.
pub fn running(exe: &Path) -> Vec<Process> {
    let deleted = [exe.as_os_str().as_bytes(), b" (deleted)"].concat();
    let runs = |p: &Process| {
        executable(p.pid).is_some_and(|path| path == exe || path.as_os_str().as_bytes() == deleted)
    };
    all().into_iter().filter(runs).collect()
}

/// What a process executes.
pub fn executable(pid: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// All that grew from a process, nearest first; itself not among them.
pub fn descendants(pid: i32) -> Vec<Process> {
    let all = all();
    let mut found = Vec::new();
    let mut next = VecDeque::from([pid]);
    while let Some(parent) = next.pop_front() {
        for child in all.iter().filter(|p| p.parent == parent) {
            found.push(*child);
            next.push_back(child.pid);
        }
    }
    found
}

/// The chain from a process up to the root, itself first.
pub fn ancestors(pid: i32) -> Vec<Process> {
    std::iter::successors(read(pid), |p| read(p.parent)).collect()
}

/// The pid that a process has in its own, innermost pid namespace, and how deep that lies.
pub fn inner_pid(pid: i32) -> Option<(usize, i32)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    let pids: Vec<i32> = line.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    Some((pids.len(), *pids.last()?))
}

/// Whether this very process, not a later one of its pid, is alive.
pub fn is_alive(process: &Process) -> bool {
    read(process.pid).is_some_and(|now| now.started == process.started)
}

/// Waits until `look` finds nothing, at most this long; returns what it still finds.
pub fn none_left(limit: Duration, look: impl Fn() -> Vec<Process>) -> Vec<Process> {
    until(limit, || Some(look()).filter(Vec::is_empty)).unwrap_or_else(look)
}

/// Waits until `look` yields something, at most this long.
pub fn until<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() >= end {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
}
