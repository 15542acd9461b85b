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
use std::panic::catch_unwind;
use std::process::ExitCode;
use stockade_types::visible;

/// A usage error of any subcommand but `run` and `shell`, whose 2 would be its command's.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    stockade_launcher::main_if_launcher();
    let command = match parse() {
        Ok(command) => command,
        Err(error) => return usage(&error),
    };
    if stockade_sys::stdio::was_closed(1) {
        // Results would be lost, and a command's output, which would have told it so.
        complain(
            "stdout is closed, so nothing was run; give it a place to write to, if only /dev/null",
        );
        return ExitCode::from(report::exit::SETUP_FAILED);
    }
    // A panic's own exit code, 101, would be taken for a command's. It happens where a library finds no other way: without a descriptor
    // left for its own use, say.
    catch_unwind(|| run_command(command)).unwrap_or_else(|_| {
        complain(
            "stockade itself failed, as said above; are there too few open files (`ulimit -n`)?",
        );
        ExitCode::from(report::exit::SETUP_FAILED)
    })
}

fn run_command(command: args::Command) -> ExitCode {
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
        let printed = error.print().and_then(|()| std::io::stdout().flush());
        if stockade_sys::stdio::was_closed(1) || printed.is_err() {
            complain("stdout does not take the answer");
            return ExitCode::FAILURE;
        }
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    complain_in_lines(text.strip_prefix("error: ").unwrap_or(&text).trim_end());
    let is_run = std::env::args_os().nth(1).is_some_and(|name| name == "run" || name == "shell");
    ExitCode::from(if is_run { report::exit::SETUP_FAILED } else { USAGE })
}

/// One line on stderr, in our name: foreign text in it cannot make another.
fn complain(message: &str) {
    to_stderr(&visible(message));
}

/// The same of a message that has lines of its own: all but the first are set in, so that none could be taken for one of ours.
fn complain_in_lines(message: &str) {
    let lines: Vec<String> = message.split('\n').map(visible).collect();
    to_stderr(&lines.join("\n    "));
}

fn to_stderr(text: &str) {
    // A stderr that is gone must not keep us from the exit code.
    let _ = std::io::stderr().write_all(format!("stockade: {text}\n").as_bytes());
}
