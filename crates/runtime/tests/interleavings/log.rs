//! Two turns of one session at the same time.

use crate::explore;
use crate::world::{World, call, ids, rest};
use shuttle::future::block_on;
use shuttle::thread;

// spec 9.1
#[test]
fn records_of_turns_that_run_at_once_are_whole_and_numbered_in_their_order() {
    explore(|| {
        let world = World::new();
        let turns = [0, 1].map(|_| {
            let runtime = world.runtime.clone();
            thread::spawn(move || {
                let mut turn = runtime.open_turn();
                turn.submit(call(0, "Read")).expect("open");
                turn.submit(call(1, "Edit")).expect("open");
                turn.close();
                block_on(rest(&mut turn)).len()
            })
        });
        for turn in turns {
            assert_eq!(turn.join().expect("it does not panic"), 2);
        }
        let records = world.records();
        let numbers: Vec<_> = records.iter().filter_map(|record| record["seq"].as_u64()).collect();
        assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
        for turn in [1, 2] {
            assert_eq!(ids(&records, turn, "tool/result"), [0, 1], "turn {turn}");
        }
    });
}
