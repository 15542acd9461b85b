//! A provider without a kernel, for tests of what sits above it.
//!
//! Commands follow a [`Script`] instead of running; files live in a map. All waiting is tokio time, so a paused
//! clock makes every test instant. Nothing in here confines anything.

use crate::{
    Cell, Child, ChildEvent, ChildHandle, CommandSpec, Exit, SandboxError, SandboxProvider, Stdio,
    TreeSignal,
};
use async_trait::async_trait;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stockade_plan::Bytes;
use stockade_plan::file::{FileDone, FileError, FileOp, Fingerprint};
use stockade_policy::{
    EnvironmentPolicy, EscalationPolicy, FilesystemPolicy, LimitsPolicy, NetworkPolicy, Policy,
    SyscallPolicy,
};
use stockade_types::{Denial, LayerReport, SetupFailure, Usage};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

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

#[derive(Default)]
struct State {
    files: BTreeMap<Vec<u8>, (Vec<u8>, Fingerprint)>,
    clock: i128,
    argvs: Vec<Vec<OsString>>,
    ops: Vec<FileOp>,
    policies: Vec<String>,
    signals: Vec<TreeSignal>,
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

struct FakeHandle {
    events: mpsc::UnboundedReceiver<ChildEvent>,
    signals: mpsc::UnboundedSender<TreeSignal>,
    denials: Vec<Denial>,
    world: Arc<World>,
}

#[async_trait]
impl ChildHandle for FakeHandle {
    async fn event(&mut self) -> ChildEvent {
        match self.events.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    fn signal(&mut self, signal: TreeSignal) -> io::Result<()> {
        self.world.state().signals.push(signal);
        // 3 is ESRCH, as kill(2) says when the tree is gone.
        self.signals.send(signal).map_err(|_| io::Error::from_raw_os_error(3))
    }

    fn denials(&mut self) -> Vec<Denial> {
        self.denials.clone()
    }
}

/// A scripted command while it lives.
struct Tree {
    script: Script,
    program: String,
    stdin: Option<pipe::Receiver>,
    stdout: Option<pipe::Sender>,
    stderr: Option<pipe::Sender>,
    signals: mpsc::UnboundedReceiver<TreeSignal>,
    events: mpsc::UnboundedSender<ChildEvent>,
    _running: Running,
}

/// What made a tree stop before its script's end.
enum Stopped {
    Ends(Exit),
    Killed,
    /// The handle was dropped.
    Dropped,
}

impl Tree {
    async fn live(mut self) {
        let steps: VecDeque<Step> = std::mem::take(&mut self.script.steps).into();
        let mut exit = self.script.exit;
        for step in steps {
            let (event, last) = match step {
                Step::FailSetup(failure) => (Some(ChildEvent::SetupFailed(failure)), true),
                Step::NotExecutable(errno) => {
                    let program = self.program.clone();
                    (Some(ChildEvent::NotExecutable { program, errno }), true)
                }
                Step::Vanish(detail) => {
                    self.send(ChildEvent::Lost { detail });
                    return;
                }
                other => {
                    match self.act(other).await {
                        None => continue,
                        Some(Stopped::Ends(how)) => exit = how,
                        Some(Stopped::Killed) => exit = Exit::Signal(9),
                        Some(Stopped::Dropped) => return,
                    }
                    (None, true)
                }
            };
            if let Some(event) = event {
                self.send(event);
                self.gone();
                return;
            }
            if last {
                break;
            }
        }
        self.end(exit).await;
    }

    /// Does one step; `Some` if a signal ended the tree meanwhile.
    async fn act(&mut self, step: Step) -> Option<Stopped> {
        let on_terminate = self.script.on_terminate;
        let work = async {
            match step {
                Step::Stdout(bytes) => write_all(self.stdout.as_ref(), &bytes).await,
                Step::Stderr(bytes) => write_all(self.stderr.as_ref(), &bytes).await,
                Step::Cat => copy(self.stdin.take(), self.stdout.as_ref()).await,
                Step::Sleep(time) => tokio::time::sleep(time).await,
                Step::Hang => std::future::pending().await,
                _ => {
                    self.stdout = None;
                    self.stderr = None;
                }
            }
        };
        tokio::select! {
            biased;
            stopped = stopped(&mut self.signals, on_terminate) => Some(stopped),
            () = work => None,
        }
    }

    /// The main process has ended; those that it leaves live on.
    async fn end(&mut self, exit: Exit) {
        let Script { left, left_for, usage, on_terminate, .. } = self.script;
        let killed = exit == Exit::Signal(9);
        let left = if killed { 0 } else { left };
        self.send(ChildEvent::MainEnded { exit, left, usage });
        if left > 0 {
            let by_itself = async {
                match left_for {
                    Some(time) => tokio::time::sleep(time).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = stopped(&mut self.signals, on_terminate) => {}
                () = by_itself => {}
            }
        }
        self.gone();
    }

    fn gone(&mut self) {
        self.stdout = None;
        self.stderr = None;
        let usage = self.script.usage;
        self.send(ChildEvent::Gone { usage });
    }

    fn send(&self, event: ChildEvent) {
        // A dropped handle has nobody to tell.
        let _ = self.events.send(event);
    }
}

/// Waits for the signal that ends the tree.
async fn stopped(
    signals: &mut mpsc::UnboundedReceiver<TreeSignal>,
    on_terminate: OnTerminate,
) -> Stopped {
    loop {
        let signal = match signals.recv().await {
            None => return Stopped::Dropped,
            Some(TreeSignal::Kill) => return Stopped::Killed,
            Some(TreeSignal::Terminate) => 15,
            Some(TreeSignal::Interrupt) => 2,
            Some(TreeSignal::Stop | TreeSignal::Continue) => continue,
        };
        match on_terminate {
            OnTerminate::Ignore => {}
            OnTerminate::Die => return Stopped::Ends(Exit::Signal(signal)),
            OnTerminate::CleanUp(time, exit) => {
                let killed = async {
                    loop {
                        match signals.recv().await {
                            Some(TreeSignal::Kill) => return Stopped::Killed,
                            None => return Stopped::Dropped,
                            Some(_) => {}
                        }
                    }
                };
                return tokio::select! {
                    biased;
                    stopped = killed => stopped,
                    () = tokio::time::sleep(time) => Stopped::Ends(exit),
                };
            }
        }
    }
}

/// Writes everything, or as much as a reader takes before it goes away.
async fn write_all(pipe: Option<&pipe::Sender>, mut bytes: &[u8]) {
    let Some(pipe) = pipe else { return };
    while !bytes.is_empty() {
        match pipe.try_write(bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if pipe.writable().await.is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

async fn copy(from: Option<pipe::Receiver>, to: Option<&pipe::Sender>) {
    let Some(from) = from else { return };
    let mut buffer = [0; 8192];
    loop {
        match from.try_read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => write_all(to, buffer.get(..count).unwrap_or_default()).await,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if from.readable().await.is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

impl World {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn put(&mut self, path: Vec<u8>, content: Vec<u8>) -> Fingerprint {
        self.clock += 1;
        let inode = u64::try_from(self.clock).unwrap_or_default();
        let size = content.len() as u64;
        let fingerprint =
            Fingerprint { device: 1, inode, size, mtime_ns: self.clock, ctime_ns: self.clock };
        self.files.insert(path, (content, fingerprint));
        fingerprint
    }

    /// Read, Write and Edit on the map. Glob and Grep list every file below their root.
    fn apply(&mut self, op: FileOp) -> Result<FileDone, FileError> {
        match op {
            FileOp::Read { path, offset, limit, max_bytes } => {
                let (content, fingerprint) = self.get(&path)?;
                let lines: Vec<&[u8]> = content.split_inclusive(|b| *b == b'\n').collect();
                let first = usize::try_from(offset.max(1) - 1).unwrap_or(usize::MAX);
                let mut taken = Vec::new();
                let (mut count, mut truncated) = (0, false);
                for line in lines.iter().skip(first).take(usize::try_from(limit).unwrap_or(0)) {
                    if taken.len() as u64 + line.len() as u64 > max_bytes {
                        truncated = true;
                        break;
                    }
                    taken.extend_from_slice(line);
                    count += 1;
                }
                Ok(FileDone::Read {
                    content: Bytes(taken),
                    first_line: offset.max(1),
                    lines: count,
                    total_lines: Some(lines.len() as u64),
                    truncated,
                    fingerprint,
                })
            }
            FileOp::Write { path, content, expected } => {
                let known = self.files.get(&path.0).map(|(_, fingerprint)| *fingerprint);
                match (known, expected) {
                    (Some(_), None) => return Err(FileError::ExistsUnread { path }),
                    (Some(now), Some(then)) if now != then => {
                        return Err(FileError::Changed { path });
                    }
                    (None, Some(_)) => return Err(FileError::Changed { path }),
                    _ => {}
                }
                let fingerprint = self.put(path.0, content.0);
                Ok(FileDone::Written { created: known.is_none(), fingerprint })
            }
            FileOp::Edit { path, old, new, replace_all, expected } => {
                let (content, fingerprint) = self.get(&path)?;
                if fingerprint != expected {
                    return Err(FileError::Changed { path });
                }
                let places = occurrences(&content, &old.0);
                let count = places.len() as u64;
                if count == 0 || (count > 1 && !replace_all) {
                    return Err(FileError::Occurrences { path, count });
                }
                let mut edited = Vec::new();
                let mut from = 0;
                for place in places {
                    edited.extend_from_slice(&content[from..place]);
                    edited.extend_from_slice(&new.0);
                    from = place + old.0.len();
                }
                edited.extend_from_slice(&content[from..]);
                let fingerprint = self.put(path.0, edited.clone());
                Ok(FileDone::Edited {
                    replacements: count,
                    fingerprint,
                    snippet: Bytes(edited),
                    snippet_first_line: 1,
                })
            }
            FileOp::Glob { root, .. } => Ok(self.below(&root)),
            FileOp::Grep(op) => Ok(self.below(&op.root)),
        }
    }

    fn get(&self, path: &Bytes) -> Result<(Vec<u8>, Fingerprint), FileError> {
        self.files.get(&path.0).cloned().ok_or_else(|| FileError::Os {
            step: "open".into(),
            path: path.clone(),
            errno: 2,
            message: "No such file or directory".into(),
        })
    }

    fn below(&self, root: &Bytes) -> FileDone {
        let entries = self.files.keys().filter(|path| path.starts_with(&root.0));
        FileDone::Found {
            entries: entries.map(|path| Bytes(path.clone())).collect(),
            truncated: false,
            unreadable: Vec::new(),
        }
    }
}

/// Where `needle` begins in `hay`, without overlaps.
fn occurrences(hay: &[u8], needle: &[u8]) -> Vec<usize> {
    let mut places = Vec::new();
    let mut from = 0;
    while !needle.is_empty() && from + needle.len() <= hay.len() {
        if hay[from..].starts_with(needle) {
            places.push(from);
            from += needle.len();
        } else {
            from += 1;
        }
    }
    places
}
