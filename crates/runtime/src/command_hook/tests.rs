use super::*;
use crate::tests::{Trace, builder, call, probes};
use crate::{Approver, Decision, ToolRuntime};
use std::fs;
use std::path::Path;
use stockade_types::ContentBlock;

/// Says yes to everything, and notes what it was asked.
struct Yes(Trace);
#[async_trait]
impl Approver for Yes {
    async fn decide(&self, request: &crate::ApprovalRequest) -> Result<Decision, HookError> {
        self.0.note(format!("asked {:?}", request.reasons));
        Ok(Decision::Allow)
    }
}

fn runtime(folder: &Path, trace: &Trace, settings: &Value) -> ToolRuntime {
    let path = folder.join("settings.json");
    fs::write(&path, settings.to_string()).unwrap();
    let session = HookSession {
        session_id: "s1".into(),
        transcript_path: "/log".into(),
        cwd: folder.to_owned(),
    };
    let mut builder = builder(probes(trace)).approver(Arc::new(Yes(trace.clone())));
    for hook in command_hooks(&path, &session).unwrap() {
        builder = builder.hook(hook);
    }
    builder.build().unwrap()
}

use std::sync::Arc;

/// What becomes of a call under one hook command: its text, whether it is an error, and what happened.
async fn under(when: &str, command: &str) -> (String, bool, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let trace = Trace::default();
    let hook = json!({"type": "command", "command": command, "timeout": 2});
    let settings = json!({"hooks": {when: [{"matcher": "Share", "hooks": [hook]}]}, "model": "x"});
    let runtime = runtime(folder.path(), &trace, &settings);
    let results = runtime.run_turn([call("Share", "a", 0)]).await.unwrap();
    let texts = results[0].content.iter().map(|block| match block {
        ContentBlock::Text { text } => text.clone(),
        ContentBlock::Image { .. } => String::new(),
    });
    (texts.collect::<Vec<_>>().join("\n"), results[0].is_error, trace.taken())
}

fn says(answer: &Value) -> String {
    format!("cat >/dev/null; echo '{answer}'")
}

fn decision(decision: &str) -> String {
    says(&json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": decision,
        "permissionDecisionReason": "because", "additionalContext": "note this"
    }}))
}

// spec 2.3
#[tokio::test]
async fn exit_2_refuses_with_what_the_command_says_and_so_does_anything_unexpected() {
    let (text, is_error, trace) = under("PreToolUse", "echo no way >&2; exit 2").await;
    assert!(is_error && text.contains("no way"), "{text}");
    assert_eq!(trace, [""; 0]);
    for odd in [
        "exit 1",
        "kill -9 $$",
        "echo '{\"decision\": \"perhaps\"}'",
        "echo '{\"surprise\": 1}'",
        "echo '{\"decision\": '",
        "echo '{\"hookSpecificOutput\": {\"hookEventName\": \"PreToolUse\", \"updatedInput\": {}}}'",
        "echo '{\"hookSpecificOutput\": {\"hookEventName\": \"Stop\"}}'",
        "head -c 2000000 /dev/zero",
        "/nonexistent/hook",
        // What has left its process group, and shows no mark, holds its stdout.
        "env -i setsid sleep 60 & sleep 0.5; exit 0",
        "yes",
        "yes >&2",
        "exec <&- >&- 2>&-; sleep 60",
        "printf '\\377\\376{'; exit 3",
        "echo '{\"hookSpecificOutput\": []}'",
        "echo hello",
        "echo 'warning: a line before'; echo '{\"decision\":\"block\"}'",
        "printf '\\357\\273\\277{\"decision\":\"block\"}'",
        "printf '\\0{\"decision\":\"block\"}'",
        "echo '[{\"decision\":\"block\"}]'",
        "echo deny",
        "echo '\"deny\"'",
        "echo null",
        "printf '{'; head -c 900000 /dev/zero | tr '\\0' '['",
        "sleep 60",
    ] {
        let (text, is_error, trace) = under("PreToolUse", odd).await;
        assert!(is_error && text.contains("the hook itself failed"), "{odd}: {text}");
        assert_eq!(trace, [""; 0], "{odd}: the body ran");
    }
}

// spec 2.3
#[tokio::test]
async fn a_command_may_allow_deny_ask_or_pass_on_and_add_context() {
    for passes in [
        "true",
        "echo hello >&2; echo",
        "cat >/dev/null",
        // Nothing waits for what it leaves behind, which ends.
        "sleep 60 & exit 0",
        "exec <&-; true",
        &decision("allow"),
    ] {
        let (text, is_error, trace) = under("PreToolUse", passes).await;
        assert!(!is_error && text.contains("did a"), "{passes}: {text}");
        assert_eq!(trace, ["start a", "end a"]);
    }
    let (text, is_error, _) = under("PreToolUse", &decision("deny")).await;
    assert!(is_error && text.contains("because"), "{text}");
    assert!(text.contains("[Hook additional context]\n1. note this"), "{text}");
    let (text, is_error, trace) = under("PreToolUse", &decision("ask")).await;
    assert!(!is_error, "{text}");
    assert!(trace[0].starts_with("asked") && trace[0].contains("because"), "{trace:?}");
}

// spec 2.3, 2.12
#[tokio::test]
async fn a_command_sees_the_call_as_it_runs_and_may_block_its_result() {
    let folder = tempfile::tempdir().unwrap();
    let trace = Trace::default();
    let hook = |command: &str| json!([{"hooks": [{"type": "command", "command": command}]}]);
    let settings =
        json!({"hooks": {"PreToolUse": hook("cat >pre"), "PostToolUse": hook("cat >post")}});
    let runtime = runtime(folder.path(), &trace, &settings);
    runtime.run_turn([call("Share", "a", 0)]).await.unwrap();
    let seen = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(folder.path().join(name)).unwrap()).unwrap()
    };
    let pre = seen("pre");
    assert_eq!(pre["hook_event_name"], "PreToolUse");
    assert_eq!(pre["tool_name"], "Share");
    assert_eq!(pre["tool_input"], json!({"id": "a", "ms": 0}));
    assert_eq!(pre["session_id"], "s1");
    assert_eq!(seen("post")["tool_response"]["content"][0]["text"], "did a");
    let block = says(&json!({"decision": "block", "reason": "wrong"}));
    let (text, is_error, trace) = under("PostToolUse", &block).await;
    assert!(is_error && text.contains("wrong") && !text.contains("did a"), "{text}");
    assert_eq!(trace, ["start a", "end a"]);
}

// spec 2.2
#[tokio::test]
async fn of_two_answers_in_one_the_stricter_counts() {
    let contradiction = |top: &str, word: &str| {
        says(&json!({
            "decision": top,
            "hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": word},
        }))
    };
    for (top, word) in [("block", "allow"), ("block", "ask"), ("approve", "deny")] {
        let (text, is_error, trace) = under("PreToolUse", &contradiction(top, word)).await;
        assert!(is_error && trace.is_empty(), "{top} {word}: {text}");
    }
    let (text, is_error, _) = under("PreToolUse", &contradiction("approve", "allow")).await;
    assert!(!is_error, "{text}");
}

#[test]
fn settings_that_cannot_be_understood_are_named_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.json");
    let session =
        HookSession { session_id: "s".into(), transcript_path: "/l".into(), cwd: "/".into() };
    let error = |text: &str| {
        fs::write(&path, text).unwrap();
        command_hooks(&path, &session).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(
        error("{\n  \"hooks\": 1}").contains("settings.json:2:12"),
        "{}",
        error("{\n \"hooks\": 1}")
    );
    assert!(error(r#"{"hooks": {"Stop": []}}"#).contains("hooks.Stop"));
    let bad = r#"{"hooks": {"PreToolUse": [{"matcher": "(", "hooks": []}]}}"#;
    assert!(error(bad).contains("PreToolUse[0].matcher"));
    let prompt = r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "prompt", "command": "x"}]}]}}"#;
    assert!(error(prompt).contains("only \"command\""));
    assert_eq!(error(r#"{"permissions": {"allow": []}}"#), "");
}
