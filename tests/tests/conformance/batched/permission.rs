//! Permission rules and approval (spec 2.5, 2.6).

use crate::hooks;
use crate::probe::{Log, Probe};
use crate::world::{Events, builder, call, rest, text, tools, wait, with};
use async_trait::async_trait;
use serde_json::json;
use std::sync::Arc;
use stockade_rules::{RuleLayer, RuleSet};
use stockade_runtime::{
    ApprovalRequest, Approver, Decision, HookError, PermissionHook, PreVerdict, Settings,
    SlotApprover, ToolRuntime,
};
use stockade_tools::ApprovalNeed;

fn rules(files: &[(RuleLayer, &str)]) -> RuleSet {
    let folder = tempfile::tempdir().expect("a folder");
    let mut set = RuleSet::default();
    for (number, (layer, text)) in files.iter().enumerate() {
        let path = folder.path().join(format!("{number}.toml"));
        std::fs::write(&path, text).expect("a file");
        set.add_file(*layer, &path).expect("rules");
    }
    set
}

// spec 2.5
#[tokio::test(start_paused = true)]
async fn b_2_5_deny_is_over_ask_over_allow_and_every_command_of_a_line_must_be_allowed() {
    let log = Log::default();
    let rules = rules(&[
        (RuleLayer::User, "allow = [\"Bash(git status:*)\", \"Bash(git push:*)\", \"Bash(ls:*)\"]"),
        (RuleLayer::Project, "ask = [\"Bash(git push:*)\"]\ndeny = [\"Bash(git push --force:*)\"]"),
    ]);
    let runtime = builder(Settings::batched(), tools(&log)).rules(rules).build();
    let runtime = runtime.expect("a runtime");
    for (command, said) in [
        ("git status --short", None),
        ("git status && ls -l", None),
        // Nobody is there to be asked.
        ("git push", Some("No permission client configured")),
        ("git push --force", Some("git push --force")),
        ("git status; git push --force", Some("git push --force")),
        ("git status && rm -rf /", Some("No permission client configured")),
        // Not to be parsed: asked.
        ("git status \"", Some("No permission client configured")),
    ] {
        let call = with("Bash", "a", json!({ "command": command }));
        let results = runtime.run_turn([call]).await.expect("no fault");
        assert_eq!(results[0].is_error, said.is_some(), "{command}: {results:?}");
        assert!(text(&results[0]).contains(said.unwrap_or_default()), "{command}: {results:?}");
    }
}

fn asking(log: &Log) -> stockade_tools::Registry {
    let registry = tools(log);
    let asks = Probe { approval: ApprovalNeed::Ask, ..Probe::reads("Ask", log) };
    registry.register(Arc::new(asks)).expect("a tool");
    registry
}

// spec 2.6
#[tokio::test(start_paused = true)]
async fn b_2_6_without_an_approver_the_answer_is_no() {
    let runtime = builder(Settings::batched(), asking(&Log::default())).build();
    let results = runtime.expect("a runtime").run_turn([call("Ask", "a", 1)]).await;
    let results = results.expect("no fault");
    assert!(results[0].is_error && text(&results[0]).contains("No permission client configured"));
}

// spec 2.6
#[tokio::test(start_paused = true)]
async fn b_2_6_a_client_may_answer_as_soon_as_it_hears_the_request_and_its_time_is_no_run_time() {
    let log = Log::default();
    let (events, slots) = (Events::default(), Arc::new(SlotApprover::default()));
    let runtime: ToolRuntime = builder(Settings::batched(), asking(&log))
        .events(Arc::new(events.clone()))
        .approver(slots.clone())
        .build()
        .expect("a runtime");
    let mut turn = runtime.open_turn();
    turn.submit(call("Ask", "a", 200_000)).expect("open");
    turn.close();
    wait(1_000_000).await;
    assert_eq!(events.of("a"), ["queued", "permission_requested"]);
    assert_eq!(log.taken(), [""; 0], "nothing runs meanwhile");
    let question = slots.questions().remove(0);
    assert_eq!(question.call.id().0, "a");
    slots.answer(question.call.token(), Decision::Allow).expect("it is open");
    assert!(slots.answer(question.call.token(), Decision::Allow).is_err(), "it counts once");
    let results = rest(&mut turn).await;
    assert_eq!(text(&results[0]), "a in /ws", "its own time is less than its deadline");
}

/// Answers after so many milliseconds, and notes if it was not the first.
struct Answers(&'static str, u64, Log);

#[async_trait]
impl Approver for Answers {
    async fn decide(&self, _: &ApprovalRequest) -> Result<Decision, HookError> {
        wait(self.1).await;
        Ok(Decision::Deny { reason: format!("{} says no", self.0) })
    }

    fn settled(&self, _: &ApprovalRequest, by: &str) {
        self.2.note(format!("{} is told that {by} was first", self.0));
    }
}

#[async_trait]
impl PermissionHook for Answers {
    fn name(&self) -> &str {
        self.0
    }

    async fn decide(&self, _: &ApprovalRequest) -> Result<Option<Decision>, HookError> {
        wait(self.1).await;
        Ok(Some(Decision::Allow))
    }

    fn settled(&self, _: &ApprovalRequest, by: &str) {
        self.2.note(format!("{} is told that {by} was first", self.0));
    }
}

// spec 2.6
#[tokio::test(start_paused = true)]
async fn b_2_6_client_and_hooks_race_the_first_wins_and_the_losers_are_told() {
    for (client, allowed, told) in [
        (
            50,
            false,
            [
                "quick is told that the approver was first",
                "slow is told that the approver was first",
            ],
        ),
        (500, true, ["client is told that quick was first", "slow is told that quick was first"]),
    ] {
        let log = Log::default();
        let answers = |name, ms| Arc::new(Answers(name, ms, log.clone()));
        let runtime = builder(Settings::batched(), asking(&Log::default()))
            .approver(answers("client", client))
            .permission_hook(answers("quick", 100))
            .permission_hook(answers("slow", 1000))
            .build()
            .expect("a runtime");
        let results = runtime.run_turn([call("Ask", "a", 1)]).await.expect("no fault");
        assert_eq!(!results[0].is_error, allowed, "{results:?}");
        assert_eq!(log.taken(), told);
    }
    // With nobody to ask but hooks, too.
    let log = Log::default();
    let runtime = builder(Settings::batched(), asking(&Log::default()))
        .permission_hook(Arc::new(Answers("quick", 100, log.clone())))
        .permission_hook(Arc::new(Answers("slow", 1000, log.clone())))
        .build()
        .expect("a runtime");
    let results = runtime.run_turn([call("Ask", "a", 1)]).await.expect("no fault");
    assert!(!results[0].is_error);
    assert_eq!(log.taken(), ["slow is told that quick was first"]);
}

// spec 2.6
#[tokio::test(start_paused = true)]
async fn b_2_6_a_preview_that_fails_leaves_the_question_and_a_tool_may_narrow_it_to_a_yes() {
    use serde_json::Value;
    use stockade_tools::{
        ApprovalPreparation, CallContext, Display, FrozenInput, Registry, Tool, ToolError,
        ToolOutput,
    };
    struct Prepares(fn() -> Result<ApprovalPreparation, ToolError>, Value);
    #[async_trait]
    impl Tool for Prepares {
        fn name(&self) -> &str {
            "Prepares"
        }
        fn description(&self) -> &str {
            ""
        }
        fn input_schema(&self) -> &Value {
            &self.1
        }
        fn approval(&self, _: &FrozenInput) -> ApprovalNeed {
            ApprovalNeed::Ask
        }
        async fn prepare_approval(
            &self,
            _: &FrozenInput,
            _: &CallContext,
        ) -> Result<ApprovalPreparation, ToolError> {
            (self.0)()
        }
        async fn call(&self, _: &FrozenInput, _: &CallContext) -> Result<ToolOutput, ToolError> {
            Ok("ran".into())
        }
    }
    struct Sees(Log);
    #[async_trait]
    impl Approver for Sees {
        async fn decide(&self, request: &ApprovalRequest) -> Result<Decision, HookError> {
            self.0.note(format!("asked, preview: {}", request.preview.is_some()));
            Ok(Decision::Allow)
        }
    }
    let fails: fn() -> Result<ApprovalPreparation, ToolError> =
        || Err(ToolError::Business("no".into()));
    let panics: fn() -> Result<ApprovalPreparation, ToolError> = || panic!("expected here");
    let shows: fn() -> Result<ApprovalPreparation, ToolError> = || {
        let preview = Display::Diff { path: "a".into(), hunks: Vec::new(), omitted_lines: 0 };
        Ok(ApprovalPreparation { allow: false, preview: Some(preview) })
    };
    let allows: fn() -> Result<ApprovalPreparation, ToolError> =
        || Ok(ApprovalPreparation { allow: true, preview: None });
    for (prepares, hook, asked) in [
        (fails, false, Some("asked, preview: false")),
        (panics, false, Some("asked, preview: false")),
        (shows, false, Some("asked, preview: true")),
        (allows, false, None),
        // It may not answer what somebody else asks.
        (allows, true, Some("asked, preview: false")),
    ] {
        let log = Log::default();
        let registry = Registry::new();
        let tool = Prepares(prepares, json!({"type": "object"}));
        registry.register(Arc::new(tool)).expect("a tool");
        let mut builder =
            builder(Settings::batched(), registry).approver(Arc::new(Sees(log.clone())));
        if hook {
            builder = builder.hook(hooks::says(PreVerdict::Ask("sure?".into())));
        }
        let runtime = builder.build().expect("a runtime");
        let results = runtime.run_turn([with("Prepares", "a", json!({}))]).await.expect("no fault");
        assert_eq!(text(&results[0]), "ran");
        assert_eq!(log.taken(), Vec::from_iter(asked.map(str::to_owned)));
    }
}
