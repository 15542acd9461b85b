//! Tries out what this machine lets a session do, by doing it in a child that ends right after.

use std::os::fd::OwnedFd;
use stockade_plan::{ProbeReport, ProbedFeature};
use stockade_sys::mount::{self, MountAttributes};
use stockade_sys::process::{self, Cloned, Namespaces, Reaped, SingleThreaded};
use stockade_sys::{confine, errno};

/// Tries each feature. Run it before or after the user namespace is entered: it tells what is possible from there.
pub fn probe(proof: SingleThreaded) -> ProbeReport {
    let mut features = Vec::new();
    let mut add = |name: &str, errno: i32| {
        features.push(ProbedFeature { name: name.into(), errno });
    };
    for (name, namespaces) in [
        ("mount_namespace", Namespaces::MOUNT),
        ("pid_namespace", Namespaces::PID),
        ("network_namespace", Namespaces::NETWORK),
        ("ipc_namespace", Namespaces::IPC),
        ("uts_namespace", Namespaces::UTS),
        ("cgroup_namespace", Namespaces::CGROUP),
    ] {
        add(name, attempt(proof, namespaces, || Ok(())));
    }
    let pid_and_mount = Namespaces::PID.and(Namespaces::MOUNT);
    add(
        "mount_proc",
        attempt(proof, pid_and_mount, || {
            mount::new_filesystem(c"proc", &[], MountAttributes::NONE).map(|_: OwnedFd| ())
        }),
    );
    add(
        "mount_tmpfs",
        attempt(proof, pid_and_mount, || {
            mount::new_filesystem(c"tmpfs", &[], MountAttributes::NONE).map(|_: OwnedFd| ())
        }),
    );
    add("landlock", attempt(proof, Namespaces::NONE, || confine::landlock_abi().map(|_| ())));
    add("seccomp", if confine::has_seccomp_filter() { 0 } else { nix::libc::ENOSYS });
    ProbeReport { features }
}

/// Runs `what` in a fresh child with new namespaces; the error number of whatever failed, or 0. Only system calls happen in
/// the child.
fn attempt(
    proof: SingleThreaded,
    namespaces: Namespaces,
    what: impl FnOnce() -> std::io::Result<()>,
) -> i32 {
    match process::clone_process(proof, namespaces) {
        Ok(Cloned::Child) => {
            let error = what().err().map_or(0, |error| errno(&error));
            process::exit_now(error.clamp(0, 255))
        }
        Ok(Cloned::Parent { pid, .. }) => loop {
            match process::reap() {
                Reaped::Ended(ended, status) if ended == pid => {
                    return (status >> 8) & 0xff;
                }
                Reaped::Ended(..) => {}
                Reaped::Alive => std::thread::yield_now(),
                Reaped::NoChildren => return nix::libc::ECHILD,
            }
        },
        Err(error) => errno(&error),
    }
}
