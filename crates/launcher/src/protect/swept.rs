//! What a sweep came to, and how a file is put aside.

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat, fstat};
use std::collections::hash_map::RandomState;
use std::ffi::{CStr, OsStr};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use stockade_plan::{Bytes, QUARANTINED};

/// So many are named one by one; of the rest, how many they are. A result lists few more denials of a kind.
const LISTED_MAX: usize = 50;

/// Room for those that could not be put aside, which somebody has to look at: so many more.
const FAILED_MAX: usize = 10;

/// As much of a name's beginning is kept where the whole would make the new name too long for a file system.
const STEM_MAX: usize = 64;

/// What a sweep came to.
#[derive(Default)]
pub struct Swept {
    /// Paths and where they have been put; an empty new path if that failed. Bounded.
    pub quarantined: Vec<(Bytes, Bytes)>,
    /// How many more there were.
    pub unlisted: u64,
    /// What somebody outside put in the place of a protected file while the call ran, so that it was not protected for a moment.
    pub replaced: Vec<Bytes>,
    /// Roots below which not all was looked at.
    pub unchecked: Vec<Bytes>,
    /// Nothing is put aside, but noted here: what has come into being while no call ran is the host's.
    pub stock: Option<Vec<Vec<u8>>>,
}

impl Swept {
    /// Puts an entry of a folder aside and notes it. `here` is the folder's path with a slash at its end.
    pub fn put_aside(&mut self, folder: impl AsFd, name: &CStr, here: &[u8]) {
        let path = |name: &[u8]| Bytes([here, name].concat());
        if let Some(stock) = &mut self.stock {
            return stock.push(path(name.to_bytes()).0);
        }
        match put_aside(folder, name) {
            Ok(new) => self.add((path(name.to_bytes()), path(&new))),
            Err(_) => self.failed(path(name.to_bytes())),
        }
    }

    /// Notes what could not be put aside.
    pub fn failed(&mut self, path: Bytes) {
        self.add((path, Bytes::default()));
    }

    /// Notes what was replaced from outside.
    pub fn replaced(&mut self, path: Vec<u8>) {
        let path = Bytes(path);
        if self.replaced.len() < LISTED_MAX && !self.replaced.contains(&path) {
            self.replaced.push(path);
        }
    }

    /// What an earlier look of the same call came to, and this one.
    pub fn merge(&mut self, later: Self) {
        let Self { quarantined, unlisted, replaced, unchecked, stock: _ } = later;
        quarantined.into_iter().for_each(|pair| self.add(pair));
        self.unlisted += unlisted;
        replaced.into_iter().for_each(|path| self.replaced(path.0));
        for root in unchecked {
            if !self.unchecked.contains(&root) {
                self.unchecked.push(root);
            }
        }
    }

    fn add(&mut self, pair: (Bytes, Bytes)) {
        let failed = pair.1.0.is_empty();
        let max = if failed { LISTED_MAX + FAILED_MAX } else { LISTED_MAX };
        // A running call is looked at more than once, and what could not be put aside is found each time.
        if failed && self.quarantined.contains(&pair) {
            return;
        }
        if self.quarantined.len() < max {
            self.quarantined.push(pair);
        } else {
            self.unlisted += 1;
        }
    }
}

/// Renames an entry of a folder within it; nothing is overwritten. Returns the new name. A folder of our own user that may not be
/// written is made writable for as long as that takes: whoever planted there may have taken that right away.
fn put_aside(folder: impl AsFd, name: &CStr) -> io::Result<Vec<u8>> {
    let folder = folder.as_fd();
    match rename_aside(folder, name) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let before = Mode::from_bits_truncate(fstat(folder)?.st_mode);
            // By this way also a folder that is open as a place alone, or may not be entered.
            let place = format!("/proc/self/fd/{}", folder.as_raw_fd());
            let set = |mode| fchmodat(AT_FDCWD, place.as_str(), mode, FchmodatFlags::FollowSymlink);
            set(before | Mode::S_IRWXU)?;
            let done = rename_aside(folder, name);
            set(before)?;
            done
        }
        done => done,
    }
}

fn rename_aside(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<Vec<u8>> {
    let old = name.to_bytes();
    let mut stem = old;
    for attempt in 0..100 {
        // Not to be foreseen: a command could have taken every name that is.
        let random = RandomState::new().build_hasher().finish();
        let end = if attempt == 0 {
            format!(".{QUARANTINED}")
        } else {
            format!(".{random:016x}.{QUARANTINED}")
        };
        let new = [stem, end.as_bytes()].concat();
        let flags = RenameFlags::RENAME_NOREPLACE;
        let (from, to) = (OsStr::from_bytes(old), OsStr::from_bytes(&new));
        match renameat2(folder, from, folder, to, flags) {
            Ok(()) => return Ok(new),
            Err(Errno::EEXIST) => {}
            Err(Errno::ENAMETOOLONG) if stem.len() > STEM_MAX => {
                stem = stem.get(..STEM_MAX).unwrap_or(stem);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
