//! The same turn through the real scheduler.

use crate::model::{Observed, Outcome};
use crate::turn::{Signal, Tool as Which, Turn};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use stockade_runtime::{SessionLog, Submission, ToolRuntime};
use stockade_sandbox::fake::{FakeProvider, policy};
use stockade_tools::{
    CallContext, FrozenInput, InterruptBehavior, Metadata, Registry, Tool, ToolError, ToolOutput,
};
use stockade_types::{CallId, ContentBlock, SessionId, ToolCall, ToolResult};
use tokio::time::Instant;

/// What bodies note: the call, whether it starts, and when.
type Notes = Arc<Mutex<Vec<(usize, bool, Instant)>>>;

/// A session whose turns are compared.
pub struct World {
    _state: tempfile::TempDir,
    log: PathBuf,
    runtime: ToolRuntime,
    notes: Notes,
    turns: u64,
    /// Each turn's ids, and whether it was discarded.
    expected: BTreeMap<u64, (usize, bool)>,
}

struct Probe {
    which: Which,
    parallel: bool,
    notes: Notes,
    registry: Weak<Registry>,
    schema: Value,
}

impl Probe {
    fn register(which: Which, parallel: bool, notes: &Notes, registry: &Arc<Registry>) {
        let probe = Self {
            which,
            parallel,
            notes: Arc::clone(notes),
            registry: Arc::downgrade(registry),
            schema: json!({"type": "object"}),
        };
        registry.replace(Arc::new(probe)).expect("a probe is a tool");
    }
}

#[async_trait]
impl Tool for Probe {
    fn name(&self) -> &str {
        self.which.name()
    }

    fn description(&self) -> &str {
        ""
    }

    fn input_schema(&self) -> &Value {
        &self.schema
    }

    fn metadata(&self) -> Metadata {
        match self.which {
            Which::Read | Which::Watch | Which::Flip if self.parallel => Metadata::READ_ONLY,
            _ => Metadata { concurrency_safe: Some(self.parallel), ..Metadata::default() },
        }
    }

    fn concurrency_safe(&self, arguments: &Value) -> Result<bool, ToolError> {
        Ok(match self.which {
            Which::Shell => arguments["read_only"] == true,
            _ => self.parallel,
        })
    }

    fn read_only(&self, arguments: &Value) -> bool {
        match self.which {
            Which::Shell => arguments["read_only"] == true,
            _ => self.metadata().is_read_only(),
        }
    }

    fn cascades_on_error(&self) -> bool {
        self.which == Which::Shell
    }

    fn interrupt_behavior(&self) -> InterruptBehavior {
        match self.which {
            Which::Watch => InterruptBehavior::Cancel,
            _ => InterruptBehavior::Block,
        }
    }

    async fn call(
        &self,
        input: &FrozenInput,
        context: &CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let id = context.call_id.0.parse().expect("ids are numbers");
        let note = |starts| {
            self.notes.lock().expect("nobody panics with it").push((id, starts, Instant::now()));
        };
        note(true);
        let ms = input.value()["ms"].as_u64().unwrap_or_default();
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(ms)) => note(false),
            () = context.cancel.cancelled() => {
                note(false);
                return Err(ToolError::Cancelled);
            }
        }
        if let (Which::Swap, Some(registry)) = (self.which, self.registry.upgrade()) {
            let parallel =
                registry.get("Flip").is_some_and(|flip| flip.tool().metadata().is_parallel());
            Probe::register(Which::Flip, !parallel, &self.notes, &registry);
        }
        if input.value()["fails"] == true {
            return Err(ToolError::Business("failed".into()));
        }
        let stop_turn = input.value()["stops"] == true;
        Ok(ToolOutput { stop_turn, ..ToolOutput::text("did") })
    }
}

impl World {
    pub fn new() -> Self {
        let state = tempfile::tempdir().expect("a folder");
        let session = SessionId::new("model").expect("an id");
        let session_log = SessionLog::open(state.path(), &session).expect("a log");
        let log = session_log.path().to_owned();
        let notes = Notes::default();
        let registry = Arc::new(Registry::new());
        for which in [
            Which::Read,
            Which::Fetch,
            Which::Edit,
            Which::Shell,
            Which::Watch,
            Which::Flip,
            Which::Swap,
        ] {
            let parallel = matches!(which, Which::Read | Which::Fetch | Which::Watch | Which::Flip);
            Probe::register(which, parallel, &notes, &registry);
        }
        let runtime = ToolRuntime::builder()
            .provider(Arc::new(FakeProvider::new("/ws")))
            .policy(policy("model"))
            .registry(registry)
            .session_log(session_log)
            .build()
            .expect("a runtime");
        Self { _state: state, log, runtime, notes, turns: 0, expected: BTreeMap::new() }
    }

    pub async fn run(&mut self, turn: &Turn) -> Observed {
        self.turns += 1;
        Probe::register(Which::Flip, true, &self.notes, self.runtime.registry());
        let begun = Instant::now();
        let since = |at: Instant| u64::try_from((at - begun).as_millis()).expect("not that long");
        let mut open = self.runtime.open_turn_with(turn.settings);
        let submitter = open.submitter();
        let feed = async {
            for (number, call) in turn.calls.iter().enumerate() {
                tokio::time::sleep_until(begun + Duration::from_millis(call.submitted)).await;
                let id = |number: usize| CallId(number.to_string());
                let arguments = json!({
                    "ms": call.ms, "fails": call.fails, "stops": call.stops, "read_only": call.read_only,
                    "command": format!("call {number}")
                });
                let name = call.tool.name().to_owned();
                let depends_on = call.depends_on.iter().map(|on| id(*on)).collect();
                let call = ToolCall { id: id(number), name, arguments };
                if submitter.submit(Submission::After { call, depends_on }).is_err() {
                    return number;
                }
            }
            tokio::time::sleep_until(begun + Duration::from_millis(turn.closes)).await;
            submitter.close();
            turn.calls.len()
        };
        let discarded = Cell::new(false);
        let signals = async {
            for (at, signal) in &turn.signals {
                tokio::time::sleep_until(begun + Duration::from_millis(*at)).await;
                match signal {
                    Signal::Interrupt => submitter.interrupt(),
                    Signal::Abort => submitter.abort(),
                    Signal::Discard => {
                        submitter.discard();
                        discarded.set(true);
                    }
                }
            }
            std::future::pending::<()>().await;
        };
        let mut results: Vec<(ToolResult, Instant)> = Vec::new();
        let take = async {
            while let Some(result) = open.next_result().await.expect("no fault") {
                results.push((result, Instant::now()));
            }
        };
        let submitted = tokio::select! {
            (submitted, ()) = async { tokio::join!(feed, take) } => submitted,
            () = signals => unreachable!("they wait for ever"),
        };
        let mut seen = Observed { ends: vec![None; turn.calls.len()], ..Observed::default() };
        for (call, starts, at) in self.notes.lock().expect("nobody panics with it").drain(..) {
            match starts {
                true => seen.starts.push((call, since(at))),
                false => seen.ends[call] = Some(since(at)),
            }
        }
        seen.outcomes = vec![None; turn.calls.len()];
        let discarded = discarded.get();
        for (result, at) in &results {
            let call: usize = result.call_id.0.parse().expect("ids are numbers");
            seen.delivered.push((call, since(*at)));
            seen.outcomes[call] = Some(outcome(result));
        }
        if discarded {
            seen.outcomes = vec![None; turn.calls.len()];
        }
        self.expected.insert(self.turns, (submitted, discarded));
        seen
    }

    /// Exactly one call record and one result record for each call, the results in the model's order, and what was discarded
    /// marked so.
    pub fn check_records(&self) {
        let mut calls: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let mut results: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let mut discarded = Vec::new();
        for line in std::fs::read_to_string(&self.log).expect("a log").lines() {
            let record: Value = serde_json::from_str(line).expect("a record");
            let turn = record["turn"].as_u64().expect("a turn");
            let call = || record["call_id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
            match record["type"].as_str() {
                Some("tool/call") => calls.entry(turn).or_default().push(call()),
                Some("tool/result") => results.entry(turn).or_default().push(call()),
                Some("turn/discard") => discarded.push(turn),
                other => panic!("{other:?}"),
            }
        }
        for (turn, (count, was_discarded)) in &self.expected {
            let all: Vec<usize> = (0..*count).collect();
            assert_eq!(results.remove(turn).unwrap_or_default(), all, "results of turn {turn}");
            let mut own = calls.remove(turn).unwrap_or_default();
            own.sort_unstable();
            assert_eq!(own, all, "calls of turn {turn}");
            assert_eq!(discarded.contains(turn), *was_discarded, "turn {turn}");
        }
        assert!(calls.is_empty() && results.is_empty());
    }
}

fn outcome(result: &ToolResult) -> Outcome {
    let [ContentBlock::Text { text }] = result.content.as_slice() else { panic!("{result:?}") };
    match text.as_str() {
        "did" if result.stop_turn => Outcome::Stopping,
        "did" => Outcome::Did,
        "<tool_use_error>failed</tool_use_error>" => Outcome::Failed,
        "Tool cancelled because a previous tool result requested a turn stop." => {
            Outcome::TurnStopped
        }
        text if text.starts_with("ABORTED: ") => Outcome::Aborted,
        text if text.starts_with("ABORTED_BEFORE_DISPATCH: ") => Outcome::AbortedBeforeDispatch,
        text if text.contains("No such tool available") => Outcome::UnknownTool,
        text if text.contains("depends on itself") => Outcome::Cycle,
        text if text.contains("DependencyError") => Outcome::UnknownDependency,
        text => {
            let by = text
                .strip_prefix("Cancelled: parallel tool call Shell(call ")
                .and_then(|rest| rest.strip_suffix(") errored"));
            let by = by.and_then(|number| number.parse().ok());
            Outcome::SiblingErrored(by.unwrap_or_else(|| panic!("{text:?}")))
        }
    }
}
