//! Turns as nobody means them: odd ids, budgets of nothing, stores that go away, and each of dependencies, groups, changes of the context,
//! output schemas and wrappers together with panics, aborts and discards. Every call has its one result, in order, and the log replays.

use async_trait::async_trait;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;
use stockade_runtime::{
    Around, Event, EventSink, Hook, HookError, Next, Notice, PostDecision, PostVerdict,
    PreparedCall, RuntimeBuilder, SessionLog, Settings, Submission, ToolRuntime, Turn, replay,
};
use stockade_sandbox::fake::{FakeProvider, policy};
use stockade_spill::{Limits, SpillStore};
use stockade_tools::{
    CallContext, ContextChange, FrozenInput, Registry, ResultBudget, Tool, ToolError, ToolOutput,
};
use stockade_types::{CallId, ContentBlock, SessionId, ToolCall, ToolResult};

/// Does what its arguments say.
struct Probe {
    name: String,
    parallel: bool,
    budget: ResultBudget,
    input: Value,
    output: Option<Value>,
}

fn probe(name: &str, parallel: bool) -> Probe {
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

fn quiet() {
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

fn builder(probes: impl IntoIterator<Item = Probe>) -> RuntimeBuilder {
    quiet();
    let registry = Registry::new();
    for probe in probes {
        registry.register(Arc::new(probe)).unwrap();
    }
    ToolRuntime::builder()
        .provider(Arc::new(FakeProvider::new("/ws")))
        .policy(policy("test"))
        .registry(Arc::new(registry))
}

fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    ToolCall { id: CallId(id.into()), name: name.into(), arguments }
}

fn after(call: ToolCall, on: &[&str]) -> Submission {
    Submission::After { call, depends_on: on.iter().map(|id| CallId((*id).into())).collect() }
}

fn text(result: &ToolResult) -> String {
    let texts = result.content.iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(text.as_str()),
        ContentBlock::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn ids(results: &[ToolResult]) -> Vec<&str> {
    results.iter().map(|result| result.call_id.0.as_str()).collect()
}

async fn all(turn: &mut Turn) -> Vec<ToolResult> {
    let mut results = Vec::new();
    while let Some(result) = turn.next_result().await.unwrap() {
        results.push(result);
    }
    results
}

fn log(dir: &Path) -> (SessionLog, std::path::PathBuf) {
    let log = SessionLog::open(dir, &SessionId::new("s").unwrap()).unwrap();
    let path = log.path().to_owned();
    (log, path)
}

fn store(dir: &Path, session_bytes: u64) -> Arc<SpillStore> {
    let (session, inside) = (SessionId::new("s").unwrap(), Path::new("/run/stockade/spill"));
    Arc::new(SpillStore::open(dir, &session, inside, Limits { session_bytes }).unwrap())
}

// spec 8.1, 8.2, 9.1
#[tokio::test]
async fn odd_ids_and_budgets_of_nothing_in_stores_that_are_full_or_gone_replay_byte_for_byte() {
    let long = "i".repeat(100_000);
    let odd = ["", "../../../x", "a\nb", "\u{0}\u{1b}[2J", &long, "é\u{202e}", "a b", ".", "é"];
    let budgets = [0, 1, 50, 1000];
    for (quota, goes_away) in [(0, false), (3000, false), (1 << 20, false), (1 << 20, true)] {
        let dir = tempfile::tempdir().unwrap();
        let (log, path) = log(dir.path());
        let store = store(dir.path(), quota);
        let probes = budgets.map(|max| Probe {
            budget: ResultBudget {
                max_inline_bytes: max,
                max_model_bytes: max,
                ..ResultBudget::default()
            },
            ..probe(&format!("Max{max}"), true)
        });
        let runtime = builder(probes).session_log(log).spill(store.clone()).build().unwrap();
        let mut expected = Vec::new();
        for max in budgets {
            let calls = odd.map(|id| call(id, &format!("Max{max}"), json!({"size": 2000})));
            let results = runtime.run_turn(calls).await.unwrap();
            assert_eq!(ids(&results), odd);
            for result in &results {
                assert!(!result.is_error && text(result).len() <= max, "{quota} {result:?}");
                let images = result.content.iter();
                let images = images.filter(|block| matches!(block, ContentBlock::Image { .. }));
                assert_eq!(images.count(), 1);
            }
            expected.push(results);
            if goes_away && max == 1 {
                // Only what comes later finds none: what was kept must be there to be replayed.
                let folder = store.folder();
                std::fs::rename(folder, folder.with_extension("away")).unwrap();
            }
        }
        let away = store.folder().with_extension("away");
        if goes_away {
            std::fs::rename(away, store.folder()).unwrap();
        }
        let replayed: Vec<_> =
            replay(&path).unwrap().into_iter().map(|turn| turn.results).collect();
        assert_eq!(replayed, expected, "quota {quota}");
    }
}

// spec 9.1
#[tokio::test]
async fn a_log_cut_within_any_character_replays_to_its_last_whole_record() {
    let dir = tempfile::tempdir().unwrap();
    let (log, path) = log(dir.path());
    let runtime = builder([probe("Share", true)]).session_log(log).build().unwrap();
    let says = json!({"says": "ä€😀\u{202e}\u{2028}\u{0}\u{7f}", "x": "é"});
    let ids = ["é", "\u{10ffff}", "😀"];
    let results = runtime.run_turn(ids.map(|id| call(id, "Share", says.clone()))).await.unwrap();
    drop(runtime);
    let whole = std::fs::read(&path).unwrap();
    for cut in 0..=whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let turns = replay(&path).unwrap();
        let got: Vec<_> = turns.into_iter().flat_map(|turn| turn.results).collect();
        let lines = || whole[..cut].split_inclusive(|byte| *byte == b'\n');
        let is_result = |line: &&[u8]| {
            line.ends_with(b"\n") && line.windows(11).any(|part| part == b"tool/result")
        };
        assert_eq!(got, results[..lines().filter(is_result).count()], "cut at {cut}");
        drop(SessionLog::open(dir.path(), &SessionId::new("s").unwrap()).unwrap());
    }
}

#[derive(Default)]
struct Notices(Mutex<Vec<String>>);

impl EventSink for Notices {
    fn emit(&self, _: &Event) {}

    fn notice(&self, notice: &Notice) {
        let said = match notice {
            Notice::BatchStarted { batch, calls, .. } => {
                let calls: Vec<_> = calls.iter().map(|id| id.0.as_str()).collect();
                format!("+{batch} {}", calls.join(" "))
            }
            Notice::BatchEnded { batch, .. } => format!("-{batch}"),
            _ => return,
        };
        self.0.lock().unwrap().push(said);
    }
}

// spec 1.6
#[tokio::test(start_paused = true)]
async fn a_group_that_began_ends_whatever_becomes_of_its_calls() {
    let calls = || {
        vec![
            call("a", "Share", json!({"panics": true})),
            call("b", "Share", json!({"ms": 50})),
            call("c", "Alone", json!({"ms": 50, "panics": true})),
            call("d", "Nobody", json!({})),
            call("e", "Share", json!({})),
        ]
    };
    let all_groups = ["+0 a b", "-0", "+1 c", "-1", "+2 d", "-2", "+3 e", "-3"];
    // What is done to the turn and when; the groups that begin by then.
    for (what, at, groups) in
        [("", 0, 4), ("abort", 20, 1), ("abort", 70, 2), ("discard", 20, 1), ("discard", 70, 2)]
    {
        let notices = Arc::new(Notices::default());
        let tools = [probe("Share", true), probe("Alone", false)];
        let settings = Settings { grouped: true, ..Settings::default() };
        let runtime = builder(tools).settings(settings).events(notices.clone()).build().unwrap();
        let mut turn = runtime.open_turn();
        for call in calls() {
            turn.submit(call).unwrap();
        }
        turn.close();
        tokio::time::sleep(Duration::from_millis(at)).await;
        match what {
            "abort" => turn.abort(),
            "discard" => turn.discard(),
            _ => {}
        }
        let results = all(&mut turn).await;
        let expected = if what == "discard" { vec![] } else { vec!["a", "b", "c", "d", "e"] };
        assert_eq!(ids(&results), expected, "{what} at {at}");
        assert_eq!(*notices.0.lock().unwrap(), all_groups[..groups * 2], "{what} at {at}");
    }
}

// spec 1.7
#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_others_have_their_result_when_those_panic_or_the_turn_ends() {
    let calls = || {
        vec![
            after(call("z", "Share", json!({"says": "z"})), &["a", "c"]),
            Submission::Call(call("a", "Share", json!({"ms": 100, "panics": true}))),
            after(call("b", "Alone", json!({"says": "b"})), &["a"]),
            after(call("c", "Share", json!({"says": "c"})), &["b", "b", "a"]),
            after(call("self", "Share", json!({})), &["self"]),
            after(call("x", "Share", json!({})), &["y"]),
            after(call("y", "Share", json!({})), &["x"]),
            after(call("lost", "Share", json!({})), &["nobody"]),
            after(call("a", "Share", json!({})), &["c"]),
            Submission::Broken { id: CallId("broken".into()), message: "broken".into() },
            after(call("last", "Share", json!({"says": "last"})), &["broken", "x", "lost"]),
        ]
    };
    let order = ["z", "a", "b", "c", "self", "x", "y", "lost", "a", "broken", "last"];
    for (what, at) in [("", 0), ("abort", 0), ("abort", 50), ("discard", 50), ("abort", 150)] {
        let dir = tempfile::tempdir().unwrap();
        let (log, path) = log(dir.path());
        let runtime = builder([probe("Share", true), probe("Alone", false)])
            .session_log(log)
            .build()
            .unwrap();
        let mut turn = runtime.open_turn();
        for submission in calls() {
            turn.submit(submission).unwrap();
        }
        turn.close();
        tokio::time::sleep(Duration::from_millis(at)).await;
        match what {
            "abort" => turn.abort(),
            "discard" => turn.discard(),
            _ => {}
        }
        let results = all(&mut turn).await;
        let replayed = replay(&path).unwrap().remove(0);
        assert_eq!(replayed.results.len(), order.len(), "{what} at {at}");
        assert_eq!(ids(&replayed.results), order, "{what} at {at}");
        if what == "discard" {
            assert!(results.is_empty() && replayed.discarded);
            continue;
        }
        assert_eq!(results, replayed.results);
        if at != 0 || what.is_empty() {
            let panics = if at == 50 { "ABORTED" } else { "panicked" };
            assert!(text(&results[1]).contains(panics), "{what} at {at}: {results:?}");
        }
        if what.is_empty() || at == 150 {
            let said = [0, 2, 3, 10].map(|place| text(&results[place]));
            assert_eq!(said, ["z", "b", "c", "last"]);
            let errors = [4, 5, 6, 7, 8, 9].map(|place| results[place].is_error);
            assert_eq!(errors, [true; 6]);
        }
    }
}

/// Blocks what says so.
struct Blocks;

#[async_trait]
impl Hook for Blocks {
    fn name(&self) -> &str {
        "blocks"
    }

    async fn post_execute(
        &self,
        call: &PreparedCall,
        _: &ToolResult,
    ) -> Result<PostDecision, HookError> {
        Ok(match call.input().value()["hook"].as_str() {
            Some("blocks") => PostVerdict::Block("no".into()).into(),
            Some("panics") => panic!("expected"),
            Some("value") => PostVerdict::ReplaceValue(json!({"n": "none"})).into(),
            _ => PostDecision::accept(),
        })
    }
}

// spec 1.20, 2.12
#[tokio::test(start_paused = true)]
async fn a_change_of_the_context_counts_only_of_a_call_that_stands() {
    let runtime = builder([probe("Alone", false)]).hook(Arc::new(Blocks)).build().unwrap();
    for (arguments, cwd) in [
        (json!({"cd": "/ws/new"}), "/ws/new"),
        (json!({"cd": "/ws/new", "hook": "blocks"}), "/ws"),
        (json!({"cd": "/ws/new", "hook": "panics"}), "/ws"),
        (json!({"cd": "/ws/new", "panics": true}), "/ws"),
        (json!({"cd": "relative"}), "/ws"),
        (json!({"cd": "/ws/new", "ms": 400_000, "deaf": true}), "/ws"),
    ] {
        let calls =
            [call("a", "Alone", arguments.clone()), call("b", "Alone", json!({"shows": true}))];
        let results = runtime.run_turn(calls).await.unwrap();
        assert_eq!(text(&results[1]), cwd, "{arguments}: {results:?}");
    }
    // What an interrupted call made of it is not kept, and the next turn begins anew.
    let mut turn = runtime.open_turn();
    turn.submit(call("a", "Alone", json!({"cd": "/ws/new", "ms": 100}))).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    turn.abort();
    turn.close();
    assert!(all(&mut turn).await[0].is_error);
    let results = runtime.run_turn([call("b", "Alone", json!({"shows": true}))]).await.unwrap();
    assert_eq!(text(&results[0]), "/ws");
}

// spec 2.11, 2.14
#[tokio::test(start_paused = true)]
async fn an_output_that_does_not_fit_is_an_error_whoever_made_it() {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let tool = Probe { output: Some(schema), ..probe("Alone", false) };
    let runtime = builder([tool]).hook(Arc::new(Blocks)).build().unwrap();
    for (arguments, is_error, says) in [
        (json!({"value": {"n": 1}}), false, "\"n\": 1"),
        (json!({"value": {"n": "one"}}), true, "ToolOutputError"),
        (json!({"value": {}}), true, "ToolOutputError"),
        (json!({"value": [1]}), true, "ToolOutputError"),
        (json!({}), true, "it returned no value"),
        (json!({"value": {"isError": true}}), true, "isError"),
        (json!({"value": {"isError": "true"}}), true, "ToolOutputError"),
        (json!({"value": {"n": 1}, "hook": "value"}), true, "does not fit"),
        (json!({"value": {"n": 1}, "hook": "blocks"}), true, "no"),
        (json!({"value": {"n": 1}, "panics": true}), true, "panicked"),
    ] {
        let results = runtime.run_turn([call("a", "Alone", arguments.clone())]).await.unwrap();
        let told = text(&results[0]);
        assert!(results[0].is_error == is_error && told.contains(says), "{arguments}: {told}");
    }
}

/// A wrapper that does not do as it should.
struct Wraps(&'static str);

#[async_trait]
impl Around for Wraps {
    async fn around(
        &self,
        _: &PreparedCall,
        mut context: CallContext,
        next: Next<'_>,
    ) -> Result<ToolOutput, ToolError> {
        match self.0 {
            "panics before" => panic!("expected"),
            "panics after" => {
                let _ = next.run(context).await;
                panic!("expected")
            }
            "never goes on" => Ok(ToolOutput::text("instead")),
            "cancels" => {
                context.cancel.cancel();
                next.run(context).await
            }
            "another token" => {
                context.cancel = Default::default();
                next.run(context).await
            }
            "drops" => {
                drop(tokio::time::timeout(Duration::from_millis(10), next.run(context)).await);
                Ok(ToolOutput::text("dropped"))
            }
            "deep" => {
                let deep = (0..1_000_000).fold(Value::Null, |v, _| Value::Array(vec![v]));
                Ok(ToolOutput::value(deep))
            }
            "deaf" => {
                let _ = next.run(context).await;
                std::future::pending().await
            }
            _ => next.run(context).await,
        }
    }
}

// spec 2.7, 2.14
#[tokio::test(start_paused = true)]
async fn whatever_a_wrapper_does_its_call_has_a_result_and_an_abort_reaches_the_body() {
    for (what, says) in [
        ("", "did"),
        ("panics before", "panicked"),
        ("panics after", "panicked"),
        ("never goes on", "instead"),
        ("cancels", "did"),
        ("another token", "did"),
        ("drops", "dropped"),
        ("deep", "levels deep"),
        ("deaf", "timed out"),
    ] {
        for outer in [true, false] {
            let wraps: [&'static str; 2] = if outer { [what, ""] } else { ["", what] };
            let mut builder = builder([probe("Share", true)]);
            for what in wraps {
                builder = builder.around(Arc::new(Wraps(what)));
            }
            let runtime = builder.build().unwrap();
            let calls = ["a", "b"].map(|id| call(id, "Share", json!({"ms": 20})));
            let results = runtime.run_turn(calls.clone()).await.unwrap();
            assert!(
                results.iter().all(|result| text(result).contains(says)),
                "{what}: {results:?}"
            );
            for discards in [false, true] {
                let mut turn = runtime.open_turn();
                for call in calls.clone() {
                    turn.submit(call).unwrap();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
                if discards {
                    turn.discard()
                } else {
                    turn.abort()
                }
                turn.close();
                let results = all(&mut turn).await;
                assert_eq!(results.len(), if discards { 0 } else { 2 }, "{what}: {results:?}");
                let at_once =
                    matches!(what, "panics before" | "never goes on" | "cancels" | "deep");
                let aborted = |result: &ToolResult| text(result).contains("ABORTED");
                assert!(at_once || results.iter().all(aborted), "{what}: {results:?}");
            }
        }
    }
}

// spec 1.17: at once and by name, and not at the first body that waits
#[test]
fn an_executor_without_timers_is_told_of_before_anything_runs() {
    let trace: Arc<Mutex<Vec<String>>> = Arc::default();
    let ran = Arc::clone(&trace);
    let registry = Registry::new();
    let quick = move |_: serde_json::Map<String, Value>, _| {
        ran.lock().unwrap().push("ran".to_owned());
        async { Ok::<_, ToolError>("quick") }
    };
    registry.register(Arc::new(stockade_tools::TypedTool::new("Quick", "", quick))).unwrap();
    let runtime = ToolRuntime::builder()
        .provider(Arc::new(FakeProvider::new("/ws")))
        .policy(policy("test"))
        .registry(Arc::new(registry))
        .build()
        .unwrap();
    let quick = || ToolCall { id: CallId("a".into()), name: "Quick".into(), arguments: json!({}) };
    for mut executor in
        [tokio::runtime::Builder::new_current_thread(), tokio::runtime::Builder::new_multi_thread()]
    {
        let executor = executor.build().unwrap();
        let fault = executor.block_on(runtime.run_turn([quick()])).unwrap_err();
        assert!(fault.to_string().contains("`enable_time`"), "{fault}");
        assert!(trace.lock().unwrap().is_empty());
    }
    let executor = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let results = executor.block_on(runtime.run_turn([quick()])).unwrap();
    assert_eq!(results.len(), 1);
    assert_eq!(*trace.lock().unwrap(), ["ran"]);
}
