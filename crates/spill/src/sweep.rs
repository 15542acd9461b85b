use crate::retention::{Ages, Retention};
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// What a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that should have gone and could not be removed.
    pub stuck: u64,
}

/// Removes what has outlived its retention, in the spill folders of all sessions below `state_dir`: those of sessions that
/// nobody opens again too. What cannot be looked at is left where it is.
pub fn sweep(state_dir: &Path, ages: &Ages, now: SystemTime) -> Swept {
    let mut swept = Swept::default();
    let Ok(sessions) = fs::read_dir(state_dir.join("sessions")) else { return swept };
    for session in sessions.flatten() {
        for retention in Retention::ALL {
            let folder = session.path().join("spill").join(retention.folder());
            sweep_folder(&folder, &mut swept, |written| {
                // A file from the future is as young as can be.
                now.duration_since(written).is_ok_and(|age| age > ages.of(retention))
            });
        }
    }
    swept
}

/// Removes the files of one folder that are `old`, by when they were written.
pub(crate) fn sweep_folder(folder: &Path, swept: &mut Swept, old: impl Fn(SystemTime) -> bool) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        // Of the entry itself: a link is not followed.
        let Ok(metadata) = entry.metadata() else { continue };
        if !metadata.is_file() || !metadata.modified().is_ok_and(&old) {
            continue;
        }
        match fs::remove_file(entry.path()) {
            Ok(()) => {
                swept.files += 1;
                swept.bytes += metadata.len();
            }
            Err(_) => swept.stuck += 1,
        }
    }
}
