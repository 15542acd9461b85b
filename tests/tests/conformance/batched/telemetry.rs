//! What a trace is told of a call (spec 2.17).

use crate::probe::{Log, Probe};
use crate::world::{builder, call, tools, wait, with};
use async_trait::async_trait;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stockade_runtime::{
    ApprovalRequest, Approver, Decision, HookError, PermissionHook, Settings, ToolRuntime,
};
use stockade_tools::{
    ApprovalNeed, CallContext, Preview, ResultBudget, Strategy, Structured, ToolError, TypedTool,
};
use stockade_types::ToolCall;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

type Fields = BTreeMap<&'static str, String>;

/// Keeps the fields of every call's span.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<BTreeMap<u64, Fields>>>);

struct Write<'a>(&'a mut Fields);

impl Visit for Write<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: tracing::Subscriber> Layer<S> for Spans {
    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        if span.metadata().target() == "stockade::call" {
            let mut spans = self.0.lock().expect("nobody panics with it");
            let fields = spans.entry(id.into_u64()).or_default();
            fields.insert("span", span.metadata().name().to_owned());
            span.record(&mut Write(fields));
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, _: Context<'_, S>) {
        if let Some(fields) = self.0.lock().expect("nobody panics with it").get_mut(&id.into_u64())
        {
            record.record(&mut Write(fields));
        }
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Count {
    count: u32,
}

/// Nobody answers for 700 ms; then it is a yes, but for the call `denied`.
struct Person;

#[async_trait]
impl Approver for Person {
    async fn decide(&self, request: &ApprovalRequest) -> Result<Decision, HookError> {
        wait(700).await;
        Ok(match request.call.id().0.as_str() {
            "denied" => Decision::Deny { reason: "no".into() },
            _ => Decision::Allow,
        })
    }
}

/// Has no opinion, ever.
struct Silent;

#[async_trait]
impl PermissionHook for Silent {
    fn name(&self) -> &str {
        "silent"
    }

    async fn decide(&self, _: &ApprovalRequest) -> Result<Option<Decision>, HookError> {
        Ok(None)
    }
}

fn runtime() -> ToolRuntime {
    let log = Log::default();
    let registry = tools(&log);
    let asks = Probe { approval: ApprovalNeed::Ask, ..Probe::reads("Ask", &log) };
    registry.register(Arc::new(asks)).expect("a tool");
    let queues = |_: Nothing, context: CallContext| async move {
        context.queueing.wait(wait(250)).await;
        Ok::<_, ToolError>("x".repeat(400))
    };
    let budget = ResultBudget {
        max_inline_bytes: 100,
        strategy: Strategy::Truncate,
        preview: Preview::Head,
        ..ResultBudget::default()
    };
    let misfits = |_: Nothing, _| async { Ok::<_, ToolError>(Structured("no count")) };
    let queues = TypedTool::new("Queue", "", queues).budget(budget);
    registry.register(Arc::new(queues)).expect("a tool");
    let misfits = TypedTool::new("Misfit", "", misfits).returns::<Count>();
    registry.register(Arc::new(misfits)).expect("a tool");
    let builder = builder(Settings::batched(), registry).approver(Arc::new(Person));
    builder.permission_hook(Arc::new(Silent)).build().expect("a runtime")
}

/// The fields of one call's span.
async fn span(call: ToolCall) -> Fields {
    let mut all = spans_of(&call).await;
    // A span that another test makes for the first time while somebody begins to listen is not heard until all are asked anew.
    for _ in 0..100 {
        if !all.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        tracing::callsite::rebuild_interest_cache();
        all = spans_of(&call).await;
    }
    assert_eq!(all.len(), 1, "one span a call");
    all.pop_first().expect("the call's").1
}

async fn spans_of(call: &ToolCall) -> BTreeMap<u64, Fields> {
    let spans = Spans::default();
    let subscriber = tracing_subscriber::registry().with(spans.clone());
    let listening = tracing::subscriber::set_default(subscriber);
    runtime().run_turn([call.clone()]).await.expect("no fault");
    drop(listening);
    std::mem::take(&mut *spans.0.lock().expect("nobody panics with it"))
}

// spec 2.17
#[tokio::test(start_paused = true)]
async fn b_2_17_a_span_has_the_times_the_permission_and_the_size_of_a_call() {
    let asked = span(call("Ask", "allowed", 40)).await;
    for (field, value) in [
        ("span", "tool_call"),
        ("tool", "Ask"),
        ("permission", "allowed"),
        ("permission_wait_ms", "700"),
        ("queued_ms", "0"),
        ("total_ms", "740"),
        ("output_bytes", "14"),
        ("is_error", "false"),
    ] {
        assert_eq!(asked.get(field).map(String::as_str), Some(value), "{field}: {asked:?}");
    }
    assert!(!asked.contains_key("stage") && !asked.contains_key("error"), "{asked:?}");
    let queued = span(with("Queue", "a", json!({}))).await;
    assert_eq!((queued["queued_ms"].as_str(), queued["truncated"].as_str()), ("250", "true"));
}

// spec 2.17
#[tokio::test(start_paused = true)]
async fn b_2_17_a_failure_has_its_stage_and_class_and_what_a_model_made_up_is_unknown() {
    for (call, tool, stage, class) in [
        (call("Invented by the model", "a", 1), "unknown", "lookup", "unknown_tool"),
        (with("Read", "a", json!({"ms": "x"})), "Read", "validate", "invalid_arguments"),
        (call("Ask", "denied", 1), "Ask", "permission", "refused"),
        (with("Edit", "a", json!({"fail": true})), "Edit", "execute", "business"),
        (with("Misfit", "a", json!({})), "Misfit", "serialize", "tool_output"),
    ] {
        let fields = span(call).await;
        let of = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
        assert_eq!((of("tool"), of("stage"), of("error")), (tool, stage, class), "{fields:?}");
        assert!(!format!("{fields:?}").contains("Invented"), "{fields:?}");
    }
}
