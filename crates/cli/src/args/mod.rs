//! The command line (spec 10.1), a file for each subcommand. Scripts rely on it: add to it, do not change it.

mod audit;
mod confine;
mod doctor;
mod exec;
mod replay;
mod run;
mod shell;
mod tasks;
#[cfg(test)]
mod tests;

pub use audit::{AuditAction, AuditArgs, AuditFilter, AuditPlace, ExportFormat};
pub use confine::{ConfineArgs, PlaceArgs};
pub use doctor::DoctorArgs;
pub use exec::{Approve, Cascade, ExecArgs, Format};
pub use replay::ReplayArgs;
pub use run::RunArgs;
pub use shell::ShellArgs;
pub use tasks::{TasksAction, TasksArgs};

use crate::policy::PolicyArgs;
use clap::{Parser, Subcommand};

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
