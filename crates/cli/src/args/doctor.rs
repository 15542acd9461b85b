use clap::Args;
use std::path::PathBuf;
use stockade_sandbox::linux::Lack;

/// `stockade doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Judge as if this machine had less: landlock=ABI, no-landlock, no-userns, no-admin, no-mounts, no-seccomp,
    /// no-seccomp-notify
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',')]
    pub simulate: Vec<Lack>,
    /// Instead, remove what sessions that were killed have left behind
    #[arg(long, conflicts_with_all = ["json", "simulate"])]
    pub repair: bool,
    /// Where sessions are kept; by default the user's state folder
    #[arg(long, value_name = "DIR", requires = "repair")]
    pub state_dir: Option<PathBuf>,
}
