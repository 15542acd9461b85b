//! Work that makes more work, shared by several threads. They end before it returns: a process that was single-threaded before is so again.

use std::panic::resume_unwind;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// So much is taken at a time, so that the threads do not wait for each other.
const TAKEN_AT_ONCE: usize = 8;

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    pending: Vec<T>,
    /// Threads that may yet find more to do.
    busy: usize,
}

/// Does all of it with so many threads, this one among them; with fewer, should they not be had. `work` does one piece: it adds what it finds
/// to do, and what it came to. Returns what each thread came to.
pub fn share<T: Send, R: Default + Send>(
    pending: Vec<T>,
    threads: usize,
    work: impl Fn(T, &mut Vec<T>, &mut R) + Sync,
) -> Vec<R> {
    let state = Mutex::new(State { pending, busy: 0 });
    let shared = Shared { state, changed: Condvar::new() };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map_while(|_| {
                let run = || shared.work_on(&work);
                std::thread::Builder::new().spawn_scoped(scope, run).ok()
            })
            .collect();
        let mut results = vec![shared.work_on(&work)];
        for other in others {
            // What is missing must not look like nothing.
            results.push(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        results
    })
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work_on<R: Default>(&self, work: &impl Fn(T, &mut Vec<T>, &mut R)) -> R {
        let mut result = R::default();
        let mut state = self.lock();
        loop {
            if state.pending.is_empty() {
                if state.busy == 0 {
                    self.changed.notify_all();
                    return result;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let from = state.pending.len().saturating_sub(TAKEN_AT_ONCE);
            let mine = state.pending.split_off(from);
            state.busy += 1;
            drop(state);
            let mut found = Found { shared: self, more: Vec::new() };
            mine.into_iter().for_each(|piece| work(piece, &mut found.more, &mut result));
            drop(found);
            state = self.lock();
        }
    }
}

/// Hands what was found to the others, also where a panic ends the thread: they wait for it.
struct Found<'a, T> {
    shared: &'a Shared<T>,
    more: Vec<T>,
}

impl<T> Drop for Found<'_, T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.busy -= 1;
        state.pending.append(&mut self.more);
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_done_once_whatever_the_number_of_threads() {
        // Each number makes its two halves, down to ones.
        let work = |number: u32, more: &mut Vec<u32>, ones: &mut u32| match number {
            1 => *ones += 1,
            _ => more.extend([number / 2, number - number / 2]),
        };
        for threads in [1, 2, 7] {
            let results = share(vec![1000, 1, 500], threads, work);
            assert_eq!(results.len(), threads);
            assert_eq!(results.iter().sum::<u32>(), 1501);
        }
        assert_eq!(share(Vec::new(), 3, work), [0, 0, 0]);
    }

    #[test]
    fn a_panic_in_any_thread_ends_the_whole() {
        let work = |number: u32, more: &mut Vec<u32>, _: &mut ()| match number {
            0 => panic!("a piece that cannot be done"),
            _ => more.extend([number - 1, number - 1]),
        };
        for threads in [1, 4] {
            assert!(std::panic::catch_unwind(|| share(vec![6], threads, work)).is_err());
        }
    }
}
