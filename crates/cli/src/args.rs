//! The command line (spec 10.1). Scripts rely on it: add to it, do not change it.

use crate::duration;
use crate::policy::PolicyArgs;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, SystemTime};
use stockade_policy::{LimitSetting, NetworkPolicy};
use stockade_sandbox::linux::Lack;

/// Executes an agent's tool calls, each confined by the kernel.
#[derive(Debug, Parser)]
#[command(name = "stockade", version, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
#[allow(missing_docs)]
pub enum Command {
    /// Run one command, confined
    Run(RunArgs),
    /// Execute a model's turn: calls in, results out
    Exec(ExecArgs),
    /// A shell in a terminal of its own, confined
    Shell(ShellArgs),
    /// The background tasks of sessions: list them, read their output, wait for them, stop them
    Tasks(TasksArgs),
    /// What was asked, who allowed it, what was denied; and whether the ledger is whole
    Audit(AuditArgs),
    /// Print what the model was given in a session, from its log
    Replay(ReplayArgs),
    /// Show what this machine has, and which policies can be enforced here
    Doctor(DoctorArgs),
    /// Show, check, compare and explain policies
    Policy(PolicyArgs),
}

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
    /// Set a limit: wall=10m, grace=2s, memory=2G (of all its processes, looked at every 20 ms), pids=512 (301 is the
    /// least that a kernel takes), cpu=60, files=1024, file_size=1G, output=1M
    #[arg(long, value_name = "NAME=VALUE")]
    pub limit: Vec<LimitSetting>,
    /// Write down in the ledger of this folder what was run and what was refused to it [default: no ledger is kept]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

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
    /// Ask the hooks of this settings file, in Claude Code's shape: {"hooks": {"PreToolUse": …}}; those of "PermissionRequest" race the approver
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// Write events as JSON lines to this file, or to stdout (-)
    #[arg(long, value_name = "FILE|-")]
    pub events: Option<PathBuf>,
    /// The turn, or a stream of its calls as JSON lines
    #[arg(value_name = "FILE|-", default_value = "-")]
    pub input: PathBuf,
}

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

/// `stockade tasks`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code: 0; 1 where a task or its session is unknown, or nobody runs the session any more; of wait: 1 where the task \
failed, 124 where it still runs.")]
pub struct TasksArgs {
    /// Where sessions are kept [default: stockade/ in the user's state folder]
    #[arg(long, value_name = "DIR", global = true)]
    pub state_dir: Option<PathBuf>,
    /// The session [default: all of them; for one task, the one that changed last]
    #[arg(long, value_name = "ID", global = true)]
    pub session: Option<String>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do; without it, list
    #[command(subcommand)]
    pub action: Option<TasksAction>,
}

/// `stockade replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Where sessions are kept [default: stockade/ in the user's state folder]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// The dialect to print in [default: anthropic]
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    pub format: Format,
    /// Print each result as a line of its own, as exec answers a stream
    #[arg(long)]
    pub lines: bool,
    /// The session
    #[arg(value_name = "SESSION")]
    pub session: String,
}

/// What `stockade tasks` does.
#[derive(Debug, Subcommand)]
pub enum TasksAction {
    /// List the tasks, ended ones too
    List,
    /// Print a task's output
    Output {
        /// The task
        #[arg(value_name = "TASK")]
        task: String,
        /// From this byte on
        #[arg(long, value_name = "N", default_value_t = 0)]
        offset: u64,
        /// Go on until the task has ended
        #[arg(long)]
        follow: bool,
    },
    /// Wait until a task has ended
    Wait {
        /// The task
        #[arg(value_name = "TASK")]
        task: String,
        /// At most so long
        #[arg(long, value_name = "DUR", value_parser = duration::parse_some)]
        timeout: Option<Duration>,
    },
    /// Stop a task with all its processes
    Stop {
        /// The task
        #[arg(value_name = "TASK")]
        task: String,
    },
}

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

/// `stockade audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// What to do
    #[command(subcommand)]
    pub action: AuditAction,
}

/// What `stockade audit` does.
#[derive(Debug, Subcommand)]
#[allow(missing_docs)]
pub enum AuditAction {
    /// The last records, and with --follow those that come
    Tail {
        #[command(flatten)]
        place: AuditPlace,
        /// How many
        #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
        lines: usize,
        /// Wait for more
        #[arg(short, long)]
        follow: bool,
        /// Print the records themselves, one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// The records that fit
    #[command(after_help = "\
What was denied last week, to whom, and who allowed the rest: stockade audit query --since 7d --decisions")]
    Query {
        #[command(flatten)]
        place: AuditPlace,
        #[command(flatten)]
        filter: Box<AuditFilter>,
        /// Print the records themselves, one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Whether the ledger is whole; if not, the first bad line, and what was done to it
    #[command(after_help = "Exit code: 0 whole, 1 not whole, 2 when it could not be looked at.")]
    Verify {
        #[command(flatten)]
        place: AuditPlace,
        /// The public key that must have signed: a file, or its text [default: the one beside the ledger]
        #[arg(long, value_name = "FILE|KEY")]
        key: Option<String>,
        /// A signed head that was kept elsewhere: all that it speaks of must still be there
        #[arg(long, value_name = "FILE")]
        head: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// The records that fit, in a form that security systems read
    Export {
        #[command(flatten)]
        place: AuditPlace,
        #[command(flatten)]
        filter: Box<AuditFilter>,
        /// The form
        #[arg(long, value_enum)]
        format: ExportFormat,
    },
}

/// Which ledger.
#[derive(Debug, Args)]
pub struct AuditPlace {
    /// Where sessions are kept [default: stockade/ in the user's state folder]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// A ledger's file, in place of the state folder's
    #[arg(long, value_name = "FILE", conflicts_with = "state_dir")]
    pub ledger: Option<PathBuf>,
}

/// Which records.
#[derive(Debug, Args)]
pub struct AuditFilter {
    /// From this time on: 2026-11-30T12:00:00Z, or how long ago (7d, 2h)
    #[arg(long, value_name = "TIME")]
    pub since: Option<PointInTime>,
    /// Before this time
    #[arg(long, value_name = "TIME")]
    pub until: Option<PointInTime>,
    /// Of this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Of this call
    #[arg(long, value_name = "ID")]
    pub call: Option<String>,
    /// Of this tool
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Of these types: call_requested, decided, granted, sandbox_denied, call_ended, …
    #[arg(long = "type", value_name = "TYPE,…", value_delimiter = ',')]
    pub kinds: Vec<String>,
    /// Every decision, whoever or whatever made it: what was denied, to whom, and who allowed the rest
    #[arg(long)]
    pub decisions: bool,
    /// Decided so
    #[arg(long, value_enum)]
    pub decision: Option<AuditDecision>,
    /// About this path, or one below it
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// About this host, or one below its domain
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
}

/// `--since`, `--until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointInTime(pub SystemTime);

impl FromStr for PointInTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(time) = humantime::parse_rfc3339_weak(text) {
            return Ok(Self(time));
        }
        let ago = humantime::parse_duration(text).ok();
        let time = ago.and_then(|ago| SystemTime::now().checked_sub(ago));
        time.map(Self).ok_or_else(|| {
            "write a time as in 2026-11-30T12:00:00Z, or how long ago as in 7d or 2h".to_owned()
        })
    }
}

/// `--decision`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum AuditDecision {
    Allow,
    Deny,
}

impl AuditDecision {
    /// As it stands in the ledger.
    pub fn name(self) -> &'static str {
        match self {
            AuditDecision::Allow => "allow",
            AuditDecision::Deny => "deny",
        }
    }
}

/// `--format` of `audit export`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// OCSF 1.8, one event a line
    Ocsf,
    /// Elastic Common Schema 8, one event a line
    Ecs,
    /// ArcSight's Common Event Format, one event a line
    Cef,
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::os::unix::ffi::OsStringExt;
    use stockade_policy::NetworkMode;

    fn run(args: &[&str]) -> Result<RunArgs, clap::Error> {
        let args = ["stockade", "run"].iter().chain(args);
        match Cli::try_parse_from(args)?.command {
            Command::Run(args) => Ok(args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    // spec 10.1
    #[test]
    fn what_follows_the_command_is_its_own_even_if_it_looks_like_an_option() {
        let args = run(&["--json", "ls", "--json", "-la", "--", "--policy", "x"]).unwrap();
        assert_eq!(args.command, ["ls", "--json", "-la", "--", "--policy", "x"]);
        assert!(args.json);
        let args = run(&["--", "--odd", "--json"]).unwrap();
        assert_eq!(args.command, ["--odd", "--json"]);
        assert!(!args.json);
        let args = run(&["ls", "--help"]).unwrap();
        assert_eq!(args.command, ["ls", "--help"]);
    }

    #[test]
    fn a_mistyped_option_is_an_error_and_not_the_command() {
        for args in [&["--workspce", "d", "ls"][..], &["--bogus"], &["-x", "ls"]] {
            assert!(run(args).is_err(), "{args:?}");
        }
        assert!(run(&[]).is_err());
    }

    #[test]
    fn every_option_of_run_is_understood() {
        let args = run(&[
            "--policy",
            "read-only",
            "--workspace",
            "/w",
            "--timeout",
            "90s",
            "--grace",
            "500ms",
            "--read",
            "/a",
            "--read",
            "/b",
            "--write",
            "/c",
            "--hide",
            "/d",
            "--net",
            "none",
            "--env",
            "A",
            "--env",
            "B=c=d",
            "--limit",
            "memory=2G",
            "--limit",
            "pids=512",
            "--tty",
            "--status-fd",
            "3",
            "--",
            "true",
        ])
        .unwrap();
        assert_eq!(args.confine.timeout, Some(Duration::from_secs(90)));
        assert_eq!(args.confine.grace, Some(Duration::from_millis(500)));
        assert_eq!(args.confine.read, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(args.confine.env, ["A", "B=c=d"]);
        assert_eq!(
            args.confine.limit,
            ["memory=2G", "pids=512"].map(|limit| limit.parse().unwrap())
        );
        assert_eq!(args.confine.net.map(|net| net.mode), Some(NetworkMode::None));
        assert_eq!(args.status_fd, Some(3));
        assert!(run(&["--status-fd", "-1", "true"]).is_err());
        for bad in [
            &["--timeout", "soon"][..],
            &["--timeout", "0"],
            &["--net", "https://a"],
            &["--tty", "--json"],
            &["--limit", "memroy=1G"],
            &["--env", "=x"],
            &["--env", ""],
        ] {
            assert!(run(&[bad, &["true"]].concat()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn paths_and_arguments_are_bytes() {
        let odd = OsString::from_vec(b"/w/\xff".to_vec());
        let args = [
            "stockade".into(),
            "run".into(),
            "--workspace".into(),
            odd.clone(),
            "echo".into(),
            odd.clone(),
        ];
        let Command::Run(args) = Cli::try_parse_from(args).unwrap().command else { panic!() };
        assert_eq!(args.confine.place.workspace, Some(odd.clone().into()));
        assert_eq!(args.command, [OsString::from("echo"), odd]);
    }

    #[test]
    fn exec_reads_stdin_and_denies_by_default() {
        let Command::Exec(args) = Cli::try_parse_from(["stockade", "exec"]).unwrap().command else {
            panic!()
        };
        assert_eq!(args.input, PathBuf::from("-"));
        assert_eq!(args.approve, Approve::Deny);
        assert_eq!(args.max_parallel, 10);
        assert_eq!(args.place.policy, "workspace-write");
        for bad in [["--max-parallel", "0"], ["--approve", "maybe"], ["--format", "xml"]] {
            assert!(Cli::try_parse_from(["stockade", "exec"].iter().chain(&bad)).is_err());
        }
    }
}
