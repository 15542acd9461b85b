//! What a session is started with, alike for `run`, `exec` and `doctor`.

use crate::shipped;
use std::path::{Path, PathBuf};
use stockade_policy::{Policy, PolicyError};
use stockade_sandbox::linux::{LauncherSource, SessionOptions};
use stockade_types::{SessionId, SetupFailure};

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
        subject: Some(name_or_file.to_string_lossy().into_owned()),
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

/// Where a session's background tasks have their output.
pub fn tasks_folder(state_dir: &Path, session: &SessionId) -> PathBuf {
    state_dir.join("sessions").join(session.as_str()).join("tasks")
}
