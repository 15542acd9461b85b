//! `stockade doctor --repair`: what sessions that were killed have left on this machine is removed, as the next session of their kind
//! would do by itself (spec 5.4, 6.3). Stubs are not among it: none are ever made.

use crate::session;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use stockade_spill::{Ages, Swept, sweep};

/// What was found.
pub struct Repair {
    removed: Vec<PathBuf>,
    swept: Swept,
}

impl Repair {
    /// Removes it.
    pub fn run(state_dir: Option<&Path>) -> Self {
        let mut removed = stockade_sandbox::linux::remove_stale_folders();
        removed.extend(stockade_launcher::cgroup::remove_stale_of_own());
        let state_dir = session::state_dir(state_dir);
        removed.extend(state_dir.iter().flat_map(|folder| session::remove_stale_sockets(folder)));
        let swept = state_dir.map(|folder| sweep(&folder, &Ages::default(), SystemTime::now()));
        Self { removed, swept: swept.unwrap_or_default() }
    }

    /// All that should have gone has.
    pub fn is_whole(&self) -> bool {
        self.swept.stuck == 0 && self.removed.iter().all(|path| !path.exists())
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for path in &self.removed {
            let done = if path.exists() { "cannot be removed" } else { "removed" };
            // A folder's name may hold anything.
            writeln!(f, "{path:?}: {done}")?;
        }
        let Swept { files, bytes, stuck } = self.swept;
        if files > 0 {
            writeln!(
                f,
                "{files} spilled results that were kept long enough: removed, {bytes} bytes"
            )?;
        }
        if stuck > 0 {
            writeln!(f, "{stuck} spilled results that were kept long enough: cannot be removed")?;
        }
        if self.removed.is_empty() && files == 0 && stuck == 0 {
            writeln!(f, "nothing was left behind")?;
        }
        Ok(())
    }
}
