//! A tool that does what its arguments say, and what becomes of its calls.

use crate::scene;
use async_trait::async_trait;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Once};
use std::time::Duration;
use stockade_runtime::{RuntimeBuilder, SessionLog, Submission, Turn};
use stockade_spill::{Limits, SpillStore};
use stockade_tools::{
    CallContext, ContextChange, FrozenInput, ResultBudget, Tool, ToolError, ToolOutput,
};
use stockade_types::{CallId, ContentBlock, SessionId, ToolCall, ToolResult};

/// Does what its arguments say.
pub struct Probe {
    pub name: String,
    pub parallel: bool,
    pub budget: ResultBudget,
    pub input: Value,
    pub output: Option<Value>,
}

pub fn probe(name: &str, parallel: bool) -> Probe {
    let input = json!({"type": "object"});
    Probe { name: name.to_owned(), parallel, budget: ResultBudget::default(), input, output: None }
}

#[async_trait]
impl Tool for Probe {
    fn name(&self) -> &str {
        &self.name
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

    fn budget(&self) -> ResultBudget {
        self.budget
    }

    fn concurrency_safe(&self, _: &Value) -> Result<bool, ToolError> {
        Ok(self.parallel)
    }

    fn changes_context(&self) -> bool {
        true
    }

    async fn call(&self, input: &FrozenInput, c: &CallContext) -> Result<ToolOutput, ToolError> {
        let input = input.value();
        if let Some(ms) = input["ms"].as_u64() {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(ms)) => {}
                () = c.cancel.cancelled(), if input["deaf"].is_null() => {}
            }
        }
        if input["panics"] == true {
            panic!("expected");
        }
        let mut output = ToolOutput::text(input["says"].as_str().unwrap_or("did"));
        if input["shows"] == true {
            output = ToolOutput::text(c.session.cwd.display().to_string());
        }
        if let Some(size) = input["size"].as_u64() {
            output = ToolOutput::text("ä€😀\n".repeat(size as usize / 10));
            let data = "QUJD".repeat(10);
            output.content.push(ContentBlock::Image { media_type: "image/png".into(), data });
        }
        if let Some(cwd) = input["cd"].as_str() {
            output.change = Some(ContextChange { cwd: Some(cwd.into()), env: Vec::new() });
        }
        if !input["value"].is_null() {
            output = ToolOutput::value(input["value"].clone());
        }
        Ok(output)
    }
}

pub fn quiet() {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload().downcast_ref::<&str>() != Some(&"expected") {
                loud(info);
            }
        }));
    });
}

pub fn builder(probes: impl IntoIterator<Item = Probe>) -> RuntimeBuilder {
    quiet();
    scene::of_tools(probes)
}

pub fn after(call: ToolCall, on: &[&str]) -> Submission {
    Submission::After { call, depends_on: on.iter().map(|id| CallId((*id).into())).collect() }
}

pub fn ids(results: &[ToolResult]) -> Vec<&str> {
    results.iter().map(|result| result.call_id.0.as_str()).collect()
}

pub async fn all(turn: &mut Turn) -> Vec<ToolResult> {
    let mut results = Vec::new();
    while let Some(result) = turn.next_result().await.unwrap() {
        results.push(result);
    }
    results
}

pub fn log(dir: &Path) -> (SessionLog, std::path::PathBuf) {
    let log = SessionLog::open(dir, &SessionId::new("s").unwrap()).unwrap();
    let path = log.path().to_owned();
    (log, path)
}

pub fn store(dir: &Path, session_bytes: u64) -> Arc<SpillStore> {
    let (session, inside) = (SessionId::new("s").unwrap(), Path::new("/run/stockade/spill"));
    Arc::new(SpillStore::open(dir, &session, inside, Limits { session_bytes }).unwrap())
}
