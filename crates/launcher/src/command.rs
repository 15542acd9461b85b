//! The command stage: from the clone to the exec, in a fixed order. No heap, no locks, no formatting.

use crate::spawn::Prepared;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use stockade_plan::Stage;
use stockade_sys::{confine, errno, fd, process, signal, tty};

/// What a command stage leaves behind for its init, whose memory and descriptors it shares. Not told over the lifeline: once the
/// filter stands, a system call that a policy refuses would wait for an init that waits for this stage.
#[derive(Default)]
pub struct Left {
    /// Stage, error number and index of the step that failed, packed, or 0.
    failure: AtomicU64,
    /// The number of the filter's listener, or 0.
    listener: AtomicI32,
    /// The other way round: it was not born in its cgroup, and has to enter it.
    outside: AtomicBool,
}

impl Left {
    fn fail(&self, stage: Stage, error: &io::Error, index: u32) -> ! {
        let packed = 1 << 63
            | u64::from(stage as u8) << 48
            | u64::from(index & 0xffff) << 32
            | u64::from(errno(error) as u32);
        self.failure.store(packed, Ordering::Release);
        process::exit_now(125)
    }

    /// Tells the stage that is to come that it has to enter its cgroup by itself.
    pub fn begin_outside(&self) {
        self.outside.store(true, Ordering::Release);
    }

    fn is_outside(&self) -> bool {
        self.outside.load(Ordering::Acquire)
    }

    /// The step that failed, its error number and its index.
    pub fn failure(&self) -> Option<(u8, i32, u32)> {
        let packed = self.failure.load(Ordering::Acquire);
        let failed = packed != 0;
        failed.then_some((
            (packed >> 48) as u8,
            packed as u32 as i32,
            (packed >> 32) as u32 & 0xffff,
        ))
    }

    /// The listener's number.
    pub fn listener(&self) -> Option<i32> {
        Some(self.listener.load(Ordering::Acquire)).filter(|number| *number != 0)
    }
}

/// Confines the calling process and executes the command in it.
pub fn run(prepared: &Prepared<'_>) -> ! {
    let left = &prepared.left;
    let [stdin, stdout, stderr] = &prepared.stdio;
    // Where no pid namespace ends it with its init.
    if prepared.bare
        && let Err(error) = process::signal_at_parents_end(nix::libc::SIGKILL)
    {
        left.fail(Stage::Session, &error, 2);
    }
    if left.is_outside()
        && let Some(group) = &prepared.group
        && let Err(error) = group.enter()
    {
        left.fail(Stage::Cgroup, &error, 0);
    }
    // Not before it is where it stays: what it sees of cgroups begins there, and no child can be born above that.
    if !prepared.bare
        && let Err(error) = process::unshare(process::Namespaces::CGROUP)
    {
        left.fail(Stage::Cgroup, &error, 1);
    }
    if let Err(error) = tty::new_session() {
        left.fail(Stage::Session, &error, 0);
    }
    if prepared.controlling_terminal
        && let Err(error) = tty::make_controlling(stdin.as_fd())
    {
        left.fail(Stage::Session, &error, 1);
    }
    if let Err(error) = fd::install_stdio([stdin.as_fd(), stdout.as_fd(), stderr.as_fd()]) {
        left.fail(Stage::Descriptors, &error, 0);
    }
    // Marked, not closed: they are the init's too until the exec.
    if let Err(error) = fd::cloexec_from(3) {
        left.fail(Stage::Descriptors, &error, 1);
    }
    signal::heed_terminal_signals();
    for (index, limit) in prepared.rlimits.iter().enumerate() {
        if let Err(error) = confine::rlimit(limit.resource, limit.soft, limit.hard) {
            left.fail(Stage::Rlimit, &error, index as u32);
        }
    }
    if let Err(error) = nix::unistd::chdir(prepared.cwd.as_c_str()) {
        left.fail(Stage::WorkingDirectory, &error.into(), 0);
    }
    if let Err((stage, error)) = prepared.confinement.apply(prepared.audit_mark.as_deref()) {
        left.fail(stage, &error, 0);
    }
    if let Some(filter) = prepared.confinement.filter {
        match filter.install() {
            Ok(listener) => left.listener.store(listener.unwrap_or(0), Ordering::Release),
            Err(error) => left.fail(Stage::Seccomp, &error, 0),
        }
    }
    let error = prepared.exec.run();
    left.fail(Stage::Exec, &error, 0)
}
