//! What hooks say of a result counts everywhere: in what the model finds, in the log, for observers and for people.

use crate::scene::{call, of_tools, text};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::path::Path;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stockade_runtime::{
    ApprovalRequest, Approver, Decision, Event, EventSink, Guard, Hook, HookError, HookSession,
    Observer, PostDecision, PostVerdict, PreDecision, PreVerdict, PreparedCall, SessionLog,
    Transition, command_hooks,
};
use stockade_spill::{Limits, SpillStore};
use stockade_tools::{
    CallContext, Display, FrozenInput, Kept, Metadata, ResultBudget, RunReport, Tool, ToolError,
    ToolOutput,
};
use stockade_types::{ContentBlock, Outcome, SessionId, ToolResult};

const SECRET: &str = "SECRET original";

type Body = fn(&CallContext) -> Result<ToolOutput, ToolError>;

struct Probe(&'static str, Body, Value);

impl Probe {
    fn new(name: &'static str, body: Body) -> Self {
        Self(name, body, json!({"type": "object"}))
    }
}

#[async_trait]
impl Tool for Probe {
    fn name(&self) -> &str {
        self.0
    }

    fn description(&self) -> &str {
        ""
    }

    fn input_schema(&self) -> &Value {
        &self.2
    }

    fn metadata(&self) -> Metadata {
        Metadata::READ_ONLY
    }

    fn budget(&self) -> ResultBudget {
        ResultBudget { max_inline_bytes: 5000, max_model_bytes: 5000, ..ResultBudget::default() }
    }

    async fn call(&self, _: &FrozenInput, c: &CallContext) -> Result<ToolOutput, ToolError> {
        (self.1)(c)
    }

    fn display(&self, value: &Value) -> Option<Display> {
        let entries = vec![value["said"].as_str().unwrap_or_default().to_owned()];
        Some(Display::List { entries, omitted: 0 })
    }
}

/// A large output that the tool kept itself, as Bash does.
fn large(context: &CallContext) -> Result<ToolOutput, ToolError> {
    let store = context.output_store.as_ref().unwrap();
    let mut file = store.begin(&context.call_id).unwrap();
    file.write(SECRET.as_bytes()).unwrap();
    let display = Display::List { entries: vec![SECRET.into()], omitted: 0 };
    Ok(ToolOutput {
        kept: Some(Kept::Whole(file.finish())),
        display: Some(display),
        ..ToolOutput::text(SECRET.repeat(1000))
    })
}

/// A host's hook of one word.
#[derive(Default)]
struct Says {
    pre: Option<PreVerdict>,
    post: Option<PostVerdict>,
    guard: Option<String>,
    takes: Duration,
}

#[async_trait]
impl Hook for Says {
    fn name(&self) -> &str {
        "says"
    }

    async fn pre_execute(&self, _: &PreparedCall) -> Result<PreDecision, HookError> {
        Ok(self.pre.clone().unwrap_or(PreVerdict::Pass).into())
    }

    async fn post_execute(
        &self,
        _: &PreparedCall,
        _: &ToolResult,
    ) -> Result<PostDecision, HookError> {
        tokio::time::sleep(self.takes).await;
        Ok(self.post.clone().unwrap_or(PostVerdict::Accept).into())
    }
}

impl Guard for Says {
    fn name(&self) -> &str {
        "says"
    }

    fn check(&self, _: &PreparedCall) -> Result<(), String> {
        self.guard.clone().map_or(Ok(()), Err)
    }
}

#[derive(Default)]
struct Sees {
    results: Mutex<Vec<ToolResult>>,
    displays: Mutex<Vec<Option<Display>>>,
}

impl Observer for Sees {
    fn committed(&self, result: &ToolResult) {
        self.results.lock().unwrap().push(result.clone());
    }
}

impl EventSink for Sees {
    fn emit(&self, event: &Event) {
        if let Transition::Yielded { display, .. } = &event.transition {
            self.displays.lock().unwrap().push(display.clone());
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files
}

fn messages(log: &Path) -> Vec<Option<String>> {
    let text = std::fs::read_to_string(log).unwrap();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let results = records.filter(|record| record["type"] == "tool/result");
    results.map(|record| record["message"].as_str().map(str::to_owned)).collect()
}

// spec 2.12, 8.4, 8.5
#[tokio::test]
async fn what_a_hook_took_away_is_found_neither_in_the_store_nor_in_what_people_are_shown() {
    let new = json!({"said": "new"});
    let shown = Display::List { entries: vec!["new".into()], omitted: 0 };
    for (verdict, kept, display) in [
        (PostVerdict::Accept, 1, Some(Display::List { entries: vec![SECRET.into()], omitted: 0 })),
        (PostVerdict::Block("no".repeat(4000)), 0, None),
        (PostVerdict::Replace(vec![ContentBlock::text("clean")]), 0, None),
        (PostVerdict::ReplaceValue(new), 0, Some(shown)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let session = SessionId::new("s").unwrap();
        let inside = Path::new("/run/stockade/spill");
        let limits = Limits { session_bytes: 100_000 };
        let store = Arc::new(SpillStore::open(dir.path(), &session, inside, limits).unwrap());
        let sees = Arc::new(Sees::default());
        let runtime = of_tools([Probe::new("Large", large)])
            .hook(Arc::new(Says { post: Some(verdict.clone()), ..Says::default() }))
            .events(sees.clone())
            .spill(store.clone())
            .build()
            .unwrap();
        let results = runtime.run_turn([call("a", "Large")]).await.unwrap();
        let originals = files(store.folder())
            .iter()
            .filter(|file| std::fs::read_to_string(file).unwrap().contains(SECRET))
            .count();
        assert_eq!(originals, kept, "{verdict:?}");
        assert_eq!(text(&results[0]).contains(SECRET), kept == 1, "{verdict:?}");
        assert_eq!(*sees.displays.lock().unwrap(), [display], "{verdict:?}");
    }
}

// spec 9.1
#[tokio::test]
async fn the_log_says_of_each_failure_what_went_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let log = SessionLog::open(dir.path(), &SessionId::new("s").unwrap()).unwrap();
    let path = log.path().to_owned();
    let exits: Body = |_| {
        let report =
            RunReport { outcome: Some(Outcome::Exited { code: 3 }), ..RunReport::default() };
        Ok(ToolOutput { is_error: true, report, ..ToolOutput::text("out\n[exit code 3]") })
    };
    let says: Body =
        |_| Ok(ToolOutput { is_error: true, ..ToolOutput::text("it is   broken\nreally") });
    let fails: Body = |_| Err(ToolError::Business("boom".into()));
    let probes = || {
        [
            Probe::new("Exits", exits),
            Probe::new("Says", says),
            Probe::new("Fails", fails),
            Probe::new("Fine", |_| Ok(ToolOutput::text("fine"))),
        ]
    };
    let calls = || ["Exits", "Says", "Fails", "Fine"].map(|name| call(name, name));
    of_tools(probes()).session_log(log).build().unwrap().run_turn(calls()).await.unwrap();
    let own = ["the command ended with exit code 3", "it is broken really", "boom"].map(Some);
    let said = messages(&path);
    assert_eq!(said.iter().map(Option::as_deref).collect::<Vec<_>>(), [&own[..], &[None]].concat());

    let log = SessionLog::open(dir.path(), &SessionId::new("blocked").unwrap()).unwrap();
    let path = log.path().to_owned();
    let block = Says { post: Some(PostVerdict::Block("too long".into())), ..Says::default() };
    let runtime = of_tools(probes()).hook(Arc::new(block)).session_log(log).build().unwrap();
    runtime.run_turn(calls()).await.unwrap();
    let said = messages(&path);
    assert!(said.iter().flatten().all(|message| message.ends_with("too long")), "{said:?}");
    assert!(said[2].as_deref().unwrap().starts_with("boom; "), "{said:?}");
    assert_eq!(said[3].as_deref(), Some("refused by hook says: too long"));
}

// spec 1.15
#[tokio::test(start_paused = true)]
async fn a_result_that_is_discarded_while_its_hooks_run_is_told_to_no_observer() {
    let sees = Arc::new(Sees::default());
    let runtime = of_tools([Probe::new("Fine", |_| Ok(ToolOutput::text("fine")))])
        .hook(Arc::new(Says { takes: Duration::from_millis(500), ..Says::default() }))
        .observer(sees.clone())
        .build()
        .unwrap();
    let mut turn = runtime.open_turn();
    turn.submit(call("a", "Fine")).unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    turn.discard();
    assert_eq!(turn.next_result().await, Ok(None));
    assert_eq!(*sees.results.lock().unwrap(), []);
}

struct SaysNo(Decision);

#[async_trait]
impl Approver for SaysNo {
    async fn decide(&self, _: &ApprovalRequest) -> Result<Decision, HookError> {
        Ok(self.0.clone())
    }
}

// spec 2.3, 2.4, 2.6
#[tokio::test]
async fn a_refusal_without_a_reason_says_that_none_was_given() {
    let nothing = String::new;
    let says = |pre, post, guard| Says { pre, post, guard, ..Says::default() };
    let ask = Some(PreVerdict::Ask("?".into()));
    for (says, answer) in [
        (says(Some(PreVerdict::Deny(nothing())), None, None), None),
        (says(Some(PreVerdict::Stop(" \n".into())), None, None), None),
        (says(None, Some(PostVerdict::Block(nothing())), None), None),
        (says(None, None, Some(nothing())), None),
        (says(ask.clone(), None, None), Some(Decision::Deny { reason: nothing() })),
        (says(ask, None, None), Some(Decision::Stop { reason: nothing() })),
    ] {
        let says = Arc::new(says);
        let mut builder = of_tools([Probe::new("Fine", |_| Ok(ToolOutput::text("fine")))])
            .hook(says.clone())
            .guard(says);
        if let Some(answer) = answer.clone() {
            builder = builder.approver(Arc::new(SaysNo(answer)));
        }
        let results = builder.build().unwrap().run_turn([call("a", "Fine")]).await.unwrap();
        assert!(text(&results[0]).ends_with(": no reason given"), "{results:?}");
    }
}

/// The hooks of a settings file with this one command.
fn commands(dir: &Path, event: &str, command: &str) -> Vec<Arc<dyn Hook>> {
    let path = dir.join("settings.json");
    let hooks = json!({"hooks": {event: [{"hooks": [{"type": "command", "command": command}]}]}});
    std::fs::write(&path, hooks.to_string()).unwrap();
    let transcript_path = dir.join("session.jsonl");
    let session = HookSession { session_id: "s".into(), transcript_path, cwd: dir.into() };
    command_hooks(&path, &session).unwrap()
}

// spec 2.3, 2.10: the JSON of Claude Code's hooks
#[tokio::test]
async fn a_command_that_hears_of_a_failure_gives_feedback_and_may_stop_the_turn() {
    let dir = tempfile::tempdir().unwrap();
    let fails: Body = |_| Err(ToolError::Business("boom".into()));
    let says: Body = |_| Ok(ToolOutput { is_error: true, ..ToolOutput::text("broken") });
    let value: Body = |_| Ok(ToolOutput::value(json!({"isError": true})));
    for (command, feedback, stops) in [
        ("echo FEEDBACK >&2; exit 2", Some("FEEDBACK"), false),
        (r#"echo '{"decision":"block","reason":"FEEDBACK"}'"#, Some("FEEDBACK"), false),
        (r#"echo '{"continue":false,"stopReason":"enough"}'"#, None, true),
        ("exit 2", None, false),
        ("exit 1", None, false),
        ("echo garbage", None, false),
    ] {
        for (name, body) in [("Fails", fails), ("Says", says), ("Value", value)] {
            let fine = Probe::new("Fine", |_| Ok(ToolOutput::text("fine")));
            let mut builder = of_tools([Probe::new(name, body), fine]);
            for hook in commands(dir.path(), "PostToolUseFailure", command) {
                builder = builder.hook(hook);
            }
            let mut turn = builder.build().unwrap().open_turn();
            turn.submit(call("a", name)).unwrap();
            let first = turn.next_result().await.unwrap().unwrap();
            turn.submit(call("b", "Fine")).unwrap();
            turn.close();
            let second = turn.next_result().await.unwrap().unwrap();
            let told = text(&first);
            assert!(first.is_error, "{command}: {told}");
            assert_eq!(told.contains("[Hook additional context]"), feedback.is_some(), "{told}");
            assert!(feedback.is_none_or(|feedback| told.contains(feedback)), "{told}");
            assert_eq!(first.stop_turn, stops, "{command}");
            assert_eq!(text(&second) != "fine", stops, "{command}: {second:?}");
        }
        // A success is none of its business.
        let mut builder = of_tools([Probe::new("Fine", |_| Ok(ToolOutput::text("fine")))]);
        for hook in commands(dir.path(), "PostToolUseFailure", command) {
            builder = builder.hook(hook);
        }
        let results = builder.build().unwrap().run_turn([call("a", "Fine")]).await.unwrap();
        assert_eq!(text(&results[0]), "fine");
    }
}

// spec 2.3: nothing is left of a hook, as of a call
#[tokio::test]
async fn what_a_hook_command_started_ends_with_it_also_in_a_session_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let quiet = "</dev/null >/dev/null 2>&1";
    for (name, command) in [
        ("setsid", format!("setsid sleep 1000 {quiet} & echo $! >pid; sleep 0.2; exit 0")),
        (
            "forked",
            format!(
                "(setsid sh -c 'echo $$ >pid; exec sleep 1000' {quiet} &) ; while ! test -s pid; do sleep 0.05; done"
            ),
        ),
        (
            "time is up",
            format!("(setsid sh -c 'echo $$ >pid; exec sleep 1000' {quiet} &) ; sleep 1000"),
        ),
    ] {
        let _ = std::fs::remove_file(dir.path().join("pid"));
        let path = dir.path().join("settings.json");
        let hook = json!({"type": "command", "command": command, "timeout": 3});
        std::fs::write(&path, json!({"hooks": {"PreToolUse": [{"hooks": [hook]}]}}).to_string())
            .unwrap();
        let session = HookSession {
            session_id: "s".into(),
            transcript_path: "/x".into(),
            cwd: dir.path().into(),
        };
        let mut builder = of_tools([Probe::new("Fine", |_| Ok(ToolOutput::text("fine")))]);
        for hook in command_hooks(&path, &session).unwrap() {
            builder = builder.hook(hook);
        }
        builder.build().unwrap().run_turn([call("a", "Fine")]).await.unwrap();
        let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap();
        let status = format!("/proc/{}/stat", pid.trim());
        // Whoever is killed may still be taken for alive for a moment.
        let gone = |_| {
            std::thread::sleep(Duration::from_millis(100));
            std::fs::read_to_string(&status).is_ok_and(|stat| !stat.contains(") Z ")).then_some(())
        };
        assert!((0..300).map(gone).any(|lives| lives.is_none()), "{name}: {pid} lives on");
    }
}
