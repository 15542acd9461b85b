//! From a command's plan to its running init. Everything that needs a heap happens here, before the clone.

use crate::cell::Confinement;
use crate::cgroup::CallGroup;
use crate::command::Left;
use crate::init;
use crate::server::failure;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use stockade_plan::{Bytes, CommandPlan, RlimitPlan, Stage, StageFailure};
use stockade_sys::exec::Exec;
use stockade_sys::process::{self, ChildStack, Cloned, Namespaces, SingleThreaded};

/// A command with everything that its init and its command stage need, so that they never allocate.
pub struct Prepared<'a> {
    pub proof: SingleThreaded,
    pub confinement: Confinement<'a>,
    pub exec: Exec,
    pub cwd: CString,
    pub rlimits: &'a [RlimitPlan],
    /// The pid limit as the text that /proc takes, in the first `pid_max_length` bytes.
    pub pid_max: [u8; 10],
    pub pid_max_length: usize,
    /// The same as a number, where the limit is the pid namespace's.
    pub pids: Option<u32>,
    pub controlling_terminal: bool,
    /// See [`CommandPlan::audit_mark`].
    pub audit_mark: Option<CString>,
    /// The most memory that the tree may use, in bytes.
    pub memory: Option<u64>,
    pub page_size: u64,
    pub lifeline: OwnedFd,
    pub stdio: [OwnedFd; 3],
    /// What the init keeps open, sorted.
    pub keep: [RawFd; 11],
    /// What the command stage tells the init.
    pub left: Left,
    /// There is no pid namespace, and no mount one.
    pub bare: bool,
    /// What bounds it, and ends it all at once, where there is one.
    pub group: Option<CallGroup>,
}

/// The init of a call that runs.
pub struct Started {
    pub pid: i32,
    pub pidfd: OwnedFd,
    /// The init's end of the lifeline, which is closed with every copy of it.
    pub lifeline: OwnedFd,
}

/// Clones the init of a call, into namespaces unless it is to be a bare one.
pub fn start(
    proof: SingleThreaded,
    plan: &CommandPlan,
    fds: Vec<OwnedFd>,
    confinement: Confinement<'_>,
    bare: bool,
    group: Option<CallGroup>,
) -> Result<Started, StageFailure> {
    let malformed = |detail: &str| StageFailure {
        stage: Stage::Message,
        errno: 0,
        subject: Bytes::default(),
        detail: detail.into(),
    };
    let [lifeline, stdin, stdout, stderr] = <[OwnedFd; 4]>::try_from(fds)
        .map_err(|_| malformed("a command needs exactly four descriptors"))?;
    let strings = |list: &[Bytes]| -> Result<Vec<CString>, StageFailure> {
        list.iter()
            .map(|text| text.to_c_string().ok_or_else(|| malformed("a NUL byte in an argument")))
            .collect()
    };
    if plan.argv.is_empty() {
        return Err(malformed("an empty argument vector"));
    }
    let exec = Exec::new(strings(&plan.candidates)?, strings(&plan.argv)?, strings(&plan.env)?);
    let cwd = plan.cwd.to_c_string().ok_or_else(|| malformed("a NUL byte in a path"))?;
    let audit_mark = plan.audit_mark.as_ref().and_then(Bytes::to_c_string);
    let ruleset = confinement.ruleset.as_ref().map_or(-1, AsRawFd::as_raw_fd);
    let [group_folder, entrance, kill] = group_descriptors(group.as_ref());
    let mut keep = [
        0,
        1,
        2,
        lifeline.as_raw_fd(),
        stdin.as_raw_fd(),
        stdout.as_raw_fd(),
        stderr.as_raw_fd(),
        ruleset,
        group_folder,
        entrance,
        kill,
    ];
    keep.sort_unstable();
    let (pid_max, pid_max_length) = decimal(plan.pid_max);
    let prepared = Prepared {
        proof,
        confinement,
        exec,
        cwd,
        rlimits: &plan.rlimits,
        pid_max,
        pid_max_length,
        pids: plan.pid_max,
        controlling_terminal: plan.terminal.is_some(),
        audit_mark,
        memory: plan.memory,
        page_size: stockade_sys::host::page_size(),
        lifeline,
        stdio: [stdin, stdout, stderr],
        keep,
        left: Left::default(),
        bare,
        group,
    };
    let mut stack = ChildStack::new();
    let namespaces = if bare { Namespaces::NONE } else { Namespaces::PID.and(Namespaces::MOUNT) };
    match process::clone_process(proof, namespaces) {
        Ok(Cloned::Child) => init::run(&prepared, &mut stack),
        Ok(Cloned::Parent { pid, pidfd }) => {
            Ok(Started { pid, pidfd, lifeline: prepared.lifeline })
        }
        Err(error) => Err(failure(Stage::InitClone, &error, Bytes::default())),
    }
}

/// The numbers of a call's cgroup, and of what it is entered and killed by; -1 without one.
pub fn group_descriptors(group: Option<&CallGroup>) -> [RawFd; 3] {
    let number = |fd: Option<BorrowedFd<'_>>| fd.map_or(-1, |fd| fd.as_raw_fd());
    group.map_or([-1; 3], |group| group.descriptors().map(number))
}

fn decimal(number: Option<u32>) -> ([u8; 10], usize) {
    let mut out = [0; 10];
    let text = number.map(|n| n.to_string()).unwrap_or_default();
    out[..text.len()].copy_from_slice(text.as_bytes());
    (out, text.len())
}

/// The error number to report for a failed step.
pub fn number(error: &io::Error) -> i32 {
    stockade_sys::errno(error)
}
