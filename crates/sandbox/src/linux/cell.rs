//! A cell, from the runtime's side.

use super::audit::AuditLog;
use super::cell_group::CellGroup;
use super::channel::Channel;
use super::child::{Audited, LinuxChild};
use super::command_plan::{self, Limits};
use super::host::HostCaps;
use super::infer::Shown;
use super::launcher::{PATIENCE_MS, setup_failure, unexpected};
use super::worker_client::WorkerClient;
use crate::{Cell, Child, CommandSpec, SandboxError, Stdio};
use async_trait::async_trait;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;
use stockade_plan::file::{FileDone, FileError, FileOp};
use stockade_plan::{CellReply, CellRequest, CommandPlan, WorkerPlan};
use stockade_policy::LimitsPolicy;
use stockade_sys::cgroup::Controllers;
use stockade_sys::{fd, process, socket};
use stockade_types::{Denial, LayerReport, Refusal, SetupFailure};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// See [`Cell`].
pub struct LinuxCell {
    shared: Arc<Shared>,
    pidfd: OwnedFd,
    worker: Mutex<Option<Arc<WorkerClient>>>,
    worker_plan: WorkerPlan,
    environment: Vec<(OsString, OsString)>,
    layers: LayerReport,
    limits: LimitsPolicy,
    host: HostCaps,
    group: Option<CellGroup>,
    audit: Option<Arc<AuditLog>>,
    shown: Arc<Shown>,
    next_id: AtomicU64,
}

/// What a request needs to be brought to its end even when whoever asked has gone.
pub(super) struct Shared {
    channel: Channel,
    /// Requests are answered in their order, so one at a time is asked.
    turn: Mutex<Turn>,
    /// The cell has ended, or its answers no longer fit.
    lost: AtomicBool,
}

/// What whoever asks next has to know.
#[derive(Default)]
struct Turn {
    /// The cell has said that it stands, which is its first word.
    built: bool,
}

impl Shared {
    /// Asks in a task of its own: a request that was sent is always answered for, so that a caller who gives up does not leave
    /// an answer behind that the next caller would take for his.
    pub(super) async fn ask(
        self: &Arc<Self>,
        request: CellRequest,
        fds: Vec<OwnedFd>,
    ) -> Result<(CellReply, Vec<OwnedFd>), SandboxError> {
        let shared = Arc::clone(self);
        let task = tokio::spawn(async move {
            let mut turn = shared.turn.lock().await;
            let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            // Whatever is wrong with the cell, its last word tells better than a failed send.
            let sent = shared.channel.send(&request, &borrowed).await;
            let result = shared.answer(&mut turn, sent).await;
            if result.is_err() {
                shared.lost.store(true, Ordering::Release);
            }
            result
        });
        task.await.unwrap_or_else(|error| Err(SandboxError::CellLost(error.to_string())))
    }

    async fn answer(
        &self,
        turn: &mut Turn,
        sent: io::Result<()>,
    ) -> Result<(CellReply, Vec<OwnedFd>), SandboxError> {
        self.stands(turn).await?;
        let lost = |error: io::Error| SandboxError::CellLost(error.to_string());
        sent.map_err(lost)?;
        self.channel.receive::<CellReply>().await.map_err(lost)
    }

    /// Waits for the cell's first word.
    async fn stands(&self, turn: &mut Turn) -> Result<(), SandboxError> {
        let lost = |error: io::Error| SandboxError::CellLost(error.to_string());
        if !turn.built {
            match self.channel.receive::<CellReply>().await.map_err(lost)? {
                (CellReply::Ready { skipped }, _) => {
                    for path in skipped {
                        tracing::debug!(
                            ?path,
                            "a readable path vanished before it could be mounted"
                        );
                    }
                }
                (CellReply::Failed(failure), _) => return Err(setup_failure(&failure).into()),
                (other, _) => return Err(unexpected(&other).into()),
            }
            turn.built = true;
        }
        Ok(())
    }
}

/// What a cell is made of once it stands.
pub(super) struct CellParts {
    pub channel: Channel,
    pub pidfd: OwnedFd,
    pub worker_plan: WorkerPlan,
    pub environment: Vec<(OsString, OsString)>,
    pub layers: LayerReport,
    pub limits: LimitsPolicy,
    pub host: HostCaps,
    pub group: Option<CellGroup>,
    pub audit: Option<Arc<AuditLog>>,
    pub shown: Shown,
}

impl LinuxCell {
    pub(super) fn new(parts: CellParts) -> Self {
        let shared =
            Shared { channel: parts.channel, turn: Mutex::default(), lost: AtomicBool::new(false) };
        Self {
            shared: Arc::new(shared),
            pidfd: parts.pidfd,
            worker: Mutex::new(None),
            worker_plan: parts.worker_plan,
            environment: parts.environment,
            layers: parts.layers,
            limits: parts.limits,
            host: parts.host,
            group: parts.group,
            audit: parts.audit,
            shown: Arc::new(parts.shown),
            next_id: AtomicU64::new(1),
        }
    }

    /// Waits until the cell stands, or says why it does not.
    pub(super) async fn stands(&self) -> Result<(), SandboxError> {
        self.shared.stands(&mut *self.shared.turn.lock().await).await
    }

    /// Ends it and waits, for a while.
    pub(super) fn end(&self) {
        self.shared.channel.end();
        process::await_end(self.pidfd.as_fd(), PATIENCE_MS);
    }

    /// Whether the cell can still be asked. It may end at any moment all the same.
    pub(super) fn is_alive(&self) -> bool {
        !self.shared.lost.load(Ordering::Acquire)
            && process::pidfd_kill(self.pidfd.as_fd(), 0).is_ok()
    }

    async fn worker(&self) -> Result<Arc<WorkerClient>, SandboxError> {
        let mut worker = self.worker.lock().await;
        if let Some(running) = worker.as_ref().filter(|worker| worker.is_alive()) {
            return Ok(Arc::clone(running));
        }
        let (ours, theirs) =
            socket::stream_pair().map_err(|error| SetupFailure::of_step("worker", &error))?;
        let request = CellRequest::StartWorker(self.worker_plan.clone());
        match self.shared.ask(request, vec![theirs]).await? {
            (CellReply::WorkerStarted, _) => {
                let client = WorkerClient::start(ours)
                    .map_err(|error| SetupFailure::of_step("worker", &error))?;
                Ok(Arc::clone(worker.insert(Arc::new(client))))
            }
            (CellReply::WorkerFailed(failure) | CellReply::Failed(failure), _) => {
                Err(setup_failure(&failure).into())
            }
            (other, _) => Err(unexpected(&other).into()),
        }
    }
}

/// `/proc/self/fd/0/…` would lead past everything that the view hides and protects.
fn folder_as_stream() -> Refusal {
    Refusal {
        by: "sandbox".into(),
        reason: "one of stdin, stdout and stderr is a folder, through which the command would reach what its view hides: give it a file, a pipe or /dev/null".into(),
    }
}

/// The end for the command, and the end that stays here.
fn stream(stdio: Stdio, command_reads: bool) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    match stdio {
        Stdio::Fd(fd) => Ok((fd, None)),
        Stdio::Null => {
            let null =
                OpenOptions::new().read(command_reads).write(!command_reads).open("/dev/null")?;
            Ok((null.into(), None))
        }
        Stdio::Pipe => {
            let (reading, writing) = fd::pipe()?;
            let (theirs, ours) =
                if command_reads { (reading, writing) } else { (writing, reading) };
            fd::set_nonblocking(ours.as_fd())?;
            Ok((theirs, Some(ours)))
        }
    }
}

#[async_trait]
impl Cell for LinuxCell {
    async fn spawn(&self, command: CommandSpec) -> Result<Child, SandboxError> {
        command_plan::check(&command)?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let audited = self.audit.as_ref().map(|log| Audited::new(log, &self.shown));
        let mark = audited.as_ref().map(Audited::mark);
        let controllers = self.group.as_ref().map_or(Controllers::NONE, |group| group.controllers);
        let limits = Limits { policy: &self.limits, controllers, host: &self.host };
        let plan: CommandPlan = command_plan::plan(id, &command, &self.environment, limits, mark)?;
        let program = command.argv.first().cloned().unwrap_or_default();
        let at = |error: io::Error| SetupFailure::of_step("descriptors", &error);
        let (ours, theirs) = socket::packet_pair().map_err(at)?;
        let mut fds = vec![theirs];
        let [mut our_stdin, mut our_stdout, mut our_stderr] = [const { None }; 3];
        if command.terminal.is_none() {
            for (stdio, ours, command_reads) in [
                (command.stdin, &mut our_stdin, true),
                (command.stdout, &mut our_stdout, false),
                (command.stderr, &mut our_stderr, false),
            ] {
                if let Stdio::Fd(fd) = &stdio
                    && fd::is_folder(fd.as_fd()).map_err(at)?
                {
                    return Err(folder_as_stream().into());
                }
                let (theirs, kept) = stream(stdio, command_reads).map_err(at)?;
                fds.push(theirs);
                *ours = kept;
            }
        }
        let request = CellRequest::Spawn(Box::new(plan));
        let started = SystemTime::now();
        let (pidfd, terminal) = match self.shared.ask(request, fds).await? {
            (CellReply::Spawned { id: answered }, fds) if answered == id => {
                let mut fds = fds.into_iter();
                (fds.next().ok_or_else(|| unexpected(&"no pidfd"))?, fds.next())
            }
            (CellReply::SpawnFailed { id: answered, failure }, _) if answered == id => {
                return Err(setup_failure(&failure).into());
            }
            (CellReply::Failed(failure), _) => return Err(setup_failure(&failure).into()),
            (other, _) => return Err(unexpected(&other).into()),
        };
        let program = program.to_string_lossy().into_owned();
        let (cell, shown) = ((Arc::clone(&self.shared), id), Arc::clone(&self.shown));
        let child = LinuxChild::new(ours, pidfd, program, cell, shown, started, audited);
        let child = child.map_err(at)?;
        Ok(Child {
            stdin: our_stdin,
            stdout: our_stdout,
            stderr: our_stderr,
            terminal,
            handle: Box::new(child),
        })
    }

    async fn file(
        &self,
        op: FileOp,
        cancel: CancellationToken,
    ) -> Result<Result<FileDone, FileError>, SandboxError> {
        self.worker().await?.run(op, cancel).await
    }

    fn layers(&self) -> LayerReport {
        self.layers.clone()
    }

    fn limits(&self) -> LimitsPolicy {
        self.limits.clone()
    }

    fn infer(&self, output: &[u8], cwd: &Path) -> Vec<Denial> {
        self.shown.infer(output, cwd)
    }
}
