//! How much memory a call's tree uses, seen in its own /proc, where no cgroup counts it. No heap: an init looks.

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};
use stockade_sys::process;

/// Whether the tree uses more than `limit` bytes. First by what each process has resident and does not share with a file
/// (statm), which is quick but counts pages that a fork shares once for each process; only if that is too much, by the
/// kernel's proportional count (smaps_rollup).
pub fn exceeds(proc: BorrowedFd<'_>, page_size: u64, limit: u64) -> bool {
    let quick = sum(proc, |pid| {
        let mut buffer = [0; 128];
        let text = read(proc, pid, b"/statm", &mut buffer)?;
        // size resident shared …, in pages (proc_pid_statm(5)).
        let mut fields = text.split(|&byte| byte == b' ').map(number);
        let (resident, shared) = (fields.nth(1)?, fields.next()?);
        Some(resident.saturating_sub(shared).saturating_mul(page_size))
    });
    quick > limit
        && sum(proc, |pid| {
            let mut buffer = [0; 1024];
            let text = read(proc, pid, b"/smaps_rollup", &mut buffer)?;
            let anonymous = text.windows(9).position(|window| window == b"Pss_Anon:")?;
            let line = text.get(anonymous + 9..)?;
            let digits = line.iter().position(u8::is_ascii_digit)?;
            Some(number(line.get(digits..)?).saturating_mul(1024))
        }) > limit
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
    let path = CStr::from_bytes_until_nul(&path).ok()?;
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
