//! Hooks, guards, approvals and observers (spec 2.3, 2.4, 2.6, 2.12, 2.13, 2.15).

use super::*;
use crate::{
    ApprovalReason, ApprovalRequest, Approver, Decision, Guard, Hook, HookError, Observer,
    PostDecision, PostVerdict, PreDecision, PreVerdict, PreparedCall,
};
use stockade_sandbox::file::FileOp;
use stockade_tools::ApprovalNeed;

type Pre = dyn Fn(&PreparedCall) -> Result<PreDecision, HookError> + Send + Sync;
type Post = dyn Fn(&ToolResult) -> Result<PostDecision, HookError> + Send + Sync;

struct Scripted(&'static str, Box<Pre>, Box<Post>);

#[async_trait]
impl Hook for Scripted {
    fn name(&self) -> &str {
        self.0
    }
    async fn pre_execute(&self, call: &PreparedCall) -> Result<PreDecision, HookError> {
        (self.1)(call)
    }
    async fn post_execute(
        &self,
        _: &PreparedCall,
        result: &ToolResult,
    ) -> Result<PostDecision, HookError> {
        (self.2)(result)
    }
}

fn pre(
    decide: impl Fn(&PreparedCall) -> Result<PreDecision, HookError> + Send + Sync + 'static,
) -> Arc<dyn Hook> {
    Arc::new(Scripted("H", Box::new(decide), Box::new(|_| Ok(PostDecision::accept()))))
}

fn says(verdict: PreVerdict) -> Arc<dyn Hook> {
    pre(move |_| Ok(verdict.clone().into()))
}

fn post(
    decide: impl Fn(&ToolResult) -> Result<PostDecision, HookError> + Send + Sync + 'static,
) -> Arc<dyn Hook> {
    Arc::new(Scripted("H", Box::new(|_| Ok(PreDecision::pass())), Box::new(decide)))
}

/// Answers alike each time, and keeps what it was asked.
struct Answers(Decision, Mutex<Vec<ApprovalRequest>>);

#[async_trait]
impl Approver for Answers {
    async fn decide(&self, request: &ApprovalRequest) -> Result<Decision, HookError> {
        self.1.lock().unwrap().push(request.clone());
        Ok(self.0.clone())
    }
}

fn answers(decision: Decision) -> Arc<Answers> {
    Arc::new(Answers(decision, Mutex::default()))
}

async fn one(builder: RuntimeBuilder, call: ToolCall) -> ToolResult {
    let mut results = builder.build().unwrap().run_turn([call]).await.unwrap();
    assert_eq!(results.len(), 1);
    results.remove(0)
}

// spec 2.3
#[tokio::test(start_paused = true)]
async fn a_hook_that_denies_ends_the_chain_and_the_body_never_runs() {
    let trace = Trace::default();
    let later = trace.clone();
    let runtime = builder(probes(&trace))
        .hook(says(PreVerdict::Allow))
        .hook(says(PreVerdict::Deny("not today".into())))
        .hook(pre(move |_| {
            later.note("third");
            Ok(PreDecision::pass())
        }));
    let result = one(runtime, call("Share", "a", 0)).await;
    assert_eq!(text(&result), "refused by hook H: not today");
    assert!(result.is_error);
    assert!(trace.taken().is_empty());
}

// spec 2.3, 2.6
#[tokio::test(start_paused = true)]
async fn an_ask_outweighs_an_allow_and_without_an_approver_nothing_is_approved() {
    let trace = Trace::default();
    let runtime = builder(probes(&trace))
        .hook(says(PreVerdict::Ask("really?".into())))
        .hook(says(PreVerdict::Allow));
    let result = one(runtime, call("Share", "a", 0)).await;
    assert!(text(&result).contains("No permission client configured"), "{result:?}");
    assert!(result.is_error);
    assert!(trace.taken().is_empty());
}

// spec 2.3
#[tokio::test(start_paused = true)]
async fn a_hooks_allow_spares_an_ordinary_confirmation_but_never_one_that_is_always_asked() {
    struct Careful(ApprovalNeed);
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| json!({"type": "object"}));
    #[async_trait]
    impl Tool for Careful {
        fn name(&self) -> &str {
            "Careful"
        }
        fn description(&self) -> &str {
            ""
        }
        fn input_schema(&self) -> &Value {
            &SCHEMA
        }
        fn approval(&self, _: &FrozenInput) -> ApprovalNeed {
            self.0
        }
        async fn call(&self, _: &FrozenInput, _: &CallContext) -> Result<ToolOutput, ToolError> {
            Ok(ToolOutput::text("ran"))
        }
    }
    for (need, hook, runs) in [
        (ApprovalNeed::None, PreVerdict::Pass, true),
        (ApprovalNeed::Ask, PreVerdict::Pass, false),
        (ApprovalNeed::Ask, PreVerdict::Allow, true),
        (ApprovalNeed::AlwaysAsk, PreVerdict::Allow, false),
    ] {
        let registry = Registry::new();
        registry.register(Arc::new(Careful(need))).unwrap();
        let runtime = builder(Arc::new(registry)).hook(says(hook.clone()));
        let result = one(runtime, call("Careful", "a", 0)).await;
        assert_eq!(text(&result) == "ran", runs, "{need:?}, {hook:?}");
    }
}

// spec 2.6
#[tokio::test(start_paused = true)]
async fn an_approver_sees_the_call_and_why_it_is_asked() {
    let trace = Trace::default();
    for (decision, runs) in
        [(Decision::Allow, true), (Decision::Deny { reason: "no".into() }, false)]
    {
        let approver = answers(decision);
        let runtime = builder(probes(&trace))
            .hook(says(PreVerdict::Ask("really?".into())))
            .approver(approver.clone());
        let result = one(runtime, call("Share", "a", 0)).await;
        let expected = if runs { "did a" } else { "refused by approver: no" };
        assert_eq!(text(&result), expected);
        let asked = approver.1.lock().unwrap();
        let [request] = asked.as_slice() else { panic!("{asked:?}") };
        assert_eq!(request.call.input().value(), &json!({"id": "a", "ms": 0}));
        let question = ApprovalReason::Hook { name: "H".into(), question: "really?".into() };
        assert_eq!(request.reasons, [question]);
    }
}

// spec 2.2
#[tokio::test(start_paused = true)]
async fn what_hooks_guards_and_approver_saw_is_what_runs() {
    struct Sees(Trace);
    impl Guard for Sees {
        fn name(&self) -> &str {
            "sees"
        }
        fn check(&self, call: &PreparedCall) -> Result<(), String> {
            self.0.note(format!("{:p}", call.input().value()));
            Ok(())
        }
    }
    let trace = Trace::default();
    let (at_hook, at_body) = (trace.clone(), trace.clone());
    let registry = Registry::new();
    let probe = Probe::new("Share", &Trace::default(), true).doing(move |input| {
        at_body.note(format!("{input:p}"));
        Ok(ToolOutput::text("x"))
    });
    registry.register(Arc::new(probe)).unwrap();
    let approver = answers(Decision::Allow);
    let runtime = builder(Arc::new(registry))
        .hook(pre(move |call| {
            at_hook.note(format!("{:p}", call.input().value()));
            Ok(PreVerdict::Ask("?".into()).into())
        }))
        .guard(Arc::new(Sees(trace.clone())))
        .approver(approver.clone());
    one(runtime, call("Share", "a", 0)).await;
    let mut seen = trace.taken();
    seen.push(format!("{:p}", approver.1.lock().unwrap()[0].call.input().value()));
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(|place| *place == seen[0]), "{seen:?}");
}

// spec 2.4
#[tokio::test(start_paused = true)]
async fn a_guard_refuses_after_the_hooks_whatever_they_allow_and_nobody_is_asked() {
    struct Refuses(bool);
    impl Guard for Refuses {
        fn name(&self) -> &str {
            "G"
        }
        fn check(&self, _: &PreparedCall) -> Result<(), String> {
            if self.0 {
                panic!("expected")
            }
            Err("never".into())
        }
    }
    LazyLock::force(&QUIET);
    let trace = Trace::default();
    for panics in [false, true] {
        let approver = answers(Decision::Allow);
        let runtime = builder(probes(&trace))
            .hook(says(PreVerdict::Allow))
            .hook(says(PreVerdict::Ask("?".into())))
            .guard(Arc::new(Refuses(panics)))
            .approver(approver.clone());
        let result = one(runtime, call("Share", "a", 0)).await;
        assert!(text(&result).starts_with("refused by guard G: "), "{result:?}");
        assert!(approver.1.lock().unwrap().is_empty());
    }
    assert!(trace.taken().is_empty());
}

// spec 2.14: fail closed
#[tokio::test(start_paused = true)]
async fn a_hook_or_an_approver_that_fails_refuses() {
    struct Fails(bool);
    #[async_trait]
    impl Approver for Fails {
        async fn decide(&self, _: &ApprovalRequest) -> Result<Decision, HookError> {
            if self.0 {
                panic!("expected")
            }
            Err("offline".into())
        }
    }
    LazyLock::force(&QUIET);
    let trace = Trace::default();
    let asks = || says(PreVerdict::Ask("?".into()));
    for runtime in [
        builder(probes(&trace)).hook(pre(|_| Err("broken".into()))),
        builder(probes(&trace)).hook(pre(|_| panic!("expected"))),
        builder(probes(&trace)).hook(asks()).approver(Arc::new(Fails(false))),
        builder(probes(&trace)).hook(asks()).approver(Arc::new(Fails(true))),
    ] {
        let result = one(runtime, call("Share", "a", 0)).await;
        assert!(result.is_error);
        assert!(text(&result).starts_with("refused by "), "{result:?}");
    }
    assert!(trace.taken().is_empty());
    for runtime in [
        builder(probes(&trace)).hook(post(|_| Err("broken".into()))),
        builder(probes(&trace)).hook(post(|_| panic!("expected"))),
    ] {
        let result = one(runtime, call("Share", "a", 0)).await;
        assert!(result.is_error);
        assert!(
            text(&result).starts_with("refused by hook H: the hook itself failed"),
            "{result:?}"
        );
    }
}

// spec 2.12
#[tokio::test(start_paused = true)]
async fn a_post_execute_hook_may_replace_the_content_or_block_the_result() {
    let trace = Trace::default();
    let replace =
        post(|_| Ok(PostVerdict::Replace(vec![ContentBlock::Text { text: "new".into() }]).into()));
    let result = one(builder(probes(&trace)).hook(replace.clone()), call("Share", "a", 0)).await;
    assert_eq!((text(&result).as_str(), result.is_error), ("new", false));
    // The next hook sees what the one before made of it.
    let block = post(|result| Ok(PostVerdict::Block(format!("not {:?}", text(result))).into()));
    let runtime = builder(probes(&trace)).hook(replace).hook(block);
    let result = one(runtime, call("Share", "a", 0)).await;
    assert_eq!((text(&result).as_str(), result.is_error), ("refused by hook H: not \"new\"", true));
}

// spec 2.15
#[tokio::test(start_paused = true)]
async fn what_hooks_add_is_appended_numbered_also_to_a_refusal() {
    let trace = Trace::default();
    let notes = |verdict: PreVerdict| {
        pre(move |_| {
            let context = vec!["first".to_owned(), "second".to_owned()];
            Ok(PreDecision { verdict: verdict.clone(), context })
        })
    };
    let after =
        post(|_| Ok(PostDecision { verdict: PostVerdict::Accept, context: vec!["third".into()] }));
    let runtime = builder(probes(&trace)).hook(notes(PreVerdict::Pass)).hook(after);
    let result = one(runtime, call("Share", "a", 0)).await;
    assert_eq!(text(&result), "did a\n[Hook additional context]\n1. first\n2. second\n3. third");
    let runtime = builder(probes(&trace)).hook(notes(PreVerdict::Deny("no".into())));
    let result = one(runtime, call("Share", "a", 0)).await;
    assert_eq!(
        text(&result),
        "refused by hook H: no\n[Hook additional context]\n1. first\n2. second"
    );
}

// spec 2.13
#[tokio::test(start_paused = true)]
async fn observers_get_the_final_result_and_their_failure_changes_nothing() {
    struct Sees(Trace);
    impl Observer for Sees {
        fn committed(&self, result: &ToolResult) {
            self.0.note(format!("{} {}", result.call_id, text(result)));
        }
    }
    struct Panics;
    impl Observer for Panics {
        fn committed(&self, _: &ToolResult) {
            panic!("expected");
        }
    }
    LazyLock::force(&QUIET);
    let trace = Trace::default();
    let runtime = builder(probes(&Trace::default()))
        .observer(Arc::new(Panics))
        .observer(Arc::new(Sees(trace.clone())))
        .build()
        .unwrap();
    let results = runtime.run_turn([call("Share", "a", 10), call("Nobody", "b", 0)]).await.unwrap();
    let seen: Vec<_> = results.iter().map(|r| format!("{} {}", r.call_id, text(r))).collect();
    assert_eq!(trace.taken(), seen);
}

fn write(file: &str, permissions: Value) -> ToolCall {
    let arguments = json!({
        "file_path": file, "content": "x", "justification": "needed",
        "sandbox_permissions": permissions
    });
    ToolCall { id: CallId("w".into()), name: "Write".into(), arguments }
}

fn real(provider: &FakeProvider) -> RuntimeBuilder {
    ToolRuntime::builder().provider(Arc::new(provider.clone())).policy(policy("test"))
}

// spec 7.1, 2.6
#[tokio::test(start_paused = true)]
async fn a_call_that_asks_for_more_than_its_policy_is_denied_when_nobody_can_be_asked() {
    let provider = FakeProvider::new("/ws");
    // A hook's allow does not count for it.
    let runtime = real(&provider).hook(says(PreVerdict::Allow));
    let result = one(runtime, write("/out/a", json!({"write": ["/out"]}))).await;
    assert!(text(&result).contains("No permission client configured"), "{result:?}");
    // Where it leads may be found out, and its preview may read, under the session's own policy.
    let looks = |op: &FileOp| matches!(op, FileOp::Read { .. } | FileOp::Locate { .. });
    assert!(provider.file_ops().iter().all(looks));
    assert!(provider.policies().iter().all(|used| used == "test"));
}

// spec 7.1
#[tokio::test(start_paused = true)]
async fn an_approved_call_runs_under_the_widened_policy_and_the_next_one_does_not() {
    struct Cells(FakeProvider, Mutex<Vec<Vec<std::path::PathBuf>>>);
    #[async_trait]
    impl stockade_sandbox::SandboxProvider for Cells {
        async fn cell(
            &self,
            policy: &stockade_policy::Policy,
        ) -> Result<Arc<dyn stockade_sandbox::Cell>, stockade_sandbox::SandboxError> {
            self.1.lock().unwrap().push(policy.filesystem.literal.write.clone());
            self.0.cell(policy).await
        }
        fn workspace(&self) -> std::path::PathBuf {
            self.0.workspace()
        }
    }
    let cells = Arc::new(Cells(FakeProvider::new("/ws"), Mutex::default()));
    let approver = answers(Decision::Allow);
    let runtime = ToolRuntime::builder()
        .provider(cells.clone())
        .policy(policy("test"))
        .approver(approver.clone())
        .build()
        .unwrap();
    let mut plain = write("a", json!({}));
    plain.id = CallId("p".into());
    let wider = write("/o*t/a", json!({"write": ["/o*t"]}));
    let results = runtime.run_turn([wider, plain]).await.unwrap();
    assert!(results.iter().all(|result| !result.is_error), "{results:?}");
    let granted = vec![std::path::PathBuf::from("/o*t")];
    // First the preview, which nobody has allowed anything yet.
    assert_eq!(*cells.1.lock().unwrap(), [vec![], granted, vec![]]);
    let asked = approver.1.lock().unwrap();
    let [request] = asked.as_slice() else { panic!("{asked:?}") };
    let [ApprovalReason::Escalation { justification, .. }] = request.reasons.as_slice() else {
        panic!("{request:?}")
    };
    assert_eq!(justification, "needed");
}

// spec 7.2
#[tokio::test(start_paused = true)]
async fn what_cannot_be_granted_is_refused_by_name_without_asking_anyone() {
    for (permissions, why) in [
        (json!({"write": ["/x"]}), "beyond the ceiling"),
        (json!({"full_access": true}), "beyond the ceiling"),
        (json!({"limits": {"memroy": "1G"}}), "memroy"),
        (json!({"syscalls": ["no-such-group"]}), "no-such-group"),
    ] {
        let provider = FakeProvider::new("/ws");
        let approver = answers(Decision::Allow);
        let runtime = real(&provider).approver(approver.clone()).ceiling(policy("test"));
        let result = one(runtime, write("/out/a", permissions)).await;
        assert!(result.is_error && text(&result).contains(why), "{result:?}");
        assert!(approver.1.lock().unwrap().is_empty(), "nobody was asked");
        assert!(provider.file_ops().is_empty());
    }
}

// spec 2.12, 2.14
#[tokio::test(start_paused = true)]
async fn a_new_value_that_says_of_itself_that_it_is_an_error_is_one() {
    struct Says(bool);
    #[async_trait]
    impl Hook for Says {
        fn name(&self) -> &str {
            "says"
        }
        async fn post_execute(
            &self,
            _: &PreparedCall,
            _: &ToolResult,
        ) -> Result<PostDecision, HookError> {
            Ok(crate::PostVerdict::ReplaceValue(json!({"isError": self.0, "n": 1})).into())
        }
    }
    #[derive(serde::Serialize, schemars::JsonSchema)]
    struct Output {
        n: u64,
    }
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[allow(dead_code)]
    struct Arguments {
        id: String,
        ms: u64,
    }
    for is_error in [true, false] {
        let body = |_: Arguments, _| async { Ok(stockade_tools::Structured(Output { n: 7 })) };
        let registry = Registry::new();
        let tool = stockade_tools::TypedTool::new("Counts", "", body).returns::<Output>();
        registry.register(Arc::new(tool)).unwrap();
        let runtime = builder(Arc::new(registry)).hook(Arc::new(Says(is_error))).build().unwrap();
        let result = runtime.run_turn([call("Counts", "a", 0)]).await.unwrap().remove(0);
        assert_eq!(result.is_error, is_error, "{result:?}");
        assert!(text(&result).contains("\"n\": 1"), "{result:?}");
    }
}
