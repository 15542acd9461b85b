//! JSON that is nested a million levels deep is refused wherever it comes in. Whatever walks or drops such a value without a bound
//! overflows its thread's stack, and that ends the whole process.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use stockade_runtime::{
    EarlyStart, RuntimeBuilder, Settings, Submission, ToolRuntime, TurnClosed, replay,
};
use stockade_runtime::{SessionLog, TurnFault};
use stockade_sandbox::fake::{FakeProvider, policy};
use stockade_tools::{
    CallContext, FrozenInput, Metadata, RegistrationError, Registry, SessionContext, Tool,
    ToolError, ToolOutput,
};
use stockade_types::{CallId, SessionId, ToolCall, ToolResult};

const LEVELS: usize = 1_000_000;

fn deep() -> Value {
    (0..LEVELS).fold(json!(1), |inner, _| Value::Array(vec![inner]))
}

/// Not by `json!`, which would walk it.
fn object(key: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(key.to_owned(), value)]))
}

/// Echoes; its schemas and what it makes of its arguments are up to the test.
struct Probe {
    input: Value,
    output: Option<Value>,
    resolves_deep: bool,
}

impl Default for Probe {
    fn default() -> Self {
        Self { input: json!({"type": "object"}), output: None, resolves_deep: false }
    }
}

#[async_trait]
impl Tool for Probe {
    fn name(&self) -> &str {
        "Probe"
    }

    fn description(&self) -> &str {
        ""
    }

    fn input_schema(&self) -> &Value {
        &self.input
    }

    fn output_schema(&self) -> Option<&Value> {
        self.output.as_ref()
    }

    fn metadata(&self) -> Metadata {
        Metadata::READ_ONLY
    }

    fn resolve_input(&self, arguments: &Value, _: &SessionContext) -> Result<Value, ToolError> {
        Ok(if self.resolves_deep { deep() } else { arguments.clone() })
    }

    async fn call(&self, _: &FrozenInput, _: &CallContext) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text("ran"))
    }
}

fn builder(probe: Probe) -> RuntimeBuilder {
    let registry = Registry::new();
    registry.register(Arc::new(probe)).unwrap();
    ToolRuntime::builder()
        .provider(Arc::new(FakeProvider::new("/ws")))
        .policy(policy("test"))
        .registry(Arc::new(registry))
}

fn call(id: &str, arguments: Value) -> ToolCall {
    ToolCall { id: CallId(id.into()), name: "Probe".into(), arguments }
}

fn text(result: &ToolResult) -> String {
    serde_json::to_string(&result.content).unwrap()
}

// spec 1.19
#[tokio::test]
async fn what_a_tool_makes_of_its_arguments_is_bounded_when_an_early_start_asks_for_it() {
    let runtime = builder(Probe { resolves_deep: true, ..Probe::default() }).build().unwrap();
    let early = Settings { early_start: EarlyStart::Safe, ..Settings::default() };
    let mut turn = runtime.open_turn_with(early);
    turn.submit(call("a", json!({}))).unwrap();
    tokio::task::yield_now().await;
    turn.close();
    let result = turn.next_result().await.unwrap().unwrap();
    assert!(result.is_error && text(&result).contains("levels deep"), "{result:?}");
}

// spec 1.6
#[tokio::test]
async fn a_plan_and_the_groups_of_a_turn_bear_deep_arguments() {
    let runtime = builder(Probe::default()).build().unwrap();
    let calls = || [call("a", json!({})), call("deep", object("x", deep())), call("b", json!({}))];
    // What cannot be run is exclusive, like everything of which nothing is known.
    let ids = runtime.plan(calls()).into_iter().map(|group| group.len()).collect::<Vec<_>>();
    assert_eq!(ids, [1, 1, 1]);
    let results = runtime.run_groups(calls()).await.unwrap();
    let failed: Vec<_> = results.iter().map(|result| result.is_error).collect();
    assert_eq!(failed, [false, true, false]);
    assert!(text(&results[1]).contains("levels deep"), "{results:?}");
}

#[tokio::test]
async fn a_closed_turn_refuses_deep_arguments_like_any_others() {
    let runtime = builder(Probe::default()).build().unwrap();
    let turn = runtime.open_turn();
    turn.close();
    assert_eq!(turn.submit(call("a", deep())), Err(TurnClosed));
    let after = Submission::After { call: call("b", deep()), depends_on: Vec::new() };
    assert_eq!(turn.submit(after), Err(TurnClosed));
}

/// Submissions that nobody takes any more are dropped with the turn's channel.
#[test]
fn deep_arguments_that_a_turn_never_came_to_are_dropped_without_harm() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let turn = tokio.block_on(async {
        let runtime = builder(Probe::default()).build().unwrap();
        let turn = runtime.open_turn();
        turn.submit(call("a", deep())).unwrap();
        turn
    });
    // Its scheduler has not run once.
    drop(tokio);
    drop(turn);
}

// spec 3.4
#[test]
fn a_tool_with_a_deep_schema_is_refused_by_name() {
    let nested = || object("properties", object("x", deep()));
    let schema = || {
        let mut schema = nested();
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("type".into(), "object".into());
        }
        schema
    };
    let register = |probe: Probe| Registry::new().register(Arc::new(probe)).unwrap_err();
    let refused = register(Probe { input: schema(), ..Probe::default() });
    assert!(
        matches!(&refused, RegistrationError::SchemaInvalid { reason, .. } if reason.contains("levels deep"))
    );
    let refused = register(Probe { output: Some(schema()), ..Probe::default() });
    assert!(
        matches!(&refused, RegistrationError::OutputSchemaInvalid { reason, .. } if reason.contains("levels deep"))
    );
    // One that is no object's is looked at first.
    let refused = register(Probe { input: deep(), ..Probe::default() });
    assert!(matches!(refused, RegistrationError::SchemaInvalid { .. }), "{refused}");
    let replaced = Registry::new().replace(Arc::new(Probe { input: schema(), ..Probe::default() }));
    assert!(replaced.is_err());
}

// spec 9.1
#[tokio::test]
async fn a_session_log_has_no_deep_record_and_one_with_a_deep_line_is_refused_by_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let log = SessionLog::open(dir.path(), &SessionId::new("s").unwrap()).unwrap();
    let path = log.path().to_owned();
    let runtime = builder(Probe::default()).session_log(log).build().unwrap();
    let results: Result<_, TurnFault> =
        runtime.run_turn([call("a", object("x", deep())), call("b", json!({"x": [[1]]}))]).await;
    assert_eq!(replay(&path).unwrap()[0].results, results.unwrap());
    drop(runtime);
    let nested = format!("{}{}", "[".repeat(LEVELS), "]".repeat(LEVELS));
    let line = format!(
        r#"{{"seq":1,"turn":1,"type":"tool/call","call_id":"a","name":"x","arguments":{nested}}}"#
    );
    std::fs::write(&path, line + "\n").unwrap();
    let refused = replay(&path).unwrap_err().to_string();
    assert!(refused.contains("session.jsonl:1:"), "{refused}");
    // Whoever only appends looks at the line's numbers, and walks over the rest.
    SessionLog::open(dir.path(), &SessionId::new("s").unwrap()).unwrap();
}
