mod aborting;
mod budget;
mod hooks;
mod ordering;
mod pipeline;
mod recording;

use crate::{RuntimeBuilder, ToolRuntime};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use stockade_sandbox::fake::{FakeProvider, policy};
use stockade_tools::{CallContext, FrozenInput, Registry, Tool, ToolError, ToolOutput};
use stockade_types::{CallId, ContentBlock, ToolCall, ToolResult};

/// What happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Trace(Arc<Mutex<Vec<String>>>);

impl Trace {
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub(crate) fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

type Classifier = dyn Fn(&Value) -> Result<bool, ToolError> + Send + Sync;
type Body = dyn Fn(&Value) -> Result<ToolOutput, ToolError> + Send + Sync;

/// A tool that waits `ms` milliseconds and notes its start and end.
struct Probe {
    name: &'static str,
    schema: Value,
    trace: Trace,
    classifier: Box<Classifier>,
    cascades: bool,
    body: Box<Body>,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Probe {
    fn new(name: &'static str, trace: &Trace, parallel: bool) -> Self {
        Self {
            name,
            schema: json!({
                "type": "object",
                "properties": {"id": {"type": "string"}, "ms": {"type": "integer"}, "path": {"type": "string"}},
                "additionalProperties": false
            }),
            trace: trace.clone(),
            classifier: Box::new(move |_| Ok(parallel)),
            cascades: false,
            body: Box::new(|input| Ok(ToolOutput::text(format!("did {}", id_of(input))))),
            running: Arc::default(),
            most: Arc::default(),
        }
    }

    fn classified(
        mut self,
        by: impl Fn(&Value) -> Result<bool, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.classifier = Box::new(by);
        self
    }

    fn doing(
        mut self,
        body: impl Fn(&Value) -> Result<ToolOutput, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.body = Box::new(body);
        self
    }
}

fn id_of(input: &Value) -> &str {
    input.get("id").and_then(Value::as_str).unwrap_or("?")
}

#[async_trait]
impl Tool for Probe {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "Waits."
    }

    fn input_schema(&self) -> &Value {
        &self.schema
    }

    fn concurrency_safe(&self, arguments: &Value) -> Result<bool, ToolError> {
        (self.classifier)(arguments)
    }

    fn cascades_on_error(&self) -> bool {
        self.cascades
    }

    async fn call(&self, input: &FrozenInput, _: &CallContext) -> Result<ToolOutput, ToolError> {
        let id = id_of(input.value());
        self.trace.note(format!("start {id}"));
        self.most.fetch_max(self.running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        // Runs also when the body is dropped.
        let _end = Defer(|| {
            self.running.fetch_sub(1, Ordering::SeqCst);
            self.trace.note(format!("end {id}"));
        });
        let ms = input.value().get("ms").and_then(Value::as_u64).unwrap_or(0);
        if ms > 0 {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
        (self.body)(input.value())
    }
}

struct Defer<F: FnMut()>(F);
impl<F: FnMut()> Drop for Defer<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// `Share` runs beside others, `Alone` does not.
pub(crate) fn probes(trace: &Trace) -> Arc<Registry> {
    let registry = Registry::new();
    registry.register(Arc::new(Probe::new("Share", trace, true))).unwrap();
    registry.register(Arc::new(Probe::new("Alone", trace, false))).unwrap();
    Arc::new(registry)
}

pub(crate) fn builder(registry: Arc<Registry>) -> RuntimeBuilder {
    let provider = FakeProvider::new("/ws");
    ToolRuntime::builder().provider(Arc::new(provider)).policy(policy("test")).registry(registry)
}

pub(crate) fn call(name: &str, id: &str, ms: u64) -> ToolCall {
    ToolCall {
        id: CallId(id.to_owned()),
        name: name.to_owned(),
        arguments: json!({"id": id, "ms": ms}),
    }
}

fn text(result: &ToolResult) -> String {
    let texts = result.content.iter().map(|block| match block {
        ContentBlock::Text { text } => text.as_str(),
        ContentBlock::Image { .. } => "(image)",
    });
    texts.collect::<Vec<_>>().join("\n")
}

pub(crate) fn ids(results: &[ToolResult]) -> Vec<&str> {
    results.iter().map(|result| result.call_id.0.as_str()).collect()
}

/// Panics of tools and hooks are expected here: they are not printed.
pub(crate) static QUIET: LazyLock<()> = LazyLock::new(|| {
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let expected =
            info.payload().downcast_ref::<&str>().is_some_and(|p| p.contains("expected"));
        if !expected {
            loud(info);
        }
    }));
});
