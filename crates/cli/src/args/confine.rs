use crate::duration;
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;
use stockade_policy::{LimitSetting, NetworkPolicy};

/// How a command is confined.
#[derive(Debug, Args)]
pub struct ConfineArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub place: PlaceArgs,
    /// End the command and all its processes after this time (90s, 2m, 500ms, or seconds)
    #[arg(long, value_name = "DUR", value_parser = duration::parse_some)]
    pub timeout: Option<Duration>,
    /// Time from SIGTERM to SIGKILL
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    pub grace: Option<Duration>,
    /// Let it read this path and what is below it
    #[arg(long, value_name = "PATH")]
    pub read: Vec<PathBuf>,
    /// Let it write this path and what is below it
    #[arg(long, value_name = "PATH")]
    pub write: Vec<PathBuf>,
    /// Hide this path from it
    #[arg(long, value_name = "PATH")]
    pub hide: Vec<PathBuf>,
    /// The network it sees: none, host, or HOST[:PORT],…
    #[arg(long, value_name = "none|host|HOST[:PORT],…")]
    pub net: Option<NetworkPolicy>,
    /// Set a variable, or take it over from here
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = OsStringValueParser::new().try_map(variable))]
    pub env: Vec<OsString>,
    /// Set a limit: wall=10m, grace=2s, memory=2G (of all its processes), pids=512 (301 is the
    /// least without a cgroup that is delegated), cpu=60, files=1024, file_size=1G, output=1M, task_output=64M
    #[arg(long, value_name = "NAME=VALUE")]
    pub limit: Vec<LimitSetting>,
    /// Write down in the ledger of this folder what was run and what was refused to it [default: no ledger is kept]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

fn variable(entry: OsString) -> Result<OsString, &'static str> {
    match entry.as_bytes().first() {
        None | Some(b'=') => Err("the variable has no name"),
        Some(_) => Ok(entry),
    }
}

/// Where, and under which policy.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// The policy: a name that `stockade policy list` lists, or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "workspace-write")]
    pub policy: OsString,
    /// The workspace [default: the current directory]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}
