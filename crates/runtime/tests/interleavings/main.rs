//! What threads share (spec 1.10, 1.12 to 1.16, 2.6, 2.9, 3.4, 8.3, 9.1), in the orders in which it may happen: the real runtime, registry
//! and spill store, with shuttle's locks, atomics and tasks in place of the standard library's and tokio's
//! (`crates/*/src/sync.rs`). A wake-up that is lost is a deadlock, which shuttle reports, and so is each assertion below that fails in
//! any order that it tries; it prints the schedule, to be replayed.
//!
//! `scripts/interleavings [SCHEDULES [SEED]]`. Only built with the feature `shuttle`.

mod approval;
mod log;
mod stores;
mod turns;
mod world;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};
use std::env;
use std::sync::Arc;

fn number(name: &str, default: u64) -> u64 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")),
        Err(_) => default,
    }
}

/// Runs `test` in as many schedules as the environment says: half of them random at each step, half with few changes of
/// priority, which finds what needs one thread to be late.
pub fn explore(test: impl Fn() + Send + Sync + 'static) {
    let schedules = number("STOCKADE_INTERLEAVINGS", 400) as usize;
    let seed = number("STOCKADE_INTERLEAVINGS_SEED", 0);
    // Deadlines look at this clock, which stands still: none is ever reached.
    let clock = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a clock");
    let _in_its_time = clock.enter();
    let mut config = Config::new();
    // Schemas and JSON take more than shuttle's default.
    config.stack_size = 1 << 20;
    let test = Arc::new(test);
    let again = Arc::clone(&test);
    let random = RandomScheduler::new_from_seed(seed, schedules.div_ceil(2));
    Runner::new(random, config.clone()).run(move || test());
    let late = PctScheduler::new_from_seed(seed, 3, schedules.div_ceil(2));
    Runner::new(late, config).run(move || again());
}
