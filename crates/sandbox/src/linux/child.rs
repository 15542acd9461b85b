//! A running tree, from the runtime's side: the lifeline to its init, and the init's pidfd.

use super::audit::AuditLog;
use super::cell::Shared;
use super::filter;
use super::infer::Shown;
use super::launcher::setup_failure;
use super::planted;
use crate::{ChildEvent, ChildHandle, Exit, SandboxError, TreeSignal};
use async_trait::async_trait;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use stockade_plan::record::{Order, Record, RecordUsage, SIZE};
use stockade_plan::{Bytes, CellReply, CellRequest, Stage, StageFailure};
use stockade_sys::watched::WatchedFd;
use stockade_sys::{process, socket};
use stockade_types::{Denial, Evidence, LimitMet, LimitName, Usage};
use tokio::io::Interest;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// How long an init may take to end its tree itself before it is killed, and its tree by the kernel with it. It reports the
/// usage of what it reaps, so it is given the time.
const INIT_GRACE: Duration = Duration::from_secs(2);

/// The same where its end is not that of its tree: who kills it then leaves the tree to the cell, and knows no more of it.
const HUNT_GRACE: Duration = Duration::from_secs(20);

type Answer = Result<(CellReply, Vec<OwnedFd>), SandboxError>;

/// See [`ChildHandle`].
pub struct LinuxChild {
    lifeline: WatchedFd,
    lifeline_open: bool,
    pidfd: WatchedFd,
    /// What was to be executed, for messages.
    program: String,
    state: State,
    kill_init_at: Option<Instant>,
    tree_ended: bool,
    usage: Usage,
    /// The cell, and the call's number there.
    cell: (Arc<Shared>, u64),
    /// The question what the call planted. Kept, so that whoever stops waiting for it does not lose the answer.
    sweep: Option<JoinHandle<Answer>>,
    shown: Arc<Shown>,
    started: SystemTime,
    denials: Vec<Denial>,
    audited: Option<Audited>,
    /// Its main process did not end well.
    failed: bool,
    signalled: Option<u32>,
    killed: Option<u32>,
    best_effort: bool,
    outrun: bool,
    pids_met: bool,
}

#[derive(PartialEq)]
enum State {
    Running,
    /// A failure was reported, or the tree ended, or it was to be killed: its end is no surprise.
    Ending,
    Over,
}

/// The kernel's records of what a call's Landlock domain refuses.
pub(super) struct Audited {
    log: Arc<AuditLog>,
    mark: String,
    shown: Arc<Shown>,
}

impl Audited {
    pub(super) fn new(log: &Arc<AuditLog>, shown: &Arc<Shown>) -> Self {
        Self { log: Arc::clone(log), mark: log.mark(), shown: Arc::clone(shown) }
    }

    /// See [`stockade_plan::CommandPlan::audit_mark`].
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// Waits for the last records of a call that failed: one that did not has nothing that people look for.
    async fn denials(&self, failed: bool) -> Vec<Denial> {
        let refused = self.log.take(&self.mark, failed).await.into_iter();
        let named = refused.map(|refused| {
            let (grant, why) = self.shown.grant(refused.kind, Path::new(&refused.target));
            let note = match why {
                "" => refused.rights,
                why => format!("{why} ({})", refused.rights),
            };
            let (kind, target) = (refused.kind, refused.target);
            Denial { kind, target, evidence: Evidence::Kernel, grant, note }
        });
        named.collect()
    }
}

impl Drop for Audited {
    fn drop(&mut self) {
        self.log.forget(&self.mark);
    }
}

impl LinuxChild {
    pub(super) fn new(
        lifeline: OwnedFd,
        pidfd: OwnedFd,
        program: String,
        cell: (Arc<Shared>, u64),
        shown: Arc<Shown>,
        started: SystemTime,
        audited: Option<Audited>,
    ) -> io::Result<Self> {
        Ok(Self {
            lifeline: WatchedFd::new(lifeline, Interest::READABLE)?,
            lifeline_open: true,
            pidfd: WatchedFd::new(pidfd, Interest::READABLE)?,
            program,
            state: State::Running,
            kill_init_at: None,
            tree_ended: false,
            usage: Usage::default(),
            cell,
            sweep: None,
            shown,
            started,
            denials: Vec::new(),
            audited,
            failed: true,
            signalled: None,
            killed: None,
            best_effort: false,
            outrun: false,
            pids_met: false,
        })
    }

    /// Takes one record off the lifeline, if there is one.
    fn take_record(&mut self) -> Option<ChildEvent> {
        let mut buffer = [0; SIZE];
        loop {
            match socket::receive_short(self.lifeline.as_fd(), &mut buffer) {
                Ok(None) => return None,
                Ok(Some(0)) | Err(_) => {
                    self.lifeline_open = false;
                    return None;
                }
                Ok(Some(_)) if self.tree_ended => return None,
                Ok(Some(length)) => {
                    if let Some(record) = Record::decode(&buffer[..length])
                        && let Some(event) = self.on_record(record)
                    {
                        return Some(event);
                    }
                }
            }
        }
    }

    fn on_record(&mut self, record: Record) -> Option<ChildEvent> {
        match record {
            Record::Failed { stage, errno, index } => {
                self.state = State::Ending;
                let stage = Stage::from_u8(stage).unwrap_or(Stage::Message);
                if stage == Stage::Exec {
                    let program = self.program.clone();
                    return Some(ChildEvent::NotExecutable { program, errno });
                }
                let detail = if index > 0 { format!("element {index}") } else { String::new() };
                let failure = StageFailure { stage, errno, subject: Bytes::default(), detail };
                Some(ChildEvent::SetupFailed(setup_failure(&failure)))
            }
            Record::MainEnded { status, left, usage } => {
                self.usage = convert(usage);
                self.failed = status != 0;
                Some(ChildEvent::MainEnded { exit: exit(status), left, usage: self.usage })
            }
            Record::Denied { number, pid, arguments } => {
                self.denials.push(filter::denial(number, arguments, pid));
                None
            }
            Record::MemoryExceeded => {
                self.state = State::Ending;
                Some(ChildEvent::LimitExceeded(LimitName::Memory))
            }
            Record::PidsMet => {
                self.pids_met = true;
                None
            }
            Record::BestEffort => {
                self.best_effort = true;
                if let Some(at) = &mut self.kill_init_at {
                    *at += HUNT_GRACE - INIT_GRACE;
                }
                None
            }
            Record::Terminating { processes } => {
                self.signalled = self.signalled.max(Some(processes));
                None
            }
            Record::Killing { processes } => {
                // Ordered again, by both sides of a limit, there are fewer left.
                self.killed = self.killed.max(Some(processes));
                None
            }
            // The init has reaped everything and only ends itself now: there is nothing left to wait for.
            Record::TreeEnded { usage } => {
                self.state = State::Ending;
                self.usage = convert(usage);
                self.tree_ended = true;
                // By itself, unless it said otherwise: whatever was ordered came too late.
                self.killed.get_or_insert(0);
                None
            }
        }
    }

    /// Asks the cell what the call planted under protected names: it has put that aside already. Cancel-safe.
    async fn collect_planted(&mut self) {
        let sweep = self.sweep.get_or_insert_with(|| {
            let (cell, id) = (Arc::clone(&self.cell.0), self.cell.1);
            tokio::spawn(async move { cell.ask(CellRequest::Sweep { id }, Vec::new()).await })
        });
        let answer = sweep.await;
        self.sweep = None;
        self.denials.extend(match answer {
            Ok(Ok((swept, _))) => planted::told(&swept),
            // Its cell was lost with it.
            _ => planted::untold(&self.shown.protected, self.started),
        });
    }

    fn gone(&mut self) -> ChildEvent {
        let expected = std::mem::replace(&mut self.state, State::Over) == State::Ending;
        if expected {
            return ChildEvent::Gone { usage: self.usage };
        }
        ChildEvent::Lost {
            detail: "the call's init ended without a report: it, its cell or the launcher was killed from outside".into(),
        }
    }

    fn order(&self, order: Order) -> io::Result<()> {
        socket::send_short(self.lifeline.as_fd(), &[order as u8])
    }
}

fn convert(usage: RecordUsage) -> Usage {
    // An init without a pid namespace counts nothing, and sees no tree; its cgroup's peak it knows, if it has one.
    let seen = usage.started > 0;
    Usage {
        wall_us: 0,
        user_us: usage.user_us,
        system_us: usage.system_us,
        max_rss_kib: usage.max_rss_kib,
        peak_memory_kib: (seen || usage.tree_peak_kib > 0)
            .then(|| usage.max_rss_kib.max(usage.tree_peak_kib.into())),
        started: seen.then_some(usage.started),
        voluntary_switches: usage.voluntary_switches.into(),
        involuntary_switches: usage.involuntary_switches.into(),
    }
}

/// wait(2): the low seven bits are the signal, the next byte the code.
fn exit(status: i32) -> Exit {
    match status & 0x7f {
        0 => Exit::Code((status >> 8) & 0xff),
        signal => Exit::Signal(signal),
    }
}

impl Drop for LinuxChild {
    fn drop(&mut self) {
        if self.state != State::Over {
            let _ = process::pidfd_kill(self.pidfd.as_fd(), libc::SIGKILL);
        }
    }
}

#[async_trait]
impl ChildHandle for LinuxChild {
    async fn event(&mut self) -> ChildEvent {
        if self.state == State::Over {
            return std::future::pending().await;
        }
        loop {
            // The init ends after the last process of its namespace, and what it said before comes first.
            if let Some(event) = self.take_record() {
                return event;
            }
            if self.tree_ended {
                self.collect_planted().await;
                if let Some(audited) = &self.audited {
                    self.denials.extend(audited.denials(self.failed).await);
                }
                self.audited = None;
                return self.gone();
            }
            let kill_at = self.kill_init_at;
            tokio::select! {
                biased;
                ready = self.lifeline.readable(), if self.lifeline_open => {
                    if ready.is_err() {
                        self.lifeline_open = false;
                    }
                }
                _ = self.pidfd.readable() => self.tree_ended = true,
                () = async { sleep_until(kill_at.unwrap_or_else(Instant::now)).await }, if kill_at.is_some() => {
                    self.kill_init_at = None;
                    self.outrun = self.best_effort;
                    let _ = process::pidfd_kill(self.pidfd.as_fd(), libc::SIGKILL);
                }
            }
        }
    }

    fn signal(&mut self, signal: TreeSignal) -> io::Result<()> {
        match signal {
            TreeSignal::Interrupt => self.order(Order::Interrupt),
            TreeSignal::Terminate => self.order(Order::Terminate),
            TreeSignal::Stop => self.order(Order::Stop),
            TreeSignal::Continue => self.order(Order::Continue),
            TreeSignal::Kill => {
                self.state = match self.state {
                    State::Over => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
                    _ => State::Ending,
                };
                let grace = if self.best_effort { HUNT_GRACE } else { INIT_GRACE };
                self.kill_init_at = Some(Instant::now() + grace);
                if self.order(Order::Kill).is_err() {
                    return process::pidfd_kill(self.pidfd.as_fd(), libc::SIGKILL);
                }
                Ok(())
            }
        }
    }

    fn signalled(&self) -> Option<u32> {
        self.signalled
    }

    fn killed(&self) -> Option<u32> {
        self.killed
    }

    fn is_best_effort(&self) -> bool {
        self.best_effort
    }

    fn limits_met(&self) -> Vec<LimitMet> {
        let pids = LimitMet { limit: LimitName::Pids, evidence: Evidence::Observed };
        self.pids_met.then_some(pids).into_iter().collect()
    }

    fn was_outrun(&self) -> bool {
        self.outrun
    }

    fn denials(&mut self) -> Vec<Denial> {
        std::mem::take(&mut self.denials)
    }
}
