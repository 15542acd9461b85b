//! What a session is started with, alike for `run`, `exec` and `doctor`.

use crate::shipped;
use std::path::{Path, PathBuf};
use stockade_policy::{Policy, PolicyError};
use stockade_sandbox::linux::{LauncherSource, SessionOptions};
use stockade_types::SetupFailure;

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
        host_environment: std::env::vars_os().collect(),
        launcher,
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
