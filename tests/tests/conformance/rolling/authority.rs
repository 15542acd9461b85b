//! What is asked before a call, and what may be asked for after it (spec 7).

use crate::hooks;
use crate::probe::{Log, Probe};
use crate::world::{builder, call, text, with};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::sync::Arc;
use stockade_runtime::{
    ApprovalReason, ApprovalRequest, Approver, Decision, HookError, PreVerdict, RuntimeBuilder,
    Settings, ToolRuntime,
};
use stockade_sandbox::fake::{FakeProvider, policy};
use stockade_tools::{Registry, ToolError};
use stockade_types::{Denial, DenialKind, Evidence, ToolResult};

/// Says yes, and notes what it was asked.
struct Yes(Log);

#[async_trait]
impl Approver for Yes {
    async fn decide(&self, request: &ApprovalRequest) -> Result<Decision, HookError> {
        for reason in &request.reasons {
            self.0.note(match reason {
                ApprovalReason::Hook { question, .. } => format!("hook: {question}"),
                ApprovalReason::Tool => "tool".to_owned(),
                ApprovalReason::Rule { .. } => "rule".to_owned(),
                ApprovalReason::Escalation { justification, .. } => {
                    format!("escalation: {justification}, {} denials", request.evidence.len())
                }
            });
        }
        Ok(Decision::Allow)
    }
}

fn shipped(log: &Log) -> RuntimeBuilder {
    ToolRuntime::builder()
        .provider(Arc::new(FakeProvider::new("/ws")))
        .policy(policy("test"))
        .settings(Settings::rolling())
        .approver(Arc::new(Yes(log.clone())))
}

fn write(permissions: Value) -> stockade_types::ToolCall {
    let arguments = json!({
        "file_path": "/out/a", "content": "x", "justification": "needed",
        "sandbox_permissions": permissions
    });
    with("Write", "w", arguments)
}

async fn one(runtime: &ToolRuntime, call: stockade_types::ToolCall) -> ToolResult {
    runtime.run_turn([call]).await.expect("no fault").remove(0)
}

// spec 7.1, path A
#[tokio::test(start_paused = true)]
async fn r_7_1_a_hook_or_a_tool_asks_before_the_call_runs() {
    let log = Log::default();
    let registry = Registry::new();
    let asks = Probe { approval: stockade_tools::ApprovalNeed::Ask, ..Probe::reads("Read", &log) };
    registry.register(Arc::new(asks)).expect("a tool");
    let runtime = builder(Settings::rolling(), registry)
        .hook(hooks::says(PreVerdict::Ask("sure?".into())))
        .approver(Arc::new(Yes(log.clone())))
        .build()
        .expect("a runtime");
    one(&runtime, call("Read", "a", 1)).await;
    assert_eq!(log.taken(), ["hook: sure?", "tool", "start a", "end a"]);
}

// spec 7.1, path B
#[tokio::test(start_paused = true)]
async fn r_7_1_what_the_sandbox_denied_may_be_asked_for_by_a_retry_of_the_same_call() {
    let log = Log::default();
    let registry = Registry::new();
    let denied = Probe::alone("Edit", &log).doing(|input, _| {
        if input["command"] == "harmless" {
            return Ok("done".into());
        }
        let denial = Denial {
            kind: DenialKind::Write,
            target: "/out/a".into(),
            evidence: Evidence::Kernel,
            grant: "[filesystem] write = [\"/out\"]".into(),
            note: String::new(),
        };
        Err(ToolError::Denied { message: "cannot write".into(), denials: vec![denial] })
    });
    registry.register(Arc::new(denied)).expect("a tool");
    let runtime = builder(Settings::rolling(), registry).approver(Arc::new(Yes(log.clone())));
    let runtime = runtime.build().expect("a runtime");
    let result = one(&runtime, with("Edit", "a", json!({}))).await;
    let said = text(&result);
    assert!(result.is_error && said.contains("retry the same call"), "{said}");
    assert!(said.contains("sandbox_permissions") && said.contains("/out/a"), "{said}");
    assert_eq!(log.taken(), ["start a", "end a"], "nobody was asked");
    let result = one(&runtime, with("Edit", "b", json!({"command": "harmless"}))).await;
    assert_eq!(text(&result), "done", "what was denied nothing is told nothing");
}

// spec 7.1, 7.2
#[tokio::test(start_paused = true)]
async fn r_7_2_a_retry_must_strictly_widen_within_the_ceiling_or_is_refused_without_asking() {
    let log = Log::default();
    let runtime = shipped(&log).build().expect("a runtime");
    let result = one(&runtime, write(json!({"write": ["/out"]}))).await;
    assert!(!result.is_error, "{result:?}");
    assert_eq!(log.taken(), ["escalation: needed, 0 denials"]);
    let policy_of = stockade_policy::Policy::load("workspace-write".as_ref()).expect("it ships");
    let writes = shipped(&log).policy(policy_of).build().expect("a runtime");
    let bounded = shipped(&log).ceiling(policy("test")).build().expect("a runtime");
    for (runtime, permissions, why) in [
        (&bounded, json!({"write": ["/out"]}), "beyond the ceiling"),
        (&bounded, json!({"full_access": true}), "beyond the ceiling"),
        (&writes, json!({"write": ["/ws/sub"]}), "sandbox_permissions"),
        (&runtime, json!({"limits": {"memroy": "1G"}}), "memroy"),
    ] {
        let result = one(runtime, write(permissions.clone())).await;
        assert!(result.is_error && text(&result).contains(why), "{permissions}: {result:?}");
        assert_eq!(log.taken(), [""; 0], "nobody was asked");
    }
}
