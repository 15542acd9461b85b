use super::*;

// spec 10.1: each call starts when its line has arrived
#[test]
fn a_stream_gives_out_each_call_with_its_line() {
    let mut reader = Reader::new(None);
    for id in ["a", "b"] {
        let events = reader.line(format!("{}\n", tool_use(id)).as_bytes()).unwrap();
        assert_eq!(events.len(), 1);
        assert!(matches!(&events[0], Event::Item(item) if call(item).0 == id));
    }
    assert_eq!(reader.finish(), Ok(Turn::Stream));
}

#[test]
fn a_stream_may_mix_dialects_and_hold_empty_lines_crlf_and_a_bom() {
    let responses =
        json!({"type": "function_call", "call_id": "b", "name": "Read", "arguments": "{}"});
    let chat =
        json!({"id": "c", "type": "function", "function": {"name": "Glob", "arguments": "{}"}});
    let input = format!(
        "\u{feff}{}\r\n\r\n{{\"type\":\"text\",\"text\":\"hm\"}}\r\n{responses}\r\n\n{chat}",
        tool_use("a")
    );
    let (events, end) = read(input);
    assert_eq!(end, Ok(Turn::Stream));
    let found: Vec<(Dialect, &str)> = events
        .iter()
        .map(|event| match event {
            Event::Item(item) => (item.dialect, call(item).0),
            Event::BadLine(error) => panic!("{error}"),
        })
        .collect();
    assert_eq!(
        found,
        [(Dialect::Anthropic, "a"), (Dialect::OpenAiResponses, "b"), (Dialect::OpenAiChat, "c")]
    );
}

#[test]
fn a_bad_line_is_named_and_the_other_lines_run() {
    let lines = [
        tool_use("a").to_string(),
        "{\"type\": \"tool_use\", \"id\": ".into(),
        "garbage".into(),
        "42".into(),
        json!({"type": "tool_use", "name": "Bash", "input": {}}).to_string(),
        json!({"role": "assistant", "content": [tool_use("z")]}).to_string(),
        json!({"type": "shell_call", "call_id": "q"}).to_string(),
        json!({"type": "tool_use", "id": "c", "name": "Bash"}).to_string(),
        tool_use("b").to_string(),
    ];
    let (events, end) = read(lines.join("\n"));
    assert_eq!(end, Ok(Turn::Stream));
    let said: Vec<String> = events
        .iter()
        .map(|event| match event {
            Event::Item(item) => {
                format!("{} {}", id_of(item), matches!(item.submission, Submission::Call(_)))
            }
            Event::BadLine(error) => error.to_string(),
        })
        .collect();
    assert_eq!(said[0], "a true");
    assert!(said[1].starts_with("line 2, column"), "{}", said[1]);
    assert!(said[2].starts_with("line 3, column 1:"), "{}", said[2]);
    assert!(said[3].starts_with("line 4: it is a number"), "{}", said[3]);
    assert!(said[4].starts_with("line 5: the call has no `id`"), "{}", said[4]);
    assert!(said[5].starts_with("line 6: it is an object that is no call"), "{}", said[5]);
    assert!(said[6].starts_with("line 7: elements of the type \"shell_call\""), "{}", said[6]);
    assert_eq!(said[7], "c false");
    assert_eq!(said[8], "b true");
}

#[test]
fn a_first_line_that_is_no_json_makes_one_document_of_which_nothing_runs() {
    for (bad, place) in [
        ("{\"type\": \"tool_use\", \"id\": \"x\", \"input\": {", "line 3, column 1"),
        ("garbage", "line 1, column 1"),
        ("{]", "line 1, column 2"),
    ] {
        for before in ["", "\n\n"] {
            let (events, end) = read(format!("{before}{bad}\n\n{}\n", tool_use("a")));
            assert_eq!(events, [], "{bad}");
            let error = end.unwrap_err().to_string();
            assert!(!before.is_empty() || error.starts_with(place), "{bad}: {error}");
        }
    }
}

#[test]
fn a_first_line_that_is_json_and_no_call_is_a_bad_line_when_others_follow() {
    let (events, end) = read(format!("\n{{\"foo\": 1}}\n\n{}\n", tool_use("a")));
    assert_eq!((events.len(), end), (2, Ok(Turn::Stream)));
    assert!(matches!(&events[0], Event::BadLine(error) if error.to_string().starts_with("line 2")));
    assert!(matches!(&events[1], Event::Item(_)));
}

#[test]
fn a_line_too_long_is_named_and_the_next_one_runs() {
    let mut reader = Reader::new(None);
    reader.line(tool_use("a").to_string().as_bytes()).unwrap();
    let events = reader.long_line().unwrap();
    assert!(
        matches!(&events[0], Event::BadLine(error) if error.to_string().starts_with("line 2 is longer"))
    );
    let events = reader.line(tool_use("b").to_string().as_bytes()).unwrap();
    assert!(matches!(&events[0], Event::Item(item) if call(item).0 == "b"));
}

#[test]
fn a_list_with_one_call_a_line_is_whole_and_not_a_stream() {
    let (dialect, items) = whole(format!("[\n{},\n{}\n]\n", tool_use("a"), tool_use("b")));
    assert_eq!((dialect, items.len()), (Dialect::Anthropic, 2));
    // Cut off, it must not be taken for a stream, of which some would run.
    assert!(error(format!("[\n{},\n{}\n", tool_use("a"), tool_use("b"))).contains("EOF"));
}
