//! What the model is given of a result (spec 8).

use super::*;
use crate::{Hook, HookError, PostDecision, PostVerdict, PreparedCall};
use std::path::Path;
use stockade_spill::{Limits, SpillStore};
use stockade_tools::{Preview, ResultBudget, Strategy, TypedTool};
use stockade_types::SessionId;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[allow(dead_code)]
struct Arguments {
    id: String,
    ms: u64,
}

const SMALL: ResultBudget = ResultBudget {
    max_inline_bytes: 5000,
    max_model_bytes: 6000,
    strategy: Strategy::Artifact,
    preview: Preview::Head,
};

fn says(content: Vec<ContentBlock>, budget: ResultBudget) -> Arc<Registry> {
    let body = move |_: Arguments, _| {
        let output = ToolOutput { content: content.clone(), ..ToolOutput::default() };
        async move { Ok(output) }
    };
    let registry = Registry::new();
    registry.register(Arc::new(TypedTool::new("Says", "", body).budget(budget))).unwrap();
    Arc::new(registry)
}

fn store(state: &Path, limits: Limits) -> Arc<SpillStore> {
    let session = SessionId::new("s").unwrap();
    Arc::new(SpillStore::open(state, &session, Path::new("/inside"), limits).unwrap())
}

async fn result(
    content: Vec<ContentBlock>,
    budget: ResultBudget,
    store: Option<Arc<SpillStore>>,
) -> ToolResult {
    let mut builder = builder(says(content, budget));
    if let Some(store) = store {
        builder = builder.spill(store);
    }
    let runtime = builder.build().unwrap();
    runtime.run_turn([call("Says", "a", 0)]).await.unwrap().remove(0)
}

fn lines(bytes: usize) -> String {
    let all: String = (0..).map(|number| format!("line {number}\n")).take(bytes).collect();
    all.chars().take(bytes).collect()
}

// spec 8.1
#[tokio::test]
async fn within_its_budget_a_result_is_unchanged_and_the_smaller_bound_counts() {
    let state = tempfile::tempdir().unwrap();
    let kept = |name: &str| std::fs::read_dir(state.path().join(name)).map_or(0, Iterator::count);
    let at = |bytes| vec![ContentBlock::text(lines(bytes))];
    let store = store(state.path(), Limits::default());
    let same = result(at(5000), SMALL, Some(Arc::clone(&store))).await;
    assert_eq!(same.content, at(5000));
    assert_eq!(kept("sessions/s/spill/session"), 0);
    let cut = result(at(5001), SMALL, Some(store)).await;
    assert_ne!(cut.content, at(5001));
    assert_eq!(kept("sessions/s/spill/session"), 1);
}

// spec 8.2
#[tokio::test]
async fn over_it_all_is_kept_and_the_model_gets_size_place_and_a_preview_cut_at_a_line_end() {
    let state = tempfile::tempdir().unwrap();
    let all = lines(50_000);
    let store = store(state.path(), Limits::default());
    let result =
        result(vec![ContentBlock::text(all.clone())], SMALL, Some(Arc::clone(&store))).await;
    let text = text(&result);
    assert!(text.contains("50000 bytes") && text.contains("/inside/session/a-"), "{text}");
    let (_, preview) = text.split_once("]\n").unwrap();
    assert!(preview.len() <= 2000 && preview.len() >= 1000, "{}", preview.len());
    assert!(all.starts_with(&format!("{preview}\n")), "a whole line ends the preview");
    let uri = text.split_once('(').unwrap().1.split_once(')').unwrap().0;
    assert_eq!(store.get(uri).unwrap(), all.as_bytes());
    assert!(!result.is_error);
}

// spec 8.2
#[tokio::test]
async fn a_preview_without_a_line_end_in_its_second_half_has_2000_characters() {
    let state = tempfile::tempdir().unwrap();
    let all = format!("short\n{}", "ä".repeat(50_000));
    let result =
        result(vec![ContentBlock::text(all)], SMALL, Some(store(state.path(), Limits::default())))
            .await;
    let text = text(&result);
    assert_eq!(text.split_once("]\n").unwrap().1.chars().count(), 2000);
}

// spec 8.2
#[tokio::test]
async fn head_and_tail_are_half_each() {
    let state = tempfile::tempdir().unwrap();
    let budget = ResultBudget { preview: Preview::HeadAndTail, ..SMALL };
    let all = format!("{}{}", "a".repeat(30_000), "z".repeat(30_000));
    let kept = Some(store(state.path(), Limits::default()));
    let text_kept = text(&result(vec![ContentBlock::text(all.clone())], budget, kept).await);
    let count = |text: &str, c| text.chars().filter(|other| *other == c).count();
    assert_eq!(count(&text_kept, 'z'), 1000);
    let cut = text(&result(vec![ContentBlock::text(all)], budget, None).await);
    assert!(count(&cut, 'a').abs_diff(count(&cut, 'z')) <= 20 && count(&cut, 'z') > 2400, "{cut}");
    assert!(cut.contains("\n[Tool output truncated by resultBudget: 55"), "{cut}");
    assert!(cut.len() <= 5000, "{}", cut.len());
}

// spec 8.2
#[tokio::test]
async fn without_a_store_or_with_a_full_or_failing_one_it_is_cut_and_the_call_is_no_failure() {
    let state = tempfile::tempdir().unwrap();
    let full = store(&state.path().join("full"), Limits { session_bytes: 100 });
    let broken = store(&state.path().join("broken"), Limits::default());
    std::fs::remove_dir_all(broken.folder()).unwrap();
    for (store, strategy) in [
        (None, Strategy::Artifact),
        (Some(full), Strategy::Artifact),
        (Some(broken), Strategy::Artifact),
        (Some(store(state.path(), Limits::default())), Strategy::Truncate),
    ] {
        let budget = ResultBudget { strategy, ..SMALL };
        let result = result(vec![ContentBlock::text(lines(50_000))], budget, store).await;
        let text = text(&result);
        assert!(!result.is_error);
        let (shown, mark) = text.split_once("\n[Tool output truncated by resultBudget: ").unwrap();
        let left_out = format!("{} of 50000 bytes left out; ", 50_000 - shown.len());
        assert!(mark.starts_with(&left_out), "{} bytes, and {mark}", shown.len());
        assert!(text.starts_with("line 0\n") && text.len() <= 5000, "{}", text.len());
    }
}

// spec 8.2
#[tokio::test]
async fn images_are_never_cut_or_reordered() {
    let image = |name: &str| ContentBlock::Image {
        media_type: "image/png".into(),
        data: name.repeat(10_000),
    };
    let content = vec![
        image("A"),
        ContentBlock::text(lines(4000)),
        image("B"),
        ContentBlock::text(lines(4000)),
        image("C"),
    ];
    let cut = result(content, SMALL, None).await;
    let [first, ContentBlock::Text { text }, second, third] = cut.content.as_slice() else {
        panic!("{:?}", cut.content.len());
    };
    assert_eq!([first, second, third], [&image("A"), &image("B"), &image("C")]);
    assert!(text.contains("truncated by resultBudget"));
}

// spec 8.2: a tool may word its own envelope
#[tokio::test]
async fn a_tool_may_word_its_own_envelope() {
    struct Own;
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| json!({"type": "object"}));
    #[async_trait]
    impl Tool for Own {
        fn name(&self) -> &str {
            "Says"
        }
        fn description(&self) -> &str {
            ""
        }
        fn input_schema(&self) -> &Value {
            &SCHEMA
        }
        fn oversized(&self, _: &[ContentBlock], place: Option<&str>) -> Option<Vec<ContentBlock>> {
            Some(vec![ContentBlock::text(format!("look at {}", place.unwrap_or("nothing")))])
        }
        async fn call(&self, _: &FrozenInput, _: &CallContext) -> Result<ToolOutput, ToolError> {
            Ok(ToolOutput::text("x".repeat(1_000_000)))
        }
    }
    let state = tempfile::tempdir().unwrap();
    let registry = Registry::new();
    registry.register(Arc::new(Own)).unwrap();
    let spill = store(state.path(), Limits::default());
    let runtime = builder(Arc::new(registry)).spill(spill).build().unwrap();
    let results = runtime.run_turn([call("Says", "a", 0)]).await.unwrap();
    assert!(text(&results[0]).starts_with("look at /inside/session/a-"), "{results:?}");
}

// spec 8.2
#[tokio::test(start_paused = true)]
async fn long_output_of_bash_keeps_its_exit_code() {
    use stockade_sandbox::Exit;
    use stockade_sandbox::fake::Script;
    let provider = FakeProvider::new("/ws").on_command(|_| {
        let mut output = b"first\n".to_vec();
        output.extend(b"x".repeat(200_000));
        output.extend(b"\nlast");
        Ok(Script { exit: Exit::Code(1), ..Script::prints(output) })
    });
    let state = tempfile::tempdir().unwrap();
    for store in [None, Some(store(state.path(), Limits::default()))] {
        let provider = Arc::new(provider.clone());
        let mut builder = ToolRuntime::builder().provider(provider).policy(policy("test"));
        let bound = if store.is_some() { 2400 } else { 30_200 };
        if let Some(store) = store {
            builder = builder.spill(store);
        }
        let arguments = json!({"command": "x"});
        let call = ToolCall { id: CallId("a".into()), name: "Bash".into(), arguments };
        let results = builder.build().unwrap().run_turn([call]).await.unwrap();
        let text = text(&results[0]);
        assert!(text.contains("first\n") && text.ends_with("xxx\nlast\nExit code 1"), "{text}");
        assert!(text.len() < bound, "{}", text.len());
    }
}

// spec 2.15, 8.1
#[tokio::test]
async fn with_its_envelope_its_marks_and_all_context_a_result_is_no_larger_than_the_model_may_be_given()
 {
    struct Notes(usize, usize);
    #[async_trait]
    impl crate::Hook for Notes {
        fn name(&self) -> &str {
            "notes"
        }
        async fn post_execute(
            &self,
            _: &crate::PreparedCall,
            _: &ToolResult,
        ) -> Result<crate::PostDecision, crate::HookError> {
            let context = vec!["ä".repeat(self.1 / 2); self.0];
            Ok(crate::PostDecision { context, ..crate::PostDecision::accept() })
        }
    }
    let state = tempfile::tempdir().unwrap();
    let store = store(state.path(), Limits::default());
    let previews = [Preview::Head, Preview::Tail, Preview::HeadAndTail];
    for max in [0, 1, 60, 150, 300, 1000, 5000] {
        for (bytes, (notes, note)) in [0, 10, 4990, 5000, 50_000].into_iter().flat_map(|bytes| {
            [(0, 0), (1, 100), (3, 2000), (1, 1_000_000), (5000, 10)].map(|notes| (bytes, notes))
        }) {
            for (preview, kept) in previews.into_iter().flat_map(|p| [(p, false), (p, true)]) {
                let inline = if bytes % 2 == 0 { max } else { max * 2 };
                let budget = ResultBudget {
                    max_inline_bytes: inline,
                    max_model_bytes: max,
                    preview,
                    ..SMALL
                };
                let mut builder = builder(says(vec![ContentBlock::text(lines(bytes))], budget))
                    .hook(Arc::new(Notes(notes, note)));
                if kept {
                    builder = builder.spill(Arc::clone(&store));
                }
                let runtime = builder.build().unwrap();
                let result = runtime.run_turn([call("Says", "a", 0)]).await.unwrap().remove(0);
                let of = |block: &ContentBlock| match block {
                    ContentBlock::Text { text } => text.len(),
                    ContentBlock::Image { .. } => 0,
                };
                let given: usize = result.content.iter().map(of).sum();
                let case = format!("{max} {bytes} {notes}x{note} {preview:?} {kept}: {result:?}");
                assert!(given <= max, "{given}: {case}");
                if max >= 1000 && bytes > max && kept {
                    assert!(text(&result).contains("/inside/session/a-"), "{case}");
                }
                if max >= 1000 && notes > 0 {
                    assert!(text(&result).contains("[Hook additional context]\n1. ä"), "{case}");
                    assert_eq!(
                        text(&result).contains("[Hook context truncated by resultBudget: "),
                        notes * note > 4000,
                        "{case}"
                    );
                }
            }
        }
    }
}

// spec 8.5
#[tokio::test]
async fn a_store_that_calls_could_write_to_is_refused_and_so_is_a_place_that_is_none() {
    let state = tempfile::tempdir().unwrap();
    let session = SessionId::new("s").unwrap();
    let open = |inside: &str| {
        SpillStore::open(state.path(), &session, Path::new(inside), Limits::default())
    };
    for none in ["relative", "", "/ws/../inside"] {
        assert!(open(none).unwrap_err().to_string().contains("must be absolute"), "{none}");
    }
    let mut writes = policy("test");
    writes.filesystem.literal.write.push("/ws".into());
    for (inside, refused) in [("/ws", true), ("/ws/state/spill", true), ("/inside", false)] {
        let mut policy = writes.clone();
        let built = |policy| {
            let store = Arc::new(open(inside).unwrap());
            builder(says(Vec::new(), SMALL)).policy(policy).spill(store).build()
        };
        let error = built(policy.clone()).err().map(|error| error.to_string());
        assert_eq!(error.is_some(), refused, "{error:?}");
        assert!(error.is_none_or(|error| error.contains(inside)));
        // Hidden with the state around it, and shown again to be read alone.
        if inside == "/ws/state/spill" {
            policy.filesystem.literal.hide.push("/ws/state".into());
            policy.filesystem.literal.read.push(inside.into());
            assert!(built(policy).is_ok());
        }
    }
}

/// Puts something else in the place of a result, or blocks it.
struct After(PostVerdict);

#[async_trait]
impl Hook for After {
    fn name(&self) -> &str {
        "after"
    }

    async fn post_execute(
        &self,
        _: &PreparedCall,
        _: &ToolResult,
    ) -> Result<PostDecision, HookError> {
        Ok(self.0.clone().into())
    }
}

// spec 2.12, 8.2
#[tokio::test]
async fn what_hooks_took_away_is_not_what_the_model_is_led_to() {
    let long = "instead ".repeat(2000);
    for verdict in [
        PostVerdict::Replace(vec![ContentBlock::text(long.clone())]),
        PostVerdict::Block(long.clone()),
    ] {
        let state = tempfile::tempdir().unwrap();
        let body = |_: Arguments, context: stockade_tools::CallContext| async move {
            let store = context.output_store.clone().expect("a store");
            let mut file = store.begin(&context.call_id).expect("a file");
            file.write(b"the secret, and much more").expect("written");
            let kept = Some(stockade_tools::Kept::Whole(file.finish()));
            Ok(ToolOutput { kept, ..ToolOutput::text("the secret ".repeat(1000)) })
        };
        let registry = Registry::new();
        registry.register(Arc::new(TypedTool::new("Says", "", body).budget(SMALL))).unwrap();
        let spill = store(state.path(), Limits::default());
        let hook = Arc::new(After(verdict));
        let runtime = builder(Arc::new(registry)).spill(spill).hook(hook).build().unwrap();
        let result = runtime.run_turn([call("Says", "a", 0)]).await.unwrap().remove(0);
        let said = text(&result);
        assert!(said.contains("instead") && !said.contains("the secret"), "{said}");
        // Whatever place it names holds what the hook said.
        let folder = state.path().join("sessions/s/spill/session");
        for file in std::fs::read_dir(folder).unwrap().flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            let holds = std::fs::read_to_string(file.path()).unwrap();
            assert!(!said.contains(&name) || holds.contains("instead"), "{name}: {said}");
        }
    }
}
