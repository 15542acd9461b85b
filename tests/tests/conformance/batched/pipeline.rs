//! The way of one call (spec 2).

use super::{one, says};
use crate::hooks::{self, before};
use crate::probe::{Log, Probe};
use crate::world::{builder, call, rest, text, tools, wait, with};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use stockade_runtime::{
    FailureDecision, Hook, HookError, PreDecision, PreVerdict, PreparedCall, Settings,
};
use stockade_tools::{
    CallContext, FrozenInput, Registry, Timeout, TimeoutRules, Tool, ToolError, ToolOutput,
    TypedTool,
};
use stockade_types::ToolResult;
use tokio::time::Instant;

// spec 2.2: what is approved is what runs
#[tokio::test(start_paused = true)]
async fn b_2_2_hooks_and_body_see_the_same_frozen_arguments_and_each_call_has_a_token() {
    struct Reports(Log, Value);
    #[async_trait]
    impl Tool for Reports {
        fn name(&self) -> &str {
            "Reports"
        }
        fn description(&self) -> &str {
            ""
        }
        fn input_schema(&self) -> &Value {
            &self.1
        }
        fn resolve_input(
            &self,
            _: &Value,
            session: &stockade_tools::SessionContext,
        ) -> Result<Value, ToolError> {
            Ok(json!({"path": session.cwd.join("x")}))
        }
        async fn call(
            &self,
            input: &FrozenInput,
            _: &CallContext,
        ) -> Result<ToolOutput, ToolError> {
            self.0.note(format!("hook {:p} {}", input.value(), input.value()));
            Ok("".into())
        }
    }
    let log = Log::default();
    let registry = Registry::new();
    let schema = json!({"type": "object"});
    registry.register(Arc::new(Reports(log.clone(), schema))).expect("a tool");
    let seen = log.clone();
    let sees = before("sees", move |call| {
        seen.note(format!("hook {:p} {}", call.input().value(), call.input().value()));
        seen.note(format!("{:?}", call.token()));
        PreDecision::pass()
    });
    let runtime = builder(Settings::batched(), registry).hook(sees);
    let runtime = runtime.build().expect("a runtime");
    let calls = [with("Reports", "a", json!({"path": "x"})), with("Reports", "b", json!({}))];
    runtime.run_turn(calls).await.expect("no fault");
    let noted = log.taken();
    assert_eq!(noted[0], noted[2], "one value, at one place");
    assert!(noted[0].ends_with("{\"path\":\"/ws/x\"}"));
    assert_ne!(noted[1], noted[4], "tokens are unique");
}

// spec 2.3
#[tokio::test(start_paused = true)]
async fn b_2_3_an_allow_spares_a_confirmation_but_not_one_that_is_always_asked() {
    use stockade_tools::ApprovalNeed::{AlwaysAsk, Ask, None as Never};
    let log = Log::default();
    let ask = || PreVerdict::Ask("sure?".into());
    for (need, verdicts, runs) in [
        (Ask, vec![], false),
        (Ask, vec![PreVerdict::Allow], true),
        (Ask, vec![PreVerdict::Allow, ask()], false),
        (AlwaysAsk, vec![PreVerdict::Allow], false),
        (Never, vec![], true),
        (Never, vec![ask()], false),
        (Never, vec![PreVerdict::Allow, PreVerdict::Deny("no".into())], false),
    ] {
        let registry = Registry::new();
        let probe = Probe { approval: need, ..Probe::reads("Read", &log) };
        registry.register(Arc::new(probe)).expect("a tool");
        let mut builder = builder(Settings::batched(), registry);
        for verdict in verdicts.clone() {
            builder = builder.hook(hooks::says(verdict));
        }
        let runtime = builder.build().expect("a runtime");
        let results = runtime.run_turn([call("Read", "a", 1)]).await.expect("no fault");
        assert_eq!(!results[0].is_error, runs, "{need:?} {verdicts:?}: {results:?}");
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[allow(dead_code)]
struct Timed {
    timeout_ms: Option<u64>,
}

fn hangs(rules: TimeoutRules) -> Registry {
    let registry = Registry::new();
    let body = |_: Timed, context: CallContext| async move {
        context.cancel.cancelled().await;
        Ok::<_, ToolError>("quiet")
    };
    registry.register(Arc::new(TypedTool::new("Hang", "", body).timeouts(rules))).expect("a tool");
    registry
}

// spec 2.8
#[tokio::test(start_paused = true)]
async fn b_2_8_the_calls_own_time_then_the_tools_then_the_executors_capped_and_never_nothing() {
    let seconds = |s| Some(Duration::from_secs(s));
    let rules = |call_may_choose, default, max| TimeoutRules { call_may_choose, default, max };
    let none = json!({});
    for (rules, arguments, ms) in [
        (rules(false, None, None), &none, 300_000),
        (rules(false, seconds(7), None), &none, 7_000),
        (rules(true, seconds(7), None), &json!({"timeout_ms": 50}), 50),
        (rules(false, seconds(7), None), &json!({"timeout_ms": 50}), 7_000),
        (rules(true, seconds(7), seconds(9)), &json!({"timeout_ms": 50_000}), 9_000),
        (rules(true, None, seconds(9)), &none, 9_000),
        (rules(true, None, None), &json!({"timeout_ms": 0}), 1),
    ] {
        let begun = Instant::now();
        let result = one(hangs(rules), with("Hang", "a", arguments.clone())).await;
        assert_eq!(text(&result), format!("Tool execution timed out after {ms}ms"));
        assert_eq!(begun.elapsed().as_millis(), ms);
    }
}

// spec 2.8: no timer, and a tool that times itself
#[tokio::test(start_paused = true)]
async fn b_2_8_no_timer_means_none_and_a_tools_own_word_on_its_arguments_comes_first() {
    struct Own(Timeout, Value);
    #[async_trait]
    impl Tool for Own {
        fn name(&self) -> &str {
            "Own"
        }
        fn description(&self) -> &str {
            ""
        }
        fn input_schema(&self) -> &Value {
            &self.1
        }
        fn timeout(&self, _: &FrozenInput) -> Timeout {
            self.0
        }
        async fn call(&self, _: &FrozenInput, cx: &CallContext) -> Result<ToolOutput, ToolError> {
            tokio::select! {
                () = wait(1_000_000) => Ok("at last".into()),
                () = cx.cancel.cancelled() => Ok("stopped".into()),
            }
        }
    }
    let second = Duration::from_secs(1);
    for (timeout, told, took) in [
        (Timeout::None, "at last", 1_000_000),
        (Timeout::After(second), "Tool execution timed out after 1000ms", 1000),
        (Timeout::SelfTimed(second), "Tool execution timed out after 1000ms", 7000),
    ] {
        let registry = Registry::new();
        let schema = json!({"type": "object"});
        registry.register(Arc::new(Own(timeout, schema))).expect("a tool");
        let begun = Instant::now();
        assert_eq!(text(&one(registry, with("Own", "a", json!({}))).await), told);
        assert_eq!(begun.elapsed().as_millis(), took);
    }
}

// spec 2.9
#[tokio::test(start_paused = true)]
async fn b_2_9_time_in_a_queue_does_not_count_and_the_error_says_how_long_it_was() {
    let registry = Registry::new();
    let body = |_: Timed, context: CallContext| async move {
        wait(30).await;
        context.queueing.wait(wait(5000)).await;
        wait(100_000).await;
        Ok::<_, ToolError>("done")
    };
    let rules = TimeoutRules { default: Some(Duration::from_millis(100)), ..Default::default() };
    registry.register(Arc::new(TypedTool::new("Pool", "", body).timeouts(rules))).expect("a tool");
    let begun = Instant::now();
    let result = one(registry, with("Pool", "a", json!({}))).await;
    let expected = "Tool execution timed out after 100ms (queued_ms: 5000, which did not count)";
    assert_eq!(text(&result), expected);
    // The body hears nothing of its cancellation, and is dropped after the drain of 6 s.
    assert_eq!(begun.elapsed().as_millis(), 30 + 5000 + 70 + 6000);
}

// spec 2.10
#[tokio::test(start_paused = true)]
async fn b_2_10_cancel_and_timeout_run_the_failure_hooks_and_a_cancel_is_told_as_an_interrupt() {
    struct Failures(Log);
    #[async_trait]
    impl Hook for Failures {
        fn name(&self) -> &str {
            "failures"
        }
        async fn failed(
            &self,
            call: &PreparedCall,
            _: &ToolResult,
            is_interrupt: bool,
        ) -> Result<FailureDecision, HookError> {
            self.0.note(format!("{} {is_interrupt}", call.id()));
            Ok(FailureDecision { context: vec!["a note".into()], stop_turn: false })
        }
    }
    let log = Log::default();
    let rules = TimeoutRules { default: Some(Duration::from_millis(10)), ..Default::default() };
    let runtime = builder(Settings::batched(), hangs(rules)).hook(Arc::new(Failures(log.clone())));
    let runtime = runtime.build().expect("a runtime");
    runtime.run_turn([with("Hang", "timed", json!({}))]).await.expect("no fault");
    let mut turn = runtime.open_turn();
    turn.submit(with("Hang", "cancelled", json!({}))).expect("open");
    turn.close();
    wait(5).await;
    turn.abort();
    let results = rest(&mut turn).await;
    assert!(text(&results[0]).contains("[Hook additional context]\n1. a note"));
    assert_eq!(log.taken(), ["timed false", "cancelled true"]);
}

// spec 2.14
#[tokio::test(start_paused = true)]
async fn b_2_14_every_failure_is_a_result_in_the_words_that_are_meant_for_the_model() {
    #[derive(Debug, thiserror::Error)]
    #[error("")]
    struct Wrapper(#[source] std::io::Error);
    let said = |registry| one(registry, call("Say", "a", 1));
    let business = said(says(|| Err(ToolError::Business("no such file".into())))).await;
    assert_eq!(text(&business), "<tool_use_error>no such file</tool_use_error>");
    let cause = || std::io::Error::other("the   disk\n is on fire");
    let wrapped = said(says(move || Err(ToolError::Other(Box::new(Wrapper(cause())))))).await;
    assert_eq!(text(&wrapped), "the disk is on fire");
    let long = said(says(|| Err(ToolError::Lost("x".repeat(600))))).await;
    assert_eq!(text(&long).chars().count(), 500);
    let invalid = one(tools(&Log::default()), with("Read", "a", json!({"ms": "soon"}))).await;
    assert!(text(&invalid).starts_with("<tool_use_error>InputValidationError: Read: "));
    let itself = said(says(|| Ok(ToolOutput::value(json!({"isError": true, "why": "odd"}))))).await;
    assert!(itself.is_error && text(&itself).contains("odd"));
    for result in [business, wrapped, long, invalid] {
        assert!(result.is_error);
    }
}

// spec 2.15
#[tokio::test(start_paused = true)]
async fn b_2_15_hook_context_is_appended_numbered_to_refusals_too() {
    for verdict in [PreVerdict::Pass, PreVerdict::Deny("no".into())] {
        let log = Log::default();
        let runtime = builder(Settings::batched(), tools(&log)).hook(before("notes", move |_| {
            let context = vec!["one".to_owned(), "two".to_owned()];
            PreDecision { verdict: verdict.clone(), context }
        }));
        let runtime = runtime.build().expect("a runtime");
        let results = runtime.run_turn([call("Read", "a", 1)]).await.expect("no fault");
        assert!(text(&results[0]).ends_with("\n[Hook additional context]\n1. one\n2. two"));
    }
}

// spec 2.16
#[tokio::test(start_paused = true)]
async fn b_2_16_empty_output_is_said_to_be_empty() {
    for empty in ["", " \n"] {
        let result = one(says(move || Ok(empty.into())), call("Say", "a", 1)).await;
        assert_eq!(text(&result), "(Say completed with no output)");
    }
}
