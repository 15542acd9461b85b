//! Where a path leads, and whether it still leads there: somebody approved a call by what its path was then, and a folder that has been moved
//! since, or replaced by a link, is another place (spec 2.2, 2.6).

use super::resolve::{Target, follow, resolve};
use super::{fault, open};
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{FileStat, Mode, fstat};
use std::fs::File;
use stockade_plan::Bytes;
use stockade_plan::file::{FileDone, FileError, Fingerprint, Folder, Place};

/// Where a path leads now.
pub(super) fn locate(path: &Bytes) -> Result<Place, FileError> {
    of(path, &follow(path)?)
}

fn of(written: &Bytes, target: &Target) -> Result<Place, FileError> {
    let (folder, file) = (folder(target, target.depth())?, file(target)?);
    Ok(Place { written: written.clone(), path: target.path(), folder, file })
}

fn folder(target: &Target, depth: usize) -> Result<Option<Folder>, FileError> {
    let Some(folder) = target.folder(depth) else { return Ok(None) };
    let stat = fstat(folder).map_err(|errno| fault::os("stat", &target.path(), errno))?;
    let Fingerprint { device, inode, .. } = fault::fingerprint(&stat);
    Ok(Some(Folder { depth: depth as u64, device, inode }))
}

fn file(target: &Target) -> Result<Option<Fingerprint>, FileError> {
    if target.is_folder() {
        return Ok(None);
    }
    let stat = target.stat().map_err(|errno| fault::os("stat", &target.path(), errno))?;
    Ok(stat.as_ref().map(fault::fingerprint))
}

/// Refuses what is to be changed if it is not what was approved, to the byte: by its content somebody judged what the change makes of it.
pub(super) fn check(approved: Option<&Place>, target: &Target) -> Result<(), FileError> {
    let Some(approved) = approved else { return Ok(()) };
    let same = leads_there(approved, target)? && file(target)? == approved.file;
    if same { Ok(()) } else { Err(moved(approved)) }
}

/// Opens a file for reading if it is the one that was approved; what it holds by now is for the call to find out.
pub(super) fn open_there(path: &Bytes, approved: &Place) -> Result<(File, FileStat), FileError> {
    let target = resolve(path)?;
    let os = |step: &'static str| move |errno| fault::os(step, path, errno);
    match target.stat().map_err(os("stat"))? {
        Some(stat) => fault::regular(path, stat.st_mode)?,
        None => return Err(os("open")(nix::errno::Errno::ENOENT)),
    }
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | open::careful();
    let file = openat(target.deepest(), target.leaf(), flags, Mode::empty())
        .map(File::from)
        .map_err(os("open"))?;
    let stat = fstat(&file).map_err(os("stat"))?;
    fault::regular(path, stat.st_mode)?;
    let identity = |file: Fingerprint| (file.device, file.inode);
    let is = identity(fault::fingerprint(&stat));
    if leads_there(approved, &target)? && approved.file.map(identity) == Some(is) {
        Ok((file, stat))
    } else {
        Err(moved(approved))
    }
}

/// Searches below a place that was approved. The search goes by names, so the place is looked at again when it is over: what was found
/// elsewhere is not given out.
pub(super) fn hold(
    approved: Option<&Place>,
    search: impl FnOnce() -> Result<FileDone, FileError>,
) -> Result<FileDone, FileError> {
    let Some(approved) = approved else { return search() };
    let still = || -> Result<(), FileError> {
        let target = follow(&approved.written)?;
        let identity = |file: Option<Fingerprint>| file.map(|file| (file.device, file.inode));
        let same =
            leads_there(approved, &target)? && identity(file(&target)?) == identity(approved.file);
        if same { Ok(()) } else { Err(moved(approved)) }
    };
    still()?;
    let found = search()?;
    still()?;
    Ok(found)
}

fn leads_there(approved: &Place, target: &Target) -> Result<bool, FileError> {
    if target.path() != approved.path {
        return Ok(false);
    }
    // What was missing may have been made meanwhile, by a call before this one: below the same folder, by the same names.
    let Some(then) = approved.folder else { return Ok(true) };
    let depth = usize::try_from(then.depth).unwrap_or(usize::MAX);
    Ok(folder(target, depth)? == Some(then))
}

fn moved(approved: &Place) -> FileError {
    FileError::Moved { path: approved.written.clone() }
}
