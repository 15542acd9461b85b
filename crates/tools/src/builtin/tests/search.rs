//! Glob and Grep.

use super::*;

#[tokio::test(start_paused = true)]
async fn glob_and_grep_list_what_was_found_and_what_may_be_missing() {
    let found = |entries: &[&str], truncated| FileDone::Found {
        entries: entries.iter().map(|entry| Bytes::from(*entry)).collect(),
        truncated,
        unreadable: vec![Bytes::from("/ws/locked: Permission denied")],
    };
    let some = found(&["/ws/a", "/ws/b"], true);
    let none = FileDone::Found { entries: vec![], truncated: false, unreadable: vec![] };
    let provider = FakeProvider::new("/ws").on_file(move |op| {
        let many = match op {
            FileOp::Glob { pattern, .. } => pattern == "*",
            FileOp::Grep(op) => op.pattern == "x",
            _ => false,
        };
        let done = if many { some.clone() } else { none.clone() };
        Ok(FileScript { takes: Duration::ZERO, result: Some(Ok(done)) })
    });
    let context = context(&provider);
    let listed = "/ws/a\n/ws/b\n[only the first 2 are shown: narrow the search to see the others]\n\
                  [could not look at /ws/locked: Permission denied]";
    for (tool, arguments, expected) in [
        ("Glob", json!({"pattern": "*"}), listed),
        ("Glob", json!({"pattern": "~/*.rs"}), "No files found"),
        ("Grep", json!({"pattern": "x", "path": "/src", "-C": 2, "-A": 3, "-n": false}), listed),
        ("Grep", json!({"pattern": "y", "output_mode": "content"}), "No matches found"),
    ] {
        let output = call(&context, tool, arguments).await.unwrap();
        assert_eq!(text(&output), expected);
        assert!(!output.is_error);
    }
    let [FileOp::Glob { .. }, FileOp::Glob { root, pattern, .. }, FileOp::Grep(grep), _] =
        <[FileOp; 4]>::try_from(provider.file_ops()).unwrap()
    else {
        panic!()
    };
    assert_eq!((root, pattern.as_str()), (Bytes::from("/home/u"), "*.rs"));
    assert_eq!((grep.before, grep.after, grep.line_numbers), (2, 3, false));
    assert_eq!(grep.root, Bytes::from("/src"));
}

// spec 10.4
#[test]
fn grep_takes_ripgreps_types() {
    let input = resolved("Grep", json!({"pattern": "x", "type": "py"}));
    assert_eq!(input["glob"], "{*.py,*.pyi}");
    let provider = FakeProvider::new("/ws");
    let tool = registry().unwrap().get("Grep").unwrap();
    let unknown = json!({"pattern": "x", "type": "pyhton"});
    let error = tool.tool().resolve_input(&unknown, &context(&provider).session).unwrap_err();
    assert!(matches!(error, ToolError::Business(_)), "{error}");
}
