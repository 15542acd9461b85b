//! A provider without a kernel, for tests of what sits above it.
//!
//! Commands follow a [`Script`] instead of running; files live in a map. All waiting is tokio time, so a paused
//! clock makes every test instant. Nothing in here confines anything.

mod script;
mod state;
mod tree;

use crate::{Cell, Child, CommandSpec, SandboxError, SandboxProvider, Stdio, TreeSignal};
use async_trait::async_trait;
pub use script::{FileScript, OnTerminate, Script, Step};
use state::State;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stockade_plan::Bytes;
use stockade_plan::file::{FileDone, FileError, FileOp};
use stockade_policy::{
    EnvironmentPolicy, EscalationPolicy, FilesystemPolicy, LimitsPolicy, NetworkPolicy, Policy,
    SyscallPolicy,
};
use stockade_types::LayerReport;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tree::{FakeHandle, Tree};

/// A policy that allows nothing and requires nothing.
pub fn policy(name: &str) -> Policy {
    Policy {
        name: name.to_owned(),
        require: Vec::new(),
        filesystem: FilesystemPolicy::default(),
        network: NetworkPolicy::default(),
        environment: EnvironmentPolicy::default(),
        limits: LimitsPolicy::default(),
        syscalls: SyscallPolicy::default(),
        escalation: EscalationPolicy::default(),
    }
}

type OnCommand = dyn Fn(&CommandSpec) -> Result<Script, SandboxError> + Send + Sync;
type OnFile = dyn Fn(&FileOp) -> Result<FileScript, SandboxError> + Send + Sync;

/// The provider. Its cells are all alike; they and its clones share one file map and one set of counters.
#[derive(Clone)]
pub struct FakeProvider {
    workspace: PathBuf,
    limits: LimitsPolicy,
    on_command: Arc<OnCommand>,
    on_file: Arc<OnFile>,
    world: Arc<World>,
}

/// What the cells share, and what a test may look at.
#[derive(Default)]
struct World {
    running: AtomicUsize,
    most: AtomicUsize,
    state: Mutex<State>,
}

impl FakeProvider {
    /// A provider whose commands all exit with 0 at once, with an empty file map.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        Self {
            workspace: workspace.into(),
            limits: LimitsPolicy::default(),
            on_command: Arc::new(|_| Ok(Script::exits(0))),
            on_file: Arc::new(|_| Ok(FileScript { takes: Duration::ZERO, result: None })),
            world: Arc::default(),
        }
    }

    /// What each command does; an error is `spawn`'s.
    pub fn on_command(
        mut self,
        script: impl Fn(&CommandSpec) -> Result<Script, SandboxError> + Send + Sync + 'static,
    ) -> Self {
        self.on_command = Arc::new(script);
        self
    }

    /// What each file operation does; an error is the sandbox's.
    pub fn on_file(
        mut self,
        script: impl Fn(&FileOp) -> Result<FileScript, SandboxError> + Send + Sync + 'static,
    ) -> Self {
        self.on_file = Arc::new(script);
        self
    }

    /// The limits that its cells report.
    pub fn with_limits(mut self, limits: LimitsPolicy) -> Self {
        self.limits = limits;
        self
    }

    /// Puts a file into the map, as if somebody outside had written it.
    pub fn put_file(&self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) {
        self.world.state().put(Bytes::from(path.into()).0, content.into());
    }

    /// A file's content.
    pub fn file_content(&self, path: impl Into<PathBuf>) -> Option<Vec<u8>> {
        let path = Bytes::from(path.into()).0;
        self.world.state().files.get(&path).map(|(content, _)| content.clone())
    }

    /// How many commands and file operations are running now.
    pub fn running(&self) -> usize {
        self.world.running.load(Ordering::SeqCst)
    }

    /// How many ran at once, at most.
    pub fn most_at_once(&self) -> usize {
        self.world.most.load(Ordering::SeqCst)
    }

    /// The argument vectors of all commands so far, in the order of their starts.
    pub fn argvs(&self) -> Vec<Vec<OsString>> {
        self.world.state().argvs.clone()
    }

    /// All file operations so far, in the order of their starts.
    pub fn file_ops(&self) -> Vec<FileOp> {
        self.world.state().ops.clone()
    }

    /// The names of the policies that cells were asked for, in order.
    pub fn policies(&self) -> Vec<String> {
        self.world.state().policies.clone()
    }

    /// All signals that were sent to trees, in order.
    pub fn signals(&self) -> Vec<TreeSignal> {
        self.world.state().signals.clone()
    }

    /// The cell, without asking for a policy.
    pub fn fake_cell(&self) -> Arc<dyn Cell> {
        Arc::new(FakeCell(self.clone()))
    }
}

#[async_trait]
impl SandboxProvider for FakeProvider {
    async fn cell(&self, policy: &Policy) -> Result<Arc<dyn Cell>, SandboxError> {
        self.world.state().policies.push(policy.name.clone());
        Ok(self.fake_cell())
    }

    fn workspace(&self) -> PathBuf {
        self.workspace.clone()
    }
}

struct FakeCell(FakeProvider);

#[async_trait]
impl Cell for FakeCell {
    async fn spawn(&self, command: CommandSpec) -> Result<Child, SandboxError> {
        self.0.world.state().argvs.push(command.argv.clone());
        let script = (self.0.on_command)(&command)?;
        let pipe_failed = |error: io::Error| {
            SandboxError::SessionOver(format!("the fake provider found no pipe: {error}"))
        };
        let (stdin, their_stdin) = match command.stdin {
            Stdio::Pipe => {
                let (sender, receiver) = pipe::pipe().map_err(pipe_failed)?;
                (Some(sender.into_nonblocking_fd().map_err(pipe_failed)?), Some(receiver))
            }
            _ => (None, None),
        };
        let output = |stdio: &Stdio| -> io::Result<(Option<OwnedFd>, Option<pipe::Sender>)> {
            if !matches!(stdio, Stdio::Pipe) {
                return Ok((None, None));
            }
            let (sender, receiver) = pipe::pipe()?;
            Ok((Some(receiver.into_nonblocking_fd()?), Some(sender)))
        };
        let (stdout, their_stdout) = output(&command.stdout).map_err(pipe_failed)?;
        let (stderr, their_stderr) = output(&command.stderr).map_err(pipe_failed)?;
        let program = command.argv.first().map(|a| a.to_string_lossy().into_owned());
        let (event_sender, events) = mpsc::unbounded_channel();
        let (signals, signal_receiver) = mpsc::unbounded_channel();
        let denials = script.denials.clone();
        let tree = Tree {
            script,
            program: program.unwrap_or_default(),
            stdin: their_stdin,
            stdout: their_stdout,
            stderr: their_stderr,
            signals: signal_receiver,
            events: event_sender,
            _running: Running::start(&self.0.world),
        };
        tokio::spawn(tree.live());
        let world = Arc::clone(&self.0.world);
        Ok(Child {
            stdin,
            stdout,
            stderr,
            terminal: None,
            handle: Box::new(FakeHandle { events, signals, denials, world }),
        })
    }

    async fn file(
        &self,
        op: FileOp,
        cancel: CancellationToken,
    ) -> Result<Result<FileDone, FileError>, SandboxError> {
        self.0.world.state().ops.push(op.clone());
        let script = (self.0.on_file)(&op)?;
        let _running = Running::start(&self.0.world);
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(Err(FileError::Cancelled)),
            () = tokio::time::sleep(script.takes) => {}
        }
        Ok(match script.result {
            Some(result) => result,
            None => self.0.world.state().apply(op),
        })
    }

    fn layers(&self) -> LayerReport {
        LayerReport::default()
    }

    fn limits(&self) -> LimitsPolicy {
        self.0.limits.clone()
    }
}

/// Counts one running thing for as long as it lives.
struct Running(Arc<World>);

impl Running {
    fn start(world: &Arc<World>) -> Self {
        let now = world.running.fetch_add(1, Ordering::SeqCst) + 1;
        world.most.fetch_max(now, Ordering::SeqCst);
        Self(Arc::clone(world))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl World {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
