//! What scripted commands and file operations do.

use crate::Exit;
use std::time::Duration;
use stockade_plan::file::{FileDone, FileError};
use stockade_types::{Denial, SetupFailure, Usage};

/// What a scripted command does.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its deeds, in order. After the last one it ends with `exit`.
    pub steps: Vec<Step>,
    /// How the main process ends if no signal ends it before.
    pub exit: Exit,
    /// How the whole tree takes SIGTERM and SIGINT.
    pub on_terminate: OnTerminate,
    /// Processes that outlive the main one. They keep stdout and stderr open.
    pub left: u32,
    /// How long those live by themselves; `None`: until they are killed.
    pub left_for: Option<Duration>,
    /// What the sandbox refused to it.
    pub denials: Vec<Denial>,
    /// Its usage, as `Gone` and `MainEnded` report it.
    pub usage: Usage,
}

/// One deed of a scripted command.
#[derive(Clone, Debug)]
pub enum Step {
    /// Writes to stdout.
    Stdout(Vec<u8>),
    /// Writes to stderr.
    Stderr(Vec<u8>),
    /// Copies stdin to stdout up to its end.
    Cat,
    /// Waits.
    Sleep(Duration),
    /// Waits until a signal ends it.
    Hang,
    /// Closes stdout and stderr.
    CloseOutput,
    /// A step before the exec fails; the last step.
    FailSetup(SetupFailure),
    /// The program cannot be executed, with this error number; the last step.
    NotExecutable(i32),
    /// Vanishes without a report; the last step.
    Vanish(String),
}

/// How a scripted tree takes SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTerminate {
    /// The signal ends it.
    Die,
    /// It ends so long after the signal, with this exit.
    CleanUp(Duration, Exit),
    /// It goes on.
    Ignore,
}

impl Script {
    /// A command that prints this and exits with 0.
    pub fn prints(stdout: impl Into<Vec<u8>>) -> Self {
        Self::steps(vec![Step::Stdout(stdout.into())])
    }

    /// A command that exits with this code.
    pub fn exits(code: i32) -> Self {
        Self { exit: Exit::Code(code), ..Self::steps(Vec::new()) }
    }

    /// A command that takes so long, then exits with 0.
    pub fn takes(time: Duration) -> Self {
        Self::steps(vec![Step::Sleep(time)])
    }

    /// A command that does this, then exits with 0.
    pub fn steps(steps: Vec<Step>) -> Self {
        Self {
            steps,
            exit: Exit::Code(0),
            on_terminate: OnTerminate::Die,
            left: 0,
            left_for: None,
            denials: Vec::new(),
            usage: Usage::default(),
        }
    }
}

/// What a scripted file operation does: takes this long, then ends so. Cancelling ends it early with
/// [`FileError::Cancelled`].
#[derive(Clone, Debug)]
pub struct FileScript {
    /// How long it takes.
    pub takes: Duration,
    /// How it ends; `None`: as the file map says.
    pub result: Option<Result<FileDone, FileError>>,
}
