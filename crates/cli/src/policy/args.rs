use clap::{Args, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// `stockade policy`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit code: 0; 1 if the policy is wrong (check), an example comes out otherwise (test) or the two differ (diff); 2 if there is no answer.")]
pub struct PolicyArgs {
    #[command(subcommand)]
    #[allow(missing_docs)]
    pub command: PolicyCommand,
}

const DEFAULT: &str = "workspace-write";

#[derive(Debug, Subcommand)]
#[allow(missing_docs)]
pub enum PolicyCommand {
    /// List the policies that come with Stockade
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show everything that a policy says, with where it says so
    Show {
        /// The policy
        #[arg(value_name = "NAME|FILE", default_value = DEFAULT)]
        policy: OsString,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Run the examples that stand beside permission rules, and say which come out otherwise
    Test {
        /// The rule file: TOML, or an agent host's settings.json
        #[arg(value_name = "FILE")]
        rules: PathBuf,
        /// The workspace [default: the current directory]
        #[arg(long, value_name = "DIR")]
        workspace: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Check a policy file, and what it extends
    Check {
        /// The policy; - is stdin
        #[arg(value_name = "NAME|FILE|-")]
        policy: OsString,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Say whether a policy allows a path, a host or a system call, by which entry, and which grant would allow it
    Explain {
        /// What to ask about: what holds a '/' is a path, a system call's or group's name is one, anything else is a HOST[:PORT]
        #[arg(value_name = "PATH|HOST|SYSCALL")]
        subject: OsString,
        /// The policy
        #[arg(long, value_name = "NAME|FILE", default_value = DEFAULT)]
        policy: OsString,
        /// The workspace [default: the current directory]
        #[arg(long, value_name = "DIR")]
        workspace: Option<PathBuf>,
        /// What kind of thing it is
        #[arg(long = "as", value_name = "KIND", value_enum)]
        kind: Option<Kind>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Compare two policies: what they say, and which one allows more
    Diff {
        /// One policy
        #[arg(value_name = "A")]
        a: OsString,
        /// The other one
        #[arg(value_name = "B")]
        b: OsString,
        /// The workspace [default: the current directory]
        #[arg(long, value_name = "DIR")]
        workspace: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of policy files
    Schema,
}

/// `--as`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum Kind {
    Path,
    Host,
    Syscall,
}
