//! Large results, and the session log (spec 8, 9).

use crate::hooks::after;
use crate::probe::{Log, Probe};
use crate::world::{builder, call, rest, text, tools, wait};
use std::sync::Arc;
use stockade_runtime::{PostVerdict, SessionLog, Settings, replay};
use stockade_spill::{Limits, SpillStore};
use stockade_tools::{Registry, ToolOutput};
use stockade_types::{ContentBlock, SessionId};

// spec 8.2
#[tokio::test(start_paused = true)]
async fn r_8_2_a_preview_ends_at_a_line_if_one_ends_in_its_second_half_and_blocks_keep_their_order()
{
    let image =
        |data: &str| ContentBlock::Image { media_type: "image/png".into(), data: data.into() };
    for (line, ends_at_line) in
        [("x".repeat(600), true), ("x".repeat(1900), true), ("x".repeat(5000), false)]
    {
        let text_of = format!("{line}\n").repeat(1000);
        let content = vec![image("A"), ContentBlock::text(text_of), image("B")];
        let registry = Registry::new();
        let probe = Probe::reads("Print", &Log::default()).doing(move |_, _| {
            Ok(ToolOutput { content: content.clone(), ..ToolOutput::default() })
        });
        registry.register(Arc::new(probe)).expect("a tool");
        let state = tempfile::tempdir().expect("a folder");
        let session = SessionId::new("s").expect("an id");
        let store = SpillStore::open(state.path(), &session, "/inside".as_ref(), Limits::default());
        let runtime =
            builder(Settings::rolling(), registry).spill(Arc::new(store.expect("a store")));
        let runtime = runtime.build().expect("a runtime");
        let results = runtime.run_turn([call("Print", "a", 1)]).await.expect("no fault");
        let [first, ContentBlock::Text { text }, last] = results[0].content.as_slice() else {
            panic!("{:?}", results[0].content.len());
        };
        assert_eq!((first, last), (&image("A"), &image("B")));
        let preview = text.split_once("]\n").map(|(_, preview)| preview).expect("a preview");
        let whole_lines = preview.split('\n').all(|shown| shown == line);
        assert_eq!(whole_lines, ends_at_line, "{preview}");
        assert!(preview.len() <= 2000);
    }
}

// spec 9.1
#[tokio::test(start_paused = true)]
async fn r_9_1_the_log_gives_back_what_the_model_was_given_and_what_it_never_was_is_marked() {
    let state = tempfile::tempdir().expect("a folder");
    let session = SessionId::new("s").expect("an id");
    let session_log = SessionLog::open(state.path(), &session).expect("a log");
    let path = session_log.path().to_owned();
    let runtime = builder(Settings::default(), tools(&Log::default()))
        .hook(after(|call, _| match call.id().0.as_str() {
            "replaced" => PostVerdict::Replace(vec![ContentBlock::text("by a hook")]),
            _ => PostVerdict::Accept,
        }))
        .session_log(session_log)
        .build()
        .expect("a runtime");
    let calls = [call("Read", "a", 1), call("Read", "replaced", 1)];
    let given = runtime.run_turn(calls).await.expect("no fault");
    assert_eq!(text(&given[1]), "by a hook");
    // Discarded while it runs, and when all of it has ended and waits to be taken.
    for ms in [1000, 1] {
        let mut turn = runtime.open_turn();
        turn.submit(call("Read", "b", ms)).expect("open");
        turn.close();
        wait(100).await;
        turn.discard();
        assert_eq!(rest(&mut turn).await, []);
    }
    let turns = replay(&path).expect("a history");
    assert_eq!(turns[0].results, given);
    assert_eq!(turns.iter().map(|turn| turn.discarded).collect::<Vec<_>>(), [false, true, true]);
}
