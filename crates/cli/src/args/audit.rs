use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::SystemTime;
use stockade_ledger::KINDS;

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
    /// Of this session, or of those whose ids begin so
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Of this call
    #[arg(long, value_name = "ID")]
    pub call: Option<String>,
    /// Of this tool
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Of these types: call_requested, decided, granted, sandbox_denied, call_ended, …
    #[arg(long = "type", value_name = "TYPE,…", value_delimiter = ',', value_parser = kind)]
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

fn kind(text: &str) -> Result<String, String> {
    if KINDS.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("there is no such type of record (known: {})", KINDS.join(", ")))
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
        // No record is older than the clock's own beginning, and none could be written as a date.
        let time = ago.map(|ago| {
            let time = SystemTime::now().checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH);
            time.max(SystemTime::UNIX_EPOCH)
        });
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
