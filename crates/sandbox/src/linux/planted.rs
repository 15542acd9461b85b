//! What a call planted under protected names (spec 5.4), in words: as its cell tells it, or, where that is lost, as it is seen from outside.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use stockade_plan::{Bytes, CellReply, ProtectedPath, QUARANTINED};
use stockade_types::{Denial, DenialKind, Evidence};

/// The clock of a file system runs behind the one that programs read, by a tick of the kernel's.
const TICK: Duration = Duration::from_millis(20);

fn denial(target: String, note: String) -> Denial {
    let (kind, evidence) = (DenialKind::Write, Evidence::Observed);
    Denial { kind, target, evidence, grant: String::new(), note }
}

fn put_aside(new: &str) -> String {
    format!("protected: it was planted, and has been put aside as {new}")
}

/// What a cell answers to [`stockade_plan::CellRequest::Sweep`].
pub(super) fn told(swept: &CellReply) -> Vec<Denial> {
    let CellReply::Swept { quarantined, unlisted, replaced, unchecked, .. } = swept else {
        return Vec::new();
    };
    let text = |bytes: &Bytes| bytes.as_os_str().to_string_lossy().into_owned();
    let mut denials = Vec::new();
    denials.extend(quarantined.iter().map(|(old, new)| {
        denial(
            text(old),
            match new.0.as_slice() {
                [] => "protected: it was planted, and could not be put aside; remove it".into(),
                _ => put_aside(&text(new)),
            },
        )
    }));
    if *unlisted > 0 {
        let more = format!("({unlisted} more)");
        let note = "protected: so many more were planted, and have been put aside in the same way";
        denials.push(denial(more, note.into()));
    }
    let replacement = "protected: somebody outside replaced it while the call ran, and from then on the call could have changed it: look at it";
    denials.extend(replaced.iter().map(|path| denial(text(path), replacement.into())));
    let many = "protected: too many folders to look at all of them, or too deep ones, so that hooks and settings in repositories below may be changed";
    denials.extend(unchecked.iter().map(|root| denial(text(root), many.into())));
    denials
}

/// Who knew what there was before the call has been killed: nothing is put aside that may be the user's own, but what changed since is named,
/// and each folder that was not looked through.
pub(super) fn untold(protected: &[ProtectedPath], since: SystemTime) -> Vec<Denial> {
    let since = since.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(TICK);
    let mut denials = Vec::new();
    let mut roots: Vec<&Path> = Vec::new();
    for ProtectedPath { root, relative } in protected {
        let root = root.as_path();
        if !roots.contains(&root) {
            roots.push(root);
        }
        let path = root.join(relative.as_path());
        let changed = |path: &Path| changed_at(path).is_some_and(|changed| changed >= since);
        let mut aside = path.clone().into_os_string();
        aside.push(format!(".{QUARANTINED}"));
        if changed(Path::new(&aside)) {
            let note = put_aside(&Path::new(&aside).display().to_string());
            denials.push(denial(path.display().to_string(), note));
        }
        if changed(&path) {
            let note = "protected: it has changed while the call ran, and the cell was killed that would have put it aside: look at it before you use it";
            denials.push(denial(path.display().to_string(), note.into()));
        }
    }
    let note = "protected: the cell was killed before it could look for what the call planted; look yourself for hooks and settings in repositories below, and for names that end in .quarantined";
    denials.extend(roots.iter().map(|root| denial(root.display().to_string(), note.into())));
    denials
}

/// Since the epoch: the time of change, which no program can set.
fn changed_at(path: &Path) -> Option<Duration> {
    let metadata = fs::symlink_metadata(path).ok()?;
    let seconds = u64::try_from(metadata.ctime()).ok()?;
    Some(Duration::new(seconds, u32::try_from(metadata.ctime_nsec()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    #[test]
    fn what_has_changed_since_is_named_and_what_is_older_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = Bytes(folder.path().as_os_str().as_bytes().to_vec());
        let paths = ["old", "new", "absent"]
            .map(|name| ProtectedPath { root: root.clone(), relative: Bytes(name.into()) });
        fs::write(folder.path().join("old"), "").unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let since = SystemTime::now();
        fs::write(folder.path().join("new"), "").unwrap();
        let named: Vec<PathBuf> =
            untold(&paths, since).into_iter().map(|denial| denial.target.into()).collect();
        assert_eq!(named, [folder.path().join("new"), folder.path().to_path_buf()]);
        assert!(untold(&[], since).is_empty());
    }
}
