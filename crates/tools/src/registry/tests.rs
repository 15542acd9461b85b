use super::*;
use crate::{Metadata, TypedTool};
use std::time::Duration;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn tool(name: &str, says: &'static str) -> Arc<dyn Tool> {
    Arc::new(TypedTool::new(name, says, move |_: Nothing, _| async move { Ok(says) }))
}

fn says(registry: &Registry, name: &str) -> Option<String> {
    registry.get(name).map(|tool| tool.tool().description().to_owned())
}

fn names(registry: &Registry) -> Vec<String> {
    registry.tools().iter().map(|tool| tool.name().to_owned()).collect()
}

/// A global layer with a, b, c, and a scope below it.
fn scoped() -> (Arc<Registry>, Arc<Registry>) {
    let global = Arc::new(Registry::new());
    for name in ["a", "b", "c"] {
        global.register(tool(name, "global")).unwrap();
    }
    let scope = global.scope();
    (global, scope)
}

// spec 3.1
#[test]
fn a_nearer_layer_shadows_a_farther_one() {
    let (global, middle) = scoped();
    let near = middle.scope();
    middle.register(tool("a", "middle")).unwrap();
    near.register(tool("b", "near")).unwrap();
    assert_eq!(says(&near, "a").as_deref(), Some("middle"));
    assert_eq!(says(&near, "b").as_deref(), Some("near"));
    assert_eq!(says(&near, "c").as_deref(), Some("global"));
    assert_eq!(says(&middle, "b").as_deref(), Some("global"));
    assert_eq!(says(&global, "a").as_deref(), Some("global"));
    assert_eq!(names(&near), ["a", "b", "c"]);
    assert!(near.remove("b"));
    assert_eq!(says(&near, "b").as_deref(), Some("global"));
    assert!(!near.remove("b"), "only the own layer's tools can be removed");
}

// spec 3.2
#[test]
fn restrictions_intersect_along_the_chain_and_own_tools_are_exempt() {
    let (_, middle) = scoped();
    middle.register(tool("m", "middle")).unwrap();
    middle.restrict(Filter::allow(["a", "b"])).unwrap();
    assert_eq!(names(&middle), ["a", "b", "m"]);
    let near = middle.scope();
    near.register(tool("c", "own")).unwrap();
    near.restrict(Filter::deny(["b", "m"])).unwrap();
    assert_eq!(names(&near), ["a", "c"]);
    assert_eq!(says(&near, "c").as_deref(), Some("own"));
    // What the scope above has hidden cannot be allowed again.
    assert_eq!(
        near.restrict(Filter::allow(["a", "b", "nobody"])).unwrap_err(),
        UnknownTools(vec!["b".into(), "nobody".into()])
    );
}

// spec 3.2
#[test]
fn undoing_a_restriction_leaves_the_others() {
    let (_, scope) = scoped();
    let first = scope.restrict(Filter::deny(["a"])).unwrap();
    let second = scope.restrict(Filter::deny(["b"])).unwrap();
    assert_eq!(names(&scope), ["c"]);
    first.undo();
    assert_eq!(names(&scope), ["a", "c"]);
    drop(second);
    assert_eq!(names(&scope), ["a", "c"]);
}

// spec 3.3
#[test]
fn presentation_is_inherited_and_run_code_is_needed_only_where_a_view_needs_it() {
    let (global, scope) = scoped();
    let direct = |registry: &Registry| -> Result<Vec<String>, ViewError> {
        Ok(registry.view()?.direct.iter().map(|tool| tool.name().to_owned()).collect())
    };
    assert_eq!(direct(&scope).unwrap(), ["a", "b", "c"]);
    global.present(Some(Presentation::Code));
    assert_eq!(direct(&scope), Err(ViewError::NoRunCode(Presentation::Code)));
    global.provide_run_code(tool("run_code", "runs a program")).unwrap();
    assert_eq!(direct(&scope).unwrap(), ["run_code"]);
    assert_eq!(scope.view().unwrap().in_code.len(), 3);
    assert!(matches!(scope.direct("a"), Lookup::CodeOnly));
    assert!(matches!(scope.direct("run_code"), Lookup::Found(_)));
    assert!(matches!(scope.direct("zzz"), Lookup::Unknown));
    scope.present(Some(Presentation::Both));
    assert_eq!(direct(&scope).unwrap(), ["a", "b", "c", "run_code"]);
    assert!(matches!(scope.direct("a"), Lookup::Found(_)));
    scope.present(Some(Presentation::Native));
    assert!(matches!(scope.direct("run_code"), Lookup::Unknown));
    scope.present(None);
    assert!(matches!(scope.direct("a"), Lookup::CodeOnly));
}

// spec 3.4, 1.20
#[test]
fn registration_is_checked() {
    let registry = Registry::new();
    registry.register(tool("a", "")).unwrap();
    let error = |tool| registry.register(tool).unwrap_err();
    assert_eq!(error(tool("a", "")), RegistrationError::NameTaken("a".into()));
    assert_eq!(error(tool("run_code", "")), RegistrationError::NameReserved("run_code".into()));
    for name in ["", "a b", "ä", &"x".repeat(129)] {
        assert_eq!(error(tool(name, "")), RegistrationError::NameInvalid(name.into()));
    }
    let typed = || TypedTool::new("t", "", |_: Nothing, _| async { Ok("") });
    let rules = TimeoutRules { max: Some(Duration::ZERO), ..TimeoutRules::default() };
    assert_eq!(
        error(Arc::new(typed().timeouts(rules))),
        RegistrationError::TimeoutZero("t".into())
    );
    let ms = |ms| Some(Duration::from_millis(ms));
    let rules = |default, max| TimeoutRules { default, max, ..TimeoutRules::default() };
    assert_eq!(
        error(Arc::new(typed().timeouts(rules(ms(2), ms(1))))),
        RegistrationError::TimeoutOverMax("t".into())
    );
    assert_eq!(
        error(Arc::new(typed().metadata(Metadata::READ_ONLY).changes_context())),
        RegistrationError::ParallelContextChange("t".into())
    );
    registry.register(Arc::new(typed().changes_context())).unwrap();
}

use crate::TimeoutRules;

// spec 3.5
#[test]
fn every_change_anywhere_in_the_tree_is_told_to_everyone() {
    #[derive(Default)]
    struct Counts(AtomicU64);
    impl ToolsChanged for Counts {
        fn tools_changed(&self, generation: u64) {
            self.0.store(generation, Ordering::SeqCst);
        }
    }
    let (global, scope) = scoped();
    let sibling = global.scope();
    let counts = Arc::new(Counts::default());
    let listener: Arc<dyn ToolsChanged> = counts.clone();
    sibling.on_change(&listener);
    let before = global.generation();
    scope.register(tool("x", "")).unwrap();
    assert_eq!(counts.0.load(Ordering::SeqCst), before + 1);
    scope.restrict(Filter::deny(["a"])).unwrap().undo();
    scope.remove("x");
    scope.present(Some(Presentation::Both));
    assert_eq!(counts.0.load(Ordering::SeqCst), before + 5);
    drop((listener, counts));
    scope.remove("nobody");
    global.remove("a");
    assert_eq!(global.generation(), before + 6);
}
