use crate::duration;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

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
    /// Print JSON; of output, a line for each part, with its offset
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do; without it, list
    #[command(subcommand)]
    pub action: Option<TasksAction>,
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
