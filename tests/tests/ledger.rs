//! The ledger under many processes (spec 9.2). `scripts/ledger` runs the same at full size.

use std::path::Path;
use stockade_tests::ledger;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ledger");

// spec 9.2
#[test]
fn eight_processes_append_together_and_every_record_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    ledger::together(Path::new(PROGRAM), folder.path(), 8, 500).expect("all there, chain whole");
}

// spec 9.2
#[test]
fn writers_that_are_killed_at_any_moment_leave_a_ledger_that_is_whole_up_to_its_last_record() {
    let folder = tempfile::tempdir().expect("a folder");
    let kills = ledger::killed(Path::new(PROGRAM), folder.path(), 50).expect("chain whole");
    assert!(kills.records > 0, "the writers did write");
}
