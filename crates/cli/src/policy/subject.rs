//! What `policy explain` is asked about.

use super::args::Kind;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// A path, with where it really lies.
pub struct PathSubject {
    /// Absolute, without `..`.
    pub path: PathBuf,
    /// The same without links, as far as it exists.
    pub real: PathBuf,
}

/// The kind that a subject is of by its looks. `is_syscall` knows the names of system calls.
pub fn kind(subject: &OsStr, is_syscall: impl Fn(&str) -> bool) -> Kind {
    let bytes = subject.as_bytes();
    if bytes.contains(&b'/') || matches!(bytes, b"~" | b"." | b"..") {
        return Kind::Path;
    }
    match subject.to_str() {
        None => Kind::Path,
        Some(name) if is_syscall(name) => Kind::Syscall,
        Some(_) => Kind::Host,
    }
}

/// The path that is meant: relative ones count from here, and `~` is the home folder.
pub fn path(subject: &OsStr, home: &Path) -> Result<PathSubject, String> {
    let written = match subject.as_bytes() {
        b"~" => home.to_owned(),
        bytes => match bytes.strip_prefix(b"~/") {
            Some(below) => home.join(OsStr::from_bytes(below)),
            None => PathBuf::from(subject),
        },
    };
    let at = |error: std::io::Error| format!("{}: {error}", subject.display());
    let absolute = std::path::absolute(&written).map_err(at)?;
    // `..` has a meaning only on the disk, where what stands before it may be a link.
    let path = match absolute.components().any(|part| part == Component::ParentDir) {
        true => std::fs::canonicalize(&absolute).map_err(at)?,
        false => absolute,
    };
    let real = real(&path);
    Ok(PathSubject { path, real })
}

/// Where a path really lies: its deepest folder that exists, and the rest as it is written.
fn real(path: &Path) -> PathBuf {
    for folder in path.ancestors() {
        match std::fs::canonicalize(folder) {
            Ok(real) => {
                let rest = path.strip_prefix(folder).unwrap_or(Path::new(""));
                return if rest == Path::new("") { real } else { real.join(rest) };
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(_) => return path.to_owned(),
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_asked_about_is_told_apart_by_its_looks() {
        let is_syscall = |name: &str| matches!(name, "bpf" | "ptrace");
        for (subject, expected) in [
            ("/etc/shadow", Kind::Path),
            ("./bpf", Kind::Path),
            ("~", Kind::Path),
            ("~/.ssh", Kind::Path),
            ("bpf", Kind::Syscall),
            ("example.org:443", Kind::Host),
            ("localhost", Kind::Host),
        ] {
            assert_eq!(kind(OsStr::new(subject), is_syscall), expected, "{subject}");
        }
        assert_eq!(kind(OsStr::from_bytes(b"\xff"), is_syscall), Kind::Path);
    }

    #[test]
    fn a_path_is_made_absolute_and_its_links_are_followed_as_far_as_it_exists() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("real")).unwrap();
        symlink("real", base.join("link")).unwrap();
        let subject = path(base.join("link/not/there").as_os_str(), Path::new("/h")).unwrap();
        assert_eq!(subject.path, base.join("link/not/there"));
        assert_eq!(subject.real, base.join("real/not/there"));
        let home = path(OsStr::new("~/x"), &base).unwrap();
        assert_eq!(home.path, base.join("x"));
        assert!(path(OsStr::new("x/../y"), &base).is_err());
    }
}
