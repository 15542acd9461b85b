//! A short version of the runs over whole corpora; `scripts/corpus` does the whole.

use std::time::Duration;
use stockade_tests::Scratch;
use stockade_tests::corpus::{Selection, model_commands, one_liners};

/// A hang, on whatever machine. `scripts/corpus` looks at the time that it takes.
const SLACK: Duration = Duration::from_secs(60);

#[test]
fn sixty_commands_that_models_wrote_do_the_same_as_under_bubblewrap() {
    let scratch = Scratch::new();
    let report = scratch.path().join("differences.jsonl");
    let summary =
        model_commands::run("fs1", Selection { first: 780, every: 13, slack: SLACK }, &report)
            .expect("a run");
    assert_eq!(summary.commands, 60);
    let differences = std::fs::read_to_string(&report).expect("the report");
    assert!(summary.is_good(), "{summary:#?}\n{differences}");
}

#[test]
fn sixty_commands_that_people_wrote_change_nothing_under_read_only() {
    let summary = one_liners::run(Selection { first: 960, every: 16, slack: SLACK })
        .expect("nothing changed");
    assert_eq!(summary.commands, 60);
    assert!(summary.broken.is_empty(), "{summary:#?}");
}
