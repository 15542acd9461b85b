use super::Format;
use clap::Args;
use std::path::PathBuf;

/// `stockade replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Where sessions are kept [default: stockade/ in the user's state folder]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// The dialect to print in; the log does not tell, so that auto is anthropic
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    pub format: Format,
    /// Print each result as a line of its own, as exec answers a stream
    #[arg(long)]
    pub lines: bool,
    /// The session
    #[arg(value_name = "SESSION")]
    pub session: String,
}
