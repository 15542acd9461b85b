use crate::Leftovers;
use std::time::Duration;
use stockade_sandbox::{ChildHandle, Exit, TreeSignal};
use stockade_types::Killed;
use tokio::time::Instant;

/// SIGKILL cannot be ignored, yet a process that hangs in the kernel (a dead network disk) does not end by it either;
/// after this long the wait for it is given up, and said so.
const GIVE_UP: Duration = Duration::from_secs(30);

/// Where a command stands on its way to the end (spec 6.1, 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The main process runs, and nobody has asked it to end.
    Running,
    /// SIGTERM was sent; SIGKILL follows then.
    Grace(Instant),
    /// The main process ended by itself; what it left is killed then.
    Drain(Instant),
    /// The main process ended by itself; what it left lives on.
    Kept,
    /// SIGKILL was sent; hope ends then.
    Killing(Instant),
    /// No process is left.
    Over,
}

/// The steps down which a tree is led, and the account of them.
#[derive(Debug)]
pub(crate) struct Ladder {
    pub(crate) phase: Phase,
    killed: Killed,
    first_signal: Option<Instant>,
    grace: Duration,
    leftovers: Leftovers,
    drain_shortened: bool,
}

impl Ladder {
    pub(crate) fn new(grace: Duration, leftovers: Leftovers) -> Self {
        let killed = Killed::default();
        let phase = Phase::Running;
        Self { phase, killed, first_signal: None, grace, leftovers, drain_shortened: false }
    }

    /// How long what is left may take; with leftovers that live on, as long as an end's report may.
    fn drain(&self) -> Duration {
        match self.leftovers {
            Leftovers::End { drain } => drain,
            Leftovers::Keep => Duration::from_millis(500),
        }
    }

    /// SIGTERM. False if the tree was gone before it: then its own report, which is on the way, says how it ended.
    pub(crate) fn terminate(&mut self, child: &mut dyn ChildHandle) -> bool {
        let now = Instant::now();
        if child.signal(TreeSignal::Terminate).is_err() {
            self.phase = Phase::Drain(after(now, self.drain()));
            return false;
        }
        self.killed.terminated = true;
        self.first_signal.get_or_insert(now);
        self.phase = Phase::Grace(after(now, self.grace));
        true
    }

    /// SIGKILL to `processes` that are known of. False if the tree was gone before it.
    pub(crate) fn kill(&mut self, child: &mut dyn ChildHandle, processes: u32) -> bool {
        if matches!(self.phase, Phase::Killing(_) | Phase::Over) {
            return false;
        }
        let now = Instant::now();
        self.phase = Phase::Killing(after(now, GIVE_UP));
        if child.signal(TreeSignal::Kill).is_err() {
            return false;
        }
        self.killed.killed = true;
        self.killed.processes = processes;
        self.first_signal.get_or_insert(now);
        true
    }

    /// The main process has ended, unless it never began, and `left` others have not. Within the grace, they keep what is
    /// left of it.
    pub(crate) fn main_ended(&mut self, exit: Option<Exit>, left: u32) {
        if self.first_signal.is_some() {
            match exit {
                Some(Exit::Code(code)) => self.killed.main_exit_code = Some(code),
                Some(Exit::Signal(signal)) => self.killed.main_signal = Some(signal),
                None => {}
            }
        }
        if self.phase == Phase::Running {
            self.phase = match self.leftovers {
                Leftovers::Keep if left > 0 => Phase::Kept,
                _ => Phase::Drain(after(Instant::now(), self.drain())),
            };
        }
    }

    /// The drain lasts no longer than so long from the first time on that this is asked.
    pub(crate) fn shorten_drain(&mut self, most: Duration) {
        if !std::mem::replace(&mut self.drain_shortened, true)
            && let Phase::Drain(until) = &mut self.phase
        {
            *until = after(Instant::now(), most).min(*until);
        }
    }

    /// The last process has gone.
    pub(crate) fn over(&mut self) {
        self.phase = Phase::Over;
        if let Some(first) = self.first_signal {
            self.killed.took_ms = millis(first.elapsed());
        }
    }

    /// When the phase's time is up.
    pub(crate) fn until(&self) -> Option<Instant> {
        match self.phase {
            Phase::Grace(until) | Phase::Drain(until) | Phase::Killing(until) => Some(until),
            Phase::Running | Phase::Kept | Phase::Over => None,
        }
    }

    pub(crate) fn account(&self) -> Killed {
        self.killed
    }
}

/// A duration too long for the clock is as good as for ever.
pub(crate) fn after(now: Instant, duration: Duration) -> Instant {
    const FOR_EVER: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);
    now.checked_add(duration.min(FOR_EVER)).unwrap_or(now)
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
