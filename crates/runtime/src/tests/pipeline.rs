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
