//! The tier without namespaces and mounts: what Landlock, the filter and rlimits can hold of a policy there, and the names of
//! what they cannot.

use super::host::HostCaps;
use super::resolve::Resolved;
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use stockade_plan::{LandlockRule, MountStep};
use stockade_policy::{NetworkMode, Policy};
use stockade_sys::cgroup::Controllers;
use stockade_types::{Layer, Refusal};

/// The devices that every program may expect.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// The most rules that hidden paths may be carved out with.
const RULES_MAX: usize = 20_000;

/// The rules of a policy that cannot be held here, each with the layer that it takes.
pub fn unenforced(policy: &Policy, host: &HostCaps) -> Vec<(String, Layer)> {
    let mut rules = Vec::new();
    if !policy.filesystem.protect.is_empty() || !policy.filesystem.literal.protect.is_empty() {
        let rule = "filesystem.protect (what exists can be changed; what is planted is put aside when the call ends)";
        rules.push((rule.to_owned(), Layer::MountTree));
    }
    if !policy.filesystem.hide.is_empty() || !policy.filesystem.literal.hide.is_empty() {
        let rule = "filesystem.hide (hidden paths are refused, but seen to exist)";
        rules.push((rule.to_owned(), Layer::MountTree));
    }
    rules.push(("a /tmp, /dev/shm and home folder of the session's own".into(), Layer::MountTree));
    // landlock(7), "Current limitations": stat, chmod, chown, setxattr, utime, ioctl on what is not a device.
    rules.push((
        "filesystem.write for modes, owners, times and attributes (those of the user's files elsewhere can be changed)".into(),
        Layer::MountTree,
    ));
    rules.push((
        "a /proc of the call's own (other processes are seen, and the user's can be given other priorities, processors and limits)".into(),
        Layer::PidNamespace,
    ));
    if stockade_sys::cgroup::own().is_none() {
        rules.push((
            "the end of every process with its call (they are hunted down, which one that forks without end may outrun: a delegated cgroup of version 2 would hold them)".into(),
            Layer::PidNamespace,
        ));
    }
    if host.landlock_abi.is_none_or(|abi| abi < ABI_SIGNALS) {
        let rule = "no signals to other processes of the user (Landlock has it from ABI 6 on)";
        rules.push((rule.to_owned(), Layer::PidNamespace));
    }
    if policy.network.mode == NetworkMode::None {
        let rule = "network.mode = \"none\" with a loopback of its own (no network socket can be made instead)";
        rules.push((rule.to_owned(), Layer::NetworkNamespace));
    }
    rules
}

/// `LANDLOCK_ACCESS_FS_TRUNCATE`: without it, files that cannot be written to can be emptied (landlock(7)).
const ABI_TRUNCATE: i32 = 3;
/// `LANDLOCK_SCOPE_SIGNAL`.
const ABI_SIGNALS: i32 = 6;

/// What no `require` can let go here, since nothing else would hold it.
pub fn check(policy: &Policy, host: &HostCaps, controllers: Controllers) -> Result<(), Refusal> {
    let refused = |what: String| {
        Err(Refusal {
            by: "host".into(),
            reason: format!(
                "{what}, and namespaces cannot be had here ({}): {}",
                blocking(host).map_or("unknown why", |(_, why)| why.as_str()),
                super::launcher::NAMESPACES_REMEDY
            ),
        })
    };
    if policy.is_full_access() {
        return Ok(());
    }
    match host.landlock_abi {
        None => return refused("without Landlock nothing confines files".into()),
        Some(abi) if abi < ABI_TRUNCATE => {
            return refused(format!(
                "filesystem.write cannot be enforced by Landlock ABI {abi}, which lets every file be emptied (ABI {ABI_TRUNCATE}, kernel 6.2, does not)"
            ));
        }
        Some(_) => {}
    }
    if host.lacks(Layer::Seccomp).is_some() {
        return refused(
            "without seccomp filters nothing closes the network and the host's sockets".into(),
        );
    }
    if policy.limits.memory.is_some() && !controllers.memory {
        return refused(
            "limits.memory takes a pid_namespace, or a cgroup of version 2 that is delegated with the memory controller".into(),
        );
    }
    if policy.network.mode == NetworkMode::None && policy.syscalls.allow.iter().any(|n| n == "all")
    {
        return refused(
            "network.mode = \"none\" without a filter takes a network_namespace".into(),
        );
    }
    if !policy.network.unix_sockets.is_empty() {
        return refused("network.unix_sockets takes a mount_tree".into());
    }
    Ok(())
}

/// The layer whose lack rules out all other namespaces, and why it is missing.
pub fn blocking(host: &HostCaps) -> Option<&(Layer, String)> {
    let of = |layer| host.missing.iter().find(|(missing, _)| *missing == layer);
    of(Layer::MountTree).or_else(|| of(Layer::UserNamespace)).or(host.missing.first())
}

/// Landlock's rules for the host's own tree.
pub fn rules(resolved: &Resolved, temporary: &Path) -> Result<Vec<LandlockRule>, Refusal> {
    let hidden: BTreeSet<&Path> = resolved
        .mounts
        .iter()
        .filter_map(|step| match step {
            MountStep::Hide { target, .. } => Some(target.as_path()),
            MountStep::HideExcept { target, .. } => Some(target.as_path()),
            _ => None,
        })
        .collect();
    let mut rules = vec![rule(Path::new("/proc"), false), rule(temporary, true)];
    for device in DEVICES {
        rules.push(LandlockRule { list: false, ioctl: true, ..rule(Path::new(device), true) });
    }
    for step in &resolved.mounts {
        let MountStep::Bind { source, writable, .. } = step else { continue };
        let path = source.as_path();
        let inside: Vec<&Path> =
            hidden.iter().copied().filter(|hidden| hidden.starts_with(path)).collect();
        match inside.first() {
            None => rules.push(rule(path, *writable)),
            Some(first) if *writable => {
                return Err(Refusal {
                    by: "host".into(),
                    reason: format!(
                        "hiding {} inside the writable root {} takes a mount_tree, which cannot be had here",
                        first.display(),
                        path.display()
                    ),
                });
            }
            Some(_) => carve(path, &inside, &mut rules)?,
        }
    }
    Ok(rules)
}

/// Everything below a folder but what is hidden. A rule counts for all that is below, so what lies beside the hidden has rules of
/// its own; what comes into being there later is not readable.
fn carve(folder: &Path, hidden: &[&Path], rules: &mut Vec<LandlockRule>) -> Result<(), Refusal> {
    // The root itself is hidden.
    if hidden.contains(&folder) {
        return Ok(());
    }
    // A right to list would count for hidden folders as well.
    if !hidden.iter().any(|path| path.is_dir()) {
        rules.push(LandlockRule { read: false, ..rule(folder, false) });
    }
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries.flatten() {
        let path = entry.path();
        let below: Vec<&Path> =
            hidden.iter().copied().filter(|hidden| hidden.starts_with(&path)).collect();
        // A rule about a link would be one about what it leads to.
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        match below.as_slice() {
            _ if is_link => {}
            [] => rules.push(rule(&path, false)),
            below => carve(&path, below, rules)?,
        }
        if rules.len() > RULES_MAX {
            return Err(Refusal {
                by: "host".into(),
                reason: format!(
                    "too much lies beside what is hidden in {}: without a mount_tree it takes more than {RULES_MAX} rules",
                    folder.display()
                ),
            });
        }
    }
    Ok(())
}

fn rule(path: &Path, write: bool) -> LandlockRule {
    LandlockRule { path: path.into(), list: true, read: true, write, ioctl: false }
}

/// A folder of the host for the session's temporary files. Gone with the session; what a session that was killed has left is
/// removed when the next one makes its own.
pub struct TemporaryFolder(PathBuf);

const PREFIX: &str = "stockade-tmp-";

impl TemporaryFolder {
    /// Makes it, for this user alone.
    pub fn make() -> io::Result<Self> {
        let place = std::env::temp_dir();
        let place = fs::canonicalize(&place).unwrap_or(place);
        remove_stale(&place);
        let random = rand_suffix();
        let folder = place.join(format!("{PREFIX}{}-{random:016x}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self(folder))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl TemporaryFolder {
    /// Removes it, with all that is in it.
    pub fn remove(&self) {
        let _ = stockade_sys::remove::remove_tree(&self.0);
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        self.remove();
    }
}

fn rand_suffix() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// Removes the temporary folders of sessions that are no more; which there were.
pub fn remove_stale_folders() -> Vec<PathBuf> {
    remove_stale(&std::env::temp_dir())
}

fn remove_stale(place: &Path) -> Vec<PathBuf> {
    let mut stale = Vec::new();
    let Ok(entries) = fs::read_dir(place) else { return stale };
    let own = stockade_sys::host::effective_ids().0;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX))
            .and_then(|rest| rest.split_once('-'))
            .and_then(|(pid, _)| pid.parse::<u32>().ok());
        let is_ours = entry.metadata().is_ok_and(|data| data.is_dir() && data.uid() == own);
        if let Some(pid) = pid
            && is_ours
            && !Path::new(&format!("/proc/{pid}")).exists()
        {
            let _ = stockade_sys::remove::remove_tree(&entry.path());
            stale.push(entry.path());
        }
    }
    stale
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(root: &Path, writable: bool, hidden: &[PathBuf]) -> Resolved {
        let mut mounts = vec![MountStep::Bind {
            source: root.into(),
            target: root.into(),
            writable,
            identity: None,
        }];
        mounts.extend(
            hidden
                .iter()
                .map(|path| MountStep::Hide { target: path.as_path().into(), absent: false }),
        );
        Resolved { mounts, ..Resolved::default() }
    }

    fn readable(rules: &[LandlockRule], path: &Path) -> bool {
        rules.iter().any(|rule| rule.read && path.starts_with(rule.path.as_path()))
    }

    #[test]
    fn what_lies_beside_the_hidden_is_readable_and_the_hidden_is_not() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("root");
        for folder in ["a/secret", "a/plain", "b"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("b/key"), "x").unwrap();
        std::os::unix::fs::symlink("/etc", root.join("link")).unwrap();
        let hidden = [root.join("a/secret"), root.join("b/key")];
        let rules = rules(&resolved(&root, false, &hidden), Path::new("/tmp/t")).unwrap();
        assert!(readable(&rules, &root.join("a/plain/x")));
        for path in &hidden {
            assert!(!readable(&rules, path), "{}", path.display());
            let lists = |rule: &&LandlockRule| rule.list && path.starts_with(rule.path.as_path());
            let is_folder = path.is_dir();
            assert!(!is_folder || !rules.iter().any(|rule| lists(&rule)), "{}", path.display());
        }
        assert!(!rules.iter().any(|rule| rule.path.as_path().ends_with("link")));
    }

    #[test]
    fn hiding_in_a_writable_root_is_refused_by_its_name() {
        let scratch = tempfile::tempdir().unwrap();
        let hidden = [scratch.path().join("key")];
        let refusal =
            rules(&resolved(scratch.path(), true, &hidden), Path::new("/tmp/t")).unwrap_err();
        assert!(
            refusal.reason.contains("key") && refusal.reason.contains("mount_tree"),
            "{refusal}"
        );
    }

    #[test]
    fn the_temporary_folder_is_gone_with_its_owner_and_after_a_kill_by_the_next() {
        let made = TemporaryFolder::make().unwrap();
        let path = made.path().to_owned();
        assert!(path.is_dir());
        // Of a process that is no more: pids end at 2^22.
        let stale = path.parent().unwrap().join(format!("{PREFIX}4194305-0"));
        fs::create_dir_all(stale.join("left")).unwrap();
        let next = TemporaryFolder::make().unwrap();
        assert!(!stale.exists());
        assert!(path.is_dir(), "that of a living one stays");
        drop((made, next));
        assert!(!path.exists());
    }
}
