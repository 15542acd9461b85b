//! Random turns through a simple executable model of spec 1.1 to 1.20 and through the real scheduler under paused time: the same
//! starts at the same times, the same results in the same order, the same records.
//!
//! `STOCKADE_MODEL_TURNS` says how many (2,000 by default; `scripts/model` runs 100,000), `STOCKADE_MODEL_SEED` from which one
//! on: a failure names the seed of its turn.

mod model;
mod real;
mod turn;

use std::env;

fn number(name: &str, default: u64) -> u64 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")),
        Err(_) => default,
    }
}

// spec 1.1 to 1.20
#[test]
fn the_scheduler_does_what_the_model_does() {
    let turns = number("STOCKADE_MODEL_TURNS", 2000);
    let first = number("STOCKADE_MODEL_SEED", 0);
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let (mut compared, mut skipped, mut calls) = (0, 0, 0);
    let mut kinds = std::collections::BTreeMap::new();
    let mut world = real::World::new();
    for seed in first.. {
        if compared == turns {
            break;
        }
        let turn = turn::Turn::random(seed);
        // Two things at one moment may come in either order: such a turn says nothing.
        let Some(expected) = model::run(&turn) else {
            skipped += 1;
            continue;
        };
        let actual = tokio.block_on(world.run(&turn));
        assert_eq!(actual, expected, "seed {seed}: {turn:#?}");
        compared += 1;
        calls += turn.calls.len();
        for outcome in expected.outcomes.iter().flatten() {
            *kinds.entry(outcome.kind()).or_insert(0) += 1;
        }
        if compared % 500 == 0 {
            world.check_records();
            world = real::World::new();
        }
    }
    world.check_records();
    println!("{compared} turns, {calls} calls, {skipped} turns skipped; outcomes: {kinds:?}");
    // The turns would prove little if some outcome never came up.
    assert!(turns < 1000 || kinds.len() == model::KINDS, "{kinds:?}");
}
