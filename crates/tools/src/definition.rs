use crate::{CallContext, FrozenInput, SessionContext, ToolError, ToolOutput};
use async_trait::async_trait;
use serde_json::Value;
use std::time::Duration;

/// A tool: what the model may call by name.
///
/// The provided methods answer as a tool must that declares nothing: exclusive, not read-only, no approval of
/// its own.
#[async_trait]
pub trait Tool: Send + Sync {
    /// The name that the model uses. Asked once, at registration.
    fn name(&self) -> &str;

    /// What it does, for the model.
    fn description(&self) -> &str;

    /// The JSON Schema of its arguments: an object's. Asked once, at registration.
    fn input_schema(&self) -> &Value;

    /// Whether a call with these validated arguments may run beside others (spec 1.2). Anything but a definite
    /// yes, a panic included, makes the call exclusive.
    fn concurrency_safe(&self, _arguments: &Value) -> Result<bool, ToolError> {
        Ok(false)
    }

    /// Whether a call with these validated arguments only reads.
    fn read_only(&self, _arguments: &Value) -> bool {
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

    /// How long this call may take (spec 2.8).
    fn timeout(&self, _input: &FrozenInput) -> Timeout {
        Timeout::Default
    }

    /// Does it. When `context.cancel` fires the body should end soon; one that does not is dropped after a grace.
    async fn call(
        &self,
        input: &FrozenInput,
        context: &CallContext,
    ) -> Result<ToolOutput, ToolError>;
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

/// A call's time budget. It starts when the body starts: waiting for a person never counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// The executor's default.
    Default,
    /// This long.
    After(Duration),
    /// The tool ends itself after this long; the executor's watchdog comes a grace later.
    SelfTimed(Duration),
    /// No timer.
    None,
}
