//! Results, what is kept of them, and their records (spec 8, 9).

use super::says;
use crate::probe::Log;
use crate::world::{Events, builder, call, text, tools, with};
use serde_json::json;
use std::sync::Arc;
use stockade_runtime::{SessionLog, Settings, replay};
use stockade_spill::{Limits, SpillStore};
use stockade_tools::{
    Display, Hunk, Preview, Registry, ResultBudget, Strategy, ToolError, ToolOutput, TypedTool,
};
use stockade_types::{ContentBlock, SessionId, ToolResult};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// A tool that prints so much, held to this budget.
fn prints(text: String, budget: ResultBudget) -> Registry {
    let body = move |_: Nothing, _| {
        let image = ContentBlock::Image { media_type: "image/png".into(), data: "iVBO".into() };
        let content = vec![ContentBlock::text(text.clone()), image];
        async move { Ok::<_, ToolError>(ToolOutput { content, ..ToolOutput::default() }) }
    };
    let registry = Registry::new();
    let tool = TypedTool::new("Print", "", body).budget(budget);
    registry.register(Arc::new(tool)).expect("a tool");
    registry
}

async fn printed(text: &str, budget: ResultBudget, store: Option<SpillStore>) -> ToolResult {
    let mut builder = builder(Settings::batched(), prints(text.to_owned(), budget));
    if let Some(store) = store {
        builder = builder.spill(Arc::new(store));
    }
    let runtime = builder.build().expect("a runtime");
    let call = with("Print", "a", json!({}));
    runtime.run_turn([call]).await.expect("no fault").remove(0)
}

fn store(state: &std::path::Path, limits: Limits) -> SpillStore {
    let session = SessionId::new("s").expect("an id");
    SpillStore::open(state, &session, "/inside".as_ref(), limits).expect("a store")
}

const SMALL: ResultBudget = ResultBudget {
    max_inline_bytes: 5000,
    max_model_bytes: 6000,
    strategy: Strategy::Artifact,
    preview: Preview::Head,
};

// spec 8.1
#[tokio::test]
async fn b_8_1_within_its_budget_a_result_is_unchanged_and_the_smaller_bound_counts() {
    for (budget, bytes, whole) in [
        (SMALL, 5000, true),
        (SMALL, 5001, false),
        (ResultBudget { max_model_bytes: 4000, ..SMALL }, 4000, true),
        (ResultBudget { max_model_bytes: 4000, ..SMALL }, 4001, false),
    ] {
        let said = "x".repeat(bytes);
        let result = printed(&said, budget, None).await;
        let unchanged = result.content[0] == ContentBlock::text(said);
        assert_eq!(unchanged, whole, "{budget:?} {bytes}");
    }
}

// spec 8.2
#[tokio::test]
async fn b_8_2_over_it_all_is_kept_and_a_preview_shown_or_it_is_cut_and_no_picture_ever_is() {
    let lines: String = (0..3000).map(|number| format!("line {number}\n")).collect();
    let state = tempfile::tempdir().expect("a folder");
    let kept = printed(&lines, SMALL, Some(store(state.path(), Limits::default()))).await;
    let shown = text(&kept);
    assert!(shown.contains(&lines.len().to_string()) && shown.contains("/inside/session/a-"));
    assert!(shown.contains("line 0\n") && shown.len() < 2500, "{shown}");
    let folder = state.path().join("sessions/s/spill/session");
    let file = std::fs::read_dir(folder).expect("a folder").flatten().next().expect("a file");
    assert_eq!(std::fs::read_to_string(file.path()).expect("text"), lines, "all of it");
    // Truncated by wish, without a store, and by a store that is full.
    let full = || store(tempfile::tempdir().expect("a folder").path(), Limits { session_bytes: 9 });
    let truncate = ResultBudget { strategy: Strategy::Truncate, ..SMALL };
    let tail = ResultBudget { preview: Preview::Tail, ..truncate };
    for (budget, store, line) in [
        (truncate, Some(full()), "line 0\n"),
        (tail, None, "line 2999\n"),
        (SMALL, None, "line 0\n"),
        (SMALL, Some(full()), "line 0\n"),
    ] {
        let cut = printed(&lines, budget, store).await;
        let shown = text(&cut);
        assert!(!cut.is_error, "a failing store never fails the call");
        assert!(shown.contains("[Tool output truncated by resultBudget: "), "{shown}");
        assert!(shown.contains(line) && shown.len() < 5200, "{shown}");
        assert!(matches!(cut.content[1], ContentBlock::Image { .. }), "pictures are never cut");
    }
}

// spec 9.1
#[tokio::test(start_paused = true)]
async fn b_9_1_the_log_has_what_people_and_what_the_model_were_told_and_gives_it_back() {
    let state = tempfile::tempdir().expect("a folder");
    let session = SessionId::new("s").expect("an id");
    let session_log = SessionLog::open(state.path(), &session).expect("a log");
    let path = session_log.path().to_owned();
    let registry = tools(&Log::default());
    let runtime = builder(Settings::batched(), registry).session_log(session_log);
    let runtime = runtime.build().expect("a runtime");
    let calls = [call("Read", "a", 1), call("Nobody", "b", 1), call("Edit", "c", 1)];
    let results = runtime.run_groups(calls).await.expect("no fault");
    let records = std::fs::read_to_string(&path).expect("a log");
    let failure: serde_json::Value = records
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a record"))
        .find(|record| record["type"] == "tool/result" && record["call_id"] == "b")
        .expect("its record");
    assert_eq!(failure["message"], "No such tool available: Nobody");
    assert_eq!(
        failure["content"][0]["text"],
        "<tool_use_error>Error: No such tool available: Nobody</tool_use_error>"
    );
    assert_eq!(replay(&path).expect("a history")[0].results, results);
}

// spec 8.4
#[tokio::test(start_paused = true)]
async fn b_8_4_people_are_shown_a_display_of_their_own_within_its_limits() {
    let events = Events::default();
    let registry = says(|| {
        let hunk = Hunk { first_line: 1, lines: vec!["+x".into(); 50] };
        let diff = Display::Diff { path: "a".into(), hunks: vec![hunk; 10], omitted_lines: 0 };
        Ok(ToolOutput { display: Some(diff), ..ToolOutput::text("edited") })
    });
    let runtime = builder(Settings::batched(), registry).events(Arc::new(events.clone()));
    let runtime = runtime.build().expect("a runtime");
    let results = runtime.run_turn([call("Say", "a", 1)]).await.expect("no fault");
    assert_eq!(text(&results[0]), "edited");
    let all = events.all();
    let display =
        &all.iter().find(|event| event["event"] == "yielded").expect("yielded")["display"];
    assert_eq!(display["kind"], "diff");
    let lines = display["hunks"].as_array().expect("hunks").iter();
    let lines: usize = lines.map(|hunk| hunk["lines"].as_array().map_or(0, Vec::len)).sum();
    assert_eq!((lines, &display["omitted_lines"]), (160, &json!(340)));
}
