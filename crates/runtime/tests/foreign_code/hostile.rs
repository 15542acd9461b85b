//! What a host supplies at its worst: each part panics, or fails, where it is told to.

use async_trait::async_trait;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Once;
use stockade_runtime::{
    ApprovalRequest, Approver, ApproverKind, Around, Decision, Event, EventSink, FailureDecision,
    Guard, Hook, HookError, Next, Notice, Observer, PermissionHook, PostDecision, PostVerdict,
    PreDecision, PreVerdict, PreparedCall,
};
use stockade_tools::{
    ApprovalNeed, ApprovalPreparation, CallContext, Display, FrozenInput, InterruptBehavior,
    SessionContext, Timeout, Tool, ToolError, ToolOutput,
};
use stockade_types::{ContentBlock, ToolResult};

/// Panics in the one place that it is told.
#[derive(Clone)]
pub struct Bomb {
    at: &'static str,
    schema: Value,
}

impl Bomb {
    pub fn new(at: &'static str) -> Self {
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

    /// An error that panics wherever it is touched.
    fn error(&self) -> ToolError {
        ToolError::Other(Box::new(BadError(Self { at: "error drop", ..self.clone() })))
    }

    fn pass(&self, place: &'static str) {
        assert!(self.at != place, "bomb at {place}");
    }
}

/// An error that cannot even be told.
#[derive(Debug)]
pub struct BadError(Bomb);

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
        match self.at {
            "concurrency_safe error" => Err(self.error()),
            _ => Ok(true),
        }
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
        match self.at {
            "prepare_approval error" => Err(self.error()),
            _ => Ok(ApprovalPreparation::default()),
        }
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
pub struct Host(pub Bomb);

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
    ) -> Result<FailureDecision, HookError> {
        self.0.pass("failed");
        match self.0.at {
            "failed error" => Err(self.error()),
            _ => Ok(FailureDecision::default()),
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

pub fn deep() -> Value {
    let mut deep = json!(1);
    for _ in 0..200_000 {
        deep = Value::Array(vec![deep]);
    }
    deep
}
