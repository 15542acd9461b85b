use crate::call::{QueuedCall, Submission};
use crate::classify::classify;
use crate::events::{Events, Notice};
use crate::pipeline::Pipeline;
use std::collections::{HashMap, HashSet};
use stockade_types::{CallId, CallMode};

/// The groups of a turn (spec 1.6): they run one after another.
pub(super) struct Batches {
    /// A call's group.
    of: HashMap<u64, usize>,
    groups: Vec<Group>,
    current: usize,
}

struct Group {
    calls: Vec<CallId>,
    /// How many of them have not ended.
    left: usize,
    begun: bool,
}

impl Batches {
    pub(super) fn plan<'a>(
        pipeline: &Pipeline,
        queue: impl Iterator<Item = (u64, &'a QueuedCall)>,
        max_parallel_calls: usize,
    ) -> Self {
        let mut planner = Planner::new(max_parallel_calls);
        let (mut of, mut groups) = (HashMap::new(), Vec::<Group>::new());
        for (number, call) in queue {
            let mode = classify(pipeline, call, &pipeline.session, false).flags.mode;
            let group = planner.next(&call.id, mode, &call.depends_on);
            if group == groups.len() {
                groups.push(Group { calls: Vec::new(), left: 0, begun: false });
            }
            if let Some(group) = groups.get_mut(group) {
                group.calls.push(call.id.clone());
                group.left += 1;
            }
            of.insert(number, group);
        }
        Self { of, groups, current: 0 }
    }

    /// Whether a call's group is the one that runs. A call that came after the plan is in none, and comes last.
    pub(super) fn is_current(&self, number: u64) -> bool {
        self.of.get(&number).copied().unwrap_or(self.groups.len()) == self.current
    }

    pub(super) fn started(&mut self, number: u64, events: &Events, turn: u64) {
        let Some(index) = self.of.get(&number) else { return };
        let Some(group) = self.groups.get_mut(*index) else { return };
        if !std::mem::replace(&mut group.begun, true) {
            let calls = group.calls.clone();
            events.notice(Notice::BatchStarted { turn, batch: *index, calls });
        }
    }

    pub(super) fn ended(&mut self, number: u64) {
        if let Some(index) = self.of.remove(&number)
            && let Some(group) = self.groups.get_mut(index)
        {
            group.left -= 1;
        }
    }

    /// Goes on to the next group once nothing of this one is left. Asked only when nothing is under way.
    pub(super) fn advance(&mut self, events: &Events, turn: u64) {
        while let Some(group) = self.groups.get(self.current)
            && group.left == 0
        {
            // A group of which nothing started has no events.
            if group.begun {
                events.notice(Notice::BatchEnded { turn, batch: self.current });
            }
            self.current += 1;
        }
    }
}

/// The groups of calls that are handed over whole.
pub(crate) fn plan<S: Into<Submission>>(
    pipeline: &Pipeline,
    max_parallel_calls: usize,
    calls: impl IntoIterator<Item = S>,
) -> Vec<Vec<CallId>> {
    let mut planner = Planner::new(max_parallel_calls);
    let mut groups: Vec<Vec<CallId>> = Vec::new();
    for submission in calls {
        let call = QueuedCall::new(0, submission.into());
        let mode = classify(pipeline, &call, &pipeline.session, false).flags.mode;
        let group = planner.next(&call.id, mode, &call.depends_on);
        match groups.get_mut(group) {
            Some(group) => group.push(call.id),
            None => groups.push(vec![call.id]),
        }
    }
    groups
}

/// Puts calls into groups: consecutive parallel ones up to the pool's size, an exclusive one alone. A call that depends on
/// one of the group before it begins a new one.
struct Planner {
    max: usize,
    /// The last group's calls; empty when it takes no more.
    open: HashSet<CallId>,
    groups: usize,
}

impl Planner {
    fn new(max_parallel_calls: usize) -> Self {
        Self { max: max_parallel_calls, open: HashSet::new(), groups: 0 }
    }

    /// The number of the next call's group.
    fn next(&mut self, id: &CallId, mode: CallMode, depends_on: &[CallId]) -> usize {
        let joins = mode == CallMode::Parallel
            && !self.open.is_empty()
            && self.open.len() < self.max
            && !depends_on.iter().any(|id| self.open.contains(id));
        if !joins {
            self.groups += 1;
            self.open.clear();
        }
        if mode == CallMode::Parallel {
            self.open.insert(id.clone());
        }
        self.groups - 1
    }
}
