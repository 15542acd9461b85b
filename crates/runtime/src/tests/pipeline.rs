//! What a call's outcome looks like to the model (spec 2.14, 2.16).

use super::*;
use crate::Submission;
use stockade_sandbox::SandboxError;
use stockade_sandbox::fake::Script;
use stockade_types::{Refusal, SetupFailure};

async fn outcome(
    body: impl Fn(&Value) -> Result<ToolOutput, ToolError> + Send + Sync + 'static,
) -> (String, bool) {
    let registry = Registry::new();
    registry.register(Arc::new(Probe::new("Share", &Trace::default(), true).doing(body))).unwrap();
    let runtime = builder(Arc::new(registry)).build().unwrap();
    let results = runtime.run_turn([call("Share", "a", 0)]).await.unwrap();
    (text(&results[0]), results[0].is_error)
}

// spec 2.14
#[tokio::test(start_paused = true)]
async fn every_failure_becomes_a_result_and_the_turn_goes_on() {
    let trace = Trace::default();
    let runtime = builder(probes(&trace)).build().unwrap();
    let mut missing = call("Share", "b", 0);
    missing.arguments = json!({"id": "b", "mss": 5});
    let mut no_object = call("Share", "c", 0);
    no_object.arguments = json!("ls");
    let broken =
        Submission::Broken { id: CallId("d".into()), message: "arguments: bad JSON".into() };
    let results = runtime
        .run_turn::<Submission>([
            call("Nobody", "a", 0).into(),
            missing.into(),
            no_object.into(),
            broken,
            call("Share", "e", 0).into(),
            call("Share", "e", 0).into(),
        ])
        .await
        .unwrap();
    assert_eq!(ids(&results), ["a", "b", "c", "d", "e", "e"]);
    let texts: Vec<_> = results.iter().map(text).collect();
    assert_eq!(texts[0], "<tool_use_error>Error: No such tool available: Nobody</tool_use_error>");
    assert!(
        texts[1].starts_with("<tool_use_error>InputValidationError: Share: ")
            && texts[1].contains("mss"),
        "{texts:?}"
    );
    assert!(texts[2].contains("not a JSON object"), "{texts:?}");
    assert_eq!(texts[3], "arguments: bad JSON");
    assert_eq!(texts[4], "did e");
    assert!(texts[5].contains("the id \"e\" was used before"), "{texts:?}");
    let errors: Vec<_> = results.iter().map(|result| result.is_error).collect();
    assert_eq!(errors, [true, true, true, true, false, true]);
    assert_eq!(trace.taken(), ["start e", "end e"]);
}

// spec 2.14
#[tokio::test(start_paused = true)]
async fn a_panicking_body_is_an_error_of_its_call_alone() {
    LazyLock::force(&QUIET);
    let (text, is_error) = outcome(|_| panic!("expected")).await;
    assert_eq!((text.as_str(), is_error), ("Share panicked: expected", true));
}

// spec 2.14
#[tokio::test(start_paused = true)]
async fn a_tools_own_errors_are_marked_and_others_say_their_first_message() {
    let (text, _) = outcome(|_| Err(ToolError::Business("no such\nfile".into()))).await;
    assert_eq!(text, "<tool_use_error>no such\nfile</tool_use_error>");
    let (text, _) = outcome(|_| Err(ToolError::InvalidArguments("a < b".into()))).await;
    assert_eq!(text, "<tool_use_error>InputValidationError: a < b</tool_use_error>");
    let (text, is_error) =
        outcome(|_| Err(ToolError::Other(Box::new(std::io::Error::other("disk\non fire"))))).await;
    assert_eq!((text.as_str(), is_error), ("disk on fire", true));
}

// spec 2.16
#[tokio::test(start_paused = true)]
async fn an_empty_output_says_that_it_is_empty() {
    for empty in ["", " \n"] {
        let (text, is_error) = outcome(move |_| Ok(ToolOutput::text(empty))).await;
        assert_eq!((text.as_str(), is_error), ("(Share completed with no output)", false));
    }
}

// spec 2.14
#[tokio::test(start_paused = true)]
async fn set_up_failed_refused_and_command_failed_read_differently() {
    let bash = async |script: Result<Script, SandboxError>| {
        let provider = FakeProvider::new("/ws").on_command(move |_| script.clone());
        let runtime = ToolRuntime::builder()
            .provider(Arc::new(provider))
            .policy(policy("test"))
            .build()
            .unwrap();
        let arguments = json!({"command": "true"});
        let call = ToolCall { id: CallId("a".into()), name: "Bash".into(), arguments };
        let results = runtime.run_turn([call]).await.unwrap();
        (text(&results[0]), results[0].is_error)
    };
    let failure = SetupFailure {
        step: "mount-proc".into(),
        subject: None,
        errno: Some(1),
        detail: "Operation not permitted".into(),
        remedy: "unmask /proc".into(),
    };
    let (text, is_error) = bash(Err(failure.into())).await;
    assert_eq!(text, "sandbox set-up failed at mount-proc: Operation not permitted; unmask /proc");
    assert!(is_error);
    let refusal = Refusal { by: "host".into(), reason: "landlock is missing".into() };
    let (text, _) = bash(Err(refusal.into())).await;
    assert_eq!(text, "refused by host: landlock is missing");
    let (text, is_error) = bash(Ok(Script::exits(1))).await;
    assert_eq!((text.as_str(), is_error), ("Exit code 1", true));
    let (text, is_error) = bash(Ok(Script::exits(0))).await;
    assert_eq!((text.as_str(), is_error), ("(Bash completed with no output)", false));
}

// spec 1.20
#[tokio::test(start_paused = true)]
async fn a_change_of_the_context_that_is_undeclared_or_cannot_be_made_is_refused_by_name() {
    use std::ffi::OsString;
    use stockade_tools::{ContextChange, TypedTool};
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[allow(dead_code)]
    struct Arguments {
        id: String,
        ms: u64,
    }
    let to = |cwd: &str| ContextChange { cwd: Some(cwd.into()), env: Vec::new() };
    let set = |name: &str, value: &str| ContextChange {
        cwd: None,
        env: vec![(name.into(), Some(OsString::from(value)))],
    };
    for (declared, change, refused) in [
        (false, to("/ws/deeper"), Some("did not declare")),
        (false, ContextChange::default(), Some("did not declare")),
        (true, to("deeper"), Some("\"deeper\" is not absolute")),
        (true, to(""), Some("not absolute")),
        (true, to("/ws/\0"), Some("zero byte")),
        (true, set("", "x"), Some("no name of a variable")),
        (true, set("A=B", "x"), Some("\"A=B\" is no name")),
        (true, set("A", "x\0"), Some("\"A\" has a zero byte")),
        (true, to("/ws/deeper"), None),
        (true, set("A", "x=y"), None),
    ] {
        let changed = change.clone();
        let body = move |_: Arguments, _| {
            let change = Some(changed.clone());
            async move { Ok::<_, ToolError>(ToolOutput { change, ..ToolOutput::text("changed") }) }
        };
        let seen = |_: Arguments, context: CallContext| async move {
            Ok::<_, ToolError>(format!(
                "{} {:?}",
                context.session.cwd.display(),
                context.session.env
            ))
        };
        let registry = Registry::new();
        let changes = TypedTool::new("Changes", "", body);
        let changes = if declared { changes.changes_context() } else { changes };
        registry.register(Arc::new(changes)).unwrap();
        registry.register(Arc::new(TypedTool::new("Sees", "", seen))).unwrap();
        let runtime = builder(Arc::new(registry)).build().unwrap();
        let results =
            runtime.run_turn([call("Changes", "a", 0), call("Sees", "b", 0)]).await.unwrap();
        let (said, sees) = (text(&results[0]), text(&results[1]));
        match refused {
            None => assert!(said == "changed" && sees != "/ws []", "{said}: {sees}"),
            Some(why) => {
                assert!(results[0].is_error && said.contains(why), "{change:?}: {said}");
                assert!(said.contains("Changes"), "by name: {said}");
                assert_eq!(sees, "/ws []", "{change:?}");
            }
        }
    }
}

// spec 2.8
#[tokio::test(start_paused = true)]
async fn times_without_an_end_end_nothing() {
    use stockade_tools::{BashTimeouts, TimeoutRules, TypedTool};
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[allow(dead_code)]
    struct Arguments {
        id: String,
        ms: u64,
    }
    let always = Duration::MAX;
    let mut endless = policy("test");
    (endless.limits.grace, endless.limits.wall) = (Some(always), Some(always));
    let body = |_: Arguments, context: CallContext| async move {
        context.cancel.cancelled().await;
        Ok::<_, ToolError>("")
    };
    let rules = TimeoutRules { call_may_choose: true, default: Some(always), max: Some(always) };
    let quick = |_: Arguments, _| async { Ok::<_, ToolError>("quick") };
    let registry = stockade_tools::builtin::registry().unwrap();
    registry.register(Arc::new(TypedTool::new("Waits", "", body).timeouts(rules))).unwrap();
    registry.register(Arc::new(TypedTool::new("Quick", "", quick).timeouts(rules))).unwrap();
    let runtime = builder(Arc::new(registry))
        .policy(endless)
        .default_timeout(always)
        .bash_timeouts(BashTimeouts { default: always, max: always })
        .build()
        .unwrap();
    let bash = ToolCall {
        id: CallId("bash".into()),
        name: "Bash".into(),
        arguments: json!({"command": "x"}),
    };
    let mut turn = runtime.open_turn();
    for one in [call("Quick", "a", 0), bash, call("Waits", "b", 0)] {
        turn.submit(one).unwrap();
    }
    turn.close();
    assert_eq!(text(&turn.next_result().await.unwrap().unwrap()), "quick");
    let bash = turn.next_result().await.unwrap().unwrap();
    assert!(!bash.is_error, "{bash:?}");
    turn.abort();
    assert!(text(&turn.next_result().await.unwrap().unwrap()).starts_with("ABORTED"));
}

// spec 1.9
#[tokio::test(start_paused = true)]
async fn what_a_body_leaves_behind_reports_no_progress_of_a_call_that_has_completed() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[allow(dead_code)]
    struct Arguments {
        id: String,
        ms: u64,
    }
    struct Sink(Trace);
    impl crate::EventSink for Sink {
        fn emit(&self, event: &crate::Event) {
            let event = serde_json::to_value(event).unwrap();
            self.0.note(event["event"].as_str().unwrap());
        }
    }
    let body = |_: Arguments, context: CallContext| async move {
        (context.progress)(json!("in time"));
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            (context.progress)(json!("late"));
        });
        Ok::<_, ToolError>("done")
    };
    let registry = Registry::new();
    registry.register(Arc::new(stockade_tools::TypedTool::new("Leaves", "", body))).unwrap();
    let trace = Trace::default();
    let sink = Arc::new(Sink(trace.clone()));
    let runtime = builder(Arc::new(registry)).events(sink).build().unwrap();
    runtime.run_turn([call("Leaves", "a", 0)]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(trace.taken(), ["queued", "executing", "progress", "completed", "yielded"]);
}
