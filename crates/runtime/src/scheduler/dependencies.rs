//! The order in which calls may start (spec 1.7): the model's, but a call that names a later one it depends on comes after
//! that one.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use stockade_types::CallId;

/// Calls by their numbers, which count up in the model's order.
#[derive(Default)]
pub(super) struct Order {
    /// Every id of the turn so far.
    known: HashMap<CallId, u64>,
    /// What has a place and has not started, with its place.
    waiting: BTreeMap<u64, u64>,
    last_place: u64,
    /// Of those, by place: what waits for no other call,
    met: BTreeMap<u64, u64>,
    /// what waits for others and was not asked yet whether it lets others pass meanwhile,
    unasked: BTreeMap<u64, u64>,
    /// and what does. Nobody walks over it: thousands may wait for one call.
    passed: BTreeMap<u64, u64>,
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
            self.last_place += 1;
            self.waiting.insert(number, self.last_place);
            let is_unmet = self.unmet.contains_key(&number);
            let by_place = if is_unmet { &mut self.unasked } else { &mut self.met };
            by_place.insert(self.last_place, number);
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
                    if let Some(place) = self.waiting.get(&dependent) {
                        self.unasked.remove(place);
                        self.passed.remove(place);
                        self.met.insert(*place, dependent);
                    }
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

    /// The deferred calls that depend on themselves, by whatever way: the members of each set of calls that all lead to each other (Tarjan's
    /// algorithm, without its recursion), so that the work is that of reading what was declared.
    fn cycles(&self) -> BTreeSet<u64> {
        let on = |number: u64| -> Vec<u64> {
            let deferred = self.deferred.get(&number);
            let ids = deferred.into_iter().flat_map(|deferred| &deferred.depends_on);
            let numbers = ids.filter_map(|id| self.known.get(id).copied());
            numbers.filter(|of| self.deferred.contains_key(of)).collect()
        };
        /// A call that was met: the how manieth, and the earliest that it leads back to.
        struct Met {
            index: usize,
            lowest: usize,
            is_open: bool,
        }
        let (mut met, mut open) = (HashMap::<u64, Met>::new(), Vec::new());
        let mut cycles = BTreeSet::new();
        for start in self.deferred.keys() {
            let mut path: Vec<(u64, Vec<u64>)> = Vec::new();
            let mut next = (!met.contains_key(start)).then_some(*start);
            loop {
                if let Some(number) = next.take() {
                    let index = met.len();
                    met.insert(number, Met { index, lowest: index, is_open: true });
                    open.push(number);
                    path.push((number, on(number)));
                }
                let Some((number, ways)) = path.last_mut() else { break };
                let number = *number;
                let Some(of) = ways.pop() else {
                    path.pop();
                    let Some((index, lowest)) = met.get(&number).map(|m| (m.index, m.lowest))
                    else {
                        break;
                    };
                    if index == lowest {
                        let first = open.iter().rposition(|other| *other == number);
                        let members = open.split_off(first.unwrap_or(open.len()));
                        for member in &members {
                            if let Some(member) = met.get_mut(member) {
                                member.is_open = false;
                            }
                        }
                        if members.len() > 1 || on(number).contains(&number) {
                            cycles.extend(members);
                        }
                    }
                    if let Some(above) = path.last().and_then(|(above, _)| met.get_mut(above)) {
                        above.lowest = above.lowest.min(lowest);
                    }
                    continue;
                };
                match met.get(&of).map(|of| (of.index, of.is_open)) {
                    None => next = Some(of),
                    Some((index, true)) => {
                        if let Some(number) = met.get_mut(&number) {
                            number.lowest = number.lowest.min(index);
                        }
                    }
                    Some((_, false)) => {}
                }
            }
        }
        cycles
    }

    /// Whether nothing waits, not even without a place.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.deferred.is_empty()
    }

    /// Whether a call with a place and a smaller number than this waits.
    pub(super) fn any_before(&self, number: u64) -> bool {
        self.waiting.range(..number).next().is_some()
    }

    /// The first call at this place or behind it that may start or must be asked whether others pass it, with its place, and whether
    /// all that it depends on has ended. `None`: none behind it may start, whatever is asked.
    pub(super) fn next(&self, from: u64) -> Option<(u64, u64, bool)> {
        let (met_at, met) = self.met.range(from..).next()?;
        match self.unasked.range(from..*met_at).next() {
            Some((place, number)) => Some((*place, *number, false)),
            None => Some((*met_at, *met, true)),
        }
    }

    /// The call at this place lets others pass while it waits.
    pub(super) fn pass(&mut self, place: u64) {
        if let Some(number) = self.unasked.remove(&place) {
            self.passed.insert(place, number);
        }
    }

    /// The call is to be asked again whether it does. Whether it was one that does.
    pub(super) fn ask_again(&mut self, number: u64) {
        if let Some(place) = self.waiting.get(&number)
            && let Some(number) = self.passed.remove(place)
        {
            self.unasked.insert(*place, number);
        }
    }

    /// What is passed by whoever starts at this place.
    pub(super) fn passed_before(&self, place: u64) -> impl Iterator<Item = u64> + '_ {
        self.passed.range(..place).map(|(_, number)| *number)
    }

    /// Takes a call out: it starts.
    pub(super) fn take(&mut self, number: u64) {
        if let Some(place) = self.waiting.remove(&number) {
            for by_place in [&mut self.met, &mut self.unasked, &mut self.passed] {
                by_place.remove(&place);
            }
        }
    }

    /// All that has a place, in order.
    pub(super) fn queue(&self) -> Vec<u64> {
        let mut queue: Vec<_> =
            self.waiting.iter().map(|(number, place)| (*place, *number)).collect();
        queue.sort_unstable();
        queue.into_iter().map(|(_, number)| number).collect()
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
        gone.extend(self.waiting.keys().copied().filter(|number| !keep(*number)));
        for number in &gone {
            self.take(*number);
            self.unmet.remove(number);
        }
        gone
    }
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
        (order.queue(), errors)
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

    // spec 1.7: small cycles, one behind the other, and long ways between them
    #[test]
    fn the_work_of_finding_cycles_is_that_of_reading_them() {
        let id = |number: u64| CallId(number.to_string());
        for step in [1, 7] {
            let mut order = Order::default();
            for number in 0..30_000_u64 {
                // Each waits for the next one, and each second or seventh one is waited for by the one behind it.
                let mut on = vec![id(number + 1)];
                if number > 0 && number % (2 * step) == 0 {
                    on = vec![id(number - 1), id(number + 1)];
                }
                order.add(number, id(number), on, |_| false);
            }
            order.add(30_000, id(30_000), vec![id(29_999)], |_| false);
            let errors = order.close();
            assert!(errors.iter().all(|(_, why)| *why == Unorderable::Cycle));
            let expected = if step == 1 { 30_000 } else { 2 * (30_000 / 14) + 2 };
            assert!(errors.len().abs_diff(expected) <= 2, "{step}: {}", errors.len());
        }
    }
}
