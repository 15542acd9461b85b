//! From a session log back to what the model was given, byte for byte (spec 9.1).

use serde_json::json;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use stockade_runtime::{ReplayedTurn, SessionLog, ToolRuntime, replay};
use stockade_sandbox::fake::{FakeProvider, policy};
use stockade_spill::{Limits, SpillStore};
use stockade_tools::{Metadata, Registry, ResultBudget, ToolError, ToolOutput, TypedTool};
use stockade_types::{CallId, ContentBlock, SessionId, ToolCall, ToolResult};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Say {
    seed: u64,
    fails: bool,
}

/// splitmix64.
fn mixed(seed: u64) -> u64 {
    let z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 31)
}

/// Texts that are hard on a log: line ends, control characters, astral planes, nothing at all, much of it, and pictures.
fn content(seed: u64) -> Vec<ContentBlock> {
    let texts =
        ["", "plain", "line\nend\r\n", "\u{0}\u{1b}[31m\u{7f}", "ä🦀\u{2028}\"\\", "\u{fffd}"];
    let count = 1 + mixed(seed) % 3;
    let block = |number: u64| match mixed(seed + number) % 8 {
        6 => ContentBlock::text("x\n".repeat(4000)),
        7 => ContentBlock::Image { media_type: "image/png".into(), data: "iVBORw0KGgo=".into() },
        text => ContentBlock::text(texts[text as usize % texts.len()]),
    };
    (0..count).map(block).collect()
}

fn runtime(state: &Path) -> ToolRuntime {
    let session = SessionId::new("s").unwrap();
    let registry = Registry::new();
    for (name, metadata) in [("Read", Metadata::READ_ONLY), ("Edit", Metadata::default())] {
        let body = |say: Say, _| async move {
            if say.fails {
                return Err(ToolError::Business(format!("failed {}\n ä", say.seed)));
            }
            Ok(ToolOutput { content: content(say.seed), ..ToolOutput::default() })
        };
        let budget = ResultBudget { max_inline_bytes: 5000, ..ResultBudget::default() };
        let tool = TypedTool::new(name, "", body).metadata(metadata).budget(budget);
        registry.register(Arc::new(tool)).unwrap();
    }
    let inside = state.join("sessions/s/spill");
    let spill = SpillStore::open(state, &session, &inside, Limits::default()).unwrap();
    ToolRuntime::builder()
        .provider(Arc::new(FakeProvider::new("/ws")))
        .policy(policy("test"))
        .registry(Arc::new(registry))
        .session_log(SessionLog::open(state, &session).unwrap())
        .spill(Arc::new(spill))
        .build()
        .unwrap()
}

fn calls(seed: u64) -> Vec<ToolCall> {
    let call = |number: u64| {
        let seed = seed * 100 + number;
        ToolCall {
            id: CallId(format!("call_{seed}")),
            name: ["Read", "Read", "Edit", "Nobody"][mixed(seed) as usize % 4].to_owned(),
            arguments: json!({"seed": seed, "fails": mixed(seed + 7).is_multiple_of(5)}),
        }
    };
    (0..1 + mixed(seed) % 8).map(call).collect()
}

fn bytes(results: &[ToolResult]) -> String {
    serde_json::to_string(results).unwrap()
}

// spec 9.1
#[tokio::test]
async fn two_hundred_random_turns_are_replayed_byte_for_byte() {
    let state = tempfile::tempdir().unwrap();
    let mut given = Vec::new();
    // In several runs of the session, as a host would.
    for run in 0..4 {
        let runtime = runtime(state.path());
        for turn in 0..50 {
            let calls = calls(run * 50 + turn);
            let results = runtime.run_turn(calls.clone()).await.unwrap();
            given.push((calls, results));
        }
    }
    let turns = replay(&state.path().join("sessions/s/session.jsonl")).unwrap();
    assert_eq!(turns.len(), 200);
    for (turn, (calls, results)) in turns.iter().zip(&given) {
        assert_eq!(bytes(&turn.results), bytes(results), "turn {}", turn.number);
        assert_eq!(turn.calls, *calls);
        assert!(!turn.discarded);
    }
    let log = fs::read_to_string(state.path().join("sessions/s/session.jsonl")).unwrap();
    assert!(log.contains("spill://s/project/"), "media lie in the store");
    assert!(!log.contains("iVBORw0KGgo="), "the log holds references");
}

// spec 9.1
#[tokio::test]
async fn a_log_cut_at_any_byte_is_replayed_up_to_its_last_whole_record() {
    let state = tempfile::tempdir().unwrap();
    {
        let runtime = runtime(state.path());
        for turn in 0..2 {
            runtime.run_turn(calls(turn)).await.unwrap();
        }
    }
    let path = state.path().join("sessions/s/session.jsonl");
    let whole = fs::read(&path).unwrap();
    let results = |turns: &[ReplayedTurn]| -> Vec<ToolResult> {
        turns.iter().flat_map(|turn| turn.results.clone()).collect()
    };
    let all = results(&replay(&path).unwrap());
    let cut_log = state.path().join("sessions/s/cut.jsonl");
    for cut in 0..=whole.len() {
        fs::write(&cut_log, &whole[..cut]).unwrap();
        let records = whole[..cut].split_inclusive(|byte| *byte == b'\n');
        let committed = records
            .filter(|record| record.ends_with(b"\n"))
            .filter(|record| String::from_utf8_lossy(record).contains("\"type\":\"tool/result\""))
            .count();
        let replayed = results(&replay(&cut_log).unwrap());
        assert_eq!(replayed, all[..committed], "cut at {cut}");
    }
    fs::write(&cut_log, b"{\"seq\":1}\nnothing\n").unwrap();
    let damaged = replay(&cut_log).unwrap_err().to_string();
    assert!(damaged.contains("cut.jsonl:1: no record"), "{damaged}");
}
