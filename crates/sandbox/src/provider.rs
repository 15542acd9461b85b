use crate::SandboxError;
use async_trait::async_trait;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stockade_plan::TerminalSize;
use stockade_plan::file::{FileDone, FileError, FileOp};
use stockade_policy::{LimitsPolicy, Policy};
use stockade_types::{Denial, LayerReport, LimitMet, LimitName, SetupFailure, Usage};
use tokio_util::sync::CancellationToken;

/// Builds cells for one session. A session has one workspace, one private /tmp and one private home, which all
/// its cells share.
#[async_trait]
pub trait SandboxProvider: Send + Sync {
    /// The cell of this policy: the one that exists, or a new one.
    async fn cell(&self, policy: &Policy) -> Result<Arc<dyn Cell>, SandboxError>;

    /// Whether a cell of this policy can be had as the host is now, as far as that can be told without building one: so that nobody is asked
    /// to grant what would fail (spec 7.2).
    fn would_build(&self, policy: &Policy) -> Result<(), SandboxError> {
        let _ = policy;
        Ok(())
    }

    /// The session's workspace: canonical, absolute.
    fn workspace(&self) -> PathBuf;
}

/// A prepared confinement in which calls of one policy run.
#[async_trait]
pub trait Cell: Send + Sync {
    /// Starts a command. Returns when its init runs, before the command has been executed.
    async fn spawn(&self, command: CommandSpec) -> Result<Child, SandboxError>;

    /// Does file work inside the cell (spec 5.8). The outer error is the sandbox's, the inner one the file
    /// operation's own. When `cancel` fires it ends soon with [`FileError::Cancelled`].
    async fn file(
        &self,
        op: FileOp,
        cancel: CancellationToken,
    ) -> Result<Result<FileDone, FileError>, SandboxError>;

    /// What confines the calls of this cell.
    fn layers(&self) -> LayerReport;

    /// The limits of this cell's policy.
    fn limits(&self) -> LimitsPolicy;

    /// What the error texts in the output of a command that ran in `cwd` let one suppose, checked against what this cell
    /// shows: evidence of the level [`Evidence::Inferred`](stockade_types::Evidence), for people to read. Never a reason to grant
    /// anything: texts can be forged.
    fn infer(&self, output: &[u8], cwd: &Path) -> Vec<Denial> {
        let _ = (output, cwd);
        Vec::new()
    }
}

/// A command to start.
#[derive(Debug)]
pub struct CommandSpec {
    /// The argument vector, byte for byte. The first is looked up in the cell's `PATH` unless it holds a `/`.
    pub argv: Vec<OsString>,
    /// Variables to set on top of the environment that the policy makes.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory, inside: absolute.
    pub cwd: PathBuf,
    /// stdin. This and the next two are ignored where there is a terminal.
    pub stdin: Stdio,
    /// stdout.
    pub stdout: Stdio,
    /// stderr.
    pub stderr: Stdio,
    /// Gives it a terminal of its own, of this size, which exists in its view alone: its three streams, and the controlling one
    /// of its session. The other end is in [`Child`].
    pub terminal: Option<TerminalSize>,
}

/// Where one of a command's standard streams goes.
#[derive(Debug)]
pub enum Stdio {
    /// Nowhere.
    Null,
    /// A pipe, whose other end is in [`Child`].
    Pipe,
    /// This descriptor.
    Fd(OwnedFd),
}

/// A running command: the whole tree that grows from it.
pub struct Child {
    /// The writing end of stdin, if it was to be a pipe. Non-blocking.
    pub stdin: Option<OwnedFd>,
    /// The reading end of stdout, if it was to be a pipe. Non-blocking.
    pub stdout: Option<OwnedFd>,
    /// The reading end of stderr, if it was to be a pipe. Non-blocking.
    pub stderr: Option<OwnedFd>,
    /// Our end of its terminal, if it was to have one. Blocking.
    pub terminal: Option<OwnedFd>,
    /// Everything else.
    pub handle: Box<dyn ChildHandle>,
}

/// Watches and ends a running tree. Dropping it ends the tree at once (SIGKILL).
#[async_trait]
pub trait ChildHandle: Send {
    /// The next event. Cancel-safe. [`ChildEvent::Gone`] and [`ChildEvent::Lost`] are the last; after them it
    /// waits for ever.
    async fn event(&mut self) -> ChildEvent;

    /// Signals every process of the tree. An error means that the tree is gone already.
    fn signal(&mut self, signal: TreeSignal) -> std::io::Result<()>;

    /// How many processes got [`TreeSignal::Terminate`], where that is known.
    fn signalled(&self) -> Option<u32> {
        None
    }

    /// How many processes got [`TreeSignal::Kill`], where that is known.
    fn killed(&self) -> Option<u32> {
        None
    }

    /// Whether neither a namespace nor a cgroup holds the tree together, so that a signal goes to those of its processes that are
    /// found. Known once it has been signalled.
    fn is_best_effort(&self) -> bool {
        false
    }

    /// Whether the hunt for its last processes was given up: some may be left.
    fn was_outrun(&self) -> bool {
        false
    }

    /// The limits that the tree ran up against; complete after the last event.
    fn limits_met(&self) -> Vec<LimitMet> {
        Vec::new()
    }

    /// What the sandbox refused to this tree, as far as is known; complete after the last event.
    fn denials(&mut self) -> Vec<Denial>;
}

/// A signal to a whole tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeSignal {
    /// SIGINT.
    Interrupt,
    /// SIGTERM, and SIGCONT for stopped ones.
    Terminate,
    /// SIGSTOP.
    Stop,
    /// SIGCONT.
    Continue,
    /// SIGKILL; [`ChildEvent::Gone`] follows when the last process has gone.
    Kill,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// What happened to a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildEvent {
    /// A step before the exec failed: nothing of the command ran. [`ChildEvent::Gone`] follows.
    SetupFailed(SetupFailure),
    /// The program could not be executed in the cell. [`ChildEvent::Gone`] follows.
    NotExecutable {
        /// The program, as it was asked for.
        program: String,
        /// The kernel's error number.
        errno: i32,
    },
    /// A limit on the whole tree was exceeded, and the tree is being killed for it. [`ChildEvent::Gone`] follows.
    LimitExceeded(LimitName),
    /// The main process ended. Others of the tree may live on until they are killed.
    MainEnded {
        /// How.
        exit: Exit,
        /// How many other processes were alive at that moment.
        left: u32,
        /// Usage so far; `wall_us` is 0.
        usage: Usage,
    },
    /// No process of the tree is left.
    Gone {
        /// Usage of the whole tree where it ended by itself; else of what was reaped before.
        usage: Usage,
    },
    /// The init vanished without a report: someone killed it, its cell or the launcher. The kernel has ended the
    /// tree with it.
    Lost {
        /// What is known.
        detail: String,
    },
}
