//! The command stage: from the clone to the exec, in a fixed order. No heap, no locks, no formatting.

use crate::init::fail;
use crate::spawn::Prepared;
use std::os::fd::AsFd;
use stockade_plan::Stage;
use stockade_sys::{confine, fd, signal, tty};

/// Confines the calling process and executes the command in it.
pub fn run(prepared: &Prepared<'_>) -> ! {
    let lifeline = prepared.lifeline.as_fd();
    let [stdin, stdout, stderr] = &prepared.stdio;
    if let Err(error) = tty::new_session() {
        fail(lifeline, Stage::Session, &error, 0);
    }
    if prepared.controlling_terminal
        && let Err(error) = tty::make_controlling(stdin.as_fd())
    {
        fail(lifeline, Stage::Session, &error, 1);
    }
    if let Err(error) = fd::install_stdio([stdin.as_fd(), stdout.as_fd(), stderr.as_fd()]) {
        fail(lifeline, Stage::Descriptors, &error, 0);
    }
    // Marked, not closed: the lifeline must still carry the word of a failed exec.
    if let Err(error) = fd::cloexec_from(3) {
        fail(lifeline, Stage::Descriptors, &error, 1);
    }
    signal::heed_terminal_signals();
    for (index, limit) in prepared.rlimits.iter().enumerate() {
        if let Err(error) = confine::rlimit(limit.resource, limit.soft, limit.hard) {
            fail(lifeline, Stage::Rlimit, &error, index as u32);
        }
    }
    if let Err(error) = nix::unistd::chdir(prepared.cwd.as_c_str()) {
        fail(lifeline, Stage::WorkingDirectory, &error.into(), 0);
    }
    if let Err((stage, error)) = prepared.confinement.apply() {
        fail(lifeline, stage, &error, 0);
    }
    let error = prepared.exec.run();
    fail(lifeline, Stage::Exec, &error, 0)
}
