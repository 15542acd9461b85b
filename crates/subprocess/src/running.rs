use crate::control::Order;
use crate::ladder::{Ladder, Phase, after, millis};
use crate::limits::SignalledLimits;
use crate::output::{InputStream, Keeper, OutputStream, READ_SIZE, Stream};
use crate::pty::Terminal;
use crate::{Budget, Control, Finished, RunOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::time::Duration;
use stockade_sandbox::{
    Cell, Child, ChildEvent, ChildHandle, CommandSpec, Exit, SandboxError, Stdio, TreeSignal,
    WatchedFd,
};
use stockade_types::{CancelReason, Denial, Killed, Outcome, Usage};
use tokio::io::Interest;
use tokio::select;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// How long a leftover that has closed its pipes may take to end: a process closes them a moment before it is gone.
const ENDING: Duration = Duration::from_millis(10);

/// How long a start that is not wanted any more may take to be told.
const START_PATIENCE: Duration = Duration::from_secs(3);

/// How long after the last process the end of its output may take to come.
const EOF_PATIENCE: Duration = Duration::from_millis(100);

/// After how many bytes of output the runtime gets its turn.
const TURN: usize = 1 << 20;

/// Runs a command to its end and returns when no process of it is left. `cancel` ends it as interrupted by the user;
/// who cancels for another reason, and knows it, replaces that. Dropping the future kills the tree.
pub async fn run(
    cell: &dyn Cell,
    command: CommandSpec,
    options: RunOptions,
    cancel: CancellationToken,
) -> Finished {
    let cancelled = Outcome::Cancelled { reason: CancelReason::UserInterrupted };
    if cancel.is_cancelled() {
        return Finished::never_ran(cancelled);
    }
    let budget = options.deadline;
    let deadline = budget.map(|budget| after(Instant::now(), budget));
    let cwd = command.cwd.clone();
    let mut start = pin!(RunningCommand::start(cell, command, options));
    let too_early = select! {
        biased;
        started = &mut start => Ok(started),
        () = cancel.cancelled() => Err(cancelled),
        () = reach(deadline) => {
            Err(Outcome::TimedOut { timeout_ms: millis(budget.unwrap_or_default()) })
        }
    };
    let started = match too_early {
        Ok(started) => started,
        // It may run and have written something, though it has not been told yet: then it is led down the ladder like any other.
        Err(outcome) => match timeout(START_PATIENCE, start).await {
            Ok(started) => started,
            Err(_) => return Finished::never_ran(outcome),
        },
    };
    match started {
        Ok(running) => {
            let mut finished = running.wait(cancel).await;
            finished.infer(cell, &cwd);
            finished
        }
        Err(error) => Finished::from(error),
    }
}

/// A command that has been started. Dropping it kills its tree.
pub struct RunningCommand {
    child: Box<dyn ChildHandle>,
    stdin: InputStream,
    stdout: OutputStream,
    stderr: OutputStream,
    keeper: Keeper,
    /// Our end of its terminal, until somebody takes it.
    terminal: Option<OwnedFd>,
    /// What to type there.
    typed: Vec<u8>,
    /// An output stream goes to a descriptor of the caller's, so that its end cannot be seen from here.
    passed_through: bool,

    started: Instant,
    deadline: Option<Budget>,
    limits: SignalledLimits,
    ladder: Ladder,
    cancelled: bool,
    /// See [`RunOptions::kill`].
    kill: CancellationToken,

    outcome: Option<Outcome>,
    /// How the main process ended of which others live on: counts if nothing ends those before their time.
    main: Option<Outcome>,
    on_main_ended: Option<Box<dyn FnOnce(Exit, u32) + Send>>,
    /// Why the command was to be ended when it turned out to be gone already: counts if it never says how it ended.
    too_late: Option<Outcome>,
    /// How many processes the main one left when it ended.
    left: Option<u32>,
    usage: Usage,

    control: Control,
    orders: UnboundedReceiver<Order>,
}

impl RunningCommand {
    /// Starts the command; the deadline runs from now. Streams that are [`Stdio::Pipe`] are captured; a stdin that is one
    /// gets [`RunOptions::stdin`] and is closed. What a terminal shows is captured as stdout unless it is taken
    /// ([`RunningCommand::take_terminal`]), and [`RunOptions::stdin`] is typed there, with an end of file after it.
    pub async fn start(
        cell: &dyn Cell,
        mut command: CommandSpec,
        options: RunOptions,
    ) -> Result<Self, SandboxError> {
        let started = Instant::now();
        if options.stdin.is_some() && command.terminal.is_none() {
            command.stdin = Stdio::Pipe;
        }
        let passed_through = command.terminal.is_none()
            && (matches!(command.stdout, Stdio::Fd(_)) || matches!(command.stderr, Stdio::Fd(_)));
        let limits = cell.limits();
        let Child { stdin, stdout, stderr, terminal, handle } = cell.spawn(command).await?;

        let unwatchable = |error: io::Error| {
            SandboxError::CellLost(format!(
                "the command was ended at its start, since its pipes cannot be watched: {error}"
            ))
        };
        let (control, orders) = Control::new();
        let mut input = options.stdin.unwrap_or_default();
        let typed = if terminal.is_some() { std::mem::take(&mut input) } else { Vec::new() };
        Ok(Self {
            child: handle,
            stdin: InputStream::of_pipe(stdin, input).map_err(unwatchable)?,
            stdout: OutputStream::of_pipe(Stream::Stdout, stdout).map_err(unwatchable)?,
            stderr: OutputStream::of_pipe(Stream::Stderr, stderr).map_err(unwatchable)?,
            keeper: Keeper::new(options.output_limit, options.sink, options.progress, started),
            terminal,
            typed,
            passed_through,
            started,
            deadline: options.deadline.map(|total| Budget::begun(total, started)),
            limits: SignalledLimits {
                cpu: limits.cpu.is_some(),
                file_size: limits.file_size.is_some(),
            },
            ladder: Ladder::new(options.grace, options.leftovers),
            cancelled: false,
            kill: options.kill,
            outcome: None,
            main: None,
            on_main_ended: options.on_main_ended,
            too_late: None,
            left: None,
            usage: Usage::default(),
            control,
            orders,
        })
    }

    /// What to reach it by while [`RunningCommand::wait`] has it.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Our end of its terminal, if it has one: to be joined to a person's. What it shows is not captured then.
    pub fn take_terminal(&mut self) -> Option<Terminal> {
        let terminal = self.terminal.take()?;
        self.passed_through = true;
        Some(Terminal::from(terminal))
    }

    /// Reads its output, ends it when its time is up or `cancel` fires, and returns when no process of it is left.
    pub async fn wait(mut self, cancel: CancellationToken) -> Finished {
        if let Some(terminal) = self.terminal.take()
            && let Err(error) = self.capture_terminal(terminal)
        {
            tracing::warn!(%error, "a command's terminal cannot be watched; the command is ended");
            self.end(Outcome::Lost { detail: format!("its terminal cannot be watched: {error}") });
        }
        let mut buffer = vec![0; READ_SIZE];
        let mut cancel_fired = pin!(cancel.cancelled());
        let mut watch_cancel = true;
        let mut kill_fired = pin!(std::mem::take(&mut self.kill).cancelled_owned());
        let mut watch_kill = true;
        let mut pumped = 0;
        while self.ladder.phase != Phase::Over {
            let timer = self.next_timer();
            // In this order: how the command ended by itself comes before a deadline that passed while nobody looked,
            // and output, of which there may be no end, comes last.
            select! {
                biased;
                event = self.child.event() => self.on_event(event),
                Some(order) = self.orders.recv() => self.on_order(order),
                () = &mut cancel_fired, if watch_cancel => {
                    watch_cancel = false;
                    self.on_order(Order::Cancel(CancelReason::UserInterrupted));
                }
                () = &mut kill_fired, if watch_kill => {
                    watch_kill = false;
                    self.on_order(Order::KillNow);
                }
                () = reach(timer) => self.on_timer(),
                () = reach(self.keeper.report_due()) => self.keeper.report(),
                () = self.stdout.readable() => pumped += self.pump(&mut buffer),
                () = self.stderr.readable() => pumped += self.pump(&mut buffer),
                () = self.stdin.writable() => pumped += self.pump(&mut buffer),
            }
            self.end_what_is_left();
            // Timers are looked at when the runtime gets its turn, which is after a hundred polls of what is always ready: too
            // late, where each of them reads so much.
            if pumped >= TURN {
                pumped = 0;
                yield_now().await;
            }
        }
        self.finish(&mut buffer).await
    }

    /// All three get their turn whichever is ready: else the first, were it never at rest, would keep the others waiting.
    /// Returns how many bytes were read.
    fn pump(&mut self, buffer: &mut [u8]) -> usize {
        let mut streams = [&mut self.stdout, &mut self.stderr];
        streams.sort_by_cached_key(|stream| stream.arrived());
        let read = streams.into_iter().map(|stream| stream.read(buffer, &mut self.keeper)).sum();
        self.stdin.write();
        read
    }

    fn capture_terminal(&mut self, terminal: OwnedFd) -> io::Result<()> {
        rustix::io::ioctl_fionbio(&terminal, true)?;
        let typing = terminal.as_fd().try_clone_to_owned()?;
        self.stdout = OutputStream::of_terminal(WatchedFd::new(terminal, Interest::READABLE)?);
        let typed = std::mem::take(&mut self.typed);
        self.stdin = InputStream::of_terminal(WatchedFd::new(typing, Interest::WRITABLE)?, typed);
        Ok(())
    }

    async fn finish(mut self, buffer: &mut [u8]) -> Finished {
        self.usage.wall_us = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        drop(self.stdin);
        self.stdout.finish(buffer, &mut self.keeper, EOF_PATIENCE).await;
        self.stderr.finish(buffer, &mut self.keeper, EOF_PATIENCE).await;
        let kept = self.keeper.finish();
        let outcome = self.outcome.or(self.main).or(self.too_late).unwrap_or_else(|| {
            Outcome::Lost { detail: "its processes ended without a report of how".to_owned() }
        });
        let mut killed = self.ladder.account();
        if let Some(processes) = self.child.signalled().filter(|_| killed.terminated) {
            killed.signalled = processes;
        }
        if let Some(processes) = self.child.killed().filter(|_| killed.killed) {
            killed.processes = processes;
            killed.killed = processes > 0;
            // Not a signal was needed, then.
            if !killed.killed && !killed.terminated {
                killed = Killed::default();
            }
        }
        killed.best_effort = self.child.is_best_effort() && (killed.terminated || killed.killed);
        killed.outrun = self.child.was_outrun();
        Finished {
            outcome,
            stdout: kept.stdout,
            stderr: kept.stderr,
            output: kept.both,
            sink_error: kept.sink_error,
            usage: self.usage,
            killed,
            denials: Denial::bounded(self.child.denials()),
            limits_met: self.child.limits_met(),
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        let deadline = self.deadline.and_then(|budget| budget.ends_at());
        match self.ladder.phase {
            Phase::Running | Phase::Kept => deadline,
            Phase::Drain(until) if self.has_leftovers() => {
                Some(deadline.map_or(until, |at| at.min(until)))
            }
            _ => self.ladder.until(),
        }
    }

    fn on_timer(&mut self) {
        match (self.ladder.phase, self.deadline) {
            (Phase::Running | Phase::Kept, Some(budget)) => {
                self.end(Outcome::TimedOut { timeout_ms: millis(budget.total()) });
            }
            (Phase::Grace(_) | Phase::Drain(_), _) => {
                self.kill();
            }
            (Phase::Killing(_), _) => {
                self.outcome = Some(Outcome::Lost {
                    detail: "a process hangs in the kernel and did not end by SIGKILL; look for one in state D"
                        .to_owned(),
                });
                self.ladder.over();
            }
            (Phase::Running | Phase::Kept, None) | (Phase::Over, _) => {}
        }
    }

    fn on_order(&mut self, order: Order) {
        match order {
            // A tree that is gone needs no signal.
            Order::Signal(signal) => drop(self.child.signal(signal)),
            Order::Cancel(reason) => {
                if self.cancelled {
                    self.kill();
                } else {
                    self.cancelled = true;
                    self.end(Outcome::Cancelled { reason });
                }
                if let Some(Outcome::Cancelled { reason: known }) = &mut self.outcome {
                    *known = reason.max(*known);
                }
            }
            Order::KillNow => {
                let reason = CancelReason::UserInterrupted;
                let signalled = self.kill();
                self.decide(Outcome::Cancelled { reason }, signalled);
            }
            // Within the grace, or while what is left is killed, nothing is stopped any more.
            Order::Suspend if !matches!(self.ladder.phase, Phase::Running | Phase::Kept) => {}
            Order::Suspend => {
                if self.child.signal(TreeSignal::Stop).is_ok()
                    && let Some(budget) = &mut self.deadline
                {
                    budget.pause();
                }
            }
            Order::Resume => {
                drop(self.child.signal(TreeSignal::Continue));
                if let Some(budget) = &mut self.deadline {
                    budget.resume();
                }
            }
        }
    }

    /// The first step down, unless it has been taken.
    fn end(&mut self, cause: Outcome) {
        match self.ladder.phase {
            Phase::Running | Phase::Kept => {
                let signalled = self.ladder.terminate(&mut *self.child);
                self.decide(cause, signalled);
            }
            // The command has ended by itself; only its leftovers are still here.
            Phase::Drain(_) if self.has_leftovers() => {
                self.kill();
            }
            _ => {}
        }
    }

    fn decide(&mut self, cause: Outcome, signalled: bool) {
        if signalled {
            self.outcome.get_or_insert(cause);
        } else {
            self.too_late.get_or_insert(cause);
        }
    }

    fn kill(&mut self) -> bool {
        self.ladder.kill(&mut *self.child, self.left.unwrap_or(1))
    }

    fn on_event(&mut self, event: ChildEvent) {
        match event {
            ChildEvent::SetupFailed(failure) => {
                self.left = Some(0);
                self.outcome.get_or_insert(Outcome::SetupFailed(failure));
                self.ladder.main_ended(None, 0);
            }
            ChildEvent::NotExecutable { program, errno } => {
                self.left = Some(0);
                self.outcome.get_or_insert(Outcome::NotExecutable { program, errno });
                self.ladder.main_ended(None, 0);
            }
            ChildEvent::LimitExceeded(limit) => {
                self.outcome.get_or_insert(Outcome::LimitExceeded { limit });
                self.kill();
            }
            ChildEvent::MainEnded { exit, left, usage } => {
                self.left = Some(left);
                self.add_usage(usage);
                self.ladder.main_ended(Some(exit), left);
                if self.ladder.phase == Phase::Kept {
                    self.main = Some(self.limits.outcome(exit));
                } else {
                    self.outcome.get_or_insert(self.limits.outcome(exit));
                }
                if let Some(told) = self.on_main_ended.take().filter(|_| left > 0) {
                    told(exit, left);
                }
            }
            ChildEvent::Gone { usage } => {
                self.add_usage(usage);
                self.ladder.over();
            }
            ChildEvent::Lost { detail } => {
                self.outcome.get_or_insert(Outcome::Lost { detail });
                self.ladder.over();
            }
        }
    }

    /// Leftovers that can no longer write anything to us have nothing to be waited for, unless they are just ending (spec 6.2).
    fn end_what_is_left(&mut self) {
        let done_writing = !self.passed_through && !self.stdout.is_open() && !self.stderr.is_open();
        if matches!(self.ladder.phase, Phase::Drain(_)) && self.has_leftovers() && done_writing {
            self.ladder.shorten_drain(ENDING);
        }
    }

    /// The main process has ended and others had not. Where none was left, the end of the tree is but a moment away.
    fn has_leftovers(&self) -> bool {
        self.left.is_some_and(|left| left > 0)
    }

    /// Each report is of the tree so far, and one after a SIGKILL may know less than the one before.
    fn add_usage(&mut self, usage: Usage) {
        self.usage.user_us = self.usage.user_us.max(usage.user_us);
        self.usage.system_us = self.usage.system_us.max(usage.system_us);
        self.usage.max_rss_kib = self.usage.max_rss_kib.max(usage.max_rss_kib);
        self.usage.peak_memory_kib = self.usage.peak_memory_kib.max(usage.peak_memory_kib);
        self.usage.started = self.usage.started.max(usage.started);
        self.usage.voluntary_switches = self.usage.voluntary_switches.max(usage.voluntary_switches);
        self.usage.involuntary_switches =
            self.usage.involuntary_switches.max(usage.involuntary_switches);
    }
}

async fn reach(timer: Option<Instant>) {
    match timer {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
