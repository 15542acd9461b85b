//! spec 10.4: Grep.

use super::*;
use nix::errno::Errno;
use stockade_plan::file::{GrepMode, GrepOp};

fn op(root: &Path, pattern: &str) -> GrepOp {
    GrepOp {
        pattern: pattern.into(),
        root: Bytes::from(root),
        glob: None,
        mode: GrepMode::Content,
        ignore_case: false,
        multiline: false,
        before: 0,
        after: 0,
        line_numbers: true,
        max_results: 100,
        max_bytes: 100_000,
    }
}

fn grep(world: &World, pattern: &str, change: impl FnOnce(&mut GrepOp)) -> Answer {
    let mut op = op(world.folder.path(), pattern);
    change(&mut op);
    world.run(&FileOp::Grep(op))
}

fn lines(world: &World, pattern: &str, change: impl FnOnce(&mut GrepOp)) -> Vec<String> {
    found(world, grep(world, pattern, change))
}

#[test]
fn lines_come_with_path_and_number_in_the_order_of_paths() {
    let world = World::new();
    world.put("b.txt", "no\nneedle two\r\n");
    world.put("a/z.txt", "needle one");
    world.put("a.txt", "Needle\n");
    assert_eq!(lines(&world, "needle", |_| {}), ["a/z.txt:1:needle one", "b.txt:2:needle two"]);
    assert_eq!(
        lines(&world, "needle", |op| {
            op.ignore_case = true;
            op.line_numbers = false;
        }),
        ["a/z.txt:needle one", "a.txt:Needle", "b.txt:needle two"]
    );
}

#[test]
fn the_end_of_a_line_is_before_a_carriage_return_too() {
    let world = World::new();
    world.put("f", "one\r\ntwo\n");
    assert_eq!(lines(&world, "(one|two)$", |_| {}), ["f:1:one", "f:2:two"]);
    assert_eq!(lines(&world, "^(one|two)$", |op| op.multiline = true).len(), 2);
}

#[test]
fn the_three_modes_return_lines_paths_and_counts() {
    let world = World::new();
    world.put("a", "x\nx\nx x\n");
    world.put("b", "x\n");
    world.put("c", "y\n");
    assert_eq!(lines(&world, "x", |_| {}).len(), 4);
    assert_eq!(lines(&world, "x", |op| op.mode = GrepMode::FilesWithMatches), ["a", "b"]);
    assert_eq!(lines(&world, "x", |op| op.mode = GrepMode::Count), ["a:3", "b:1"]);
    let count = lines(&world, "x\nx", |op| {
        op.mode = GrepMode::Count;
        op.multiline = true;
    });
    assert_eq!(count, ["a:1"]);
}

#[test]
fn context_is_marked_and_gaps_are_separated() {
    let world = World::new();
    world.put("a", "1\n2\nneedle\n4\n5\n6\n7\nneedle\n");
    world.put("b", "needle\n");
    let answer = lines(&world, "needle", |op| {
        op.before = 1;
        op.after = 1;
    });
    let expected =
        ["a-2-2", "a:3:needle", "a-4-4", "--", "a-7-7", "a:8:needle", "--", "b:1:needle"];
    assert_eq!(answer, expected);
}

#[test]
fn multiline_patterns_span_lines_only_when_asked_to() {
    let world = World::new();
    world.put("f", "begin\nmiddle\nend\n");
    let answer = lines(&world, "begin.*end", |op| op.multiline = true);
    assert_eq!(answer, ["f:1:begin", "f:2:middle", "f:3:end"]);
    assert!(lines(&world, "begin.*end", |_| {}).is_empty());
    let answer = grep(&world, "begin\\nmiddle", |_| {});
    assert!(matches!(answer, Err(FileError::Pattern { .. })), "{answer:?}");
}

#[test]
fn ignore_files_count_hidden_files_are_searched_and_git_is_not() {
    let world = World::new();
    for name in [".git/HEAD", "target/out", ".hidden", "shown", "sub/.git/x", "private", "x.log"] {
        world.put(name, "needle");
    }
    world.put(".gitignore", "target/\n*.log\n");
    world.put(".ignore", "private\n");
    let all = |op: &mut GrepOp| op.mode = GrepMode::FilesWithMatches;
    assert_eq!(lines(&world, "needle", all), [".hidden", "shown"]);
    // A glob narrows; it does not bring back what is ignored.
    assert!(lines(&world, "needle", |op| op.glob = Some("*.log".into())).is_empty());
    // Named itself, a file is searched.
    let answer = lines(&world, "needle", |op| op.root = Bytes::from(world.path("x.log")));
    assert_eq!(answer, ["x.log:1:needle"]);
}

#[test]
fn a_glob_picks_files_at_any_depth_or_leaves_some_out() {
    let world = World::new();
    for name in ["a.rs", "src/b.rs", "src/c.ts", "d.md"] {
        world.put(name, "needle");
    }
    let with = |glob: &str| {
        lines(&world, "needle", |op| {
            op.glob = Some(glob.into());
            op.mode = GrepMode::FilesWithMatches;
        })
    };
    assert_eq!(with("*.rs"), ["a.rs", "src/b.rs"]);
    assert_eq!(with("*.{ts,md}"), ["d.md", "src/c.ts"]);
    assert_eq!(with("src/**"), ["src/b.rs", "src/c.ts"]);
    assert_eq!(with("!src"), ["a.rs", "d.md"]);
    let answer = grep(&world, "needle", |op| op.glob = Some("a[".into()));
    assert!(matches!(answer, Err(FileError::Pattern { .. })), "{answer:?}");
}

#[test]
fn binary_files_are_skipped_wherever_they_turn_out_to_be_binary() {
    let world = World::new();
    world.put("early", b"needle\0");
    let mut late = b"needle\n".repeat(20_000);
    late.push(0);
    world.put("late", late);
    world.put("text", "needle");
    let answer = lines(&world, "needle", |op| {
        op.max_results = 100_000;
        op.max_bytes = 10_000_000;
    });
    assert_eq!(answer, ["text:1:needle"]);
    assert_eq!(lines(&world, "needle", |op| op.mode = GrepMode::Count), ["text:1"]);
    // Named itself, it is said why nothing was found.
    let answer = grep(&world, "needle", |op| op.root = Bytes::from(world.path("early")));
    let Ok(FileDone::Found { entries, unreadable, .. }) = answer else { panic!("{answer:?}") };
    assert!(entries.is_empty());
    assert!(String::from_utf8_lossy(&unreadable[0].0).ends_with("early: binary file"));
}

#[test]
fn utf_16_with_its_mark_is_text() {
    let world = World::new();
    let utf_16: Vec<u8> = "\u{feff}a needle\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    world.put("f", utf_16);
    assert_eq!(lines(&world, "needle", |_| {}), ["f:1:a needle"]);
}

#[test]
fn results_and_bytes_are_bounded() {
    let world = World::new();
    world.put("a", "x\nx\nx\n");
    world.put("b", "x\n");
    let truncated = |answer: &Answer| matches!(answer, Ok(FileDone::Found { truncated: true, .. }));
    let answer = grep(&world, "x", |op| op.max_results = 2);
    assert!(truncated(&answer));
    assert_eq!(found(&world, answer), ["a:1:x", "a:2:x"]);
    let exactly = grep(&world, "x", |op| op.max_results = 4);
    assert!(!truncated(&exactly));
    let prefix = world.folder.path().as_os_str().len() as u64 + 1;
    let answer = grep(&world, "x", |op| op.max_bytes = 2 * (prefix + 6));
    assert!(truncated(&answer));
    assert_eq!(found(&world, answer).len(), 2);
    let answer = grep(&world, "x", |op| {
        op.max_results = 1;
        op.mode = GrepMode::FilesWithMatches;
    });
    assert!(truncated(&answer));
}

#[test]
fn a_long_line_is_shown_around_its_match() {
    let world = World::new();
    world.put("f", format!("{}needle{}\n", "ä".repeat(50_000), "z".repeat(100_000)));
    let answer = lines(&world, "needle", |_| {});
    assert_eq!(answer.len(), 1);
    assert!(answer[0].starts_with("f:1:[99800 bytes] ää") && answer[0].contains("äneedlez"));
    assert!(answer[0].len() < 2100 && answer[0].ends_with("zz [98206 bytes]"), "{}", answer[0]);
}

#[test]
fn links_are_not_followed_but_a_root_that_is_one_is() {
    let world = World::new();
    world.put("real/f", "needle");
    world.link("real/loop", "..");
    world.link("alias", "real");
    assert_eq!(lines(&world, "needle", |_| {}), ["real/f:1:needle"]);
    let answer = lines(&world, "needle", |op| op.root = Bytes::from(world.path("alias")));
    assert_eq!(answer, ["alias/f:1:needle"]);
}

#[test]
fn bad_expressions_and_missing_roots_are_errors() {
    let world = World::new();
    for pattern in ["(", "a{4294967295}", "[z-a]", "((a{1000}){1000}){1000}"] {
        let answer = grep(&world, pattern, |_| {});
        assert!(matches!(answer, Err(FileError::Pattern { .. })), "{pattern}: {answer:?}");
    }
    let answer = grep(&world, "x", |op| op.root = Bytes::from(world.path("missing")));
    assert_os(&answer, Errno::ENOENT);
    let answer = grep(&world, "x", |op| op.root = "/dev/null".into());
    assert_not_a_file(&answer, "a device");
}

#[test]
fn a_file_too_large_to_be_searched_across_lines_is_listed() {
    let world = World::new();
    let path = world.put("huge", "needle\n");
    let text = "filler line\n".repeat(3 * 1024 * 1024);
    std::fs::write(&path, text).unwrap();
    world.put("small", "needle\nfound\n");
    let answer = grep(&world, "needle.found", |op| op.multiline = true);
    let Ok(FileDone::Found { unreadable, .. }) = &answer else { panic!("{answer:?}") };
    assert_eq!(unreadable.len(), 1);
    assert_eq!(found(&world, answer), ["small:1:needle", "small:2:found"]);
}
