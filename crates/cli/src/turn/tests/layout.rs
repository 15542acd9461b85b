//! White space between JSON's tokens carries no meaning, so it may not change what a turn is.

use super::*;
use proptest::prelude::*;

/// Turns of every shape in which a host may hand one over.
fn documents() -> Vec<Value> {
    let responses = |id: &str| json!({"type": "function_call", "call_id": id, "name": "Bash", "arguments": "{\"command\": \"ls\"}"});
    let chat = |id: &str| json!({"id": id, "type": "function", "function": {"name": "Bash", "arguments": "{}"}});
    let text = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hm {\n"}]});
    vec![
        json!({"role": "assistant", "content": [tool_use("a"), tool_use("b")]}),
        json!({"role": "assistant", "content": [{"type": "text", "text": "two\nlines"}, tool_use("a")]}),
        json!({"id": "m", "type": "message", "role": "assistant", "content": [tool_use("a"), tool_use("b")]}),
        json!([tool_use("a"), tool_use("b")]),
        json!([responses("a"), responses("b")]),
        json!({"object": "response", "output": [text, responses("a"), responses("b")]}),
        json!({"role": "assistant", "content": null, "tool_calls": [chat("a"), chat("b")]}),
        json!({"choices": [{"message": {"role": "assistant", "tool_calls": [chat("a"), chat("b")]}}]}),
        json!([chat("a"), chat("b")]),
        tool_use("a"),
        responses("a"),
        chat("a"),
        text,
        json!([]),
        json!({"role": "assistant", "content": "no calls"}),
        // None of these is a turn, however it is written.
        json!({"foo": 1}),
        json!({"type": "shell_call", "call_id": "q"}),
        json!(7),
        json!([7]),
    ]
}

/// The compact text with one of these before, between and behind its tokens, in turn.
fn with_space(document: &Value, spaces: &[&str]) -> String {
    let mut spaces = spaces.iter().cycle();
    let mut next = || spaces.next().copied().unwrap_or_default();
    let (mut text, mut quoted, mut escaped) = (String::from(next()), false, false);
    for c in document.to_string().chars() {
        let structural = !quoted && "{}[],:".contains(c);
        if structural {
            text.push_str(next());
        }
        text.push(c);
        if structural {
            text.push_str(next());
        }
        quoted ^= c == '"' && !escaped;
        escaped = quoted && c == '\\' && !escaped;
    }
    text.push_str(next());
    text
}

/// What a caller learns: which calls are answered in which dialect and form; of an error only that it is one.
fn meaning(text: &str) -> Result<(bool, Option<Dialect>, Vec<Item>), ()> {
    let (events, end) = read(text);
    let mut items = Vec::new();
    for event in events {
        match event {
            Event::Item(item) => items.push(item),
            Event::BadLine(_) => return Err(()),
        }
    }
    match end {
        Err(_) => Err(()),
        Ok(Turn::Whole { dialect, items: whole }) => {
            assert_eq!(items, [], "a whole turn has given something out before its end");
            Ok((true, Some(dialect), whole))
        }
        Ok(Turn::Item(item)) => {
            assert_eq!(items, [], "a document has given something out before its end");
            Ok((false, None, item.into_iter().collect()))
        }
        Ok(Turn::Stream) => Ok((false, None, items)),
    }
}

fn same(document: &Value, text: &str) {
    let compact = document.to_string();
    assert_eq!(meaning(text), meaning(&compact), "{text}");
    assert_eq!(meaning(&format!("\u{feff}{text}")), meaning(&compact), "with a BOM: {text}");
}

// spec 10.1
#[test]
fn one_call_a_line_within_a_message_is_one_message() {
    for document in documents() {
        for text in [
            serde_json::to_string_pretty(&document).unwrap(),
            // What fits on a line stands on one: the calls.
            document
                .to_string()
                .replace("[{", "[\n{")
                .replace("},{", "},\n{")
                .replace("}]", "}\n]"),
            document.to_string().replace("[{", "[\r\n{").replace("},{", "}\r\n,\r\n{"),
            with_space(&document, &["\n"]),
            with_space(&document, &["\r\n", " "]),
            with_space(&document, &["", "\n ", "", "\t"]),
            format!("\n\r\n  \n{}\n\n", document),
        ] {
            same(&document, &text);
            same(&document, &text.replace('\n', "\r\n").replace("\r\r", "\r"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    // spec 10.1
    #[test]
    fn any_white_space_between_the_tokens_gives_the_same_answers(
        which in 0..documents().len(),
        spaces in prop::collection::vec(prop::sample::select(vec!["", " ", "\n", "\r\n", "\t", "\n\n  ", "\r"]), 1..12),
    ) {
        let document = &documents()[which];
        same(document, &with_space(document, &spaces));
    }

    // A document that was cut off is an error at the end, before which nothing was given out.
    #[test]
    fn nothing_of_a_document_that_breaks_off_is_run(
        which in 0..9usize,
        spaces in prop::collection::vec(prop::sample::select(vec!["\n", " ", "\r\n"]), 1..5),
        at in 0.05..0.95f64,
    ) {
        let text = with_space(&documents()[which], &spaces);
        let whole = text.trim_end();
        let mut cut = whole.len() - 1 - (at * (whole.trim_start().len() - 2) as f64) as usize;
        while !whole.is_char_boundary(cut) {
            cut -= 1;
        }
        let (events, end) = read(&whole[..cut]);
        prop_assert!(events.is_empty(), "{}", &whole[..cut]);
        prop_assert!(end.is_err());
    }
}
