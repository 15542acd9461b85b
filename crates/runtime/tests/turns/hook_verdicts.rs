//! What hooks say at once, or one after another, counts at once: a block does not undo a stop, and each has its own reason.

use crate::scene::{Nothing, builder, call, text};
use async_trait::async_trait;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use stockade_runtime::{
    FailureDecision, Hook, HookError, HookSession, PostDecision, PostVerdict, PreparedCall,
    command_hooks,
};
use stockade_tools::{Registry, ToolError, ToolOutput, TypedTool};
use stockade_types::ToolResult;

/// The results of a call whose body says `output`, and of one after it.
async fn under(output: ToolOutput, hooks: Vec<Arc<dyn Hook>>) -> Vec<ToolResult> {
    let registry = Registry::new();
    let says = move |_: Nothing, _| {
        let output = output.clone();
        async { Ok::<_, ToolError>(output) }
    };
    registry.register(Arc::new(TypedTool::new("First", "", says))).unwrap();
    let second = |_: Nothing, _| async { Ok::<_, ToolError>("ran") };
    registry.register(Arc::new(TypedTool::new("Second", "", second))).unwrap();
    let mut builder = builder(registry);
    for hook in hooks {
        builder = builder.hook(hook);
    }
    let calls = ["First", "Second"].map(|name| call(name, name));
    builder.build().unwrap().run_turn(calls).await.unwrap()
}

/// The hook of a settings file that gives this answer about the first call.
fn answers(dir: &Path, event: &str, answer: &serde_json::Value) -> Vec<Arc<dyn Hook>> {
    let path = dir.join("settings.json");
    let command = format!("cat >/dev/null; echo '{answer}'");
    let hook = json!([{"matcher": "First", "hooks": [{"type": "command", "command": command}]}]);
    std::fs::write(&path, json!({"hooks": {event: hook}}).to_string()).unwrap();
    let transcript_path = dir.join("session.jsonl");
    let session = HookSession { session_id: "s".into(), transcript_path, cwd: dir.into() };
    command_hooks(&path, &session).unwrap()
}

// spec 1.18, 2.3, 2.12
#[tokio::test]
async fn a_command_that_blocks_and_stops_does_both_and_the_model_reads_both_reasons() {
    let dir = tempfile::tempdir().unwrap();
    let answer = json!({
        "decision": "block", "reason": "fix it first", "continue": false, "stopReason": "turn over",
    });
    for (event, is_error) in
        [("PreToolUse", false), ("PostToolUse", false), ("PostToolUseFailure", true)]
    {
        let output = ToolOutput { is_error, ..ToolOutput::text("first") };
        let results = under(output, answers(dir.path(), event, &answer)).await;
        let told = text(&results[0]);
        assert!(told.contains("fix it first; turn over"), "{event}: {told}");
        assert!(results[0].is_error, "{event}: {told}");
        assert_eq!(told.contains("first\n"), is_error, "{event}: {told}");
        assert_ne!(text(&results[1]), "ran", "{event}");
    }
}

// spec 2.2, 2.3
#[tokio::test]
async fn the_stricter_of_two_words_in_one_answer_has_its_own_reason() {
    let dir = tempfile::tempdir().unwrap();
    let of = |word: &str, reason: Option<&str>| {
        json!({"hookEventName": "PreToolUse", "permissionDecision": word,
            "permissionDecisionReason": reason})
    };
    for (answer, expected) in [
        (
            json!({"decision": "block", "reason": "no", "hookSpecificOutput": of("allow", Some("fine"))}),
            "no",
        ),
        (
            json!({"decision": "block", "hookSpecificOutput": of("allow", Some("fine"))}),
            "no reason given",
        ),
        (
            json!({"decision": "approve", "reason": "fine", "hookSpecificOutput": of("deny", Some("no"))}),
            "no",
        ),
        (
            json!({"decision": "approve", "reason": "fine", "hookSpecificOutput": of("deny", None)}),
            "no reason given",
        ),
        (
            json!({"decision": "block", "reason": "no", "hookSpecificOutput": of("deny", Some("never"))}),
            "no; never",
        ),
        (json!({"reason": "no", "hookSpecificOutput": of("deny", None)}), "no"),
        (
            json!({"continue": false, "stopReason": "over", "hookSpecificOutput": of("allow", Some("fine"))}),
            "over",
        ),
        (json!({"continue": false, "reason": "no"}), "no"),
    ] {
        let results =
            under(ToolOutput::text("ran"), answers(dir.path(), "PreToolUse", &answer)).await;
        let told = text(&results[0]);
        assert!(told.ends_with(&format!(": {expected}")), "{answer}: {told}");
    }
}

/// A host's hook: what it says of the first call.
struct Says {
    stops_after_failure: bool,
    verdict: PostVerdict,
}

#[async_trait]
impl Hook for Says {
    fn name(&self) -> &str {
        "says"
    }

    async fn failed(
        &self,
        _: &PreparedCall,
        _: &ToolResult,
        _: bool,
    ) -> Result<FailureDecision, HookError> {
        Ok(FailureDecision { stop_turn: self.stops_after_failure, ..FailureDecision::default() })
    }

    async fn post_execute(
        &self,
        call: &PreparedCall,
        _: &ToolResult,
    ) -> Result<PostDecision, HookError> {
        let is_first = call.tool() == "First";
        Ok(if is_first { self.verdict.clone().into() } else { PostDecision::accept() })
    }
}

// spec 1.18, 2.12: what the tool asked for goes with its result, and what a hook asked for stays
#[tokio::test]
async fn a_hooks_stop_outlives_the_block_of_a_later_one_whatever_the_tool_asked_for() {
    let says = |stops_after_failure, verdict| -> Arc<dyn Hook> {
        Arc::new(Says { stops_after_failure, verdict })
    };
    let block = || PostVerdict::Block("no".into());
    for tool_stops in [false, true] {
        for (is_error, hooks, stops) in [
            (false, vec![says(false, PostVerdict::StopTurn), says(false, block())], true),
            (true, vec![says(true, PostVerdict::Accept), says(false, block())], true),
            (false, vec![says(false, PostVerdict::BlockAndStop("no".into()))], true),
            (false, vec![says(true, block())], false),
            (true, vec![says(false, block())], false),
        ] {
            let output =
                ToolOutput { is_error, stop_turn: tool_stops, ..ToolOutput::text("first") };
            let results = under(output, hooks).await;
            let told = format!("{tool_stops} {is_error} {results:?}");
            assert_eq!(text(&results[0]), "refused by hook says: no", "{told}");
            assert_eq!(results[0].stop_turn, stops, "{told}");
            assert_eq!(text(&results[1]) == "ran", !stops, "{told}");
        }
    }
}
