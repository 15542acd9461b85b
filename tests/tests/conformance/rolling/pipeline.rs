//! The four phases of a call, each with its hooks (spec 2).

use crate::hooks::{self, after};
use crate::probe::{Log, Probe};
use crate::world::{builder, call, text, timed, tools, wait, with};
use async_trait::async_trait;
use serde_json::json;
use std::sync::Arc;
use stockade_runtime::{
    Around, Guard, Hook, HookError, Next, Observer, PostDecision, PostVerdict, PreDecision,
    PreVerdict, PreparedCall, Settings,
};
use stockade_tools::{CallContext, Registry, Structured, ToolError, ToolOutput, TypedTool};
use stockade_types::{ContentBlock, ToolResult};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

// spec 2.1
#[tokio::test(start_paused = true)]
async fn r_2_1_prepare_and_finish_are_in_the_models_order_and_dispatch_overlaps() {
    struct Phases(Log);
    #[async_trait]
    impl Hook for Phases {
        fn name(&self) -> &str {
            "phases"
        }
        async fn pre_execute(&self, call: &PreparedCall) -> Result<PreDecision, HookError> {
            wait(if call.id().0 == "a" { 50 } else { 1 }).await;
            self.0.note(format!("prepare {}", call.id()));
            Ok(PreDecision::pass())
        }
        async fn post_execute(
            &self,
            call: &PreparedCall,
            _: &ToolResult,
        ) -> Result<PostDecision, HookError> {
            self.0.note(format!("finalize {}", call.id()));
            Ok(PostDecision::accept())
        }
    }
    impl Observer for Phases {
        fn committed(&self, result: &ToolResult) {
            self.0.note(format!("finish {}", result.call_id));
        }
    }
    let log = Log::default();
    let phases = Arc::new(Phases(log.clone()));
    let runtime = builder(Settings::rolling(), tools(&log)).hook(phases.clone()).observer(phases);
    let runtime = runtime.build().expect("a runtime");
    let calls = [call("Read", "a", 100), call("Read", "b", 10)];
    runtime.run_turn(calls).await.expect("no fault");
    let expected = [
        "prepare a",
        "start a",
        "prepare b",
        "start b",
        "end b",
        "end a",
        "finalize a",
        "finish a",
        "finalize b",
        "finish b",
    ];
    assert_eq!(log.taken(), expected);
}

// spec 2.2: what was approved is what runs
#[tokio::test(start_paused = true)]
async fn r_2_2_hook_guard_and_body_hold_one_value_which_is_validated_and_resolved() {
    struct Sees(Log);
    impl Guard for Sees {
        fn name(&self) -> &str {
            "sees"
        }
        fn check(&self, call: &PreparedCall) -> Result<(), String> {
            self.0.note(format!("{:p}", call.input().value()));
            Ok(())
        }
    }
    let log = Log::default();
    let (at_hook, at_body) = (log.clone(), log.clone());
    let registry = Registry::new();
    let probe = Probe::reads("Read", &Log::default()).doing(move |input, _| {
        at_body.note(format!("{input:p}"));
        Ok("read".into())
    });
    registry.register(Arc::new(probe)).expect("a tool");
    let runtime = builder(Settings::rolling(), registry)
        .hook(hooks::before("sees", move |call| {
            at_hook.note(format!("{:p}", call.input().value()));
            PreDecision::pass()
        }))
        .guard(Arc::new(Sees(log.clone())))
        .build()
        .expect("a runtime");
    // An optional argument that is null was left out, for all of them.
    let calls = [with("Read", "a", json!({"ms": null})), with("Read", "b", json!({"sm": 1}))];
    let results = runtime.run_turn(calls).await.expect("no fault");
    let places = log.taken();
    assert_eq!(places.len(), 3, "what does not fit the schema is seen by nobody: {places:?}");
    assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
    assert!(text(&results[1]).contains("it has no parameter [\"sm\"]"), "{results:?}");
}

// spec 2.3
#[tokio::test(start_paused = true)]
async fn r_2_3_a_denial_ends_the_chain_of_hooks_and_one_that_fails_denies() {
    struct Fails;
    #[async_trait]
    impl Hook for Fails {
        fn name(&self) -> &str {
            "fails"
        }
        async fn pre_execute(&self, _: &PreparedCall) -> Result<PreDecision, HookError> {
            Err("out of order".into())
        }
    }
    let deny = || hooks::says(PreVerdict::Deny("not today".into()));
    for (hook, said) in [(deny(), "not today"), (Arc::new(Fails) as Arc<dyn Hook>, "out of order")]
    {
        let log = Log::default();
        let later = log.clone();
        let runtime = builder(Settings::rolling(), tools(&log))
            .hook(hooks::says(PreVerdict::Allow))
            .hook(hook)
            .hook(hooks::before("later", move |_| {
                later.note("asked");
                PreDecision::pass()
            }))
            .build()
            .expect("a runtime");
        let results = runtime.run_turn([call("Read", "a", 1)]).await.expect("no fault");
        assert!(results[0].is_error && text(&results[0]).contains(said), "{results:?}");
        assert_eq!(log.taken(), [""; 0], "neither a later hook nor the body");
    }
}

struct Refuses(&'static str, bool);
impl Guard for Refuses {
    fn name(&self) -> &str {
        self.0
    }
    fn check(&self, _: &PreparedCall) -> Result<(), String> {
        if self.1 { Err(format!("{} says no", self.0)) } else { Ok(()) }
    }
}

// spec 2.4
#[tokio::test(start_paused = true)]
async fn r_2_4_a_guard_may_only_refuse_and_nothing_undoes_it() {
    struct Panics;
    impl Guard for Panics {
        fn name(&self) -> &str {
            "panics"
        }
        fn check(&self, _: &PreparedCall) -> Result<(), String> {
            panic!("expected here")
        }
    }
    let log = Log::default();
    let run = async |guards: Vec<Arc<dyn Guard>>| {
        let mut builder =
            builder(Settings::rolling(), tools(&log)).hook(hooks::says(PreVerdict::Allow));
        for guard in guards {
            builder = builder.guard(guard);
        }
        let runtime = builder.build().expect("a runtime");
        let results = runtime.run_turn([call("Read", "a", 1)]).await.expect("no fault");
        (results[0].is_error, text(&results[0]))
    };
    let refuses = || Arc::new(Refuses("first", true));
    let passes = || Arc::new(Refuses("second", false));
    assert!(!run(vec![passes()]).await.0);
    for guards in [vec![refuses() as Arc<dyn Guard>, passes()], vec![passes(), refuses()]] {
        let (is_error, said) = run(guards).await;
        assert!(is_error && said.contains("first says no"), "{said}");
    }
    let (is_error, said) = run(vec![Arc::new(Panics)]).await;
    assert!(is_error && said.contains("panicked"), "{said}");
}

// spec 2.7
#[tokio::test(start_paused = true)]
async fn r_2_7_no_wrapper_can_detach_a_body_from_its_caller() {
    struct Replaces(Log);
    #[async_trait]
    impl Around for Replaces {
        async fn around(
            &self,
            call: &PreparedCall,
            mut context: CallContext,
            next: Next<'_>,
        ) -> Result<ToolOutput, ToolError> {
            let own = CancellationToken::new();
            context.cancel = own.clone();
            if call.id().0 == "wrapped" {
                let cancel_soon = async {
                    wait(30).await;
                    own.cancel();
                    std::future::pending::<()>().await;
                };
                self.0.note("around");
                tokio::select! {
                    output = next.run(context) => return output,
                    () = cancel_soon => unreachable!(),
                }
            }
            next.run(context).await
        }
    }
    let log = Log::default();
    let runtime = builder(Settings::rolling(), tools(&log))
        .around(Arc::new(Replaces(log.clone())))
        .around(Arc::new(Replaces(log.clone())))
        .build()
        .expect("a runtime");
    // The wrapper's own token counts…
    runtime.run_turn([call("Read", "wrapped", 1000)]).await.expect("no fault");
    assert_eq!(log.taken(), ["around", "around", "start wrapped", "stopped wrapped"]);
    // … and the caller's counts too, though the wrapper replaced it twice.
    let mut turn = runtime.open_turn();
    turn.submit(call("Read", "a", 100_000)).expect("open");
    turn.close();
    wait(10).await;
    let begun = Instant::now();
    turn.abort();
    assert_eq!(timed(&mut turn, begun).await, [("a".to_owned(), 0)]);
    assert_eq!(log.taken(), ["start a", "stopped a"]);
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Asked {
    wrong: bool,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Counted {
    count: u32,
}

/// Declares that it returns a count, and returns text if it is asked to be wrong.
fn counts() -> Registry {
    let body = |asked: Asked, _| async move {
        Ok::<ToolOutput, ToolError>(match asked.wrong {
            true => ToolOutput::value(json!({"count": "many"})),
            false => ToolOutput::from(Structured(Counted { count: 3 })),
        })
    };
    let registry = Registry::new();
    let tool = TypedTool::new("Count", "", body).returns::<Counted>();
    registry.register(Arc::new(tool)).expect("a tool");
    registry
}

// spec 2.11
#[tokio::test(start_paused = true)]
async fn r_2_11_output_is_held_to_its_schema() {
    let runtime = builder(Settings::rolling(), counts()).build().expect("a runtime");
    let calls =
        [with("Count", "a", json!({"wrong": false})), with("Count", "b", json!({"wrong": true}))];
    let results = runtime.run_turn(calls).await.expect("no fault");
    assert_eq!(text(&results[0]), "{\n  \"count\": 3\n}");
    assert!(results[1].is_error && text(&results[1]).starts_with("ToolOutputError: Count"));
}

// spec 2.12
#[tokio::test(start_paused = true)]
async fn r_2_12_post_hooks_accept_replace_or_block() {
    let run = async |verdict: fn() -> PostVerdict| {
        let runtime = builder(Settings::rolling(), counts()).hook(after(move |_, _| verdict()));
        let runtime = runtime.build().expect("a runtime");
        let calls = [with("Count", "a", json!({"wrong": false}))];
        runtime.run_turn(calls).await.expect("no fault").remove(0)
    };
    let replaced = run(|| PostVerdict::Replace(vec![ContentBlock::text("other")])).await;
    assert_eq!((text(&replaced).as_str(), replaced.is_error), ("other", false));
    // A new value is rendered again, and held to the schema.
    let valued = run(|| PostVerdict::ReplaceValue(json!({"count": 7}))).await;
    assert_eq!(text(&valued), "{\n  \"count\": 7\n}");
    let misfit = run(|| PostVerdict::ReplaceValue(json!({"count": "seven"}))).await;
    assert!(misfit.is_error && text(&misfit).contains("output schema"), "{misfit:?}");
    let blocked = run(|| PostVerdict::Block("count again".into())).await;
    assert!(blocked.is_error && text(&blocked).contains("count again"));
    assert!(!text(&blocked).contains("\"count\": 3"), "nothing of what was blocked");
    let stopped = run(|| PostVerdict::StopTurn).await;
    assert!(stopped.stop_turn && !stopped.is_error);
}

// spec 2.12: deferred context
#[tokio::test(start_paused = true)]
async fn r_2_12_what_the_body_adds_for_the_model_is_kept_on_accept_and_dropped_on_block() {
    for blocks in [false, true] {
        let registry = Registry::new();
        let probe = Probe::reads("Note", &Log::default()).doing(|_, _| {
            Ok(ToolOutput { context: vec!["by the way".into()], ..ToolOutput::text("done") })
        });
        registry.register(Arc::new(probe)).expect("a tool");
        let verdict =
            move || if blocks { PostVerdict::Block("no".into()) } else { PostVerdict::Accept };
        let runtime = builder(Settings::rolling(), registry).hook(after(move |_, _| verdict()));
        let runtime = runtime.build().expect("a runtime");
        let results = runtime.run_turn([call("Note", "a", 1)]).await.expect("no fault");
        assert_eq!(text(&results[0]).contains("1. by the way"), !blocks);
    }
}

// spec 2.13
#[tokio::test(start_paused = true)]
async fn r_2_13_observers_get_the_frozen_result_and_can_hurt_nothing() {
    struct Sees(Log);
    impl Observer for Sees {
        fn committed(&self, result: &ToolResult) {
            self.0.note(text(result));
        }
    }
    struct Panics;
    impl Observer for Panics {
        fn committed(&self, _: &ToolResult) {
            panic!("expected here");
        }
    }
    let log = Log::default();
    let runtime = builder(Settings::rolling(), counts())
        .hook(after(|_, _| PostVerdict::Replace(vec![ContentBlock::text("final")])))
        .observer(Arc::new(Panics))
        .observer(Arc::new(Sees(log.clone())))
        .build()
        .expect("a runtime");
    let calls = [with("Count", "a", json!({"wrong": false}))];
    let results = runtime.run_turn(calls).await.expect("no fault");
    assert_eq!((log.taken(), results[0].is_error), (vec![text(&results[0])], false));
}
