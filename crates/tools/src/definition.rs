use crate::{
    CallContext, Display, FrozenInput, Metadata, ResultBudget, SessionContext, ToolError,
    ToolOutput,
};
use async_trait::async_trait;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use stockade_types::ContentBlock;

/// A tool: what the model may call by name.
///
/// The provided methods answer as a tool must that declares nothing: exclusive, not read-only, no approval of
/// its own. [`crate::TypedTool`] makes one of a Rust type and a closure.
#[async_trait]
pub trait Tool: Send + Sync {
    /// The name that the model uses. Asked once, at registration.
    fn name(&self) -> &str;

    /// What it does, for the model.
    fn description(&self) -> &str;

    /// The JSON Schema of its arguments: an object's. Asked once, at registration.
    fn input_schema(&self) -> &Value;

    /// The JSON Schema of its output's value, where it has one: an output without a value that fits fails (spec 2.11).
    /// Asked once, at registration.
    fn output_schema(&self) -> Option<&Value> {
        None
    }

    /// What it says of itself without seeing arguments (spec 1.3).
    fn metadata(&self) -> Metadata {
        Metadata::default()
    }

    /// Whether a call with these validated arguments may run beside others (spec 1.2). Anything but a definite
    /// yes, a panic included, makes the call exclusive.
    fn concurrency_safe(&self, _arguments: &Value) -> Result<bool, ToolError> {
        Ok(self.metadata().is_parallel())
    }

    /// Whether a call with these validated arguments only reads.
    fn read_only(&self, _arguments: &Value) -> bool {
        self.metadata().is_read_only()
    }

    /// Whether a failing call of it cancels its siblings (spec 1.11).
    fn cascades_on_error(&self) -> bool {
        false
    }

    /// What becomes of a call when the user sends a new message (spec 1.14).
    fn interrupt_behavior(&self) -> InterruptBehavior {
        InterruptBehavior::Block
    }

    /// Whether its calls may return a [`crate::ContextChange`]. Only exclusive ones may (spec 1.20); a change that was not declared
    /// here is refused. Asked once, at registration.
    fn changes_context(&self) -> bool {
        false
    }

    /// Makes the validated arguments definite: absolute paths, defaults filled in (spec 2.2). From here on they
    /// are frozen. It must not touch anything outside.
    fn resolve_input(
        &self,
        arguments: &Value,
        _session: &SessionContext,
    ) -> Result<Value, ToolError> {
        Ok(arguments.clone())
    }

    /// Whether this call must be approved although no hook or rule asks for it.
    fn approval(&self, _input: &FrozenInput) -> ApprovalNeed {
        ApprovalNeed::None
    }

    /// The path that the call acts on in its cell, if it is one path: an approval is of the place that it leads to then, and
    /// [`CallContext::approved_place`] tells the body.
    fn acts_on(&self, _input: &FrozenInput) -> Option<PathBuf> {
        None
    }

    /// Looks, before anybody is asked, at what the call would change; nothing may be changed by it. `context` is of the session's own
    /// policy.
    async fn prepare_approval(
        &self,
        _input: &FrozenInput,
        _context: &CallContext,
    ) -> Result<ApprovalPreparation, ToolError> {
        Ok(ApprovalPreparation::default())
    }

    /// How long this call may take, where the tool itself knows (spec 2.8).
    fn timeout(&self, _input: &FrozenInput) -> Timeout {
        Timeout::Default
    }

    /// The rules for calls whose time [`Tool::timeout`] leaves open. Asked once, at registration.
    fn timeout_rules(&self) -> TimeoutRules {
        TimeoutRules::default()
    }

    /// What the model may be given of a result (spec 8.1). Asked once, at registration.
    fn budget(&self) -> ResultBudget {
        ResultBudget::default()
    }

    /// What the model is told when a call that ran was cancelled (spec 2.10), in place of the usual text.
    fn cancelled_message(&self) -> Option<String> {
        None
    }

    /// Does it. When `context.cancel` fires the body should end soon; one that does not is dropped after a grace.
    ///
    /// It runs on a task of its own and must give its thread back: what waits without `await`, or computes for long, goes through
    /// [`crate::blocking`]. On a runtime of several threads a body that blocks one holds up no other call, as long as one is left; on a
    /// runtime of one thread everything waits for it, deadlines too; and so does, on any, a task of the host's own that the body woke just
    /// before, as by a channel of theirs. It cannot be stopped either: its call gets its result at
    /// its deadline, with a line that its code may still be running.
    async fn call(
        &self,
        input: &FrozenInput,
        context: &CallContext,
    ) -> Result<ToolOutput, ToolError>;

    /// The content of a value, for an output that has no content of its own, and for a value that a hook put in its place
    /// (spec 2.12, 3.4).
    fn render(&self, value: &Value) -> Result<Vec<ContentBlock>, ToolError> {
        let text = serde_json::to_string_pretty(value).map_err(|e| ToolError::Other(e.into()))?;
        Ok(vec![ContentBlock::text(text)])
    }

    /// Whether any of [`Tool::display`], [`Tool::oversized`] and [`Tool::finalize_content`] is its own. A tool that says no is asked none of
    /// the three, and its results are committed without a task that could wait for them. Asked once, at registration.
    fn has_last_word(&self) -> bool {
        true
    }

    /// What people are shown of a value (spec 8.4), where the output brings nothing of its own.
    fn display(&self, _value: &Value) -> Option<Display> {
        None
    }

    /// The tool's own envelope for content over its budget, in place of the usual one (spec 8.2); `place` is where all of it is
    /// kept, if it is.
    fn oversized(
        &self,
        _content: &[ContentBlock],
        _place: Option<&str>,
    ) -> Option<Vec<ContentBlock>> {
        None
    }

    /// Its last word on the content, after the hooks (spec 2.13).
    fn finalize_content(&self, content: Vec<ContentBlock>, _is_error: bool) -> Vec<ContentBlock> {
        content
    }
}

/// What a tool has to say before somebody is asked (spec 2.6).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApprovalPreparation {
    /// The question need not be asked, if the tool is the only one that asks.
    pub allow: bool,
    /// What the call would change.
    pub preview: Option<Display>,
}

/// Whether a tool asks for an approval (spec 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalNeed {
    /// No.
    None,
    /// Yes, unless a hook allows the call.
    Ask,
    /// Yes, whatever hooks say.
    AlwaysAsk,
}

/// What becomes of a running call when the user sends a new message (spec 1.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptBehavior {
    /// It runs on.
    Block,
    /// It is stopped.
    Cancel,
}

/// A call's time budget. It starts when the body starts: waiting for a person never counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// What [`Tool::timeout_rules`] and the executor say.
    Default,
    /// This long.
    After(Duration),
    /// The tool ends itself after this long; the executor's watchdog comes a grace later.
    SelfTimed(Duration),
    /// No timer.
    None,
}

/// A tool's time budgets that do not depend on arguments (spec 2.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeoutRules {
    /// A call may choose its own with `timeout_ms` or `timeout`, in milliseconds.
    pub call_may_choose: bool,
    /// When the call chooses none; `None`: the executor's default.
    pub default: Option<Duration>,
    /// At most; `None`: no bound.
    pub max: Option<Duration>,
}
