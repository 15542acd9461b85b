use super::{ConfineArgs, RunArgs};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// `stockade shell`.
#[derive(Debug, Args)]
#[command(after_help = "Exit code: as that of run --tty.")]
pub struct ShellArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub confine: ConfineArgs,
    /// Write what the terminal shows to this file, byte for byte
    #[arg(long, value_name = "FILE")]
    pub transcript: Option<PathBuf>,
    /// What to run there, with its arguments [default: $SHELL, or /bin/sh]
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

impl ShellArgs {
    /// The same as arguments of `run`.
    pub fn into_run(self) -> RunArgs {
        let mut command = self.command;
        if command.is_empty() {
            let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
            command.push(shell.unwrap_or_else(|| "/bin/sh".into()));
        }
        RunArgs {
            confine: self.confine,
            tty: true,
            transcript: self.transcript,
            json: false,
            status_fd: None,
            command,
        }
    }
}
