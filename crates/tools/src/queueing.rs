use crate::sync::{Mutex, MutexGuard};
use std::future::Future;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Tells time spent waiting at an admission gate (a pool, a rate limit) from time spent working (spec 2.9): the first does
/// not count against a call's deadline. Clones share one clock.
#[derive(Clone, Debug, Default)]
pub struct QueueClock(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Wakes whoever holds a deadline to this clock.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Gates that the call waits at now.
    waiting: u32,
    /// Since when it waits at any.
    since: Option<Instant>,
    /// Waited before that.
    queued: Duration,
}

impl QueueClock {
    /// Waits at a gate: the call's clock stands still until `gate` is through, or dropped.
    pub async fn wait<T>(&self, gate: impl Future<Output = T>) -> T {
        let _waiting = Waiting::begin(self);
        gate.await
    }

    /// How long the call has waited up to now, at any gate.
    pub fn queued(&self) -> Duration {
        let state = self.state();
        state.queued + state.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Ends when the call, which began at `begun`, has worked as long as `budget`.
    pub async fn used_up(&self, begun: Instant, budget: Duration) {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            let worked = begun.elapsed().saturating_sub(self.queued());
            let left = budget.saturating_sub(worked);
            let standing = self.state().waiting > 0;
            if left.is_zero() && !standing {
                return;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep(left), if !standing => return,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Waiting<'a>(&'a QueueClock);

impl<'a> Waiting<'a> {
    fn begin(clock: &'a QueueClock) -> Self {
        let mut state = clock.state();
        state.waiting += 1;
        state.since.get_or_insert_with(Instant::now);
        drop(state);
        clock.0.changed.notify_waiters();
        Self(clock)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.waiting = state.waiting.saturating_sub(1);
        if state.waiting == 0
            && let Some(since) = state.since.take()
        {
            state.queued += since.elapsed();
        }
        drop(state);
        self.0.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec 2.9
    #[tokio::test(start_paused = true)]
    async fn time_at_a_gate_does_not_count_and_what_is_left_is_kept_to_the_millisecond() {
        let clock = QueueClock::default();
        let begun = Instant::now();
        let ms = Duration::from_millis;
        let (gates, watch) = (clock.clone(), clock.clone());
        let work = async move {
            tokio::time::sleep(ms(30)).await;
            // Two gates at once count once.
            tokio::join!(
                gates.wait(tokio::time::sleep(ms(500))),
                gates.wait(tokio::time::sleep(ms(700)))
            );
            tokio::time::sleep(ms(40)).await;
            gates.wait(tokio::time::sleep(ms(1000))).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = work => {}
            () = watch.used_up(begun, ms(77)) => {}
        }
        assert_eq!(begun.elapsed(), ms(30 + 700 + 40 + 1000 + 7));
        assert_eq!(clock.queued(), ms(1700));
    }
}
