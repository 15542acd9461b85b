//! The model: what spec 1.1 to 1.20 say, as directly as code can say it. Time jumps from event to event; at each moment
//! everything that can happen does.

use crate::turn::{Signal, Tool, Turn};
use std::collections::BTreeSet;
use stockade_runtime::{Cascade, EarlyStart};

/// What came of a turn.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Bodies that started, in order, with their moments.
    pub starts: Vec<(usize, u64)>,
    /// When each body ended.
    pub ends: Vec<Option<u64>>,
    /// Results in the order of their delivery, with their moments.
    pub delivered: Vec<(usize, u64)>,
    /// What each call's result says; `None` where nobody is told.
    pub outcomes: Vec<Option<Outcome>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Did,
    Failed,
    Stopping,
    Aborted,
    AbortedBeforeDispatch,
    /// The call that failed.
    SiblingErrored(usize),
    TurnStopped,
    UnknownTool,
    UnknownDependency,
    Cycle,
}

pub const KINDS: usize = 10;

impl Outcome {
    pub fn kind(&self) -> &'static str {
        match self {
            Outcome::Did => "did",
            Outcome::Failed => "failed",
            Outcome::Stopping => "stopping",
            Outcome::Aborted => "aborted",
            Outcome::AbortedBeforeDispatch => "aborted before dispatch",
            Outcome::SiblingErrored(_) => "sibling errored",
            Outcome::TurnStopped => "turn stopped",
            Outcome::UnknownTool => "unknown tool",
            Outcome::UnknownDependency => "unknown dependency",
            Outcome::Cycle => "cycle",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Unsubmitted,
    Waiting,
    Running { until: u64, exclusive: bool },
    Ended,
    Committed,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    TurnStopped,
    Aborted,
    SiblingErrored(usize),
    Discarded,
}

struct Model<'a> {
    turn: &'a Turn,
    now: u64,
    state: Vec<State>,
    outcome: Vec<Option<Outcome>>,
    /// Calls with a place in the order, started ones too.
    placed: Vec<usize>,
    broken: Vec<Option<Outcome>>,
    closed: bool,
    flip_parallel: bool,
    ending: Option<Ending>,
    discarded: bool,
    /// A call's group, once there is a plan.
    groups: Option<Vec<usize>>,
    group: usize,
    seen: Observed,
}

/// What the model says of a turn; `None` if two events fall on one moment.
pub fn run(turn: &Turn) -> Option<Observed> {
    let count = turn.calls.len();
    let mut model = Model {
        turn,
        now: 0,
        state: vec![State::Unsubmitted; count],
        outcome: vec![None; count],
        placed: Vec::new(),
        broken: vec![None; count],
        closed: false,
        flip_parallel: true,
        ending: None,
        discarded: false,
        groups: None,
        group: 0,
        seen: Observed { ends: vec![None; count], ..Observed::default() },
    };
    let mut signals = turn.signals.clone();
    loop {
        // The feeding of the turn: a whole one is there at once.
        let due = |model: &Model<'_>| {
            (0..count).find(|call| {
                model.state[*call] == State::Unsubmitted && turn.calls[*call].submitted <= model.now
            })
        };
        let mut fed = 0;
        while !model.discarded
            && let Some(call) = due(&model)
        {
            model.submit(call);
            fed += 1;
        }
        let all_in = model.state.iter().all(|state| *state != State::Unsubmitted);
        let closes = model.discarded || (all_in && turn.closes <= model.now);
        if closes && !model.closed {
            model.close();
        }
        if fed > 0 && model.now > 0 && turn.signals.iter().any(|(at, _)| *at == model.now) {
            return None;
        }
        model.settle_down();
        let over = model.closed
            && model.state.iter().all(|s| matches!(s, State::Committed | State::Unsubmitted));
        if over {
            break;
        }
        // The next moment, and everything that falls on it.
        let mut moments = Vec::new();
        for (call, state) in model.state.iter().enumerate() {
            match state {
                State::Running { until, .. } => moments.push(*until),
                State::Unsubmitted if !model.discarded => moments.push(turn.calls[call].submitted),
                _ => {}
            }
        }
        if !model.closed {
            moments.push(turn.closes);
        }
        moments.extend(signals.first().map(|(at, _)| *at));
        let next = moments.iter().copied().filter(|at| *at > model.now).min()?;
        if moments.iter().filter(|at| **at == next).count() > 1 {
            return None;
        }
        model.now = next;
        if signals.first().is_some_and(|(at, _)| *at == next) {
            let (_, signal) = signals.remove(0);
            model.signal(signal);
        }
        let ended = (0..count).find(
            |call| matches!(model.state[*call], State::Running { until, .. } if until == next),
        );
        if let Some(call) = ended {
            model.body_ended(call);
        }
    }
    model.seen.outcomes = model.outcome;
    if model.discarded {
        // Nothing is delivered any more; what was before is the host's to forget.
        model.seen.outcomes = vec![None; count];
    }
    Some(model.seen)
}

impl Model<'_> {
    fn parallel(&self, call: usize) -> bool {
        let Self { turn, .. } = self;
        if self.broken[call].is_some() {
            return false;
        }
        match turn.calls[call].tool {
            Tool::Read | Tool::Fetch | Tool::Watch => true,
            Tool::Shell => turn.calls[call].read_only,
            Tool::Flip => self.flip_parallel,
            Tool::Edit | Tool::Swap | Tool::Nobody => false,
        }
    }

    fn submit(&mut self, call: usize) {
        self.state[call] = State::Waiting;
        self.place_all(call);
    }

    /// Gives a call its place if all it depends on has one, then those that waited for it, and so on.
    fn place_all(&mut self, call: usize) {
        let has_place = |placed: &[usize], on: &[usize]| on.iter().all(|on| placed.contains(on));
        if self.placed.contains(&call) {
            return;
        }
        if self.broken[call].is_none()
            && !has_place(&self.placed, &self.turn.calls[call].depends_on)
        {
            return;
        }
        let mut next = vec![call];
        while !next.is_empty() {
            let call = next.remove(0);
            self.placed.push(call);
            for other in 0..self.state.len() {
                let waits = self.state[other] == State::Waiting
                    && !self.placed.contains(&other)
                    && !next.contains(&other)
                    && self.broken[other].is_none()
                    && self.turn.calls[other].depends_on.contains(&call);
                if waits && has_place(&self.placed, &self.turn.calls[other].depends_on) {
                    next.push(other);
                }
            }
        }
    }

    fn close(&mut self) {
        self.closed = true;
        let count = self.state.len();
        let left = |model: &Self| -> Vec<usize> {
            let waits =
                |call: &usize| model.state[*call] == State::Waiting && !model.placed.contains(call);
            (0..count).filter(waits).collect()
        };
        let unknown =
            |model: &Self, on: &usize| *on >= count || model.state[*on] == State::Unsubmitted;
        let deferred = left(self);
        let errors: Vec<usize> = deferred
            .into_iter()
            .filter(|call| self.turn.calls[*call].depends_on.iter().any(|on| unknown(self, on)))
            .collect();
        for call in &errors {
            self.broken[*call] = Some(Outcome::UnknownDependency);
        }
        for call in errors {
            self.place_all(call);
        }
        let deferred: BTreeSet<usize> = left(self).into_iter().collect();
        let on_a_cycle = |call: usize| {
            let (mut seen, mut next) = (BTreeSet::new(), vec![call]);
            while let Some(at) = next.pop() {
                for on in &self.turn.calls[at].depends_on {
                    if *on == call {
                        return true;
                    }
                    if deferred.contains(on) && seen.insert(*on) {
                        next.push(*on);
                    }
                }
            }
            false
        };
        let cycles: Vec<usize> =
            deferred.iter().copied().filter(|call| on_a_cycle(*call)).collect();
        for call in &cycles {
            self.broken[*call] = Some(Outcome::Cycle);
        }
        for call in cycles {
            self.place_all(call);
        }
        if self.turn.settings.grouped {
            self.plan();
        }
    }

    /// Consecutive parallel calls, an exclusive one alone, a call apart from what it depends on.
    fn plan(&mut self) {
        let mut groups = vec![usize::MAX; self.state.len()];
        let (mut open, mut last): (Vec<usize>, Option<usize>) = (Vec::new(), None);
        let waiting: Vec<usize> = self
            .placed
            .iter()
            .copied()
            .filter(|call| self.state[*call] == State::Waiting)
            .collect();
        for call in waiting {
            let joins = self.parallel(call)
                && !open.is_empty()
                && open.len() < self.turn.settings.max_parallel_calls
                && !self.turn.calls[call].depends_on.iter().any(|on| open.contains(on));
            if !joins {
                last = Some(last.map_or(0, |last| last + 1));
                open.clear();
            }
            if self.parallel(call) {
                open.push(call);
            }
            groups[call] = last.unwrap_or_default();
        }
        self.groups = Some(groups);
    }

    fn running(&self) -> usize {
        self.state.iter().filter(|state| matches!(state, State::Running { .. })).count()
    }

    /// Everything that can happen at this moment.
    fn settle_down(&mut self) {
        loop {
            self.commit();
            if let Some(ending) = self.ending.clone() {
                let outcome = match ending {
                    Ending::TurnStopped => Outcome::TurnStopped,
                    Ending::Aborted | Ending::Discarded => Outcome::AbortedBeforeDispatch,
                    Ending::SiblingErrored(by) => Outcome::SiblingErrored(by),
                };
                self.give_up(|_, _| true, &outcome);
                self.commit();
                return;
            }
            let quiet = self.running() == 0;
            if quiet && let Some(groups) = &self.groups {
                let open = |group: usize| {
                    (0..self.state.len())
                        .any(|call| groups[call] == group && self.state[call] == State::Waiting)
                };
                let last = groups.iter().copied().filter(|group| *group != usize::MAX).max();
                while last.is_some_and(|last| self.group <= last) && !open(self.group) {
                    self.group += 1;
                }
            }
            let Some(call) = self.next_to_start() else { return };
            self.start(call);
        }
    }

    fn next_to_start(&self) -> Option<usize> {
        let settings = &self.turn.settings;
        let exclusive_runs =
            self.state.iter().any(|state| matches!(state, State::Running { exclusive: true, .. }));
        if exclusive_runs || self.running() >= settings.max_parallel_calls {
            return None;
        }
        // The first that ended with a wish to stop the turn, and is not committed.
        let stop = (0..self.state.len()).find(|call| {
            self.state[*call] == State::Ended && self.outcome[*call] == Some(Outcome::Stopping)
        });
        let mut passed_one = false;
        for call in self.placed.iter().copied() {
            if self.state[call] != State::Waiting || stop.is_some_and(|stop| stop < call) {
                continue;
            }
            if self.groups.as_ref().is_some_and(|groups| groups[call] != self.group) {
                return None;
            }
            let over = |on: &usize| matches!(self.state[*on], State::Ended | State::Committed);
            let met =
                self.broken[call].is_some() || self.turn.calls[call].depends_on.iter().all(over);
            let parallel = self.parallel(call);
            if !met && parallel {
                passed_one = true;
                continue;
            }
            if !met || (!parallel && (passed_one || self.running() > 0)) {
                return None;
            }
            let early = self.closed
                || match settings.early_start {
                    EarlyStart::All => !settings.grouped,
                    EarlyStart::Safe => {
                        let reads = matches!(
                            self.turn.calls[call].tool,
                            Tool::Read | Tool::Watch | Tool::Flip
                        );
                        parallel && reads
                    }
                    EarlyStart::None => false,
                };
            return early.then_some(call);
        }
        None
    }

    fn start(&mut self, call: usize) {
        let nobody = self.turn.calls[call].tool == Tool::Nobody;
        let at_once = self.broken[call].clone().or(nobody.then_some(Outcome::UnknownTool));
        match at_once {
            Some(outcome) => self.end(call, outcome),
            None => {
                self.seen.starts.push((call, self.now));
                let until = self.now + self.turn.calls[call].ms;
                let exclusive = !self.parallel(call);
                self.state[call] = State::Running { until, exclusive };
            }
        }
    }

    fn body_ended(&mut self, call: usize) {
        self.seen.ends[call] = Some(self.now);
        let asked = &self.turn.calls[call];
        if asked.tool == Tool::Swap {
            self.flip_parallel = !self.flip_parallel;
        }
        if !asked.fails {
            let outcome = if asked.stops { Outcome::Stopping } else { Outcome::Did };
            self.end(call, outcome);
            return;
        }
        self.end(call, Outcome::Failed);
        let cascades = match self.turn.settings.cascade {
            Cascade::Shell => true,
            Cascade::Writes => !asked.read_only,
            Cascade::Off => false,
        };
        if asked.tool == Tool::Shell && cascades {
            self.stop_running(|_, _| true, &Outcome::SiblingErrored(call));
            self.end_with(Ending::SiblingErrored(call));
        }
    }

    fn end(&mut self, call: usize, outcome: Outcome) {
        self.state[call] = State::Ended;
        self.outcome[call] = Some(outcome);
    }

    fn end_with(&mut self, ending: Ending) {
        if self.ending.as_ref().is_none_or(|known| *known < ending) {
            self.ending = Some(ending);
        }
    }

    fn signal(&mut self, signal: Signal) {
        if self.closed
            && self.state.iter().all(|s| matches!(s, State::Committed | State::Unsubmitted))
        {
            return;
        }
        match signal {
            Signal::Interrupt => {
                let watches =
                    |model: &Self, call: usize| model.turn.calls[call].tool == Tool::Watch;
                self.stop_running(watches, &Outcome::Aborted);
                let settles = |model: &Self, call: usize| {
                    watches(model, call) && model.broken[call].is_none()
                };
                self.give_up(settles, &Outcome::AbortedBeforeDispatch);
            }
            Signal::Abort => {
                self.stop_running(|_, _| true, &Outcome::Aborted);
                self.end_with(Ending::Aborted);
            }
            Signal::Discard => {
                self.discarded = true;
                self.stop_running(|_, _| true, &Outcome::Aborted);
                self.end_with(Ending::Discarded);
            }
        }
    }

    fn stop_running(&mut self, which: impl Fn(&Self, usize) -> bool, outcome: &Outcome) {
        for call in 0..self.state.len() {
            if matches!(self.state[call], State::Running { .. }) && which(self, call) {
                self.seen.ends[call] = Some(self.now);
                self.end(call, outcome.clone());
            }
        }
    }

    fn give_up(&mut self, which: impl Fn(&Self, usize) -> bool, outcome: &Outcome) {
        for call in 0..self.state.len() {
            if self.state[call] == State::Waiting && which(self, call) {
                if !self.placed.contains(&call) {
                    // Those that wait for its place find it ended.
                    self.broken[call] = Some(outcome.clone());
                    self.place_all(call);
                }
                self.end(call, outcome.clone());
            }
        }
    }

    /// In the model's order.
    fn commit(&mut self) {
        for call in 0..self.state.len() {
            match self.state[call] {
                State::Committed => continue,
                State::Ended => {}
                _ => return,
            }
            self.state[call] = State::Committed;
            if !self.discarded {
                self.seen.delivered.push((call, self.now));
            }
            if self.outcome[call] == Some(Outcome::Stopping) {
                self.end_with(Ending::TurnStopped);
            }
        }
    }
}
