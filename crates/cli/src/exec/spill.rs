use std::path::Path;
use std::time::SystemTime;
use stockade_spill::{Ages, Limits, SpillError, SpillStore, sweep};
use stockade_types::SessionId;

/// Opens the session's store, and removes what has outlived its retention in those of all sessions.
pub fn open(state_dir: &Path, session: &SessionId) -> Result<SpillStore, SpillError> {
    let folder = state_dir.join("sessions").join(session.as_str());
    // Cells show the folder under its real path.
    let real = |path: &Path| {
        path.canonicalize().map_err(|source| SpillError::Io {
            step: "find its folder",
            path: path.to_owned(),
            source,
        })
    };
    let state_dir = real(state_dir)?;
    let swept = sweep(&state_dir, &Ages::default(), SystemTime::now());
    if swept.stuck > 0 {
        tracing::warn!(files = swept.stuck, "spilled results that are too old cannot be removed");
    }
    let inside = real(&folder)?.join("spill");
    SpillStore::open(&state_dir, session, &inside, Limits::default())
}
