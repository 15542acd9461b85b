//! How much of a disk what commands write may take: output is worth less than the log, in which every call has to be written.

use rustix::fs::fstatvfs;
use std::os::fd::AsFd;

/// The most that is left free, in bytes.
const RESERVE_MAX: u64 = 64 << 20;
/// The part of a smaller disk that is.
const RESERVE_PART: u64 = 8;

/// Whether the disk on which this file lies has room for so many bytes more, and what is reserved for session log and ledger stays
/// free: 64 MiB, or an eighth of a disk that has less than 512 MiB. A disk that cannot be asked has room, until it refuses.
pub fn has_room(file: impl AsFd, bytes: u64) -> bool {
    let Ok(disk) = fstatvfs(file) else { return true };
    let in_bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    let reserve = (in_bytes(disk.f_blocks) / RESERVE_PART).min(RESERVE_MAX);
    // File systems that count no blocks, as some in user space do, bound nothing.
    disk.f_blocks == 0 || in_bytes(disk.f_bavail) >= bytes.saturating_add(reserve)
}
