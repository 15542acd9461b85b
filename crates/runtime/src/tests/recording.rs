//! The session log of whole turns (spec 9.1, 1.16).

use super::*;
use crate::SessionLog;
use std::path::Path;
use stockade_types::SessionId;

fn open(dir: &Path) -> SessionLog {
    SessionLog::open(dir, &SessionId::new("s").unwrap()).unwrap()
}

fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

// spec 9.1, 1.16
#[tokio::test(start_paused = true)]
async fn each_call_has_one_call_and_one_result_record_also_those_that_never_started() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let path = log.path().to_owned();
    let trace = Trace::default();
    let runtime = builder(probes(&trace)).session_log(log).build().unwrap();
    let mut turn = runtime.open_turn();
    for submission in [
        call("Share", "a", 20),
        call("Share", "b", 10),
        call("Nobody", "c", 0),
        call("Alone", "d", 60_000),
        call("Share", "e", 0),
    ] {
        turn.submit(submission).unwrap();
    }
    turn.close();
    tokio::time::sleep(Duration::from_millis(100)).await;
    turn.abort();
    let mut results = Vec::new();
    while let Some(result) = turn.next_result().await.unwrap() {
        results.push(result);
    }
    let records = records(&path);
    let seqs: Vec<_> = records.iter().map(|record| record["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=10).collect::<Vec<_>>());
    let of = |kind: &str| -> Vec<&Value> { records.iter().filter(|r| r["type"] == kind).collect() };
    for kind in ["tool/call", "tool/result"] {
        let order: Vec<_> = of(kind).iter().map(|r| r["call_id"].as_str().unwrap()).collect();
        assert_eq!(order, ["a", "b", "c", "d", "e"], "{kind}");
    }
    for ((call, record), result) in of("tool/call").iter().zip(of("tool/result")).zip(&results) {
        assert_eq!(record["call"], call["seq"]);
        // The very text that the model received.
        assert_eq!(record["content"], serde_json::to_value(&result.content).unwrap());
        assert_eq!(record["is_error"], result.is_error);
        assert_eq!(record["turn"], 1);
        let time = record["time"].as_str().unwrap();
        assert!(time.ends_with('Z') && time.len() == "2026-01-01T00:00:00.000Z".len(), "{time}");
    }
    assert_eq!(of("tool/call")[0]["arguments"], json!({"id": "a", "ms": 20}));
    assert_eq!(of("tool/call")[0]["mode"], "parallel");
    assert_eq!(of("tool/result")[2]["message"], "No such tool available: Nobody");
    // A call is recorded before its body runs: d's record follows c's result, and precedes its own.
    let d = records.iter().position(|r| r["call_id"] == "d").unwrap();
    assert_eq!(records[d - 1]["call_id"], "c");
}

// spec 9.1
#[tokio::test(start_paused = true)]
async fn a_session_that_is_opened_again_goes_on_with_its_numbers() {
    let dir = tempfile::tempdir().unwrap();
    for turn in 1..=3 {
        let log = open(dir.path());
        let path = log.path().to_owned();
        let runtime = builder(probes(&Trace::default())).session_log(log).build().unwrap();
        runtime.run_turn([call("Share", "a", 0)]).await.unwrap();
        let records = records(&path);
        let last = records.last().unwrap();
        assert_eq!((&last["turn"], &last["seq"]), (&json!(turn), &json!(2 * turn)));
    }
}

// spec 9.1
#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_be_recorded_does_not_run_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("sessions/s");
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.join("session.jsonl")).unwrap();
    let trace = Trace::default();
    let runtime = builder(probes(&trace)).session_log(open(dir.path())).build().unwrap();
    let results = runtime.run_turn([call("Share", "a", 0), call("Share", "b", 0)]).await.unwrap();
    for result in &results {
        assert!(result.is_error);
        let text = text(result);
        assert!(text.contains("the call was not run") && text.contains("No space left"), "{text}");
    }
    assert_eq!(results.len(), 2);
    assert!(trace.taken().is_empty());
}

// spec 9.1
#[tokio::test(start_paused = true)]
async fn a_result_that_cannot_be_recorded_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let path = log.path().to_owned();
    let registry = Registry::new();
    let probe =
        Probe::new("Share", &Trace::default(), true).doing(|_| Ok(ToolOutput::text("did it")));
    registry.register(Arc::new(probe)).unwrap();
    let runtime = builder(Arc::new(registry)).session_log(log).build().unwrap();
    let mut turn = runtime.open_turn();
    turn.submit(call("Share", "a", 50)).unwrap();
    turn.close();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(records(&path).len(), 1);
    runtime.pipeline.log.as_ref().unwrap().redirect(Path::new("/dev/full"));
    let result = turn.next_result().await.unwrap().unwrap();
    assert!(result.is_error);
    assert!(
        text(&result).starts_with("did it\n[This result could not be recorded: "),
        "{result:?}"
    );
}
