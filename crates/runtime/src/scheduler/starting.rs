//! Which call may start, and its start.

use super::{Phase, Scheduler, Slot, slot_mut};
use crate::call::StartedCall;
use crate::cancel::CallCancel;
use crate::classify::{Classified, classify};
use crate::held_threads::watched;
use crate::settings::EarlyStart;
use std::sync::Arc;
use stockade_types::CallMode;

/// What keeps a call from starting now.
enum Held {
    /// It alone: those after it may start, if they are parallel.
    Itself,
    /// It, and everything after it.
    All,
}

impl Scheduler {
    /// Starts what may start now.
    pub(super) fn start_next(&mut self) {
        loop {
            if self.fault.is_some() {
                return;
            }
            if let Some(ending) = &self.ending {
                let ending = ending.clone();
                self.settle(|_, _| false, &ending);
                return;
            }
            if self.is_quiet() {
                self.exclusive = false;
                if let Some(batches) = &mut self.batches {
                    batches.advance(&self.pipeline.events, self.turn);
                }
            }
            if self.preparing.is_some()
                || self.exclusive
                || self.running >= self.settings.max_parallel_calls
            {
                return;
            }
            let Some((number, classified)) = self.next_to_start() else { return };
            self.start(number, classified);
        }
    }

    /// The first call of the queue that may start now. A parallel call that waits for what it depends on lets parallel ones
    /// pass; nothing passes an exclusive one (spec 1.1).
    fn next_to_start(&mut self) -> Option<(u64, Classified)> {
        // Nothing behind a call that stops the turn starts, and all may be behind it.
        if self.stop_wanted.is_some_and(|by| !self.order.any_before(by)) {
            return None;
        }
        self.ask_changed_again();
        let mut from = 0;
        loop {
            let (place, number, met) = self.order.next(from)?;
            from = place + 1;
            match self.held(number) {
                Some(Held::All) => return None,
                Some(Held::Itself) => continue,
                None => {}
            }
            let Some(Slot::Waiting(call)) = slot_mut(&mut self.window, self.first, number) else {
                return None;
            };
            // Asked each time the call is about to start: a tool that an earlier call replaced counts (spec 1.4).
            let classified = classify(&self.pipeline, call, &self.context, self.submissions_open);
            let exclusive = classified.flags.mode == CallMode::Exclusive;
            if !met {
                if exclusive {
                    return None;
                }
                self.passing.add(number, &call.name, classified.lookup);
                self.order.pass(place);
                continue;
            }
            let passes = || self.order.passed_before(place).any(|n| self.held(n).is_none());
            if exclusive && (!self.is_quiet() || passes()) {
                return None;
            }
            if !self.may_start_early(&classified) {
                return None;
            }
            return Some((number, classified));
        }
    }

    /// What waits and lets others pass was asked once; it is asked again when its tool is another one (spec 1.4).
    fn ask_changed_again(&mut self) {
        let generation = self.pipeline.registry.generation();
        for number in self.passing.changed(generation, &self.pipeline.registry) {
            self.order.ask_again(number);
        }
    }

    fn held(&self, number: u64) -> Option<Held> {
        if self.stop_wanted.is_some_and(|by| by < number) {
            return Some(Held::Itself);
        }
        match &self.batches {
            Some(batches) if !batches.is_current(number) => Some(Held::All),
            _ => None,
        }
    }

    fn may_start_early(&self, classified: &Classified) -> bool {
        if !self.submissions_open {
            return true;
        }
        match self.settings.early_start {
            EarlyStart::All => !self.settings.grouped,
            EarlyStart::Safe => classified.safe,
            EarlyStart::None => false,
        }
    }

    /// Nothing is under way: whatever has started is committed, or cannot be before something that has not started.
    fn is_quiet(&self) -> bool {
        let busy = self.preparing.is_some() || self.running > 0 || self.committing;
        !busy && !matches!(self.window.front(), Some(Slot::Ended(_)))
    }

    fn start(&mut self, number: u64, classified: Classified) {
        let Some(Slot::Waiting(queued)) =
            self.slot_mut(number).map(|slot| std::mem::replace(slot, Slot::Busy))
        else {
            return;
        };
        self.order.take(number);
        if let Some(batches) = &mut self.batches {
            batches.started(number, &self.pipeline.events, self.turn);
        }
        self.exclusive = classified.flags.mode == CallMode::Exclusive;
        self.preparing = Some(number);
        let cancel = CallCancel::below(&self.signals);
        self.live.add(number, &queued, &classified, cancel.clone());
        let Classified { lookup, flags, .. } = classified;
        let context = Arc::clone(&self.context);
        let started = StartedCall { queued: *queued, lookup, flags, cancel, context };
        let pipeline = Arc::clone(&self.pipeline);
        let prepared = self.prepared.0.clone();
        self.phases.spawn(watched(async move {
            match pipeline.prepare(started).await {
                Ok(ready) => {
                    let begins = Arc::new(move || {
                        // Whoever would hear it is the scheduler, which waits for this task.
                        let _ = prepared.send(number);
                    });
                    Phase::Dispatched(number, Box::new(pipeline.dispatch(ready, begins).await))
                }
                Err(ended) => Phase::NotDispatched(number, Box::new(ended)),
            }
        }));
    }
}
