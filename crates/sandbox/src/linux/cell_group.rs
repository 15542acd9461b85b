//! A cell's cgroup, where cgroups of version 2 with controllers are delegated to whoever runs this.

use std::fs;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use stockade_plan::Bytes;
use stockade_policy::LimitsPolicy;
use stockade_sys::cgroup::{self, Controllers, PREFIX};

/// Each call of the cell has one of its own in it. Removed when it is dropped, if its cell has not done that already.
pub(super) struct CellGroup {
    path: PathBuf,
    name: String,
    folder: File,
    pub controllers: Controllers,
}

impl CellGroup {
    /// One for a policy's limits, if it has any that it can hold. Whatever fails, there is none: the limits are then held as on a host without.
    pub fn make(limits: &LimitsPolicy) -> Option<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let wanted = wanted(limits);
        if wanted == Controllers::NONE {
            return None;
        }
        let home = cgroup::home()?;
        cgroup::remove_stale(&home.path);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let controllers = home.make(&name, wanted).ok()?;
        let path = home.path.join(&name);
        match File::open(&path) {
            Ok(folder) => Some(Self { path, name, folder, controllers }),
            Err(_) => {
                let _ = fs::remove_dir(&path);
                None
            }
        }
    }

    /// Its name, for the cell to remove it by.
    pub fn name(&self) -> Bytes {
        self.name.as_str().into()
    }

    /// Its folder.
    pub fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

impl Drop for CellGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
    }
}

fn wanted(limits: &LimitsPolicy) -> Controllers {
    Controllers { memory: limits.memory.is_some(), pids: limits.pids.is_some() }
}

/// What a policy's limits could be held by here, without making anything.
pub(super) fn available(limits: &LimitsPolicy) -> Controllers {
    let wanted = wanted(limits);
    match wanted == Controllers::NONE {
        true => wanted,
        false => cgroup::home().map_or(Controllers::NONE, |home| home.controllers.and(wanted)),
    }
}
