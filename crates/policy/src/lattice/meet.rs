//! The greatest lower bound of two policies' files: what both allow.

use super::files::{Access, Files, names};
use super::name::Name;
use crate::{ExpandedFilesystem, FilesystemPolicy, PathPattern, ProtectPattern};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// More than this many patterns for two entries are not the meeting of entries that a person wrote.
const PATTERNS_MOST: usize = 64;

/// The files of the meet, with its sockets. Where two patterns with `*` meet in ways that no entry can say, it is less than it could be,
/// and never more.
pub(super) fn meet(
    a: &ExpandedFilesystem,
    b: &ExpandedFilesystem,
) -> (FilesystemPolicy, Vec<String>) {
    let (in_a, in_b) = (Files::new(a), Files::new(b));
    let mut met = Met::default();
    let shown = |files: &ExpandedFilesystem| {
        [&files.read, &files.write, &files.unix_sockets]
            .map(|list| list.iter().map(names))
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
    };
    let roots = |a: &[Vec<Name>], b: &[Vec<Name>], what: fn(&Access) -> bool| {
        let mut found: Vec<Vec<Name>> = Vec::new();
        for met in a.iter().flat_map(|a| b.iter().flat_map(|b| intersect(a, b))) {
            if what(&in_a.walk(&met).access) && what(&in_b.walk(&met).access) {
                found.push(met);
            }
        }
        found.sort();
        found.dedup();
        found
    };
    let writable = |files: &ExpandedFilesystem| files.write.iter().map(names).collect::<Vec<_>>();
    // Full access connects to every socket, and so names none.
    let sockets = |files: &ExpandedFilesystem| {
        let root = files.write.iter().filter(|path| path.depth() == 0);
        files.unix_sockets.iter().chain(root).map(names).collect::<Vec<_>>()
    };
    let write = roots(&writable(a), &writable(b), |access| access.write);
    let connect = roots(&sockets(a), &sockets(b), |access| access.connect);
    let read = roots(&shown(a), &shown(b), |access| access.read);
    let read = read.into_iter().filter(|path| !write.contains(path));
    met.allow(read, |met| (&mut met.files.read, &mut met.files.literal.read));
    met.allow(connect.into_iter().filter(|path| !path.is_empty()), |met| {
        (&mut met.sockets, &mut met.files.literal.unix_sockets)
    });
    met.allow(write.into_iter(), |met| (&mut met.files.write, &mut met.files.literal.write));
    for files in [a, b] {
        for pattern in &files.hide {
            met.deny(pattern, |met| (&mut met.files.hide, &mut met.files.literal.hide));
        }
        for pattern in &files.protect {
            met.protect(pattern, &files.write);
        }
    }
    (met.files, met.sockets)
}

#[derive(Default)]
struct Met {
    files: FilesystemPolicy,
    sockets: Vec<String>,
}

type Lists<'a> = (&'a mut Vec<String>, &'a mut Vec<PathBuf>);

impl Met {
    fn allow(
        &mut self,
        patterns: impl Iterator<Item = Vec<Name>>,
        lists: fn(&mut Self) -> Lists<'_>,
    ) {
        for pattern in patterns.map(|names| pattern(&names)) {
            let (written, literal) = lists(self);
            // What no entry can say is left out.
            if let Some(path) = pattern.as_literal() {
                push(literal, path.to_owned());
            } else if let Some(entry) = entry(&pattern) {
                push(written, entry);
            }
        }
    }

    fn deny(&mut self, pattern: &PathPattern, lists: fn(&mut Self) -> Lists<'_>) {
        let (written, literal) = lists(self);
        match (pattern.as_literal(), entry(pattern)) {
            (None, Some(entry)) => push(written, entry),
            // What no entry can say is taken away with all that lies beside it.
            (path, _) => push(literal, path.unwrap_or(pattern.base()).to_owned()),
        }
    }

    /// What counts below the roots of one policy would count below other roots here, so it is named path by path.
    fn protect(&mut self, pattern: &ProtectPattern, roots: &[PathPattern]) {
        fn lists(met: &mut Met) -> Lists<'_> {
            (&mut met.files.protect, &mut met.files.literal.protect)
        }
        match pattern {
            ProtectPattern::Anywhere(_) => push(&mut self.files.protect, pattern.to_string()),
            ProtectPattern::At(path) => self.deny(path, lists),
            ProtectPattern::BelowRoots(below) => {
                for root in roots {
                    let mut names = names(root);
                    names.extend(below.iter().map(|name| Name::written(name)));
                    self.deny(&self::pattern(&names), lists);
                }
            }
        }
    }
}

fn push<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

/// As an entry of a policy file, if it can be one.
fn entry(pattern: &PathPattern) -> Option<String> {
    let base = pattern.base().to_str()?;
    (!base.contains('*')).then(|| pattern.to_string())
}

fn pattern(names: &[Name]) -> PathPattern {
    let literal = names.iter().take_while(|name| matches!(name, Name::Literal(_))).count();
    let (base, rest) = names.split_at(literal);
    let mut path = PathBuf::from("/");
    for name in base {
        if let Name::Literal(name) = name {
            path.push(OsStr::from_bytes(name));
        }
    }
    let rest = rest.iter().map(|name| {
        let (Name::Literal(bytes) | Name::Glob(bytes)) = name;
        String::from_utf8_lossy(bytes).into_owned()
    });
    PathPattern::new(path, rest.collect())
}

/// What both stand for, with everything below.
fn intersect(a: &[Name], b: &[Name]) -> Vec<Vec<Name>> {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let mut found: Vec<Vec<Name>> = vec![Vec::new()];
    for (index, name) in long.iter().enumerate() {
        let next = match short.get(index) {
            Some(other) => name.intersect(other),
            None => vec![name.clone()],
        };
        if next.is_empty() || found.len() * next.len() > PATTERNS_MOST {
            return Vec::new();
        }
        found = found
            .iter()
            .flat_map(|before| {
                next.iter().map(move |name| before.iter().chain([name]).cloned().collect())
            })
            .collect();
    }
    found
}
