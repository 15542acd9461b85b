use super::*;
use stockade_types::{CallId, ToolResult};

const TURNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/turns/");

// spec 10.1
#[test]
fn the_same_turn_reads_alike_in_every_dialect() {
    let file = |name: &str| std::fs::read(format!("{TURNS}{name}")).unwrap();
    let shape = |items: &[Item]| -> Vec<(String, Value)> {
        items.iter().map(|item| (call(item).1.to_owned(), call(item).2.clone())).collect()
    };
    let (dialect, anthropic) = whole(file("explore.anthropic.json"));
    assert_eq!(dialect, Dialect::Anthropic);
    assert_eq!(anthropic.len(), 5);
    assert_eq!(call(&anthropic[0]).0, "toolu_01");
    assert_eq!(call(&anthropic[1]).2, &json!({"file_path": "README.md", "limit": 40}));
    let (dialect, responses) = whole(file("explore.openai-responses.json"));
    assert_eq!(dialect, Dialect::OpenAiResponses);
    assert_eq!(shape(&responses), shape(&anthropic));
    let (dialect, chat) = whole(file("explore.openai-chat.json"));
    assert_eq!(dialect, Dialect::OpenAiChat);
    assert_eq!(shape(&chat), shape(&anthropic));
    let (events, end) = read(file("explore.stream.jsonl"));
    assert_eq!(end, Ok(Turn::Stream));
    let streamed: Vec<Item> = events
        .into_iter()
        .map(|event| match event {
            Event::Item(item) => item,
            Event::BadLine(error) => panic!("{error}"),
        })
        .collect();
    assert_eq!(streamed, anthropic);
}

#[test]
fn a_whole_api_response_is_read_like_its_message() {
    let calls = json!([{"type": "text", "text": "hm"}, tool_use("a")]);
    let full = json!({"id": "msg_1", "type": "message", "role": "assistant", "content": calls,
        "stop_reason": "tool_use", "usage": {"input_tokens": 1}});
    assert_eq!(whole(full.to_string()), whole(calls.to_string()));

    let item = json!({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "Bash", "arguments": "{}"});
    let text = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hm"}]});
    let full = json!({"id": "resp_1", "object": "response", "output": [{"type": "reasoning"}, text, item]});
    let (dialect, items) = whole(full.to_string());
    assert_eq!((dialect, items.len(), call(&items[0]).0), (Dialect::OpenAiResponses, 1, "c"));

    let item =
        json!({"id": "c", "type": "function", "function": {"name": "Bash", "arguments": "{}"}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [item]});
    let full = json!({"object": "chat.completion", "choices": [{"index": 0, "message": message}]});
    assert_eq!(whole(full.to_string()), whole(message.to_string()));
    assert_eq!(whole(json!([item]).to_string()), whole(message.to_string()));
}

#[test]
fn a_turn_without_calls_is_answered_emptily_in_its_dialect() {
    let cases = [
        (json!({"role": "assistant", "content": [{"type": "text", "text": "done"}]}), "anthropic"),
        (json!([{"type": "text", "text": "done"}]), "anthropic"),
        (json!({"role": "assistant", "content": []}), "anthropic"),
        (json!({"output": []}), "openai-responses"),
        (json!([]), "openai-responses"),
        (json!({"role": "assistant", "content": "done"}), "openai-chat"),
        (json!({"role": "assistant", "tool_calls": []}), "openai-chat"),
        (json!({"role": "assistant", "content": null, "tool_calls": null}), "openai-chat"),
    ];
    for (turn, name) in cases {
        let (dialect, items) = whole(turn.to_string());
        assert_eq!((dialect.name(), items.len()), (name, 0), "{turn}");
        let answer = whole_answer(dialect, &[]);
        match dialect {
            Dialect::Anthropic => assert_eq!(answer, json!({"role": "user", "content": []})),
            _ => assert_eq!(answer, json!([])),
        }
    }
}

// spec 10.1: the shapes out
#[test]
fn results_are_rendered_in_each_dialects_shape() {
    let good = ToolResult::text(CallId("a".into()), "fine", false);
    let bad = ToolResult::text(CallId("b".into()), "no", true);
    let results = [good, bad];
    assert_eq!(
        whole_answer(Dialect::Anthropic, &results),
        json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "fine"}], "is_error": false},
            {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "no"}], "is_error": true},
        ]})
    );
    assert_eq!(
        whole_answer(Dialect::OpenAiResponses, &results),
        json!([
            {"type": "function_call_output", "call_id": "a", "output": "fine"},
            {"type": "function_call_output", "call_id": "b", "output": "no"},
        ])
    );
    assert_eq!(
        whole_answer(Dialect::OpenAiChat, &results),
        json!([
            {"role": "tool", "tool_call_id": "a", "content": "fine"},
            {"role": "tool", "tool_call_id": "b", "content": "no"},
        ])
    );
}

#[test]
fn a_syntax_error_names_its_line_and_column() {
    let said = error("{\n \"role\": \"assistant\",\n \"content\": [}\n");
    assert!(said.starts_with("line 3, column 14: expected value"), "{said}");
    let said = error("not json at all");
    assert!(said.starts_with("line 1, column 2: expected ident"), "{said}");
    let said = error("[\n {\"type\": \"tool_use\"},\n");
    assert!(said.contains("EOF"), "{said}");
    let said = error(b"[\"\xff\xfe\"]");
    assert!(said.starts_with("line 1, column"), "{said}");
    let said = error("{\"role\":\"assistant\",\"content\":[]}\n{\"role\":\"assistant\"}\n");
    assert!(said.starts_with("line 2, column 1: trailing"), "{said}");
}

#[test]
fn empty_input_is_an_error() {
    for input in ["", "\n", " \r\n\t\n", "\u{feff}\n"] {
        assert_eq!(read(input).1, Err(TurnError::Empty), "{input:?}");
    }
}

#[test]
fn an_unknown_shape_says_what_was_found_and_what_was_expected() {
    for (turn, says) in [
        (
            "{\"foo\": 1, \"bar\": 2}",
            "the turn: it is an object with the keys [bar, foo]; expected",
        ),
        ("42", "the turn: it is a number; expected"),
        ("\"x\"", "the turn: it is a string; expected"),
        ("null", "the turn: it is null; expected"),
        ("{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}", "has the role \"user\""),
        ("{\"role\": 7, \"content\": \"x\"}", "has the role 7"),
        (
            "[{\"role\": \"user\", \"content\": \"hi\"}]",
            "[0]: it is a message, so the list is a conv",
        ),
        ("{\"choices\": []}", "choices[0].message: it is missing"),
        ("{\"choices\": [{\"message\": {\"tool_calls\": 3}}]}", "tool_calls: it is a number"),
        ("{\"output\": {}}", "output: it is an object; a list was expected"),
        ("{\"content\": [7]}", "content[0]: it is a number that is no call"),
        ("{\"type\": \"error\", \"error\": {}}", "is an object with the keys [error, type]"),
        (
            "[{\"type\": \"custom_tool_call\", \"call_id\": \"a\"}]",
            "[0]: elements of the type \"cus",
        ),
    ] {
        let said = error(turn);
        assert!(said.contains(says), "{turn}: {said}");
    }
}

#[test]
fn a_call_without_an_id_is_refused_with_its_place() {
    let no_id = json!({"type": "tool_use", "name": "Bash", "input": {}});
    let said = error(json!({"content": [tool_use("a"), no_id]}).to_string());
    assert!(said.starts_with("content[1]: the call has no `id`"), "{said}");
    for (id, says) in [(json!(null), "has no"), (json!(""), "is empty"), (json!(7), "a number")] {
        let said = error(
            json!([{"type": "function_call", "call_id": id, "name": "Bash", "arguments": "{}"}])
                .to_string(),
        );
        assert!(said.starts_with("[0]: the call") && said.contains(says), "{said}");
    }
    // The item's own id is not the call's.
    let said = error(r#"{"output": [{"type": "function_call", "id": "fc_1", "name": "Bash"}]}"#);
    assert!(said.starts_with("output[0]: the call has no `call_id`"), "{said}");
}

#[test]
fn a_call_that_cannot_be_read_is_an_error_result_and_the_others_run() {
    let chat = |function: Value| json!({"id": "x", "type": "function", "function": function});
    let responses = |arguments: Value| json!({"type": "function_call", "call_id": "x", "name": "Bash", "arguments": arguments});
    let anthropic =
        |input: Value| json!({"type": "tool_use", "id": "x", "name": "Bash", "input": input});
    for (bad, says) in [
        (
            chat(json!({"name": "Bash", "arguments": "{\"a\": }"})),
            "not valid JSON: expected value, at its line 1 column 7",
        ),
        (chat(json!({"name": "Bash", "arguments": "[1]"})), "`arguments` is a list; an object"),
        (chat(json!({"name": "Bash"})), "has no `arguments`"),
        (chat(json!({"arguments": "{}"})), "has no `function.name`"),
        (chat(json!(3)), "has no `function` object"),
        (responses(json!("{\"command\": \"ls")), "not valid JSON: EOF"),
        (responses(json!(7)), "`arguments` is a number"),
        (anthropic(json!("ls")), "`input` is a string; an object"),
        (anthropic(json!(null)), "`input` is null; an object"),
        (json!({"type": "tool_use", "id": "x", "name": "Bash"}), "has no `input`"),
        (json!({"type": "tool_use", "id": "x", "input": {}}), "has no `name`"),
        (json!({"type": "tool_use", "id": "x", "name": "", "input": {}}), "`name` is empty"),
        (json!({"type": "tool_use", "id": "x", "name": ["a"], "input": {}}), "`name` is a list"),
    ] {
        let (_, items) = whole(json!([bad]).to_string());
        let (id, message) = broken(&items[0]);
        assert_eq!(id, "x");
        assert!(message.starts_with("<tool_use_error>InputValidationError: "), "{message}");
        assert!(message.contains(says), "{bad}: {message}");
    }
}

#[test]
fn empty_arguments_and_arguments_that_were_decoded_already_are_understood() {
    for arguments in [json!(""), json!("  "), json!({})] {
        let (_, items) = whole(
            json!([{"type": "function_call", "call_id": "x", "name": "Bash", "arguments": arguments}]).to_string(),
        );
        assert_eq!(call(&items[0]).2, &json!({}));
    }
}

#[test]
fn a_call_that_is_nested_too_deeply_is_that_calls_own_error_and_the_others_run() {
    // By its place: in the document itself, or in the string of its arguments.
    for levels in [90, 99, 101, 115, 122, 130, 5000, 1_000_000] {
        let deep = format!("{{\"x\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        let string = json!(deep);
        let calls = [
            format!(r#"{{"type":"tool_use","id":"x","name":"Bash","input":{deep}}}"#),
            format!(
                r#"{{"type":"function_call","call_id":"x","name":"Bash","arguments":{string}}}"#
            ),
            format!(
                r#"{{"id":"x","type":"function","function":{{"name":"Bash","arguments":{string}}}}}"#
            ),
        ];
        for (deep, plain) in calls.iter().zip([
            r#"{"type":"tool_use","id":"y","name":"Bash","input":{}}"#,
            r#"{"type":"function_call","call_id":"y","name":"Bash","arguments":"{}"}"#,
            r#"{"id":"y","type":"function","function":{"name":"Bash","arguments":"{}"}}"#,
        ]) {
            let (_, items) = whole(format!("[{plain},\n{deep},{plain}]"));
            let ids: Vec<_> = items.iter().map(|item| call(item).0).collect();
            assert_eq!(ids, ["y", "x", "y"], "{levels}");
            let refused = stockade_tools::bounds::check(call(&items[1]).2).is_err();
            assert_eq!(refused, levels >= 100, "{levels} levels: only too deep ones lose anything");
            // And as a stream.
            let (events, _) = read(format!("{deep}\n{plain}\n"));
            assert!(matches!(events.as_slice(), [Event::Item(_), Event::Item(_)]), "{levels}");
        }
    }
}

#[test]
fn absurdly_deep_input_is_an_error_with_its_place() {
    let said = error(format!("{{\"content\": {}", "[".repeat(100_000)));
    assert!(said.starts_with("line 1, column 1") && said.contains("recursion limit"), "{said}");
}

#[test]
fn the_input_is_bounded() {
    let mut reader = Reader::new(None);
    reader.line(b"[\n").unwrap();
    let line = vec![b' '; 1024 * 1024];
    let refused = (0..40).find_map(|_| reader.line(&line).err()).unwrap();
    assert!(refused.to_string().starts_with("the turn is longer than 32 MiB"), "{refused}");

    let mut reader = Reader::new(None);
    let junk = vec![b'x'; 1024 * 1024];
    assert!((0..40).any(|_| reader.line(&junk).is_err()), "undecided lines are bounded too");
    assert!(Reader::new(None).long_line().is_err());
}

#[test]
fn a_format_that_was_named_is_kept_to() {
    let anthropic = json!({"role": "assistant", "content": [tool_use("a")]}).to_string();
    assert!(read_as(Some(Dialect::Anthropic), &anthropic).1.is_ok());
    let (_, end) = read_as(Some(Dialect::OpenAiResponses), &anthropic);
    assert!(end.unwrap_err().to_string().contains("but --format says openai-responses"));
    let (events, end) = read_as(Some(Dialect::OpenAiChat), tool_use("a").to_string());
    assert_eq!(end, Ok(Turn::Stream));
    assert!(matches!(&events[0], Event::BadLine(error)
        if error.to_string() == "line 1: it is a call in the dialect anthropic where openai-chat was expected"));
    let chat = json!({"role": "assistant", "content": "done"}).to_string();
    for dialect in [Dialect::Anthropic, Dialect::OpenAiChat] {
        assert!(
            matches!(read_as(Some(dialect), &chat).1, Ok(Turn::Whole { dialect: d, .. }) if d == dialect)
        );
    }
    let mixed = json!([tool_use("a"), {"type": "function_call", "call_id": "b", "name": "B", "arguments": "{}"}]);
    assert!(
        error(mixed.to_string()).starts_with("[1]: it is a call in the dialect openai-responses")
    );
}

// spec 10.1: a call is answered, or the turn is refused
#[test]
fn calls_that_stand_where_another_dialect_has_none_are_never_dropped() {
    let in_content = json!({"role": "assistant", "content": [tool_use("a")]});
    let (_, end) = read_as(Some(Dialect::OpenAiChat), in_content.to_string());
    let mismatch = end.unwrap_err().to_string();
    assert!(
        mismatch.contains("shape of anthropic") && mismatch.contains("openai-chat"),
        "{mismatch}"
    );

    let mut both = in_content.clone();
    both["tool_calls"] =
        json!([{"id": "b", "type": "function", "function": {"name": "Read", "arguments": "{}"}}]);
    for wanted in [None, Some(Dialect::Anthropic), Some(Dialect::OpenAiChat)] {
        let (_, end) = read_as(wanted, both.to_string());
        let refused = end.unwrap_err().to_string();
        assert!(refused.contains("`content` and in `tool_calls`"), "{refused}");
    }
    let completion = json!({"choices": [{"message": both}]});
    assert!(
        error(completion.to_string()).starts_with("choices[0].message.content: it holds calls")
    );

    let chat = json!({"role": "assistant", "tool_calls": both["tool_calls"]});
    let two = json!({"choices": [{"message": chat}, {"message": chat}]});
    assert!(error(two.to_string()).starts_with("choices: "), "{}", error(two.to_string()));

    // A host that writes every key of both.
    both["tool_calls"] = json!([]);
    let (dialect, items) = whole(both.to_string());
    assert_eq!((dialect, items.len()), (Dialect::Anthropic, 1));
}
