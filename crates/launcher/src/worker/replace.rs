use super::cancel::Cancel;
use super::protect::Protection;
use super::resolve::Target;
use super::{fault, open};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, posix_fallocate, renameat};
use nix::sys::stat::{FileStat, Mode, fchmod, fstat};
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use stockade_plan::Bytes;
use stockade_plan::file::{FileError, Fingerprint};

/// What the file must be when it is replaced.
#[derive(Clone, Copy)]
pub(super) enum Expected {
    /// It does not exist, or is empty.
    Absent,
    /// It is unchanged since then.
    Same(Fingerprint),
}

impl Expected {
    /// Refuses what is not as expected.
    pub(super) fn check(self, path: &Bytes, now: Option<&FileStat>) -> Result<(), FileError> {
        if let Some(stat) = now {
            fault::regular(path, stat.st_mode)?;
        }
        match (self, now) {
            (Expected::Absent, None) => Ok(()),
            (Expected::Absent, Some(stat)) if stat.st_size == 0 => Ok(()),
            (Expected::Absent, Some(_)) => Err(FileError::ExistsUnread { path: path.clone() }),
            (Expected::Same(then), Some(stat)) if fault::fingerprint(stat) == then => Ok(()),
            (Expected::Same(_), _) => Err(FileError::Changed { path: path.clone() }),
        }
    }
}

/// Locks that keep two requests from replacing one file at once: the second must see that the first
/// changed it. By file, so that a hanging file system delays its own files only (mostly).
#[derive(Default)]
pub(super) struct Commits([Mutex<()>; 16]);

impl Commits {
    fn lock(&self, path: &Bytes) -> Option<MutexGuard<'_, ()>> {
        let sum = path.0.iter().fold(0usize, |sum, byte| sum.wrapping_mul(31) + usize::from(*byte));
        let lock = self.0.get(sum % self.0.len())?;
        Some(lock.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Puts new content in place of the file, whole or not at all. Returns whether it was created, and
/// its new state.
pub(super) fn replace(
    (protection, commits): (&Protection, &Commits),
    target: &mut Target,
    content: &[u8],
    expected: Expected,
    cancel: &Cancel,
) -> Result<(bool, Fingerprint), FileError> {
    let path = target.path();
    let before = target.stat().map_err(|errno| fault::os("stat", &path, errno))?;
    expected.check(&path, before.as_ref())?;
    let done = target.make_folders().and_then(|()| {
        put((protection, commits), target, content, expected, before.as_ref(), cancel)
    });
    if done.is_err() {
        target.unmake_folders();
    }
    done
}

/// The same in a folder that exists, on the ground of the file's state just before.
fn put(
    (protection, commits): (&Protection, &Commits),
    target: &Target,
    content: &[u8],
    expected: Expected,
    before: Option<&FileStat>,
    cancel: &Cancel,
) -> Result<(bool, Fingerprint), FileError> {
    let path = target.path();
    let os = |step: &'static str| {
        let path = path.clone();
        move |errno| fault::os(step, &path, errno)
    };
    let mut temporary = match Temporary::create(target.deepest(), before.is_some()) {
        Ok(temporary) => temporary,
        Err(Errno::EROFS | Errno::EACCES | Errno::EPERM)
            if before.is_some() && protection.is_root(target) =>
        {
            return overwrite(commits, target, content, expected);
        }
        Err(errno) => return Err(os("create a temporary file beside")(errno)),
    };
    write_all(&mut temporary.file, &path, content, cancel)?;
    if let Some(before) = before {
        keep_owner_and_mode(&temporary.file, before).map_err(os("set the mode of"))?;
    }
    cancel.check()?;

    let commit = commits.lock(&path);
    let now = target.stat().map_err(os("stat"))?;
    expected.check(&path, now.as_ref())?;
    match temporary.put(target, now.is_some()) {
        Ok(()) => {}
        Err(Errno::EEXIST) => return Err(FileError::ExistsUnread { path }),
        // A single file that is a mount of its own can only be written to, not replaced.
        Err(Errno::EBUSY) if now.is_some() && protection.is_root(target) => {
            drop(commit);
            return overwrite(commits, target, content, expected);
        }
        Err(errno) => return Err(os("rename a temporary file to")(errno)),
    }
    // Only now: putting it in place changed its ctime.
    let stat = fstat(&temporary.file).map_err(os("stat"))?;
    Ok((now.is_none(), fault::fingerprint(&stat)))
}

/// Writes in place a file that is a writable root by itself, so that nothing can be made beside it.
pub(super) fn overwrite(
    commits: &Commits,
    target: &Target,
    content: &[u8],
    expected: Expected,
) -> Result<(bool, Fingerprint), FileError> {
    let path = target.path();
    let os = |step: &'static str| {
        let path = path.clone();
        move |errno| fault::os(step, &path, errno)
    };
    let _commit = commits.lock(&path);
    let flags = OFlag::O_WRONLY | OFlag::O_NOFOLLOW | open::careful();
    let mut file = openat(target.deepest(), target.leaf(), flags, Mode::empty())
        .map(File::from)
        .map_err(os("open"))?;
    let stat = fstat(&file).map_err(os("stat"))?;
    expected.check(&path, Some(&stat))?;
    // Known before the old content is touched, where the file system can tell.
    let length = i64::try_from(content.len()).unwrap_or(i64::MAX);
    if length > 0 && posix_fallocate(&file, 0, length) == Err(Errno::ENOSPC) {
        return Err(os("write")(Errno::ENOSPC));
    }
    file.write_all(content).map_err(|error| fault::io("write", &path, &error))?;
    file.set_len(content.len() as u64).map_err(|error| fault::io("truncate", &path, &error))?;
    let stat = fstat(&file).map_err(os("stat"))?;
    Ok((false, fault::fingerprint(&stat)))
}

fn write_all(
    file: &mut File,
    path: &Bytes,
    content: &[u8],
    cancel: &Cancel,
) -> Result<(), FileError> {
    for chunk in content.chunks(1024 * 1024) {
        cancel.check()?;
        file.write_all(chunk).map_err(|error| fault::io("write", path, &error))?;
    }
    Ok(())
}

fn keep_owner_and_mode(file: &File, before: &FileStat) -> Result<(), Errno> {
    let new = fstat(file)?;
    let differing = |old: u32, new: u32| (old != new).then_some(old);
    let (uid, gid) = (differing(before.st_uid, new.st_uid), differing(before.st_gid, new.st_gid));
    if uid.is_some() || gid.is_some() {
        // An editor without the privilege leaves the file to its own user too.
        let _ = std::os::unix::fs::fchown(file, uid, gid);
    }
    // Without set-id bits, which a write would have cleared as well.
    fchmod(file, Mode::from_bits_truncate(before.st_mode & 0o777))
}

/// A new file beside the target, removed again unless it was put in place.
struct Temporary<'a> {
    folder: BorrowedFd<'a>,
    name: String,
    file: File,
    in_place: bool,
}

impl<'a> Temporary<'a> {
    fn create(folder: BorrowedFd<'a>, private: bool) -> Result<Temporary<'a>, Errno> {
        // What replaces a private file must not be readable by others for even a moment.
        let mode = Mode::from_bits_truncate(if private { 0o600 } else { 0o666 });
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let mut last = Errno::EEXIST;
        for _ in 0..8 {
            let random = RandomState::new().build_hasher().finish();
            let name = format!(".stockade-{random:016x}.tmp");
            match openat(folder, name.as_str(), flags, mode) {
                Ok(fd) => {
                    return Ok(Temporary { folder, name, file: File::from(fd), in_place: false });
                }
                Err(errno) => last = errno,
            }
            if last != Errno::EEXIST {
                break;
            }
        }
        Err(last)
    }

    /// Moves the file to its place; `EEXIST` if `replaces` is false and something is there by now.
    fn put(&mut self, target: &Target, replaces: bool) -> Result<(), Errno> {
        if !replaces {
            let flags = AtFlags::empty();
            match linkat(self.folder, self.name.as_str(), self.folder, target.leaf(), flags) {
                // The temporary name is left over, and goes with the drop.
                Ok(()) => return self.unlink(),
                // A file system without hard links: the check just before has to do.
                Err(Errno::EPERM | Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EMLINK) => {}
                Err(errno) => return Err(errno),
            }
        }
        renameat(self.folder, self.name.as_str(), self.folder, target.leaf())?;
        self.in_place = true;
        Ok(())
    }

    fn unlink(&mut self) -> Result<(), Errno> {
        unlinkat(self.folder, self.name.as_str(), UnlinkatFlags::NoRemoveDir)?;
        self.in_place = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.in_place {
            let _ = self.unlink();
        }
    }
}
