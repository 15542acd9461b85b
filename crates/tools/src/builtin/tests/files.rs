//! Read, Write and Edit.

use super::*;

#[tokio::test(start_paused = true)]
async fn read_numbers_its_lines_and_says_how_to_go_on() {
    let provider = FakeProvider::new("/ws");
    provider.put_file("/ws/a", "one\n\nthree\nfour");
    let context = context(&provider);
    let read = async |arguments| call(&context, "Read", arguments).await.unwrap();
    let whole = read(json!({"file_path": "a"})).await;
    assert_eq!(text(&whole), "     1\tone\n     2\t\n     3\tthree\n     4\tfour\n");
    let part = read(json!({"file_path": "/ws/a", "offset": 2, "limit": 2})).await;
    assert_eq!(
        text(&part),
        "     2\t\n     3\tthree\n[lines 2 to 3 of 4 are shown; go on with offset 4]\n"
    );
    let beyond = read(json!({"file_path": "a", "offset": 9})).await;
    assert_eq!(text(&beyond), "[nothing to read from line 9 on: the file has 4 lines]");
    provider.put_file("/ws/empty", "");
    assert_eq!(text(&read(json!({"file_path": "empty"})).await), "[/ws/empty is empty]");
    provider.put_file("/ws/bin", b"a\xff\n");
    let bytes = read(json!({"file_path": "bin"})).await;
    assert!(
        text(&bytes).ends_with("[not valid UTF-8: bytes that are none are shown as \u{fffd}]\n")
    );
}

#[tokio::test(start_paused = true)]
async fn a_missing_file_is_the_tools_own_error() {
    let provider = FakeProvider::new("/ws");
    let error = call(&context(&provider), "Read", json!({"file_path": "a"})).await.unwrap_err();
    assert!(matches!(&error, ToolError::Business(m) if m.contains("/ws/a")), "{error:?}");
}

// spec 10.4
#[tokio::test(start_paused = true)]
async fn edit_wants_the_file_read_before_and_unchanged_since() {
    let provider = FakeProvider::new("/ws");
    provider.put_file("/ws/a", "x = 1\n");
    let context = context(&provider);
    let edit = async |old: &str, new: &str| {
        let arguments = json!({"file_path": "a", "old_string": old, "new_string": new});
        call(&context, "Edit", arguments).await
    };
    let unread = edit("1", "2").await.unwrap_err().to_string();
    assert!(unread.contains("read it first"), "{unread}");
    assert!(provider.file_ops().is_empty());

    call(&context, "Read", json!({"file_path": "./a"})).await.unwrap();
    let edited = edit("1", "2").await.unwrap();
    assert!(text(&edited).contains("     1\tx = 2\n"), "{}", text(&edited));
    // Its own edit counts as having seen the file.
    edit("2", "3").await.unwrap();
    assert_eq!(provider.file_content("/ws/a").unwrap(), b"x = 3\n");

    provider.put_file("/ws/a", "x = 33\n");
    let changed = edit("3", "4").await.unwrap_err().to_string();
    assert!(changed.contains("read it again"), "{changed}");
    call(&context, "Read", json!({"file_path": "a"})).await.unwrap();
    let twice = edit("3", "4").await.unwrap_err().to_string();
    assert!(twice.contains("2 times"), "{twice}");
    assert!(edit("", "4").await.is_err());
    assert!(edit("3", "3").await.is_err());
    let all = json!({"file_path": "a", "old_string": "3", "new_string": "4", "replace_all": true});
    call(&context, "Edit", all).await.unwrap();
    assert_eq!(provider.file_content("/ws/a").unwrap(), b"x = 44\n");
}

// spec 10.4
#[tokio::test(start_paused = true)]
async fn write_creates_a_file_but_replaces_only_one_that_was_read_and_is_unchanged() {
    let provider = FakeProvider::new("/ws");
    provider.put_file("/ws/old", "old");
    let context = context(&provider);
    let write = async |path: &str, content: &str| {
        call(&context, "Write", json!({"file_path": path, "content": content})).await
    };
    assert_eq!(text(&write("new", "ä").await.unwrap()), "Created /ws/new (2 bytes)");
    assert_eq!(text(&write("/ws/new", "").await.unwrap()), "Replaced /ws/new (0 bytes)");
    let unread = write("old", "x").await.unwrap_err().to_string();
    assert!(unread.contains("read it first"), "{unread}");
    call(&context, "Read", json!({"file_path": "old"})).await.unwrap();
    provider.put_file("/ws/old", "older");
    let changed = write("old", "x").await.unwrap_err().to_string();
    assert!(changed.contains("has changed"), "{changed}");
    assert_eq!(provider.file_content("/ws/old").unwrap(), b"older");
}

// spec 5.9
#[tokio::test(start_paused = true)]
async fn a_file_that_the_sandbox_protects_is_a_denial_and_not_the_tools_own_error() {
    let refuse = |error: FileError| {
        FakeProvider::new("/ws").on_file(move |_| {
            Ok(FileScript { takes: Duration::ZERO, result: Some(Err(error.clone())) })
        })
    };
    let write = async |provider: FakeProvider| {
        let arguments = json!({"file_path": ".git/hooks/x", "content": ""});
        call(&context(&provider), "Write", arguments).await.unwrap_err()
    };
    let path = Bytes::from("/ws/.git/hooks/x");
    let protected = FileError::Protected { path: path.clone(), pattern: ".git/hooks".into() };
    let ToolError::Denied { denials, .. } = write(refuse(protected)).await else { panic!() };
    assert_eq!(denials[0].evidence, Evidence::Observed);
    assert_eq!(denials[0].target, "/ws/.git/hooks/x");
    let read_only =
        FileError::Os { step: "open".into(), path, errno: 30, message: "Read-only".into() };
    // The policy lets it be written, so it may be the file's own permissions.
    let ToolError::Denied { denials, .. } = write(refuse(read_only)).await else { panic!() };
    assert_eq!((denials[0].kind, denials[0].evidence), (DenialKind::Write, Evidence::Inferred));
    let outside = |errno| FileError::Os {
        step: "open".into(),
        path: Bytes::from("/elsewhere/x"),
        errno,
        message: "no".into(),
    };
    for errno in [30, 13, 2] {
        let ToolError::Denied { denials, .. } = write(refuse(outside(errno))).await else {
            panic!()
        };
        assert_eq!(denials[0].evidence, Evidence::Observed, "{errno}");
        assert_eq!(denials[0].grant, "--write /elsewhere/x");
    }
}
