use super::cancel::Cancel;
use super::replace::{Expected, replace};
use super::resolve::{Target, resolve};
use super::{Files, fault, open, place};
use memchr::memmem;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fstat};
use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use stockade_plan::Bytes;
use stockade_plan::file::{FileDone, FileError, Fingerprint, Place};

/// The largest file that can be edited, before and after, in bytes.
const EDIT_MAX: usize = 16 * 1024 * 1024;

/// How much of the new content an answer shows: lines before and after the change, and bytes.
const SNIPPET_LINES: usize = 4;
const SNIPPET_MAX: usize = 8 * 1024;

/// What to replace by what.
pub(super) struct Change<'a> {
    pub(super) old: &'a [u8],
    pub(super) new: &'a [u8],
    pub(super) all: bool,
}

/// Replaces text in a file.
pub(super) fn edit(
    files: &Files,
    path: &Bytes,
    change: &Change<'_>,
    expected: Fingerprint,
    approved: Option<&Place>,
    cancel: &Cancel,
) -> Result<FileDone, FileError> {
    if change.old.is_empty() {
        return Err(fault::unsuitable(path, "the text to replace is empty"));
    }
    if change.old == change.new {
        return Err(fault::unsuitable(path, "the old and the new text are the same"));
    }
    let mut target = resolve(path)?;
    files.protection.check(&target)?;
    place::check(approved, &target)?;
    let expected = Expected::Same(expected);
    let content = content(&target, path, expected)?;
    cancel.check()?;

    let (places, new) = places(&content, change);
    if places.is_empty() || (places.len() > 1 && !change.all) {
        let count = places.len() as u64;
        return Err(FileError::Occurrences { path: path.clone(), count });
    }
    let removed: usize = places.iter().map(Range::len).sum();
    let added = places.len().saturating_mul(new.len());
    if (content.len() - removed).saturating_add(added) > EDIT_MAX {
        let reason = format!("it would grow larger than the {EDIT_MAX} bytes that can be edited");
        return Err(fault::unsuitable(path, reason));
    }
    let edited = put(&content, &places, &new);
    let shared = (&files.protection, &files.commits);
    let (_, fingerprint) = replace(shared, &mut target, &edited, expected, cancel)?;
    let start = places.first().map_or(0, |place| place.start);
    let (snippet, snippet_first_line) = snippet(&edited, start..start + new.len());
    let replacements = places.len() as u64;
    Ok(FileDone::Edited { replacements, fingerprint, snippet, snippet_first_line })
}

fn content(target: &Target, path: &Bytes, expected: Expected) -> Result<Vec<u8>, FileError> {
    let os = |step: &'static str| move |errno| fault::os(step, path, errno);
    match target.stat().map_err(os("stat"))? {
        Some(stat) => fault::regular(path, stat.st_mode)?,
        None => return Err(os("open")(Errno::ENOENT)),
    }
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | open::careful();
    let file = openat(target.deepest(), target.leaf(), flags, Mode::empty())
        .map(File::from)
        .map_err(os("open"))?;
    let stat = fstat(&file).map_err(os("stat"))?;
    expected.check(path, Some(&stat))?;
    let mut content = Vec::new();
    file.take(EDIT_MAX as u64 + 1)
        .read_to_end(&mut content)
        .map_err(|error| fault::io("read", path, &error))?;
    if content.len() > EDIT_MAX {
        let reason = format!("larger than the {EDIT_MAX} bytes that can be edited");
        return Err(fault::unsuitable(path, reason));
    }
    if open::looks_binary(&content) {
        return Err(fault::binary(path, fault::fingerprint(&stat).size));
    }
    Ok(content)
}

/// Where the old text is, and the new text with the line ends that belong there.
///
/// Models write `\n`. Where a file has `\r\n`, an old text with plain `\n` is found all the same, and
/// the new one keeps the file's line ends; a text that has `\r` in it means what it says.
fn places<'a>(content: &[u8], change: &Change<'a>) -> (Vec<Range<usize>>, Cow<'a, [u8]>) {
    let exact: Vec<Range<usize>> = memmem::find_iter(content, change.old)
        .map(|start| start..start + change.old.len())
        .collect();
    let plain = |text: &[u8]| memchr::memchr(b'\r', text).is_none();
    let spans_lines = memchr::memchr(b'\n', change.old).is_some();
    if !plain(change.old) || !plain(change.new) || (spans_lines && !exact.is_empty()) {
        return (exact, Cow::Borrowed(change.new));
    }
    let places = if spans_lines { lenient_places(content, change.old) } else { exact };
    let new = if mostly_crlf(content) {
        Cow::Owned(with_crlf(change.new))
    } else {
        Cow::Borrowed(change.new)
    };
    (places, new)
}

/// Where the old text is when each of its `\n` also stands for `\r\n`.
fn lenient_places(content: &[u8], old: &[u8]) -> Vec<Range<usize>> {
    let mut plain = Vec::with_capacity(content.len());
    // Where in `plain` a `\n` is that had a `\r` before it, ascending.
    let mut shortened = Vec::new();
    let mut rest = content;
    while let Some(at) = memmem::find(rest, b"\r\n") {
        plain.extend_from_slice(rest.get(..at).unwrap_or_default());
        shortened.push(plain.len());
        plain.push(b'\n');
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    plain.extend_from_slice(rest);
    let original = |at: usize| at + shortened.partition_point(|line_end| *line_end < at);
    memmem::find_iter(&plain, old)
        .map(|start| original(start)..original(start + old.len()))
        .collect()
}

fn mostly_crlf(content: &[u8]) -> bool {
    let crlf = memmem::find_iter(content, b"\r\n").count();
    crlf * 2 > memchr::memchr_iter(b'\n', content).count()
}

fn with_crlf(text: &[u8]) -> Vec<u8> {
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    lines.join(b"\r\n".as_slice())
}

fn put(content: &[u8], places: &[Range<usize>], new: &[u8]) -> Vec<u8> {
    let mut edited = Vec::new();
    let mut done = 0;
    for place in places {
        edited.extend_from_slice(content.get(done..place.start).unwrap_or_default());
        edited.extend_from_slice(new);
        done = place.end;
    }
    edited.extend_from_slice(content.get(done..).unwrap_or_default());
    edited
}

/// The lines around a change, and the number of their first.
fn snippet(content: &[u8], change: Range<usize>) -> (Bytes, u64) {
    let head = content.get(..change.start).unwrap_or_default();
    let tail = content.get(change.end..).unwrap_or_default();
    // The line the change begins in, and those before it.
    let start = memchr::memrchr_iter(b'\n', head).nth(SNIPPET_LINES).map_or(0, |at| at + 1);
    let start = start.max(change.start.saturating_sub(SNIPPET_MAX / 4));
    let end = memchr::memchr_iter(b'\n', tail)
        .nth(SNIPPET_LINES)
        .map_or(content.len(), |at| change.end + at + 1);
    let end = end.min(start + SNIPPET_MAX);
    let before = content.get(..start).unwrap_or_default();
    let first_line = memchr::memchr_iter(b'\n', before).count() as u64 + 1;
    (Bytes(content.get(start..end).unwrap_or_default().to_vec()), first_line)
}
