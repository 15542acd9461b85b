//! Other people's code is wherever a host, its tools, hooks, guards, approvers and listeners are asked something. Whatever it panics with,
//! errs with or returns, it is that call's own error, and the turn goes on.

mod hostile;

use async_trait::async_trait;
use hostile::{Bomb, Host, deep};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use stockade_runtime::{Event, EventSink, RuntimeBuilder, ToolRuntime};
use stockade_sandbox::fake::{FakeProvider, policy};
use stockade_tools::{CallContext, FrozenInput, Registry, Tool, ToolError, ToolOutput, TypedTool};
use stockade_types::{CallId, ToolCall, ToolResult};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn builder(registry: Registry) -> RuntimeBuilder {
    let plain = |_: Nothing, _| async { Ok::<_, ToolError>("plain") };
    registry.register(Arc::new(TypedTool::new("Plain", "", plain).read_only())).unwrap();
    ToolRuntime::builder()
        .provider(Arc::new(FakeProvider::new("/ws")))
        .policy(policy("test"))
        .registry(Arc::new(registry))
}

fn host(bomb: Bomb) -> ToolRuntime {
    let host = Arc::new(Host(bomb.clone()));
    let registry = Registry::new();
    registry.register(Arc::new(bomb)).unwrap();
    builder(registry)
        .hook(host.clone())
        .guard(host.clone())
        .approver(host.clone())
        .permission_hook(host.clone())
        .around(host.clone())
        .observer(host.clone())
        .events(host)
        .build()
        .unwrap()
}

fn call(id: &str, name: &str) -> ToolCall {
    ToolCall { id: CallId(id.into()), name: name.into(), arguments: json!({}) }
}

fn text(result: &ToolResult) -> String {
    serde_json::to_string(&result.content).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_panic_or_an_error_of_foreign_code_is_its_calls_own_and_the_turn_goes_on() {
    // Where the call fails, and where it does not even do that.
    let fails = [
        "resolve_input",
        "approval",
        "call",
        "render",
        "error display",
        "error source",
        "error drop",
        "pre_execute",
        "hook error",
        "post_execute",
        "post error",
        "deep new value",
        "guard check",
        "guard name",
        "decide",
        "approver error",
        "register",
        "permission decide",
        "permission error",
        "around",
    ];
    let harmless = [
        "concurrency_safe",
        "read_only",
        "cascades_on_error",
        "interrupt_behavior",
        "prepare_approval",
        "prepare_approval error",
        "concurrency_safe error",
        "timeout",
        "cancelled_message",
        "display",
        "oversized",
        "finalize_content",
        "hook name",
        "failed",
        "failed error",
        "kind",
        "settled",
        "permission name",
        "permission settled",
        "committed",
        "emit",
        "notice",
    ];
    for (at, is_error) in
        fails.map(|at| (at, true)).into_iter().chain(harmless.map(|at| (at, false)))
    {
        let runtime = host(Bomb::new(at));
        let calls = [call("a", "Plain"), call("b", "Bomb"), call("c", "Plain")];
        let run = tokio::time::timeout(Duration::from_secs(3600), runtime.run_groups(calls));
        let results = run.await.unwrap_or_else(|_| panic!("{at}: it hangs"));
        let results = results.unwrap_or_else(|fault| panic!("{at}: {fault}"));
        assert_eq!(results.len(), 3, "{at}");
        assert_eq!((results[0].is_error, results[2].is_error), (false, false), "{at}: {results:?}");
        let said: String = text(&results[1]).chars().take(300).collect();
        assert_eq!(results[1].is_error, is_error, "{at}: {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_that_a_tool_cannot_answer_blocks() {
    let runtime = host(Bomb::new("interrupt_behavior"));
    let mut turn = runtime.open_turn();
    for (id, name) in [("a", "Plain"), ("b", "Bomb"), ("c", "Bomb")] {
        turn.submit(call(id, name)).unwrap();
    }
    turn.interrupt();
    turn.close();
    let mut errors = Vec::new();
    while let Some(result) = turn.next_result().await.unwrap() {
        errors.push(result.is_error);
    }
    assert_eq!(errors, [false, false, false]);
}

/// What a tool makes of its one call.
async fn made(tool: impl Tool + 'static) -> Vec<ToolResult> {
    let registry = Registry::new();
    registry.register(Arc::new(tool)).unwrap();
    let runtime = builder(registry).build().unwrap();
    runtime.run_turn([call("a", "Odd"), call("b", "Plain")]).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn values_as_deep_as_a_stack_are_refused_wherever_they_come_from() {
    let value = |_: Nothing, _| async { Ok::<_, ToolError>(ToolOutput::value(deep())) };
    let results = made(TypedTool::new("Odd", "", value)).await;
    assert!(results[0].is_error && text(&results[0]).contains("levels deep"), "{results:?}");
    assert!(!results[1].is_error);
    // One that comes when nobody wants it any more.
    let late = |_: Nothing, context: CallContext| async move {
        context.cancel.cancelled().await;
        Ok::<_, ToolError>(ToolOutput::value(deep()))
    };
    let rules = stockade_tools::TimeoutRules {
        default: Some(Duration::from_millis(5)),
        ..Default::default()
    };
    let results = made(TypedTool::new("Odd", "", late).timeouts(rules)).await;
    assert!(results[0].is_error && text(&results[0]).contains("timed out"), "{results:?}");
    // One that is only reported.
    struct Prints;
    impl EventSink for Prints {
        fn emit(&self, event: &Event) {
            assert!(serde_json::to_string(event).is_ok());
        }
    }
    let registry = Registry::new();
    let reports = |_: Nothing, context: CallContext| async move {
        (context.progress)(deep());
        Ok::<_, ToolError>("reported")
    };
    registry.register(Arc::new(TypedTool::new("Odd", "", reports))).unwrap();
    let runtime = builder(registry).events(Arc::new(Prints)).build().unwrap();
    let results = runtime.run_turn([call("a", "Odd")]).await.unwrap();
    assert!(!results[0].is_error, "{results:?}");
}

#[tokio::test(start_paused = true)]
async fn fifty_megabytes_of_arguments_reach_the_tool_and_200_levels_do_not() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Large {
        content: Value,
    }
    let registry = Registry::new();
    let length = |large: Large, _| async move {
        Ok::<_, ToolError>(large.content.as_str().map_or(0, str::len).to_string())
    };
    registry.register(Arc::new(TypedTool::new("Length", "", length).read_only())).unwrap();
    let runtime = builder(registry).build().unwrap();
    let with = |id: &str, content: Value| ToolCall {
        id: CallId(id.into()),
        name: "Length".into(),
        arguments: json!({ "content": content }),
    };
    let mut nested = json!(1);
    for _ in 0..200 {
        nested = json!({ "a": nested });
    }
    let calls = [with("a", json!("x".repeat(50_000_000))), with("b", nested)];
    let results = runtime.run_turn(calls).await.unwrap();
    assert!(text(&results[0]).contains("50000000") && !results[0].is_error);
    assert!(text(&results[1]).contains("nested more than 100 levels deep") && results[1].is_error);
}

/// A schema that comes from elsewhere: from a server of tools, say.
struct Schema(Value);

#[async_trait]
impl Tool for Schema {
    fn name(&self) -> &str {
        "Odd"
    }

    fn description(&self) -> &str {
        ""
    }

    fn input_schema(&self) -> &Value {
        &self.0
    }

    async fn call(&self, _: &FrozenInput, _: &CallContext) -> Result<ToolOutput, ToolError> {
        Ok("ran".into())
    }
}

// spec 3.4
#[tokio::test(start_paused = true)]
async fn a_schema_that_never_ends_is_an_error_and_no_end_of_the_process() {
    let mut nested = json!({"type": "object"});
    for _ in 0..200_000 {
        let mut outer = serde_json::Map::new();
        outer.insert("type".into(), "object".into());
        outer.insert("not".into(), nested);
        nested = Value::Object(outer);
    }
    let tool = Arc::new(Schema(nested));
    // Its end would be that of this test.
    std::mem::forget(Arc::clone(&tool));
    let error = Registry::new().register(tool);
    assert!(error.unwrap_err().to_string().contains("levels deep"));
    // One that refers to itself is none that anything fits.
    for endless in [
        json!({"type": "object", "$ref": "#"}),
        json!({"type": "object", "allOf": [{"$ref": "#"}]}),
        json!({"type": "object", "$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
    ] {
        let registry = Registry::new();
        if registry.register(Arc::new(Schema(endless))).is_ok() {
            let runtime = builder(registry).build().unwrap();
            let results = runtime.run_turn([call("a", "Odd"), call("b", "Plain")]).await.unwrap();
            assert!(!results[1].is_error);
        }
    }
}

/// Takes its own last place in the registry away while it runs, and panics when it is let go of.
struct Leaves(std::sync::Weak<Registry>, Value);

impl Drop for Leaves {
    fn drop(&mut self) {
        // A quiet one, as the others here.
        std::panic::resume_unwind(Box::new("bomb at tool drop".to_owned()));
    }
}

#[async_trait]
impl Tool for Leaves {
    fn name(&self) -> &str {
        "Leaves"
    }

    fn description(&self) -> &str {
        ""
    }

    fn input_schema(&self) -> &Value {
        &self.1
    }

    fn concurrency_safe(&self, _: &Value) -> Result<bool, ToolError> {
        Ok(true)
    }

    async fn call(&self, _: &FrozenInput, _: &CallContext) -> Result<ToolOutput, ToolError> {
        if let Some(registry) = self.0.upgrade() {
            registry.remove("Leaves");
        }
        Ok("left".into())
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_panics_when_the_last_of_it_is_let_go_of_harms_no_turn() {
    let registry = Arc::new(Registry::new());
    let plain = |_: Nothing, _| async { Ok::<_, ToolError>("plain") };
    registry.register(Arc::new(TypedTool::new("Plain", "", plain))).unwrap();
    let schema = json!({"type": "object"});
    registry.register(Arc::new(Leaves(Arc::downgrade(&registry), schema.clone()))).unwrap();
    let runtime = ToolRuntime::builder()
        .provider(Arc::new(FakeProvider::new("/ws")))
        .policy(policy("test"))
        .registry(Arc::clone(&registry))
        .build()
        .unwrap();
    let calls = [call("a", "Leaves"), call("b", "Plain"), call("c", "Leaves")];
    let results = runtime.run_turn(calls).await.unwrap();
    assert_eq!(results.iter().map(|r| r.is_error).collect::<Vec<_>>(), [false, false, true]);
    assert!(text(&results[0]).contains("left"), "{results:?}");
    // Replaced, removed, or refused at registration: nor is it its host's.
    registry.register(Arc::new(Leaves(Arc::downgrade(&registry), schema.clone()))).unwrap();
    registry.replace(Arc::new(Leaves(Arc::downgrade(&registry), schema))).unwrap();
    assert!(registry.remove("Leaves"));
}

#[tokio::test(start_paused = true)]
async fn odd_ids_and_names_and_ten_thousand_calls_whose_tool_comes_and_goes_are_each_answered() {
    let registry = Arc::new(Registry::new());
    let weak = Arc::downgrade(&registry);
    let flips = move |_: Nothing, _| {
        let plain = |_: Nothing, _| async { Ok::<_, ToolError>("plain") };
        if let Some(registry) = weak.upgrade()
            && !registry.remove("Flip")
        {
            registry.replace(Arc::new(TypedTool::new("Flip", "", plain).read_only())).unwrap();
        }
        async { Ok::<_, ToolError>("flipped") }
    };
    registry.register(Arc::new(TypedTool::new("Flips", "", flips))).unwrap();
    let runtime = ToolRuntime::builder()
        .provider(Arc::new(FakeProvider::new("/ws")))
        .policy(policy("test"))
        .registry(registry)
        .build()
        .unwrap();
    let long = "x".repeat(1_000_000);
    let odd = ["", " ", "\0", "../../etc", "\u{202e}", "a\nb", "{\"a\":1}", &long];
    let mut calls: Vec<ToolCall> = odd.iter().map(|id| call(id, "Flip")).collect();
    calls.extend(odd.iter().map(|name| call(&format!("name {}", name.len()), name)));
    calls.extend((0..10_000).map(|n| call(&n.to_string(), ["Flips", "Flip"][n % 2])));
    let ids: Vec<_> = calls.iter().map(|call| call.id.clone()).collect();
    let results = runtime.run_turn(calls).await.unwrap();
    assert_eq!(results.iter().map(|result| result.call_id.clone()).collect::<Vec<_>>(), ids);
    // It was there for half of those that asked for it.
    let there = results.iter().filter(|result| text(result).contains("plain")).count();
    assert_eq!(there, 2_500);
}
