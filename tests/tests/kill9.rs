//! SIGKILL to each part of Stockade in mid-call, `STOCKADE_KILL_ROUNDS` times (5 by default; a hundred
//! times by `scripts/corpus kill9`).

use stockade_tests::corpus::kill9::{self, Victim};

fn repeat(victim: Victim) {
    for round in 1..=kill9::rounds_asked_for() {
        let fate = kill9::in_mid_call(victim);
        fate.unwrap_or_else(|e| panic!("{victim:?}, round {round}: {e:#}"));
    }
}

// spec 6.3
#[test]
fn nothing_survives_the_runtime() {
    repeat(Victim::Runtime);
}

// spec 6.3
#[test]
fn nothing_survives_the_launcher_and_the_next_call_is_answered() {
    repeat(Victim::Launcher);
}

// spec 6.3
#[test]
fn nothing_survives_the_cell_and_the_next_call_is_answered() {
    repeat(Victim::Cell);
}

// spec 6.3
#[test]
fn nothing_survives_the_init_and_the_next_call_is_answered() {
    repeat(Victim::Init);
}

// spec 6.3
#[test]
fn nothing_survives_a_runtime_or_a_launcher_that_is_killed_while_it_starts() {
    for round in 0..kill9::rounds_asked_for() {
        let after = std::time::Duration::from_micros(u64::from(round) * 2_500);
        for victim in [Victim::Runtime, Victim::Launcher] {
            let fate = kill9::at_start(victim, after);
            fate.unwrap_or_else(|e| panic!("{victim:?} {after:?} after the start: {e:#}"));
        }
    }
}
