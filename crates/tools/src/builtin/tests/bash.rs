//! Bash, in the foreground and behind.

use super::*;

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
    assert_eq!((output.len(), omitted_bytes), (149_999, 50_012));
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

// spec 6.2
#[tokio::test(start_paused = true)]
async fn what_a_command_wrote_is_not_lost_with_it() {
    let provider = FakeProvider::new("/ws").on_command(|_| {
        let steps = vec![Step::Stdout(b"half of it\n".to_vec()), Step::Vanish("killed".into())];
        Ok(Script::steps(steps))
    });
    let output = call(&context(&provider), "Bash", json!({"command": "x"})).await.unwrap();
    assert_eq!(text(&output), "half of it\nThe command was lost: killed");
    assert!(output.is_error && matches!(output.report.outcome, Some(Outcome::Lost { .. })));
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
        task_ended: Arc::new(move |data| tell.lock().unwrap().push(data)),
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
    let beyond = json!({"task_id": "task_1", "offset": 11});
    let beyond = call(&context, "TaskOutput", beyond).await.unwrap();
    let told = "[task_1: running; nothing is read, since offset 11 is beyond its output, which is 10 bytes: read on with offset 10]";
    assert_eq!(text(&beyond), told);
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

// spec 6.1: what it said before and during the grace, and how it was ended
#[tokio::test(start_paused = true)]
async fn a_cancelled_command_says_what_it_wrote_and_how_it_was_ended() {
    let cancelled = async |script: Script, kill: bool| {
        let provider = FakeProvider::new("/ws").on_command(move |_| Ok(script.clone()));
        let context = context(&provider);
        let (cancel, kill_token) = (context.cancel.clone(), context.kill.clone());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            cancel.cancel();
            tokio::time::sleep(Duration::from_millis(300)).await;
            if kill {
                kill_token.cancel();
            }
        });
        call(&context, "Bash", json!({"command": "x"})).await.unwrap()
    };
    let script = |on_terminate| Script {
        on_terminate,
        ..Script::steps(vec![Step::Stdout(b"half\n".to_vec()), Step::Hang])
    };
    let polite = cancelled(script(OnTerminate::Die), false).await;
    assert!(text(&polite).starts_with("half\nThe command was cancelled\n["), "{polite:?}");
    assert!(text(&polite).contains("ended with SIGTERM; the command itself"), "{polite:?}");
    assert!(polite.is_error);
    assert!(matches!(polite.report.outcome, Some(Outcome::Cancelled { .. })));
    let stubborn = cancelled(script(OnTerminate::Ignore), false).await;
    assert!(text(&stubborn).contains("with SIGTERM, then SIGKILL"), "{stubborn:?}");
    assert_eq!(stubborn.report.killed.unwrap().took_ms, 2000, "the grace");
    let hurried = cancelled(script(OnTerminate::Ignore), true).await;
    assert!(text(&hurried).starts_with("half\n"), "{hurried:?}");
    assert_eq!(hurried.report.killed.unwrap().took_ms, 300, "no more of the grace");
}
