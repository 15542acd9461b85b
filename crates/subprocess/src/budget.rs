use crate::ladder::after;
use std::time::Duration;
use tokio::time::Instant;

/// A time budget that can be paused, with what is left of it kept exactly (spec 2.9).
///
/// It is measured by `CLOCK_MONOTONIC`, which stands still while the machine is suspended: a command is not ended for time in
/// which it could not run, and a clock that is set changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    total: Duration,
    left: Duration,
    /// Since when it runs; `None`: it is paused.
    running: Option<Instant>,
}

impl Budget {
    /// A budget that runs from now.
    pub fn new(total: Duration) -> Self {
        Self { total, left: total, running: Some(Instant::now()) }
    }

    /// A budget that has been running since then.
    pub(crate) fn begun(total: Duration, since: Instant) -> Self {
        Self { total, left: total, running: Some(since) }
    }

    /// The whole of it.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// What is left now.
    pub fn left(&self) -> Duration {
        match self.running {
            Some(since) => self.left.saturating_sub(since.elapsed()),
            None => self.left,
        }
    }

    /// When it is used up if it is not paused before; `None` while it is paused.
    pub fn ends_at(&self) -> Option<Instant> {
        self.running.map(|since| after(since, self.left))
    }

    /// Stops the clock. A second time does nothing.
    pub fn pause(&mut self) {
        self.left = self.left();
        self.running = None;
    }

    /// Lets the clock go on.
    pub fn resume(&mut self) {
        self.running.get_or_insert_with(Instant::now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[tokio::test(start_paused = true)] // spec 2.9
    async fn what_is_left_is_exact_however_often_it_is_paused() {
        let mut budget = Budget::new(ms(1000));
        for round in 1..=100 {
            advance(Duration::from_micros(3333)).await;
            budget.pause();
            advance(ms(70_000)).await;
            budget.pause();
            let used = Duration::from_micros(3333 * round);
            assert_eq!(budget.left(), ms(1000) - used);
            assert_eq!(budget.ends_at(), None);
            budget.resume();
            budget.resume();
        }
        assert_eq!(budget.ends_at(), Some(Instant::now() + budget.left()));
        assert_eq!(budget.total(), ms(1000));
        advance(ms(5000)).await;
        assert_eq!(budget.left(), ms(0));
    }
}
