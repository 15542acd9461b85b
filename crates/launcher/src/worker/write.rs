use super::Files;
use super::cancel::Cancel;
use super::place;
use super::replace::{Expected, replace};
use super::resolve::resolve;
use stockade_plan::Bytes;
use stockade_plan::file::{FileDone, FileError, Fingerprint, Place};

/// Creates or replaces a file; through a symbolic link, the file that it leads to.
pub(super) fn write(
    files: &Files,
    path: &Bytes,
    content: &[u8],
    expected: Option<Fingerprint>,
    approved: Option<&Place>,
    cancel: &Cancel,
) -> Result<FileDone, FileError> {
    let mut target = resolve(path)?;
    files.protection.check(&target)?;
    place::check(approved, &target)?;
    cancel.check()?;
    let expected = expected.map_or(Expected::Absent, Expected::Same);
    let shared = (&files.protection, &files.commits);
    let (created, fingerprint) = replace(shared, &mut target, content, expected, cancel)?;
    Ok(FileDone::Written { created, fingerprint })
}
