//! Where a process is among the control groups (cgroups(7), version 2).

use nix::unistd::{AccessFlags, access};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// This process's own cgroup, if it may make others in it: cgroups version 2 are mounted, and its folder is its user's.
pub fn own() -> Option<PathBuf> {
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    let cgroups = fs::read("/proc/self/cgroup").ok()?;
    let home = place(&mounts, &cgroups)?;
    let may_write = |path: &Path| access(path, AccessFlags::W_OK).is_ok();
    (may_write(&home) && may_write(&home.join("cgroup.procs"))).then_some(home)
}

/// From the texts of proc_pid_mountinfo(5) and of proc_pid_cgroup(5).
fn place(mounts: &[u8], cgroups: &[u8]) -> Option<PathBuf> {
    let own = cgroups.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"0::/"))?;
    let mount = mounts.split(|byte| *byte == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let dash = fields.iter().position(|field| *field == b"-")?;
        // Mounted from its root, so that the paths agree.
        let fits = fields.get(dash + 1) == Some(&b"cgroup2".as_slice())
            && fields.get(3) == Some(&b"/".as_slice());
        fits.then(|| fields.get(4).copied()).flatten()
    })?;
    // What the kernel had to escape is none that anybody mounts cgroups at.
    (!mount.contains(&b'\\'))
        .then(|| Path::new(OsStr::from_bytes(mount)).join(OsStr::from_bytes(own)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // spec 5.7
    fn the_own_cgroup_is_found_where_version_2_is_mounted_from_its_root() {
        let mounts = b"24 1 0:21 / /proc rw - proc proc rw\n31 23 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        let own = b"3:memory:/other\n0::/user.slice/session-1.scope\n";
        let found = place(mounts, own);
        assert_eq!(found, Some("/sys/fs/cgroup/user.slice/session-1.scope".into()));
        assert_eq!(place(mounts, b"0::/\n"), Some("/sys/fs/cgroup/".into()));
        assert_eq!(place(mounts, b"3:memory:/\n"), None, "version 1 alone");
        let inner = b"31 23 0:27 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(place(inner, own), None, "the paths would not agree");
        assert_eq!(place(b"", own), None);
        assert_eq!(place(b"31 23 0:27\n- - -\n", own), None, "nonsense");
    }
}
