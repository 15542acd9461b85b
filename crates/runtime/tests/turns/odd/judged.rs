//! Changes of the context and output schemas: what counts of a call that is judged afterwards.

use super::probe::{Probe, all, builder, probe};
use crate::scene::{call_with, text};
use async_trait::async_trait;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use stockade_runtime::{Hook, HookError, PostDecision, PostVerdict, PreparedCall};
use stockade_types::ToolResult;

/// Blocks what says so.
struct Blocks;

#[async_trait]
impl Hook for Blocks {
    fn name(&self) -> &str {
        "blocks"
    }

    async fn post_execute(
        &self,
        call: &PreparedCall,
        _: &ToolResult,
    ) -> Result<PostDecision, HookError> {
        Ok(match call.input().value()["hook"].as_str() {
            Some("blocks") => PostVerdict::Block("no".into()).into(),
            Some("panics") => panic!("expected"),
            Some("value") => PostVerdict::ReplaceValue(json!({"n": "none"})).into(),
            _ => PostDecision::accept(),
        })
    }
}

// spec 1.20, 2.12
#[tokio::test(start_paused = true)]
async fn a_change_of_the_context_counts_only_of_a_call_that_stands() {
    let runtime = builder([probe("Alone", false)]).hook(Arc::new(Blocks)).build().unwrap();
    for (arguments, cwd) in [
        (json!({"cd": "/ws/new"}), "/ws/new"),
        (json!({"cd": "/ws/new", "hook": "blocks"}), "/ws"),
        (json!({"cd": "/ws/new", "hook": "panics"}), "/ws"),
        (json!({"cd": "/ws/new", "panics": true}), "/ws"),
        (json!({"cd": "relative"}), "/ws"),
        (json!({"cd": "/ws/new", "ms": 400_000, "deaf": true}), "/ws"),
    ] {
        let calls = [
            call_with("a", "Alone", arguments.clone()),
            call_with("b", "Alone", json!({"shows": true})),
        ];
        let results = runtime.run_turn(calls).await.unwrap();
        assert_eq!(text(&results[1]), cwd, "{arguments}: {results:?}");
    }
    // What an interrupted call made of it is not kept, and the next turn begins anew.
    let mut turn = runtime.open_turn();
    turn.submit(call_with("a", "Alone", json!({"cd": "/ws/new", "ms": 100}))).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    turn.abort();
    turn.close();
    assert!(all(&mut turn).await[0].is_error);
    let results =
        runtime.run_turn([call_with("b", "Alone", json!({"shows": true}))]).await.unwrap();
    assert_eq!(text(&results[0]), "/ws");
}

// spec 2.11, 2.14
#[tokio::test(start_paused = true)]
async fn an_output_that_does_not_fit_is_an_error_whoever_made_it() {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let tool = Probe { output: Some(schema), ..probe("Alone", false) };
    let runtime = builder([tool]).hook(Arc::new(Blocks)).build().unwrap();
    for (arguments, is_error, says) in [
        (json!({"value": {"n": 1}}), false, "\"n\": 1"),
        (json!({"value": {"n": "one"}}), true, "ToolOutputError"),
        (json!({"value": {}}), true, "ToolOutputError"),
        (json!({"value": [1]}), true, "ToolOutputError"),
        (json!({}), true, "it returned no value"),
        (json!({"value": {"isError": true}}), true, "isError"),
        (json!({"value": {"isError": "true"}}), true, "ToolOutputError"),
        (json!({"value": {"n": 1}, "hook": "value"}), true, "does not fit"),
        (json!({"value": {"n": 1}, "hook": "blocks"}), true, "no"),
        (json!({"value": {"n": 1}, "panics": true}), true, "panicked"),
    ] {
        let results = runtime.run_turn([call_with("a", "Alone", arguments.clone())]).await.unwrap();
        let told = text(&results[0]);
        assert!(results[0].is_error == is_error && told.contains(says), "{arguments}: {told}");
    }
}
