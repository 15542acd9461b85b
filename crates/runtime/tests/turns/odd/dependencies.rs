//! Groups and dependencies together with panics, aborts and discards.

use super::probe::{after, all, builder, ids, log, probe};
use crate::scene::{call_with, text};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stockade_runtime::{Event, EventSink, Notice, Settings, Submission, replay};
use stockade_types::CallId;

#[derive(Default)]
struct Notices(Mutex<Vec<String>>);

impl EventSink for Notices {
    fn emit(&self, _: &Event) {}

    fn notice(&self, notice: &Notice) {
        let said = match notice {
            Notice::BatchStarted { batch, calls, .. } => {
                let calls: Vec<_> = calls.iter().map(|id| id.0.as_str()).collect();
                format!("+{batch} {}", calls.join(" "))
            }
            Notice::BatchEnded { batch, .. } => format!("-{batch}"),
            _ => return,
        };
        self.0.lock().unwrap().push(said);
    }
}

// spec 1.6
#[tokio::test(start_paused = true)]
async fn a_group_that_began_ends_whatever_becomes_of_its_calls() {
    let calls = || {
        vec![
            call_with("a", "Share", json!({"panics": true})),
            call_with("b", "Share", json!({"ms": 50})),
            call_with("c", "Alone", json!({"ms": 50, "panics": true})),
            call_with("d", "Nobody", json!({})),
            call_with("e", "Share", json!({})),
        ]
    };
    let all_groups = ["+0 a b", "-0", "+1 c", "-1", "+2 d", "-2", "+3 e", "-3"];
    // What is done to the turn and when; the groups that begin by then.
    for (what, at, groups) in
        [("", 0, 4), ("abort", 20, 1), ("abort", 70, 2), ("discard", 20, 1), ("discard", 70, 2)]
    {
        let notices = Arc::new(Notices::default());
        let tools = [probe("Share", true), probe("Alone", false)];
        let settings = Settings { grouped: true, ..Settings::default() };
        let runtime = builder(tools).settings(settings).events(notices.clone()).build().unwrap();
        let mut turn = runtime.open_turn();
        for call in calls() {
            turn.submit(call).unwrap();
        }
        turn.close();
        tokio::time::sleep(Duration::from_millis(at)).await;
        match what {
            "abort" => turn.abort(),
            "discard" => turn.discard(),
            _ => {}
        }
        let results = all(&mut turn).await;
        let expected = if what == "discard" { vec![] } else { vec!["a", "b", "c", "d", "e"] };
        assert_eq!(ids(&results), expected, "{what} at {at}");
        assert_eq!(*notices.0.lock().unwrap(), all_groups[..groups * 2], "{what} at {at}");
    }
}

// spec 1.7
#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_others_have_their_result_when_those_panic_or_the_turn_ends() {
    let calls = || {
        vec![
            after(call_with("z", "Share", json!({"says": "z"})), &["a", "c"]),
            Submission::Call(call_with("a", "Share", json!({"ms": 100, "panics": true}))),
            after(call_with("b", "Alone", json!({"says": "b"})), &["a"]),
            after(call_with("c", "Share", json!({"says": "c"})), &["b", "b", "a"]),
            after(call_with("self", "Share", json!({})), &["self"]),
            after(call_with("x", "Share", json!({})), &["y"]),
            after(call_with("y", "Share", json!({})), &["x"]),
            after(call_with("lost", "Share", json!({})), &["nobody"]),
            after(call_with("a", "Share", json!({})), &["c"]),
            Submission::Broken { id: CallId("broken".into()), message: "broken".into() },
            after(call_with("last", "Share", json!({"says": "last"})), &["broken", "x", "lost"]),
        ]
    };
    let order = ["z", "a", "b", "c", "self", "x", "y", "lost", "a", "broken", "last"];
    for (what, at) in [("", 0), ("abort", 0), ("abort", 50), ("discard", 50), ("abort", 150)] {
        let dir = tempfile::tempdir().unwrap();
        let (log, path) = log(dir.path());
        let runtime = builder([probe("Share", true), probe("Alone", false)])
            .session_log(log)
            .build()
            .unwrap();
        let mut turn = runtime.open_turn();
        for submission in calls() {
            turn.submit(submission).unwrap();
        }
        turn.close();
        tokio::time::sleep(Duration::from_millis(at)).await;
        match what {
            "abort" => turn.abort(),
            "discard" => turn.discard(),
            _ => {}
        }
        let results = all(&mut turn).await;
        let replayed = replay(&path).unwrap().remove(0);
        assert_eq!(replayed.results.len(), order.len(), "{what} at {at}");
        assert_eq!(ids(&replayed.results), order, "{what} at {at}");
        if what == "discard" {
            assert!(results.is_empty() && replayed.discarded);
            continue;
        }
        assert_eq!(results, replayed.results);
        if at != 0 || what.is_empty() {
            let panics = if at == 50 { "ABORTED" } else { "panicked" };
            assert!(text(&results[1]).contains(panics), "{what} at {at}: {results:?}");
        }
        if what.is_empty() || at == 150 {
            let said = [0, 2, 3, 10].map(|place| text(&results[place]));
            assert_eq!(said, ["z", "b", "c", "last"]);
            let errors = [4, 5, 6, 7, 8, 9].map(|place| results[place].is_error);
            assert_eq!(errors, [true; 6]);
        }
    }
}
