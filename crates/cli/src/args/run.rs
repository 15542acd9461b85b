use super::ConfineArgs;
use clap::Args;
use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::PathBuf;

/// `stockade run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code: the command's own; 124 timed out; 125 the confinement could not be set up, nothing was run; \
126 refused or not executable; 127 not found; 128+n ended by signal n. --json and --status-fd tell these from the \
command's own.")]
pub struct RunArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub confine: ConfineArgs,
    /// Give it a terminal of its own
    #[arg(long, conflicts_with = "json")]
    pub tty: bool,
    /// Write what its terminal shows to this file, byte for byte
    #[arg(long, value_name = "FILE", requires = "tty")]
    pub transcript: Option<PathBuf>,
    /// Capture its output, and print how it went as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Write how it went, as a JSON object without its output, to this descriptor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub status_fd: Option<RawFd>,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
}
