//! The `stockade` binary: `run`, `exec`, `shell`, `tasks`, `doctor`, `policy`, `audit` (spec 10.1).
#![forbid(unsafe_code)]

mod args;
mod audit;
mod doctor;
mod duration;
mod exec;
mod policy;
mod replay;
mod report;
mod run;
mod session;
mod shipped;
mod shown;
mod signals;
mod tasks;
mod turn;

use clap::{Args, FromArgMatches, Parser};
use std::io::Write;
use std::process::ExitCode;

/// A usage error of any subcommand but `run` and `shell`, whose 2 would be its command's.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    stockade_launcher::main_if_launcher();
    let command = match parse() {
        Ok(command) => command,
        Err(error) => return usage(&error),
    };
    match command {
        args::Command::Run(args) => run::main(&args),
        args::Command::Exec(args) => exec::main(&args),
        args::Command::Shell(args) => run::main(&args.into_run()),
        args::Command::Tasks(args) => tasks::main(&args),
        args::Command::Audit(args) => audit::main(&args),
        args::Command::Replay(args) => replay::main(&args),
        args::Command::Doctor(args) => doctor::main(&args),
        args::Command::Policy(args) => policy::main(&args),
    }
}

/// The parser of every other subcommand takes longer to build than a command's namespaces: `run` has its own, and whatever that does
/// not take is told about by the whole one.
fn parse() -> Result<args::Command, clap::Error> {
    if std::env::args_os().nth(1).is_some_and(|name| name == "run") {
        let run = args::RunArgs::augment_args(clap::Command::new("run"));
        if let Ok(matches) = run.try_get_matches_from(std::env::args_os().skip(1)) {
            return args::RunArgs::from_arg_matches(&matches).map(args::Command::Run);
        }
    }
    args::Cli::try_parse().map(|args| args.command)
}

/// Help and version are answers; the rest are errors, with which nothing was run.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Nothing is left to be told if this fails.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    complain(text.strip_prefix("error: ").unwrap_or(&text).trim_end());
    let is_run = std::env::args_os().nth(1).is_some_and(|name| name == "run" || name == "shell");
    ExitCode::from(if is_run { report::exit::SETUP_FAILED } else { USAGE })
}

/// One line on stderr, in our name. Control characters are shown, not sent: a path may hold some.
fn complain(message: &str) {
    let mut line = String::from("stockade: ");
    for character in message.chars() {
        if character.is_control() && character != '\n' {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line.push('\n');
    // A stderr that is gone must not keep us from the exit code.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
