use super::*;
use crate::{
    CallContext, Display, FrozenInput, QueueClock, SandboxPermissions, SessionContext, ToolOutput,
};
use serde_json::json;
use std::ffi::OsString;
use std::time::Duration;
use stockade_policy::LimitsPolicy;
use stockade_sandbox::fake::{FakeProvider, FileScript, OnTerminate, Script, Step, policy};
use stockade_sandbox::file::{FileDone, FileError, FileOp};
use stockade_sandbox::{Exit, SandboxError, TreeSignal};
use stockade_types::{
    CallId, ContentBlock, Denial, DenialKind, Evidence, Outcome, Refusal, SetupFailure,
};
use tokio_util::sync::CancellationToken;

fn context(provider: &FakeProvider) -> CallContext {
    CallContext {
        call_id: CallId("c1".into()),
        session: Arc::new(SessionContext {
            home: Some("/home/u".into()),
            ..SessionContext::new("/ws")
        }),
        cancel: CancellationToken::new(),
        progress: Arc::new(|_| {}),
        provider: Arc::new(provider.clone()),
        policy: Arc::new(policy("test")),
        output_store: None,
        queueing: QueueClock::default(),
    }
}

/// Validates, resolves and calls, as the pipeline does.
async fn call(
    context: &CallContext,
    tool: &str,
    arguments: Value,
) -> Result<ToolOutput, ToolError> {
    let tool = registry().unwrap().get(tool).unwrap();
    let arguments = tool.validate(&arguments)?;
    let input = FrozenInput::new(tool.tool().resolve_input(&arguments, &context.session)?);
    tool.tool().call(&input, context).await
}

fn text(output: &ToolOutput) -> &str {
    let [ContentBlock::Text { text }] = output.content.as_slice() else {
        panic!("not one text: {output:?}")
    };
    text
}

fn resolved(tool: &str, arguments: Value) -> Value {
    let provider = FakeProvider::new("/ws");
    let tool = registry().unwrap().get(tool).unwrap();
    let arguments = tool.validate(&arguments).unwrap();
    tool.tool().resolve_input(&arguments, &context(&provider).session).unwrap()
}

// spec 10.4
#[tokio::test(start_paused = true)]
async fn bash_runs_its_command_as_one_argument_and_shows_its_output_then_the_exit_code() {
    let provider = FakeProvider::new("/ws").on_command(|command| {
        assert_eq!(command.cwd, std::path::Path::new("/ws"));
        let pause = Step::Sleep(Duration::from_millis(5));
        let steps = vec![Step::Stderr(b"oops\n".to_vec()), pause, Step::Stdout(b"out".to_vec())];
        Ok(Script { exit: Exit::Code(3), ..Script::steps(steps) })
    });
    let command = "echo \"$x\" 'a b'\n# ü";
    let output = call(&context(&provider), "Bash", json!({"command": command})).await.unwrap();
    assert_eq!(text(&output), "oops\nout\nExit code 3");
    assert!(output.is_error);
    assert_eq!(output.report.outcome, Some(Outcome::Exited { code: 3 }));
    assert_eq!(provider.argvs(), [["/bin/bash", "-c", command].map(OsString::from)]);
}

#[tokio::test(start_paused = true)]
async fn bash_that_succeeds_shows_its_output_alone() {
    let provider = FakeProvider::new("/ws").on_command(|_| Ok(Script::prints("a\n\n  b\n")));
    let output = call(&context(&provider), "Bash", json!({"command": "x"})).await.unwrap();
    assert_eq!(text(&output), "a\n\n  b");
    assert!(!output.is_error);
}

// spec 2.8
#[tokio::test(start_paused = true)]
async fn bash_times_itself_and_says_what_was_killed() {
    let provider = FakeProvider::new("/ws").on_command(|_| {
        Ok(Script {
            on_terminate: OnTerminate::Ignore,
            ..Script::steps(vec![Step::Stdout(b"begun\n".to_vec()), Step::Hang])
        })
    });
    let arguments = json!({"command": "x", "timeout": 1500.0});
    let output = call(&context(&provider), "Bash", arguments).await.unwrap();
    let lines: Vec<_> = text(&output).lines().collect();
    assert_eq!(lines[..2], ["begun", "Tool execution timed out after 1500ms"]);
    assert!(lines[2].contains("SIGTERM, then SIGKILL"), "{lines:?}");
    assert!(output.is_error);
    assert_eq!(provider.signals(), [TreeSignal::Terminate, TreeSignal::Kill]);
}

// spec 2.8
#[test]
fn bash_has_a_default_timeout_and_a_longest_one() {
    let timeout = |arguments| resolved("Bash", arguments)["timeout"].clone();
    assert_eq!(timeout(json!({"command": "x"})), 120_000);
    assert_eq!(timeout(json!({"command": "x", "timeout": 5000})), 5000);
    assert_eq!(timeout(json!({"command": "x", "timeout": 86_400_000})), 600_000);
    assert_eq!(timeout(json!({"command": "x", "timeout": 0})), 1);
}

#[tokio::test(start_paused = true)]
async fn the_policys_wall_limit_ends_bash_before_its_own_timeout() {
    let limits = LimitsPolicy { wall: Some(Duration::from_millis(700)), ..Default::default() };
    let provider = FakeProvider::new("/ws")
        .with_limits(limits)
        .on_command(|_| Ok(Script::steps(vec![Step::Hang])));
    let output = call(&context(&provider), "Bash", json!({"command": "x"})).await.unwrap();
    assert!(text(&output).contains("timed out after 700ms"), "{}", text(&output));
}

// spec 5.9
#[tokio::test(start_paused = true)]
async fn what_the_sandbox_refused_to_a_command_is_named() {
    let provider = FakeProvider::new("/ws").on_command(|_| {
        Ok(Script {
            denials: vec![Denial {
                kind: DenialKind::Write,
                target: "/etc/x".into(),
                evidence: Evidence::Kernel,
                grant: "--write /etc/x".into(),
                note: String::new(),
            }],
            ..Script::exits(1)
        })
    });
    let output = call(&context(&provider), "Bash", json!({"command": "x"})).await.unwrap();
    assert_eq!(
        text(&output),
        "Exit code 1\n[the sandbox refused writing /etc/x (reported by the kernel); --write /etc/x would allow it]"
    );
    assert_eq!(output.report.denials.len(), 1);
}

// spec 8.2, 8.4
#[tokio::test(start_paused = true)]
async fn bash_hands_on_all_that_it_holds_and_what_people_are_shown_has_its_own_limit() {
    let provider = FakeProvider::new("/ws").on_command(|_| {
        let mut output = b"first\n".to_vec();
        output.extend(b"x".repeat(200_000));
        output.extend(b"\nlast");
        Ok(Script { exit: Exit::Code(1), ..Script::prints(output) })
    });
    let output = call(&context(&provider), "Bash", json!({"command": "x"})).await.unwrap();
    let text = text(&output);
    assert!(text.starts_with("first\nxxx") && text.ends_with("xxx\nlast\nExit code 1"));
    assert!(text.len() > 200_000);
    let Some(Display::Bash { output, omitted_bytes, .. }) = output.display else { panic!() };
    assert_eq!((output.len(), omitted_bytes), (150_000, 50_011));
}

#[tokio::test(start_paused = true)]
async fn a_failed_set_up_a_refusal_and_a_lost_cell_are_never_a_commands_failure() {
    let with =
        |error: SandboxError| FakeProvider::new("/ws").on_command(move |_| Err(error.clone()));
    let bash = async |provider: FakeProvider| {
        call(&context(&provider), "Bash", json!({"command": "x"})).await.unwrap_err()
    };
    let failure = SetupFailure {
        step: "mount-proc".into(),
        subject: None,
        errno: Some(1),
        detail: "no".into(),
        remedy: String::new(),
    };
    let error = bash(with(failure.into())).await;
    assert!(matches!(error, ToolError::SetupFailed(_)), "{error:?}");
    let refusal = Refusal { by: "host".into(), reason: "no userns".into() };
    let error = bash(with(refusal.into())).await;
    assert!(matches!(error, ToolError::Refused(_)), "{error:?}");
    let error = bash(with(SandboxError::CellLost("gone".into()))).await;
    assert!(matches!(error, ToolError::Lost(_)), "{error:?}");
    let missing = Step::NotExecutable(2);
    let provider =
        FakeProvider::new("/ws").on_command(move |_| Ok(Script::steps(vec![missing.clone()])));
    let error = bash(provider).await;
    assert!(matches!(&error, ToolError::Business(m) if m.contains("/bin/bash")), "{error:?}");
}

#[test]
fn a_command_with_a_nul_in_it_is_refused() {
    let provider = FakeProvider::new("/ws");
    let session = context(&provider).session;
    let error = Bash::default().resolve_input(&json!({"command": "a\u{0}b"}), &session);
    assert!(error.unwrap_err().to_string().contains("NUL"));
}

// spec 1.21
#[tokio::test(start_paused = true)]
async fn bash_in_the_background_returns_at_once_and_its_task_is_read_and_stopped_by_its_name() {
    let provider = FakeProvider::new("/ws").on_command(|_| {
        let steps = vec![Step::Stdout(b"listening\n".to_vec()), Step::Hang];
        Ok(Script::steps(steps))
    });
    let ended = Arc::new(std::sync::Mutex::new(Vec::new()));
    let tell = Arc::clone(&ended);
    let context = CallContext {
        progress: Arc::new(move |data| tell.lock().unwrap().push(data)),
        ..context(&provider)
    };
    let started = call(
        &context,
        "Bash",
        json!({"command": "serve", "run_in_background": true, "description": "a server"}),
    )
    .await
    .unwrap();
    assert!(text(&started).contains("task_1"), "{}", text(&started));
    tokio::time::sleep(Duration::from_secs(700)).await;
    let listed = call(&context, "TaskOutput", json!({})).await.unwrap();
    assert_eq!(text(&listed), "task_1: running, 10 bytes of output: a server");
    let read = call(&context, "TaskOutput", json!({"task_id": "task_1"})).await.unwrap();
    assert_eq!(text(&read), "listening\n[task_1: running; read on with offset 10]");
    assert_eq!(*ended.lock().unwrap(), Vec::<Value>::new());
    let stopped = call(&context, "TaskStop", json!({"task_id": "task_1"})).await.unwrap();
    assert_eq!(text(&stopped), "task_1: stopped.");
    assert_eq!(ended.lock().unwrap()[0]["task"]["status"], "ended", "the end is told");
    let read =
        call(&context, "TaskOutput", json!({"task_id": "task_1", "offset": 10, "block": true}));
    assert_eq!(text(&read.await.unwrap()), "[task_1: stopped; the output ends here]");
}

// spec 1.21: its own deadline, longer than a foreground call's may be
#[test]
fn in_the_background_there_is_no_time_budget_but_the_calls_own() {
    let arguments = json!({"command": "x", "run_in_background": true});
    assert_eq!(resolved("Bash", arguments).get("timeout"), None);
    let arguments = json!({"command": "x", "run_in_background": true, "timeout": 7_200_000});
    assert_eq!(resolved("Bash", arguments)["timeout"], 7_200_000);
}

// spec 6.5
#[tokio::test(start_paused = true)]
async fn bash_asks_for_a_terminal_where_the_call_does() {
    let provider = FakeProvider::new("/ws").on_command(|command| {
        assert!(command.terminal.is_some());
        Ok(Script::exits(0))
    });
    call(&context(&provider), "Bash", json!({"command": "x", "tty": true})).await.unwrap();
    assert_eq!(provider.argvs().len(), 1);
}

// spec 2.2
#[test]
fn arguments_that_do_not_fit_the_schema_are_named_one_by_one() {
    let registry = registry().unwrap();
    let error = |tool: &str, arguments| {
        registry.get(tool).unwrap().validate(&arguments).unwrap_err().to_string()
    };
    assert_eq!(
        error("Write", json!({"content": "x"})),
        "Write: the required parameter \"file_path\" is missing"
    );
    let unknown = error("Read", json!({"file_path": "a", "encoding": "utf8"}));
    assert!(unknown.contains("no parameter [\"encoding\"]"), "{unknown}");
    assert!(unknown.contains("file_path, justification, limit, offset"), "{unknown}");
    let kind = error("Read", json!({"file_path": "a", "limit": "ten"}));
    assert!(kind.contains("/limit"), "{kind}");
    assert!(error("Bash", json!("ls")).contains("not a JSON object"));
    let mode = error("Grep", json!({"pattern": "x", "output_mode": "lines"}));
    assert!(mode.contains("/output_mode"), "{mode}");
    let nested = error("Bash", json!({"command": "x", "sandbox_permissions": {"root": true}}));
    assert!(nested.contains("/sandbox_permissions"), "{nested}");
    let secret = error("Write", json!({"file_path": 1, "content": {"huge": "value"}}));
    assert!(!secret.contains("huge"), "{secret}");
}

#[tokio::test(start_paused = true)]
async fn read_numbers_its_lines_and_says_how_to_go_on() {
    let provider = FakeProvider::new("/ws");
    provider.put_file("/ws/a", "one\n\nthree\nfour");
    let context = context(&provider);
    let read = async |arguments| call(&context, "Read", arguments).await.unwrap();
    let whole = read(json!({"file_path": "a"})).await;
    assert_eq!(text(&whole), "     1\tone\n     2\t\n     3\tthree\n     4\tfour\n");
    let part = read(json!({"file_path": "/ws/a", "offset": 2, "limit": 2})).await;
    assert_eq!(
        text(&part),
        "     2\t\n     3\tthree\n[lines 2 to 3 of 4 are shown; go on with offset 4]\n"
    );
    let beyond = read(json!({"file_path": "a", "offset": 9})).await;
    assert_eq!(text(&beyond), "[nothing to read from line 9 on: the file has 4 lines]");
    provider.put_file("/ws/empty", "");
    assert_eq!(text(&read(json!({"file_path": "empty"})).await), "[/ws/empty is empty]");
    provider.put_file("/ws/bin", b"a\xff\n");
    let bytes = read(json!({"file_path": "bin"})).await;
    assert!(
        text(&bytes).ends_with("[not valid UTF-8: bytes that are none are shown as \u{fffd}]\n")
    );
}

#[tokio::test(start_paused = true)]
async fn a_missing_file_is_the_tools_own_error() {
    let provider = FakeProvider::new("/ws");
    let error = call(&context(&provider), "Read", json!({"file_path": "a"})).await.unwrap_err();
    assert!(matches!(&error, ToolError::Business(m) if m.contains("/ws/a")), "{error:?}");
}

// spec 10.4
#[tokio::test(start_paused = true)]
async fn edit_wants_the_file_read_before_and_unchanged_since() {
    let provider = FakeProvider::new("/ws");
    provider.put_file("/ws/a", "x = 1\n");
    let context = context(&provider);
    let edit = async |old: &str, new: &str| {
        let arguments = json!({"file_path": "a", "old_string": old, "new_string": new});
        call(&context, "Edit", arguments).await
    };
    let unread = edit("1", "2").await.unwrap_err().to_string();
    assert!(unread.contains("read it first"), "{unread}");
    assert!(provider.file_ops().is_empty());

    call(&context, "Read", json!({"file_path": "./a"})).await.unwrap();
    let edited = edit("1", "2").await.unwrap();
    assert!(text(&edited).contains("     1\tx = 2\n"), "{}", text(&edited));
    // Its own edit counts as having seen the file.
    edit("2", "3").await.unwrap();
    assert_eq!(provider.file_content("/ws/a").unwrap(), b"x = 3\n");

    provider.put_file("/ws/a", "x = 33\n");
    let changed = edit("3", "4").await.unwrap_err().to_string();
    assert!(changed.contains("read it again"), "{changed}");
    call(&context, "Read", json!({"file_path": "a"})).await.unwrap();
    let twice = edit("3", "4").await.unwrap_err().to_string();
    assert!(twice.contains("2 times"), "{twice}");
    assert!(edit("", "4").await.is_err());
    assert!(edit("3", "3").await.is_err());
    let all = json!({"file_path": "a", "old_string": "3", "new_string": "4", "replace_all": true});
    call(&context, "Edit", all).await.unwrap();
    assert_eq!(provider.file_content("/ws/a").unwrap(), b"x = 44\n");
}

// spec 10.4
#[tokio::test(start_paused = true)]
async fn write_creates_a_file_but_replaces_only_one_that_was_read_and_is_unchanged() {
    let provider = FakeProvider::new("/ws");
    provider.put_file("/ws/old", "old");
    let context = context(&provider);
    let write = async |path: &str, content: &str| {
        call(&context, "Write", json!({"file_path": path, "content": content})).await
    };
    assert_eq!(text(&write("new", "ä").await.unwrap()), "Created /ws/new (2 bytes)");
    assert_eq!(text(&write("/ws/new", "").await.unwrap()), "Replaced /ws/new (0 bytes)");
    let unread = write("old", "x").await.unwrap_err().to_string();
    assert!(unread.contains("read it first"), "{unread}");
    call(&context, "Read", json!({"file_path": "old"})).await.unwrap();
    provider.put_file("/ws/old", "older");
    let changed = write("old", "x").await.unwrap_err().to_string();
    assert!(changed.contains("has changed"), "{changed}");
    assert_eq!(provider.file_content("/ws/old").unwrap(), b"older");
}

// spec 5.9
#[tokio::test(start_paused = true)]
async fn a_file_that_the_sandbox_protects_is_a_denial_and_not_the_tools_own_error() {
    let refuse = |error: FileError| {
        FakeProvider::new("/ws").on_file(move |_| {
            Ok(FileScript { takes: Duration::ZERO, result: Some(Err(error.clone())) })
        })
    };
    let write = async |provider: FakeProvider| {
        let arguments = json!({"file_path": ".git/hooks/x", "content": ""});
        call(&context(&provider), "Write", arguments).await.unwrap_err()
    };
    let path = Bytes::from("/ws/.git/hooks/x");
    let protected = FileError::Protected { path: path.clone(), pattern: ".git/hooks".into() };
    let ToolError::Denied { denials, .. } = write(refuse(protected)).await else { panic!() };
    assert_eq!(denials[0].evidence, Evidence::Observed);
    assert_eq!(denials[0].target, "/ws/.git/hooks/x");
    let read_only =
        FileError::Os { step: "open".into(), path, errno: 30, message: "Read-only".into() };
    let ToolError::Denied { denials, .. } = write(refuse(read_only)).await else { panic!() };
    assert_eq!((denials[0].kind, denials[0].evidence), (DenialKind::Write, Evidence::Inferred));
}

#[tokio::test(start_paused = true)]
async fn glob_and_grep_list_what_was_found_and_what_may_be_missing() {
    let found = |entries: &[&str], truncated| FileDone::Found {
        entries: entries.iter().map(|entry| Bytes::from(*entry)).collect(),
        truncated,
        unreadable: vec![Bytes::from("/ws/locked: Permission denied")],
    };
    let some = found(&["/ws/a", "/ws/b"], true);
    let none = FileDone::Found { entries: vec![], truncated: false, unreadable: vec![] };
    let provider = FakeProvider::new("/ws").on_file(move |op| {
        let many = match op {
            FileOp::Glob { pattern, .. } => pattern == "*",
            FileOp::Grep(op) => op.pattern == "x",
            _ => false,
        };
        let done = if many { some.clone() } else { none.clone() };
        Ok(FileScript { takes: Duration::ZERO, result: Some(Ok(done)) })
    });
    let context = context(&provider);
    let listed = "/ws/a\n/ws/b\n[only the first 2 are shown: narrow the search to see the others]\n\
                  [could not look at /ws/locked: Permission denied]";
    for (tool, arguments, expected) in [
        ("Glob", json!({"pattern": "*"}), listed),
        ("Glob", json!({"pattern": "~/*.rs"}), "No files found"),
        ("Grep", json!({"pattern": "x", "path": "/src", "-C": 2, "-A": 3, "-n": false}), listed),
        ("Grep", json!({"pattern": "y", "output_mode": "content"}), "No matches found"),
    ] {
        let output = call(&context, tool, arguments).await.unwrap();
        assert_eq!(text(&output), expected);
        assert!(!output.is_error);
    }
    let [FileOp::Glob { .. }, FileOp::Glob { root, pattern, .. }, FileOp::Grep(grep), _] =
        <[FileOp; 4]>::try_from(provider.file_ops()).unwrap()
    else {
        panic!()
    };
    assert_eq!((root, pattern.as_str()), (Bytes::from("/home/u"), "*.rs"));
    assert_eq!((grep.before, grep.after, grep.line_numbers), (2, 3, false));
    assert_eq!(grep.root, Bytes::from("/src"));
}

// spec 10.4
#[test]
fn a_null_for_what_is_optional_counts_as_absent_and_one_for_what_is_not_is_named() {
    let nothing = json!({"command": "ls", "timeout": null, "description": null, "run_in_background": null,
        "sandbox_permissions": null, "justification": null});
    assert_eq!(resolved("Bash", nothing), resolved("Bash", json!({"command": "ls"})));
    let nothing = json!({"pattern": "x", "path": null, "type": null, "-A": null, "-i": null, "output_mode": null,
        "sandbox_permissions": {"read": null, "full_access": null}});
    let plain = json!({"pattern": "x", "sandbox_permissions": {}});
    assert_eq!(resolved("Grep", nothing), resolved("Grep", plain));
    let tool = registry().unwrap().get("Bash").unwrap();
    for bad in [json!({"command": null}), json!({"command": "ls", "comand": null})] {
        assert!(matches!(tool.validate(&bad), Err(ToolError::InvalidArguments(_))), "{bad}");
    }
}

// spec 10.4
#[test]
fn grep_takes_ripgreps_types() {
    let input = resolved("Grep", json!({"pattern": "x", "type": "py"}));
    assert_eq!(input["glob"], "{*.py,*.pyi}");
    let provider = FakeProvider::new("/ws");
    let tool = registry().unwrap().get("Grep").unwrap();
    let unknown = json!({"pattern": "x", "type": "pyhton"});
    let error = tool.tool().resolve_input(&unknown, &context(&provider).session).unwrap_err();
    assert!(matches!(error, ToolError::Business(_)), "{error}");
}

// spec 1.2
#[test]
fn only_the_reading_tools_say_that_they_may_run_beside_others() {
    let parallel: Vec<_> = registry()
        .unwrap()
        .tools()
        .iter()
        .filter(|tool| tool.tool().concurrency_safe(&json!({})).unwrap())
        .map(|tool| (tool.name().to_owned(), tool.tool().read_only(&json!({}))))
        .collect();
    assert_eq!(
        parallel,
        [("Glob", true), ("Grep", true), ("Read", true), ("TaskOutput", true)]
            .map(|(n, r)| (n.into(), r))
    );
}

// spec 10.4
#[test]
fn the_permissions_that_a_call_asks_for_are_part_of_its_frozen_input() {
    let input = FrozenInput::new(resolved(
        "Write",
        json!({
            "file_path": "a", "content": "", "justification": "needed",
            "sandbox_permissions": {"write": ["../out", "~/x"], "network": ["a.b:443"]}
        }),
    ));
    let (permissions, justification) = input.escalation().unwrap().unwrap();
    let paths = ["/out", "/home/u/x"].map(|path| crate::PathInput(path.into()));
    let expected = SandboxPermissions {
        write: paths.to_vec(),
        network: vec!["a.b:443".into()],
        ..Default::default()
    };
    assert_eq!((permissions, justification.as_str()), (expected, "needed"));
    let nothing = resolved("Bash", json!({"command": "x", "sandbox_permissions": {"read": []}}));
    assert_eq!(FrozenInput::new(nothing).escalation().unwrap(), None);
}

// spec 3.4
#[test]
fn a_registration_is_checked() {
    struct Named(&'static str, Value);
    #[async_trait::async_trait]
    impl Tool for Named {
        fn name(&self) -> &str {
            self.0
        }
        fn description(&self) -> &str {
            ""
        }
        fn input_schema(&self) -> &Value {
            &self.1
        }
        async fn call(&self, _: &FrozenInput, _: &CallContext) -> Result<ToolOutput, ToolError> {
            Ok(ToolOutput::text(""))
        }
    }
    let registry = registry().unwrap();
    let register = |name, schema| registry.register(Arc::new(Named(name, schema)));
    let object = json!({"type": "object"});
    assert_eq!(register("Bash", object.clone()), Err(RegistrationError::NameTaken("Bash".into())));
    assert_eq!(
        register("run_code", object.clone()),
        Err(RegistrationError::NameReserved("run_code".into()))
    );
    assert_eq!(register("a b", object.clone()), Err(RegistrationError::NameInvalid("a b".into())));
    for schema in [json!({"type": "object", "properties": {"a": {"type": "strin"}}}), json!(true)] {
        let error = register("mine", schema).unwrap_err();
        assert!(matches!(error, RegistrationError::SchemaInvalid { .. }), "{error}");
    }
    assert_eq!(register("mine", object.clone()), Ok(()));
    assert!(registry.replace(Arc::new(Named("mine", object))).is_ok());
    assert!(registry.remove("mine") && !registry.remove("mine"));
}

// spec 10.4: the schemas are derived from the types that the arguments are parsed into
#[test]
fn the_schemas_that_models_are_shown_are_plain() {
    let registry = registry().unwrap();
    let schema = |name: &str| registry.get(name).unwrap().tool().input_schema().clone();
    let bash = schema("Bash");
    assert_eq!(bash["type"], "object");
    assert_eq!(bash["required"], json!(["command"]));
    assert_eq!(bash["additionalProperties"], false);
    assert_eq!(
        bash["properties"]["timeout"],
        json!({
            "type": "integer", "minimum": 0,
            "description": "Time budget in milliseconds; 120000 by default, 600000 at most."
        })
    );
    let wanted = &bash["properties"]["sandbox_permissions"];
    assert_eq!(
        (&wanted["type"], &wanted["additionalProperties"]),
        (&json!("object"), &json!(false))
    );
    assert_eq!(wanted["properties"]["read"]["items"], json!({"type": "string"}));
    assert_eq!(schema("Read")["properties"]["limit"]["minimum"], 1);
    let modes = &schema("Grep")["properties"]["output_mode"];
    assert_eq!(modes["enum"], json!(["files_with_matches", "content", "count"]));
    for tool in registry.tools() {
        let text = tool.tool().input_schema().to_string();
        assert!(!text.contains("$ref") && !text.contains("null"), "{}: {text}", tool.name());
    }
}
