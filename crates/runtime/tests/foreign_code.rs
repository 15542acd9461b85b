//! Other people's code is wherever a host, its tools, hooks, guards, approvers and listeners are asked something. Whatever it panics with,
//! errs with or returns, it is that call's own error, and the turn goes on.

use async_trait::async_trait;
use serde_json::{Value, json};
use std::fmt;
use std::sync::{Arc, Once};
use std::time::Duration;
use stockade_runtime::{
    ApprovalRequest, Approver, ApproverKind, Around, Decision, Event, EventSink, Guard, Hook,
    HookError, Next, Notice, Observer, PermissionHook, PostDecision, PostVerdict, PreDecision,
    PreVerdict, PreparedCall, RuntimeBuilder, ToolRuntime,
};
use stockade_sandbox::fake::{FakeProvider, policy};
use stockade_tools::{
    ApprovalNeed, ApprovalPreparation, CallContext, Display, FrozenInput, InterruptBehavior,
    Registry, SessionContext, Timeout, Tool, ToolError, ToolOutput, TypedTool,
};
use stockade_types::{CallId, ContentBlock, ToolCall, ToolResult};

/// Panics in the one place that it is told.
#[derive(Clone)]
struct Bomb {
    at: &'static str,
    schema: Value,
}

impl Bomb {
    fn new(at: &'static str) -> Self {
        // The panics are expected: they are not printed.
        static QUIET: Once = Once::new();
        QUIET.call_once(|| {
            let loud = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                let text = info.payload().downcast_ref::<String>();
                if !text.is_some_and(|text| text.starts_with("bomb at ")) {
                    loud(info);
                }
            }));
        });
        Self { at, schema: json!({"type": "object"}) }
    }

    fn pass(&self, place: &'static str) {
        assert!(self.at != place, "bomb at {place}");
    }
}

/// An error that cannot even be told.
#[derive(Debug)]
struct BadError(Bomb);

impl fmt::Display for BadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.pass("error display");
        f.write_str("a plain error")
    }
}

impl fmt::Debug for Bomb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bomb")
    }
}

impl std::error::Error for BadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.pass("error source");
        None
    }
}

impl Drop for BadError {
    fn drop(&mut self) {
        self.0.pass("error drop");
    }
}

#[async_trait]
impl Tool for Bomb {
    fn name(&self) -> &str {
        "Bomb"
    }

    fn description(&self) -> &str {
        ""
    }

    fn input_schema(&self) -> &Value {
        &self.schema
    }

    fn concurrency_safe(&self, _: &Value) -> Result<bool, ToolError> {
        self.pass("concurrency_safe");
        Ok(true)
    }

    fn read_only(&self, _: &Value) -> bool {
        self.pass("read_only");
        true
    }

    fn cascades_on_error(&self) -> bool {
        self.pass("cascades_on_error");
        false
    }

    fn interrupt_behavior(&self) -> InterruptBehavior {
        self.pass("interrupt_behavior");
        InterruptBehavior::Cancel
    }

    fn resolve_input(&self, arguments: &Value, _: &SessionContext) -> Result<Value, ToolError> {
        self.pass("resolve_input");
        Ok(arguments.clone())
    }

    fn approval(&self, _: &FrozenInput) -> ApprovalNeed {
        self.pass("approval");
        ApprovalNeed::Ask
    }

    async fn prepare_approval(
        &self,
        _: &FrozenInput,
        _: &CallContext,
    ) -> Result<ApprovalPreparation, ToolError> {
        self.pass("prepare_approval");
        Ok(ApprovalPreparation::default())
    }

    fn timeout(&self, _: &FrozenInput) -> Timeout {
        self.pass("timeout");
        Timeout::Default
    }

    fn cancelled_message(&self) -> Option<String> {
        self.pass("cancelled_message");
        None
    }

    async fn call(&self, _: &FrozenInput, _: &CallContext) -> Result<ToolOutput, ToolError> {
        self.pass("call");
        if self.at.starts_with("error ") {
            return Err(ToolError::Other(Box::new(BadError(self.clone()))));
        }
        Ok(ToolOutput { value: Some(json!({"x": 1})), ..ToolOutput::default() })
    }

    fn render(&self, _: &Value) -> Result<Vec<ContentBlock>, ToolError> {
        self.pass("render");
        Ok(vec![ContentBlock::text("x".repeat(1_000_000))])
    }

    fn display(&self, _: &Value) -> Option<Display> {
        self.pass("display");
        None
    }

    fn oversized(&self, _: &[ContentBlock], _: Option<&str>) -> Option<Vec<ContentBlock>> {
        self.pass("oversized");
        None
    }

    fn finalize_content(&self, content: Vec<ContentBlock>, _: bool) -> Vec<ContentBlock> {
        self.pass("finalize_content");
        content
    }
}

/// The host's side, which only has to do with calls of the tool that is a bomb too.
struct Host(Bomb);

impl Host {
    fn about(call: &PreparedCall) -> bool {
        call.tool() == "Bomb"
    }

    fn error(&self) -> HookError {
        let Bomb { schema, .. } = self.0.clone();
        Box::new(BadError(Bomb { at: "error display", schema }))
    }
}

#[async_trait]
impl Hook for Host {
    fn name(&self) -> &str {
        self.0.pass("hook name");
        "host"
    }

    async fn pre_execute(&self, call: &PreparedCall) -> Result<PreDecision, HookError> {
        if Self::about(call) {
            self.0.pass("pre_execute");
            match self.0.at {
                "hook name" => return Ok(PreVerdict::Ask("?".into()).into()),
                "hook error" => return Err(self.error()),
                _ => {}
            }
        }
        Ok(PreDecision::pass())
    }

    async fn failed(
        &self,
        _: &PreparedCall,
        _: &ToolResult,
        _: bool,
    ) -> Result<Vec<String>, HookError> {
        self.0.pass("failed");
        match self.0.at {
            "failed error" => Err(self.error()),
            _ => Ok(Vec::new()),
        }
    }

    async fn post_execute(
        &self,
        call: &PreparedCall,
        _: &ToolResult,
    ) -> Result<PostDecision, HookError> {
        if Self::about(call) {
            self.0.pass("post_execute");
            match self.0.at {
                "post error" => return Err(self.error()),
                "deep new value" => return Ok(PostVerdict::ReplaceValue(deep()).into()),
                _ => {}
            }
        }
        Ok(PostDecision::accept())
    }
}

impl Guard for Host {
    fn name(&self) -> &str {
        self.0.pass("guard name");
        "host"
    }

    fn check(&self, call: &PreparedCall) -> Result<(), String> {
        if Self::about(call) {
            self.0.pass("guard check");
            if self.0.at == "guard name" {
                return Err("no".into());
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Approver for Host {
    async fn decide(&self, _: &ApprovalRequest) -> Result<Decision, HookError> {
        self.0.pass("decide");
        match self.0.at {
            "approver error" => Err(self.error()),
            "permission settled" => Ok(Decision::Allow),
            _ => std::future::pending().await,
        }
    }

    fn kind(&self) -> ApproverKind {
        self.0.pass("kind");
        ApproverKind::Custom
    }

    fn register(&self, _: &ApprovalRequest) {
        self.0.pass("register");
    }

    fn settled(&self, _: &ApprovalRequest, _: &str) {
        self.0.pass("settled");
    }
}

#[async_trait]
impl PermissionHook for Host {
    fn name(&self) -> &str {
        self.0.pass("permission name");
        "host"
    }

    async fn decide(&self, _: &ApprovalRequest) -> Result<Option<Decision>, HookError> {
        self.0.pass("permission decide");
        match self.0.at {
            "permission error" => Err(self.error()),
            "permission settled" | "decide" | "approver error" => std::future::pending().await,
            _ => Ok(Some(Decision::Allow)),
        }
    }

    fn settled(&self, _: &ApprovalRequest, _: &str) {
        self.0.pass("permission settled");
    }
}

#[async_trait]
impl Around for Host {
    async fn around(
        &self,
        call: &PreparedCall,
        context: CallContext,
        next: Next<'_>,
    ) -> Result<ToolOutput, ToolError> {
        if Self::about(call) {
            self.0.pass("around");
        }
        next.run(context).await
    }
}

impl Observer for Host {
    fn committed(&self, _: &ToolResult) {
        self.0.pass("committed");
    }
}

impl EventSink for Host {
    fn emit(&self, _: &Event) {
        self.0.pass("emit");
    }

    fn notice(&self, _: &Notice) {
        self.0.pass("notice");
    }
}

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

fn deep() -> Value {
    let mut deep = json!(1);
    for _ in 0..200_000 {
        deep = Value::Array(vec![deep]);
    }
    deep
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
