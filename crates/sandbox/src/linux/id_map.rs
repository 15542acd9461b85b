//! The id maps of the session's user namespace (user_namespaces(7)). Ids are the same inside and outside, so that files belong to
//! whom they belong to.

use caps::{CapSet, Capability};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use stockade_types::SetupFailure;

/// Writes the maps of a launcher that has just entered its user namespace: all ids that exist here where this process may map
/// them, else its own alone.
pub fn write(pid: i32) -> Result<(), SetupFailure> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let (uid, gid) = stockade_sys::host::effective_ids();
    if may_map_all() && write_whole(&folder).is_ok() {
        return Ok(());
    }
    // Without privileges, groups may be mapped only once they can no longer be dropped.
    put(&folder.join("setgroups"), "deny")?;
    put(&folder.join("gid_map"), &format!("{gid} {gid} 1\n"))?;
    put(&folder.join("uid_map"), &format!("{uid} {uid} 1\n"))
}

/// Mapping ids other than one's own takes these two in the parent namespace (user_namespaces(7)); root in a container may lack
/// them.
fn may_map_all() -> bool {
    [Capability::CAP_SETUID, Capability::CAP_SETGID]
        .into_iter()
        .all(|capability| caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false))
}

fn write_whole(folder: &Path) -> io::Result<()> {
    let identity = |own: &str| -> io::Result<String> {
        let map = fs::read_to_string(own)?;
        // Lines of "inside outside count", as this process sees them.
        Ok(map
            .lines()
            .filter_map(|line| {
                let mut fields = line.split_whitespace();
                let (inside, count) = (fields.next()?, fields.nth(1)?);
                Some(format!("{inside} {inside} {count}\n"))
            })
            .collect())
    };
    fs::write(folder.join("gid_map"), identity("/proc/self/gid_map")?)?;
    fs::write(folder.join("uid_map"), identity("/proc/self/uid_map")?)
}

fn put(path: &Path, text: &str) -> Result<(), SetupFailure> {
    // Writing what is there already (root's failed half) is refused with EPERM: that is no failure.
    let result = fs::write(path, text);
    match result {
        Ok(()) => Ok(()),
        Err(_) if fs::read_to_string(path).is_ok_and(|now| already(&now, text)) => Ok(()),
        Err(error) => Err(SetupFailure {
            step: "id-map".into(),
            subject: Some(path.display().to_string()),
            errno: error.raw_os_error(),
            detail: error.to_string(),
            remedy: error.raw_os_error().and_then(SetupFailure::general_remedy).unwrap_or(
                "user namespaces exist here but their ids may not be mapped; look for a security module (AppArmor, SELinux) that forbids it",
            ).into(),
        }),
    }
}

fn already(now: &str, wanted: &str) -> bool {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    words(now) == words(wanted) || (!wanted.contains(' ') && now.trim() == wanted) || {
        // A whole map covers a map of one.
        wanted.contains(' ') && !now.trim().is_empty()
    }
}
