use super::PlaceArgs;
use crate::duration;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// `stockade exec`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code: 0 when every call has a result, whatever the results say; 2 when the input, or a line of a stream, could \
not be read or understood; 125 when the session could not be set up; 1 for any other failure; 128+n when stopped by signal n; the calls that had \
begun are answered even then, unless a second signal came.")]
pub struct ExecArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub place: PlaceArgs,
    /// The dialect of the turn
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    pub format: Format,
    /// Who answers questions of permission
    #[arg(long, value_enum, default_value_t = Approve::Deny)]
    pub approve: Approve,
    /// A program that answers questions of permission: the question on its stdin, its answer on its stdout, both as JSON
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["approve", "approve_socket"])]
    pub approve_program: Option<OsString>,
    /// The Unix socket of a client that answers questions of permission by JSON-RPC
    #[arg(long, value_name = "SOCKET", conflicts_with = "approve")]
    pub approve_socket: Option<PathBuf>,
    /// How long an answer may take; after that it is no
    #[arg(long, value_name = "DUR", value_parser = duration::parse_some, default_value = "120s")]
    pub approve_timeout: Duration,
    /// The most that this session may ever be granted [default: the policy's own ceiling, if it has one]
    #[arg(long, value_name = "NAME|FILE")]
    pub ceiling: Option<OsString>,
    /// Permission rules, besides those of the managed, project and user files: TOML, or an agent host's settings.json
    #[arg(long, value_name = "FILE")]
    pub rules: Vec<PathBuf>,
    /// How many calls may run at once
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub max_parallel: u16,
    /// Which failing call cancels its siblings: the other calls of the turn that run or wait
    #[arg(long, value_enum, default_value_t = Cascade::Writes)]
    pub cascade: Cascade,
    /// Where sessions are kept [default: stockade/ in the user's state folder]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// The session's id [default: a new one]
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Ask the hooks of this settings file, in Claude Code's shape: {"hooks": {"PreToolUse": …}}; those of "PermissionRequest" race the approver. Its "permissions" are rules, as with --rules
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Write events as JSON lines to this file, or to stdout (-)
    #[arg(long, value_name = "FILE|-")]
    pub events: Option<PathBuf>,
    /// The turn, or a stream of its calls as JSON lines
    #[arg(value_name = "FILE|-", default_value = "-")]
    pub input: PathBuf,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum Format {
    Auto,
    Anthropic,
    #[value(name = "openai-responses")]
    OpenAiResponses,
    #[value(name = "openai-chat")]
    OpenAiChat,
}

/// `--approve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Approve {
    /// Nobody: every question is answered with no
    Deny,
    /// The person at the terminal; with no terminal, nobody
    Ask,
    /// The ceiling: permissions that lie within it are granted, every other question is answered with no
    Ceiling,
}

/// `--cascade`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cascade {
    /// Any failing Bash call
    Shell,
    /// A failing Bash call that was not read-only
    Writes,
    /// None
    Off,
}
