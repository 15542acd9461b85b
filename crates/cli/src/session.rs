//! What a session is started with, alike for `run`, `exec` and `doctor`.

use crate::shipped;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::{Path, PathBuf};
use stockade_policy::{Policy, PolicyError};
use stockade_sandbox::linux::{LauncherSource, SessionOptions};
use stockade_types::{SessionId, SetupFailure, visible};

/// The options of a session in this workspace, or in the current directory.
pub fn options(
    workspace: Option<&Path>,
    launcher: LauncherSource,
) -> Result<SessionOptions, SetupFailure> {
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    Ok(SessionOptions {
        workspace: workspace.map_or_else(|| PathBuf::from("."), Path::to_owned),
        home: home.ok_or_else(|| SetupFailure {
            step: "home".to_owned(),
            subject: None,
            errno: None,
            detail: "there is no absolute path to a home folder".to_owned(),
            remedy: "set HOME".to_owned(),
        })?,
        session: None,
        host_environment: std::env::vars_os().collect(),
        launcher,
        host: None,
    })
}

/// A policy that cannot be loaded is a set-up that failed: nothing was refused, and nothing has run.
pub fn policy(name_or_file: &std::ffi::OsStr) -> Result<Policy, SetupFailure> {
    if let Some(policy) = name_or_file.to_str().and_then(shipped::policy) {
        return Ok(policy);
    }
    Policy::load(name_or_file).map_err(|error: PolicyError| SetupFailure {
        step: "policy".to_owned(),
        subject: Some(visible(&name_or_file.to_string_lossy())),
        errno: None,
        detail: error.to_string(),
        remedy: String::new(),
    })
}

/// Where sessions are kept: what was asked for, or `stockade` in the user's state folder by the XDG Base Directory
/// Specification; `None` where that is unknown.
pub fn state_dir(asked: Option<&Path>) -> Option<PathBuf> {
    if let Some(dir) = asked {
        return Some(dir.to_owned());
    }
    let absolute = |path: &PathBuf| path.is_absolute();
    // The specification: a relative path in the variable is to be ignored.
    let base = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(absolute);
    let home = || std::env::home_dir().filter(absolute).map(|home| home.join(".local/state"));
    base.or_else(home).map(|base| base.join("stockade"))
}

/// Removes the sockets of sessions that were killed. What stands for a session that lives is its lock on its log.
pub fn remove_stale_sockets(state_dir: &Path) -> Vec<PathBuf> {
    let sessions = std::fs::read_dir(state_dir.join("sessions")).into_iter().flatten().flatten();
    sessions.filter_map(|session| remove_stale_socket(&session.path())).collect()
}

fn remove_stale_socket(session: &Path) -> Option<PathBuf> {
    let tasks = session.join("tasks");
    std::fs::symlink_metadata(tasks.join("control.sock")).ok()?;
    let log = match File::open(session.join("session.jsonl")) {
        Ok(log) => Some(log),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(_) => return None,
    };
    // Kept until the socket is gone: a session that begins has to wait for nothing, but binds only with the lock.
    if let Some(log) = &log {
        flock(log, FlockOperation::NonBlockingLockShared).ok()?;
    }
    stockade_subprocess::tasks::remove_stale_socket(&tasks)
}

/// Where a session's background tasks have their output.
pub fn tasks_folder(state_dir: &Path, session: &SessionId) -> PathBuf {
    state_dir.join("sessions").join(session.as_str()).join("tasks")
}
