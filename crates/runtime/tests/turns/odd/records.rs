//! Odd ids, budgets of nothing, stores that go away, a log that is cut: every call has its one result, in order, and the log replays.

use super::probe::{Probe, builder, ids, log, probe, store};
use crate::scene::{call_with, text};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use stockade_runtime::{SessionLog, ToolRuntime, replay};
use stockade_sandbox::fake::{FakeProvider, policy};
use stockade_tools::{Registry, ResultBudget, ToolError};
use stockade_types::{CallId, ContentBlock, SessionId, ToolCall};

// spec 8.1, 8.2, 9.1
#[tokio::test]
async fn odd_ids_and_budgets_of_nothing_in_stores_that_are_full_or_gone_replay_byte_for_byte() {
    let long = "i".repeat(100_000);
    let odd = ["", "../../../x", "a\nb", "\u{0}\u{1b}[2J", &long, "é\u{202e}", "a b", ".", "é"];
    let budgets = [0, 1, 50, 1000];
    for (quota, goes_away) in [(0, false), (3000, false), (1 << 20, false), (1 << 20, true)] {
        let dir = tempfile::tempdir().unwrap();
        let (log, path) = log(dir.path());
        let store = store(dir.path(), quota);
        let probes = budgets.map(|max| Probe {
            budget: ResultBudget {
                max_inline_bytes: max,
                max_model_bytes: max,
                ..ResultBudget::default()
            },
            ..probe(&format!("Max{max}"), true)
        });
        let runtime = builder(probes).session_log(log).spill(store.clone()).build().unwrap();
        let mut expected = Vec::new();
        for max in budgets {
            let calls = odd.map(|id| call_with(id, &format!("Max{max}"), json!({"size": 2000})));
            let results = runtime.run_turn(calls).await.unwrap();
            assert_eq!(ids(&results), odd);
            for result in &results {
                assert!(!result.is_error && text(result).len() <= max, "{quota} {result:?}");
                let images = result.content.iter();
                let images = images.filter(|block| matches!(block, ContentBlock::Image { .. }));
                assert_eq!(images.count(), 1);
            }
            expected.push(results);
            if goes_away && max == 1 {
                // Only what comes later finds none: what was kept must be there to be replayed.
                let folder = store.folder();
                std::fs::rename(folder, folder.with_extension("away")).unwrap();
            }
        }
        let away = store.folder().with_extension("away");
        if goes_away {
            std::fs::rename(away, store.folder()).unwrap();
        }
        let replayed: Vec<_> =
            replay(&path).unwrap().into_iter().map(|turn| turn.results).collect();
        assert_eq!(replayed, expected, "quota {quota}");
    }
}

// spec 9.1
#[tokio::test]
async fn a_log_cut_within_any_character_replays_to_its_last_whole_record() {
    let dir = tempfile::tempdir().unwrap();
    let (log, path) = log(dir.path());
    let runtime = builder([probe("Share", true)]).session_log(log).build().unwrap();
    let says = json!({"says": "ä€😀\u{202e}\u{2028}\u{0}\u{7f}", "x": "é"});
    let ids = ["é", "\u{10ffff}", "😀"];
    let results =
        runtime.run_turn(ids.map(|id| call_with(id, "Share", says.clone()))).await.unwrap();
    drop(runtime);
    let whole = std::fs::read(&path).unwrap();
    for cut in 0..=whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let turns = replay(&path).unwrap();
        let got: Vec<_> = turns.into_iter().flat_map(|turn| turn.results).collect();
        let lines = || whole[..cut].split_inclusive(|byte| *byte == b'\n');
        let is_result = |line: &&[u8]| {
            line.ends_with(b"\n") && line.windows(11).any(|part| part == b"tool/result")
        };
        assert_eq!(got, results[..lines().filter(is_result).count()], "cut at {cut}");
        drop(SessionLog::open(dir.path(), &SessionId::new("s").unwrap()).unwrap());
    }
}

// spec 1.17: at once and by name, and not at the first body that waits
#[test]
fn an_executor_without_timers_is_told_of_before_anything_runs() {
    let trace: Arc<Mutex<Vec<String>>> = Arc::default();
    let ran = Arc::clone(&trace);
    let registry = Registry::new();
    let quick = move |_: serde_json::Map<String, Value>, _| {
        ran.lock().unwrap().push("ran".to_owned());
        async { Ok::<_, ToolError>("quick") }
    };
    registry.register(Arc::new(stockade_tools::TypedTool::new("Quick", "", quick))).unwrap();
    let runtime = ToolRuntime::builder()
        .provider(Arc::new(FakeProvider::new("/ws")))
        .policy(policy("test"))
        .registry(Arc::new(registry))
        .build()
        .unwrap();
    let quick = || ToolCall { id: CallId("a".into()), name: "Quick".into(), arguments: json!({}) };
    for mut executor in
        [tokio::runtime::Builder::new_current_thread(), tokio::runtime::Builder::new_multi_thread()]
    {
        let executor = executor.build().unwrap();
        let fault = executor.block_on(runtime.run_turn([quick()])).unwrap_err();
        assert!(fault.to_string().contains("`enable_time`"), "{fault}");
        assert!(trace.lock().unwrap().is_empty());
    }
    let executor = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let results = executor.block_on(runtime.run_turn([quick()])).unwrap();
    assert_eq!(results.len(), 1);
    assert_eq!(*trace.lock().unwrap(), ["ran"]);
}
