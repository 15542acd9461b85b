//! The order in which calls may start (spec 1.7): the model's, but a call that names a later one it depends on comes after
//! that one.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use stockade_types::CallId;

/// Calls by their numbers, which count up in the model's order.
#[derive(Default)]
pub(super) struct Order {
    /// Every id of the turn so far.
    known: HashMap<CallId, u64>,
    /// What has a place and has not started, in order.
    queue: VecDeque<u64>,
    /// How many dependencies of a call have not ended, where there are any.
    unmet: HashMap<u64, usize>,
    /// Who waits for the end of a call.
    dependents: HashMap<u64, Vec<u64>>,
    /// What depends on a call that has no place yet.
    deferred: BTreeMap<u64, Deferred>,
    /// Who waits for an id to get its place.
    wanted: HashMap<CallId, Vec<u64>>,
}

struct Deferred {
    id: CallId,
    depends_on: BTreeSet<CallId>,
    /// How many of them have no place yet.
    unplaced: usize,
}

/// Why a call cannot be put in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unorderable {
    Unknown(CallId),
    Cycle,
}

impl Order {
    /// The call that has this id already.
    pub(super) fn knows(&self, id: &CallId) -> bool {
        self.known.contains_key(id)
    }

    /// Adds the turn's next call. `ended` tells whether a call has ended.
    pub(super) fn add(
        &mut self,
        number: u64,
        id: CallId,
        depends_on: Vec<CallId>,
        ended: impl Fn(u64) -> bool,
    ) {
        let depends_on: BTreeSet<CallId> = depends_on.into_iter().collect();
        let (mut unmet, mut unplaced) = (0, 0);
        for dependency in &depends_on {
            match self.known.get(dependency) {
                Some(of) if !self.deferred.contains_key(of) => {
                    if !ended(*of) {
                        unmet += 1;
                        self.dependents.entry(*of).or_default().push(number);
                    }
                }
                _ => {
                    unmet += 1;
                    unplaced += 1;
                    self.wanted.entry(dependency.clone()).or_default().push(number);
                }
            }
        }
        if unmet > 0 {
            self.unmet.insert(number, unmet);
        }
        // A second call with the id is a broken one: the first keeps it.
        self.known.entry(id.clone()).or_insert(number);
        if unplaced == 0 {
            self.place(number, id);
        } else {
            self.deferred.insert(number, Deferred { id, depends_on, unplaced });
        }
    }

    /// Gives a call its place, and then all that waited for nothing else.
    fn place(&mut self, number: u64, id: CallId) {
        let mut placed = VecDeque::from([(number, id)]);
        while let Some((number, id)) = placed.pop_front() {
            self.queue.push_back(number);
            if self.known.get(&id) != Some(&number) {
                continue;
            }
            for waiting in self.wanted.remove(&id).unwrap_or_default() {
                let Some(deferred) = self.deferred.get_mut(&waiting) else { continue };
                self.dependents.entry(number).or_default().push(waiting);
                deferred.unplaced -= 1;
                if deferred.unplaced == 0
                    && let Some(deferred) = self.deferred.remove(&waiting)
                {
                    placed.push_back((waiting, deferred.id));
                }
            }
        }
    }

    /// A call has ended: those that depend on it may have nothing left to wait for.
    pub(super) fn ended(&mut self, number: u64) {
        for dependent in self.dependents.remove(&number).unwrap_or_default() {
            if let Some(unmet) = self.unmet.get_mut(&dependent) {
                *unmet -= 1;
                if *unmet == 0 {
                    self.unmet.remove(&dependent);
                }
            }
        }
    }

    /// No more calls come. What cannot be put in order gets a place too, without its dependencies, and is given back to be
    /// answered with an error; what depends on it is in order.
    pub(super) fn close(&mut self) -> Vec<(u64, Unorderable)> {
        let mut errors = Vec::new();
        for (number, deferred) in &self.deferred {
            let unknown = deferred.depends_on.iter().find(|id| !self.known.contains_key(*id));
            errors.extend(unknown.map(|id| (*number, Unorderable::Unknown(id.clone()))));
        }
        self.place_regardless(&errors);
        let cycles: Vec<_> =
            self.cycles().into_iter().map(|number| (number, Unorderable::Cycle)).collect();
        self.place_regardless(&cycles);
        errors.extend(cycles);
        errors
    }

    fn place_regardless(&mut self, errors: &[(u64, Unorderable)]) {
        let mut free = Vec::new();
        for (number, _) in errors {
            self.unmet.remove(number);
            free.extend(self.deferred.remove(number).map(|deferred| (*number, deferred.id)));
        }
        for (number, id) in free {
            self.place(number, id);
        }
    }

    /// The deferred calls that depend on themselves, by whatever way.
    fn cycles(&self) -> BTreeSet<u64> {
        let mut after: HashMap<u64, Vec<u64>> = HashMap::new();
        let mut before: HashMap<u64, Vec<u64>> = HashMap::new();
        for (number, deferred) in &self.deferred {
            for of in deferred.depends_on.iter().filter_map(|id| self.known.get(id)) {
                if self.deferred.contains_key(of) {
                    after.entry(*of).or_default().push(*number);
                    before.entry(*number).or_default().push(*of);
                }
            }
        }
        // What nothing depends on is in no cycle: taking those away, again and again, leaves little more than cycles.
        let mut left: BTreeSet<u64> = self.deferred.keys().copied().collect();
        let mut uses: HashMap<u64, usize> =
            after.iter().map(|(number, by)| (*number, by.len())).collect();
        let mut unused: Vec<u64> =
            left.iter().copied().filter(|number| !uses.contains_key(number)).collect();
        while let Some(number) = unused.pop() {
            left.remove(&number);
            for of in before.get(&number).into_iter().flatten() {
                if let Some(count) = uses.get_mut(of) {
                    *count -= 1;
                    if *count == 0 {
                        unused.push(*of);
                    }
                }
            }
        }
        let mut cycles = BTreeSet::new();
        while let Some(number) = left.pop_first() {
            let down = reached(number, &before);
            if down.contains(&number) {
                let up = reached(number, &after);
                let cycle: Vec<u64> = down.intersection(&up).copied().collect();
                left.retain(|other| !cycle.contains(other));
                cycles.extend(cycle);
            }
        }
        cycles
    }

    /// The queue's length.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether nothing waits, not even without a place.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.deferred.is_empty()
    }

    /// The number at a place of the queue, and whether all that it depends on has ended.
    pub(super) fn at(&self, place: usize) -> Option<(u64, bool)> {
        let number = *self.queue.get(place)?;
        Some((number, !self.unmet.contains_key(&number)))
    }

    /// Takes the call at a place out of the queue: it starts.
    pub(super) fn take(&mut self, place: usize) {
        // Nearly always the first, which costs nothing.
        self.queue.remove(place);
    }

    /// The queue, in order.
    pub(super) fn queue(&self) -> impl Iterator<Item = u64> + '_ {
        self.queue.iter().copied()
    }

    /// Takes away all that waits and is not kept, in the model's order.
    pub(super) fn give_up(&mut self, mut keep: impl FnMut(u64) -> bool) -> BTreeSet<u64> {
        let mut gone = BTreeSet::new();
        let deferred: Vec<u64> =
            self.deferred.keys().copied().filter(|number| !keep(*number)).collect();
        for number in deferred {
            // Giving one up may give others their place: those are dealt with in the queue.
            if let Some(Deferred { id, .. }) = self.deferred.remove(&number) {
                self.place(number, id);
            }
        }
        self.queue.retain(|number| {
            let kept = keep(*number);
            if !kept {
                gone.insert(*number);
            }
            kept
        });
        for number in &gone {
            self.unmet.remove(number);
        }
        gone
    }
}

/// All that can be reached from `from`, which is among them only if a way leads back.
fn reached(from: u64, ways: &HashMap<u64, Vec<u64>>) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        for to in ways.get(&at).into_iter().flatten() {
            if found.insert(*to) {
                next.push(*to);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(calls: &[(&str, &[&str])]) -> (Vec<u64>, Vec<(u64, Unorderable)>) {
        let mut order = Order::default();
        let id = |name: &str| CallId(name.to_owned());
        for (number, (name, depends_on)) in (0..).zip(calls) {
            let depends_on = depends_on.iter().map(|name| id(name)).collect();
            order.add(number, id(name), depends_on, |_| false);
        }
        let errors = order.close();
        (order.queue().collect(), errors)
    }

    // spec 1.7
    #[test]
    fn a_call_comes_after_what_it_depends_on_and_otherwise_stays_in_its_place() {
        assert_eq!(order(&[("a", &[]), ("b", &["a"]), ("c", &[])]).0, [0, 1, 2]);
        assert_eq!(order(&[("a", &["c"]), ("b", &[]), ("c", &[]), ("d", &[])]).0, [1, 2, 0, 3]);
        assert_eq!(order(&[("a", &["b"]), ("b", &["c"]), ("c", &[])]).0, [2, 1, 0]);
    }

    // spec 1.7
    #[test]
    fn a_cycle_and_an_unknown_id_are_errors_of_those_calls_alone() {
        let (queue, errors) = order(&[
            ("a", &["b"]),
            ("b", &["a"]),
            ("c", &["a"]),
            ("d", &["zzz"]),
            ("e", &["d"]),
            ("f", &["f"]),
            ("g", &[]),
        ]);
        let mut all = queue.clone();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5, 6], "every call has a place: {queue:?}");
        let errors: BTreeMap<u64, Unorderable> = errors.into_iter().collect();
        assert_eq!(errors.keys().copied().collect::<Vec<_>>(), [0, 1, 3, 5]);
        assert_eq!(errors[&3], Unorderable::Unknown(CallId("zzz".into())));
        assert_eq!(errors[&5], Unorderable::Cycle);
    }

    // spec 1.7: between two cycles, and in neither
    #[test]
    fn a_call_between_two_cycles_is_in_order() {
        let (_, errors) = order(&[
            ("a", &["b"]),
            ("b", &["a"]),
            ("m", &["a"]),
            ("x", &["y", "m"]),
            ("y", &["x"]),
        ]);
        let numbers: BTreeSet<u64> = errors.into_iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, BTreeSet::from([0, 1, 3, 4]));
    }

    #[test]
    fn ten_thousand_calls_in_one_cycle_are_found_out_at_once() {
        let ids: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
        let next: Vec<[&str; 1]> =
            (0..10_000).map(|n| [ids[(n + 1) % ids.len()].as_str()]).collect();
        let calls: Vec<(&str, &[&str])> =
            ids.iter().zip(&next).map(|(id, next)| (id.as_str(), next.as_slice())).collect();
        assert_eq!(order(&calls).1.len(), 10_000);
    }
}
