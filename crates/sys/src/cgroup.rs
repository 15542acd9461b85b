//! Where a process is among the control groups (cgroups(7), version 2), and where it may have some of its own.

use nix::unistd::{AccessFlags, access};
use std::ffi::OsStr;
use std::fs;
use std::io;
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
    let own = own_path(cgroups)?;
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

/// The caller's cgroup as proc_pid_cgroup(5) has it, without the slash before it.
fn own_path(cgroups: &[u8]) -> Option<&[u8]> {
    cgroups.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"0::/"))
}

/// What a cgroup's name begins with that is ours; the number of the process that made it follows, and what tells several apart.
pub const PREFIX: &str = "stockade-";

/// Where every service manager and container runtime mounts cgroups of version 2 that have controllers.
const MOUNT: &str = "/sys/fs/cgroup";

/// The controllers that limits of ours need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Controllers {
    /// `memory.max` and what belongs to it.
    pub memory: bool,
    /// `pids.max`.
    pub pids: bool,
}

impl Controllers {
    /// None of them.
    pub const NONE: Self = Self { memory: false, pids: false };

    /// From a list as `cgroup.controllers` and `cgroup.subtree_control` have it.
    fn read(list: &Path) -> Self {
        let text = fs::read_to_string(list).unwrap_or_default();
        let has = |name| text.split_ascii_whitespace().any(|word| word == name);
        Self { memory: has("memory"), pids: has("pids") }
    }

    /// Those that both have.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { memory: self.memory && other.memory, pids: self.pids && other.pids }
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        [(self.memory, "memory"), (self.pids, "pids")]
            .into_iter()
            .filter_map(|(has, name)| has.then_some(name))
    }
}

/// A cgroup in which this process may make others that have controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// Its folder.
    pub path: PathBuf,
    /// What those in it have.
    pub controllers: Controllers,
    /// It is the caller's own, so that all processes in it have to go into a leaf before the controllers can be given away:
    /// no cgroup but the root has both.
    needs_leaf: bool,
}

/// Where this process may make cgroups that limit memory or processes, if anywhere: beside its own one, where the one above is
/// its user's and passes controllers on; or in its own one, where nobody else's process is. Changes nothing. Without cgroups of
/// version 2 with controllers it costs one system call.
pub fn home() -> Option<Home> {
    let mount = Path::new(MOUNT);
    access(&mount.join("cgroup.controllers"), AccessFlags::R_OK).ok()?;
    let cgroups = fs::read("/proc/self/cgroup").ok()?;
    let own = Path::new(OsStr::from_bytes(own_path(&cgroups)?));
    // A process that was moved out of its cgroup namespace's root is shown above it.
    let above = own.components().any(|part| part == std::path::Component::ParentDir);
    (!above).then(|| home_at(mount, own, &is_ours)).flatten()
}

fn home_at(mount: &Path, own: &Path, is_ours: &dyn Fn(i32) -> bool) -> Option<Home> {
    let own = if own == Path::new("") { mount.to_owned() } else { mount.join(own) };
    let may_fill = |path: &Path| {
        access(path, AccessFlags::W_OK).is_ok()
            && access(&path.join("cgroup.procs"), AccessFlags::W_OK).is_ok()
    };
    let given = |path: PathBuf, needs_leaf: bool| {
        let list = if needs_leaf { "cgroup.controllers" } else { "cgroup.subtree_control" };
        let controllers = Controllers::read(&path.join(list));
        (controllers != Controllers::NONE).then_some(Home { path, controllers, needs_leaf })
    };
    let own_is_ours = may_fill(&own);
    // The root alone passes controllers on although it has processes.
    let root = || own_is_ours.then(|| given(own.clone(), false)).flatten();
    let beside = || {
        let parent = own.parent().filter(|parent| parent.starts_with(mount) && may_fill(parent))?;
        given(parent.to_owned(), false)
    };
    let inside = || {
        // Only the root of all cgroups has no such file.
        let limited = own_is_ours
            && access(&own.join("cgroup.events"), AccessFlags::F_OK).is_ok()
            && access(&own.join("cgroup.subtree_control"), AccessFlags::W_OK).is_ok();
        (limited && processes(&own)?.into_iter().all(is_ours)).then(|| given(own.clone(), true))?
    };
    root().or_else(beside).or_else(inside)
}

fn processes(group: &Path) -> Option<Vec<i32>> {
    let text = fs::read_to_string(group.join("cgroup.procs")).ok()?;
    text.lines().map(|line| line.parse().ok()).collect()
}

/// The caller, or a child of it. Those of other pid namespaces are 0.
fn is_ours(pid: i32) -> bool {
    let own = std::process::id();
    let parent = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold any character.
        stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse::<u32>().ok()
    };
    pid > 0 && (u32::try_from(pid) == Ok(own) || parent() == Some(own))
}

impl Home {
    /// Makes a cgroup in it that passes on what it can of `wanted`, and says what that is. The name is free again once the process with
    /// this number is no more.
    pub fn make(&self, name: &str, wanted: Controllers) -> io::Result<Controllers> {
        if self.needs_leaf {
            self.move_into_leaf()?;
        }
        let path = self.path.join(name);
        fs::create_dir(&path)?;
        let control = path.join("cgroup.subtree_control");
        enable(&control, wanted.and(self.controllers));
        // What the kernel says is passed on, whatever was asked for. While it is, nobody above can take it back.
        let passed = Controllers::read(&control).and(wanted);
        if passed == Controllers::NONE {
            let _ = fs::remove_dir(&path);
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(passed)
    }

    /// Once a session: it takes the kernel some milliseconds for each process.
    fn move_into_leaf(&self) -> io::Result<()> {
        let leaf = self.path.join(format!("{PREFIX}{}-leaf", std::process::id()));
        if let Err(error) = fs::create_dir(&leaf)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(error);
        }
        for pid in processes(&self.path).unwrap_or_default() {
            fs::write(leaf.join("cgroup.procs"), pid.to_string())?;
        }
        enable(&self.path.join("cgroup.subtree_control"), self.controllers);
        Ok(())
    }
}

/// One by one: all that are written at once fail together.
fn enable(control: &Path, controllers: Controllers) {
    for name in controllers.names() {
        let _ = fs::write(control, format!("+{name}"));
    }
}

/// Removes the cgroups in one that processes which are no more have made. Those that still have a process stay. Which there were.
pub fn remove_stale(home: &Path) -> Vec<PathBuf> {
    let mut stale = Vec::new();
    let Ok(entries) = fs::read_dir(home) else { return stale };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        let pid = rest.split('-').next().unwrap_or_default();
        if pid.parse::<u32>().is_err() || Path::new("/proc").join(pid).exists() {
            continue;
        }
        for call in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
            // Its files are the kernel's, and go with it.
            let _ = fs::remove_dir(call.path());
        }
        let _ = fs::remove_dir(entry.path());
        stale.push(entry.path());
    }
    stale
}

/// The same wherever this process's sessions would make theirs.
pub fn remove_stale_of_own() -> Vec<PathBuf> {
    let homes = [own(), home().map(|home| home.path)];
    let mut stale: Vec<PathBuf> =
        homes.into_iter().flatten().flat_map(|home| remove_stale(&home)).collect();
    stale.dedup();
    stale
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like a cgroup. What a kernel does with what is written there is shown by `scripts/kernels`.
    fn group(path: &Path, available: &str, passed_on: &str, processes: &str) {
        fs::create_dir_all(path).unwrap();
        for (file, text) in [
            ("cgroup.controllers", available),
            ("cgroup.subtree_control", passed_on),
            ("cgroup.procs", processes),
            ("cgroup.events", "populated 1\n"),
        ] {
            fs::write(path.join(file), text).unwrap();
        }
    }

    // spec 5.7
    #[test]
    fn cgroups_are_made_beside_the_own_one_where_the_one_above_passes_controllers_on() {
        let mount = tempfile::tempdir().unwrap();
        let above = mount.path().join("user/app");
        group(&above, "cpu memory pids\n", "memory pids\n", "");
        group(&above.join("shell"), "memory pids\n", "", "1\n2\n");
        let found = home_at(mount.path(), Path::new("user/app/shell"), &|_| false).unwrap();
        assert_eq!(found.path, above);
        assert_eq!(found.controllers, Controllers { memory: true, pids: true });
        assert!(!found.needs_leaf);
        fs::write(above.join("cgroup.subtree_control"), "pids\n").unwrap();
        let found = home_at(mount.path(), Path::new("user/app/shell"), &|_| false).unwrap();
        assert_eq!(found.controllers, Controllers { memory: false, pids: true });
    }

    // spec 5.7
    #[test]
    fn in_the_own_cgroup_they_are_made_only_where_no_process_is_somebody_elses() {
        let mount = tempfile::tempdir().unwrap();
        let own = mount.path().join("run.scope");
        group(&own, "memory pids\n", "", "10\n11\n");
        let found = home_at(mount.path(), Path::new("run.scope"), &|_| true);
        assert_eq!(found.map(|home| (home.path, home.needs_leaf)), Some((own.clone(), true)));
        assert_eq!(home_at(mount.path(), Path::new("run.scope"), &|pid| pid == 10), None);
        group(&own, "cpu io\n", "", "10\n");
        assert_eq!(home_at(mount.path(), Path::new("run.scope"), &|_| true), None, "no use");
        assert_eq!(home_at(mount.path(), Path::new("gone.scope"), &|_| true), None);
    }

    // spec 5.4
    #[test]
    fn those_of_processes_that_are_no_more_are_removed_and_no_others() {
        let home = tempfile::tempdir().unwrap();
        let alive = std::process::id();
        for name in ["4194305", "4194305-3", "4194306-leaf", "of-somebody"] {
            fs::create_dir_all(home.path().join(format!("stockade-{name}/7"))).unwrap();
        }
        fs::create_dir_all(home.path().join(format!("stockade-{alive}-0/7"))).unwrap();
        assert_eq!(remove_stale(home.path()).len(), 3);
        let mut left: Vec<_> =
            fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [format!("stockade-{alive}-0").as_str(), "stockade-of-somebody"]);
    }

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
