//! A tool whose calls take controlled time and note what happens to them.

use async_trait::async_trait;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stockade_tools::{
    ApprovalNeed, CallContext, ContextChange, FrozenInput, InterruptBehavior, Metadata, Tool,
    ToolError, ToolOutput,
};

/// What happened, in order.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub fn note(&self, what: impl Into<String>) {
        self.0.lock().expect("nobody panics with it").push(what.into());
    }

    /// What was noted since it was last asked.
    pub fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("nobody panics with it"))
    }
}

type Classifier = dyn Fn(&Value) -> Result<bool, ToolError> + Send + Sync;
/// Answers a call in place of the probe's own way.
type Body = dyn Fn(&Value, &CallContext) -> Result<ToolOutput, ToolError> + Send + Sync;

/// The tool. Its calls take `ms` milliseconds, and fail if they are told to.
pub struct Probe {
    pub name: &'static str,
    pub metadata: Metadata,
    pub cascades: bool,
    pub interrupt: InterruptBehavior,
    pub approval: ApprovalNeed,
    /// Goes on for so long when it is cancelled.
    pub drains_for: Duration,
    pub body: Option<Box<Body>>,
    /// Whether a call may run beside others, in place of what the metadata say.
    pub classifier: Option<Box<Classifier>>,
    pub schema: Value,
    pub log: Log,
}

impl Probe {
    /// Runs alone.
    pub fn alone(name: &'static str, log: &Log) -> Self {
        Self {
            name,
            metadata: Metadata::default(),
            cascades: false,
            interrupt: InterruptBehavior::Block,
            approval: ApprovalNeed::None,
            drains_for: Duration::ZERO,
            body: None,
            classifier: None,
            schema: json!({
                "type": "object",
                "properties": {
                    "ms": {"type": "integer"}, "fail": {"type": "boolean"}, "stop": {"type": "boolean"},
                    "cwd": {"type": "string"}, "command": {"type": "string"}, "read_only": {"type": "boolean"}
                },
                "additionalProperties": false
            }),
            log: log.clone(),
        }
    }

    /// Only reads, and runs beside others.
    pub fn reads(name: &'static str, log: &Log) -> Self {
        Self { metadata: Metadata::READ_ONLY, ..Self::alone(name, log) }
    }

    /// A shell: its failures cascade, and its calls run beside others if their arguments say `read_only`.
    pub fn shell(name: &'static str, log: &Log) -> Self {
        Self { cascades: true, ..Self::alone(name, log) }
    }

    pub fn classified(
        mut self,
        by: impl Fn(&Value) -> Result<bool, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.classifier = Some(Box::new(by));
        self
    }

    pub fn doing(
        mut self,
        body: impl Fn(&Value, &CallContext) -> Result<ToolOutput, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.body = Some(Box::new(body));
        self
    }
}

fn flag(arguments: &Value, name: &str) -> bool {
    arguments[name].as_bool().unwrap_or(false)
}

#[async_trait]
impl Tool for Probe {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "Takes its time."
    }

    fn input_schema(&self) -> &Value {
        &self.schema
    }

    fn metadata(&self) -> Metadata {
        self.metadata
    }

    fn concurrency_safe(&self, arguments: &Value) -> Result<bool, ToolError> {
        if let Some(classifier) = &self.classifier {
            return classifier(arguments);
        }
        Ok(self.metadata.is_parallel() || flag(arguments, "read_only"))
    }

    fn read_only(&self, arguments: &Value) -> bool {
        self.metadata.is_read_only() || flag(arguments, "read_only")
    }

    /// A parallel one that tries all the same is refused when it does.
    fn changes_context(&self) -> bool {
        !self.metadata.is_parallel()
    }

    fn cascades_on_error(&self) -> bool {
        self.cascades
    }

    fn interrupt_behavior(&self) -> InterruptBehavior {
        self.interrupt
    }

    fn approval(&self, _: &FrozenInput) -> ApprovalNeed {
        self.approval
    }

    async fn call(
        &self,
        input: &FrozenInput,
        context: &CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let (input, id) = (input.value(), &context.call_id.0);
        self.log.note(format!("start {id}"));
        let work = tokio::time::sleep(Duration::from_millis(input["ms"].as_u64().unwrap_or(0)));
        tokio::select! {
            () = work => self.log.note(format!("end {id}")),
            () = context.cancel.cancelled() => {
                tokio::time::sleep(self.drains_for).await;
                self.log.note(format!("stopped {id}"));
                return Err(ToolError::Cancelled);
            }
        }
        if let Some(body) = &self.body {
            return body(input, context);
        }
        if flag(input, "fail") {
            return Err(ToolError::Business(format!("{id} failed")));
        }
        let cwd = input["cwd"].as_str().map(PathBuf::from);
        Ok(ToolOutput {
            stop_turn: flag(input, "stop"),
            change: cwd.map(|cwd| ContextChange { cwd: Some(cwd), env: Vec::new() }),
            ..ToolOutput::text(format!("{id} in {}", context.session.cwd.display()))
        })
    }
}
