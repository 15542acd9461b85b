//! Layers of tools (spec 3).

use super::rolling;
use crate::probe::{Log, Probe};
use crate::world::{Events, builder, call, text, tools};
use std::sync::Arc;
use stockade_runtime::{Settings, ToolRuntime};
use stockade_tools::{Filter, Presentation, Registry};
use stockade_types::ToolResult;

async fn one(runtime: &ToolRuntime, name: &str) -> ToolResult {
    runtime.run_turn([call(name, name, 1)]).await.expect("no fault").remove(0)
}

// spec 3.1
#[tokio::test(start_paused = true)]
async fn r_3_1_a_nearer_layer_shadows_a_farther_one() {
    let log = Log::default();
    let global = rolling(&log);
    let (parent, child) = {
        let parent = global.scope().build();
        let child = parent.scope().build();
        (parent, child)
    };
    let says = |text: &'static str| Probe::alone("Read", &log).doing(move |_, _| Ok(text.into()));
    parent.registry().register(Arc::new(says("the parent's"))).expect("a tool");
    assert_eq!(text(&one(&child, "Read").await), "the parent's", "the nearest ancestor's");
    child.registry().register(Arc::new(says("its own"))).expect("a tool");
    assert_eq!(text(&one(&child, "Read").await), "its own");
    assert_eq!(text(&one(&parent, "Read").await), "the parent's");
    assert_eq!(text(&one(&global, "Read").await), "Read in /ws");
    assert!(child.registry().remove("Read"));
    assert_eq!(text(&one(&child, "Read").await), "the parent's");
}

// spec 3.2
#[tokio::test(start_paused = true)]
async fn r_3_2_restrictions_are_an_intersection_own_tools_are_exempt_and_the_handle_undoes_one() {
    let log = Log::default();
    let global = rolling(&log);
    let parent = global.scope().build();
    let child = parent.scope().build();
    let outer = parent.registry().restrict(Filter::allow(["Read", "Grep"])).expect("known");
    let inner = child.registry().restrict(Filter::deny(["Grep"])).expect("known");
    let can = async |runtime: &ToolRuntime| {
        let mut names = Vec::new();
        for name in ["Read", "Grep", "Edit"] {
            if !one(runtime, name).await.is_error {
                names.push(name);
            }
        }
        names
    };
    assert_eq!(can(&parent).await, ["Read", "Grep"]);
    assert_eq!(can(&child).await, ["Read"], "deeper means fewer");
    assert_eq!(can(&global).await, ["Read", "Grep", "Edit"]);
    assert!(child.registry().restrict(Filter::allow(["Edit"])).is_err(), "not known there");
    let own = Probe::alone("Grep", &log);
    child.registry().register(Arc::new(own)).expect("a tool");
    assert_eq!(can(&child).await, ["Read", "Grep"], "its own tools are exempt");
    outer.undo();
    assert_eq!(can(&child).await, ["Read", "Grep", "Edit"]);
    child.registry().remove("Grep");
    assert_eq!(can(&child).await, ["Read", "Edit"], "the other one stands");
    inner.undo();
    assert_eq!(can(&child).await, ["Read", "Grep", "Edit"]);
}

// spec 3.5
#[tokio::test(start_paused = true)]
async fn r_3_5_a_scopes_listener_sees_its_calls_alone_a_global_one_all_and_changes_go_to_everyone()
{
    let log = Log::default();
    let (global_events, scope_events) = (Events::default(), Events::default());
    let global = builder(Settings::rolling(), tools(&log)).events(Arc::new(global_events.clone()));
    let global = global.build().expect("a runtime");
    let scope = global.scope().events(Arc::new(scope_events.clone())).build();
    one(&scope, "Grep").await;
    one(&global, "Edit").await;
    let calls_of = |events: &Events| -> Vec<String> {
        let all = events.all();
        let queued = all.iter().filter(|event| event["event"] == "queued");
        queued.map(|event| event["call_id"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(calls_of(&global_events), ["Grep", "Edit"]);
    assert_eq!(calls_of(&scope_events), ["Grep"]);
    let changes = |events: &Events| {
        events.all().iter().filter(|event| event["event"] == "tools/change").count()
    };
    let restriction = scope.registry().restrict(Filter::deny(["Read"])).expect("known");
    restriction.undo();
    assert_eq!((changes(&global_events), changes(&scope_events)), (2, 2));
    global.registry().remove("Grep");
    assert_eq!((changes(&global_events), changes(&scope_events)), (3, 3));
}

// spec 3.3
#[tokio::test(start_paused = true)]
async fn r_3_3_in_a_code_view_a_direct_call_is_refused() {
    let log = Log::default();
    let global = rolling(&log);
    let scope = global.scope().build();
    scope.registry().present(Some(Presentation::Code));
    assert!(scope.registry().view().is_err(), "nothing serves run_code");
    global.registry().provide_run_code(Arc::new(Probe::alone("run_code", &log))).expect("a tool");
    let calls = || [call("Read", "a", 1), call("run_code", "b", 1)];
    let results = scope.run_turn(calls()).await.expect("no fault");
    assert!(text(&results[0]).contains("use run_code") && results[0].is_error);
    assert_eq!(text(&results[1]), "b in /ws");
    let results = global.run_turn(calls()).await.expect("no fault");
    assert_eq!((results[0].is_error, results[1].is_error), (false, true));
}

// spec 3.4
#[test]
fn r_3_4_registration_is_checked() {
    let registry = Registry::new();
    let log = Log::default();
    registry.register(Arc::new(Probe::reads("Read", &log))).expect("a tool");
    assert!(registry.register(Arc::new(Probe::reads("Read", &log))).is_err(), "twice in a layer");
    assert!(registry.register(Arc::new(Probe::reads("run_code", &log))).is_err(), "reserved");
    assert!(registry.register(Arc::new(Probe::reads("no name", &log))).is_err(), "no name");
}
