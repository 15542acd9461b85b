//! spec 10.4: Edit.

use super::*;
use nix::errno::Errno;

#[track_caller]
fn edited(answer: Answer) -> (u64, String, u64) {
    let Ok(FileDone::Edited { replacements, snippet, snippet_first_line, .. }) = answer else {
        panic!("{answer:?}")
    };
    (replacements, String::from_utf8(snippet.0).unwrap(), snippet_first_line)
}

#[track_caller]
fn assert_occurrences(answer: &Answer, expected: u64) {
    assert!(matches!(answer, Err(FileError::Occurrences { count, .. }) if *count == expected));
}

#[test]
fn the_one_occurrence_is_replaced_and_shown_with_lines_around_it() {
    let world = World::new();
    let text: String = (1..=20).map(|n| format!("line {n}.\n")).collect();
    world.put("f", &text);
    let answer = world.edit("f", "line 10.", "first\nsecond", false);
    let Ok(FileDone::Edited { fingerprint, .. }) = answer else { panic!("{answer:?}") };
    assert_eq!(fingerprint, world.fingerprint("f"));
    let (replacements, snippet, first) = edited(answer);
    assert_eq!((replacements, first), (1, 6));
    let lines: Vec<&str> = snippet.lines().collect();
    let expected = [
        "line 6.", "line 7.", "line 8.", "line 9.", "first", "second", "line 11.", "line 12.",
        "line 13.", "line 14.",
    ];
    assert_eq!(lines, expected);
    assert_eq!(world.content("f"), text.replace("line 10.", "first\nsecond"));
    world.assert_tidy();
}

#[test]
fn a_change_at_the_very_beginning_or_end_has_a_snippet_too() {
    let world = World::new();
    world.put("f", "a\nb");
    assert_eq!(edited(world.edit("f", "a\n", "", false)), (1, "b".into(), 1));
    assert_eq!(edited(world.edit("f", "b", "b\nc", false)), (1, "b\nc".into(), 1));
}

#[test]
fn a_snippet_of_a_very_long_line_is_bounded() {
    let world = World::new();
    world.put("f", format!("{}here{}", "x".repeat(100_000), "y".repeat(100_000)));
    let (_, snippet, first) = edited(world.edit("f", "here", "there", false));
    assert!(snippet.len() < 10_000 && snippet.contains("xtherey"));
    assert_eq!(first, 1);
}

#[test]
fn text_that_occurs_never_or_more_than_once_is_counted_and_nothing_changes() {
    let world = World::new();
    world.put("f", "a b a");
    assert_occurrences(&world.edit("f", "a", "x", false), 2);
    assert_occurrences(&world.edit("f", "c", "x", false), 0);
    assert_occurrences(&world.edit("f", "c", "x", true), 0);
    assert_eq!(world.content("f"), "a b a");
    assert_eq!(edited(world.edit("f", "a", "xx", true)).0, 2);
    assert_eq!(world.content("f"), "xx b xx");
}

#[test]
fn an_empty_old_text_and_a_change_that_is_none_are_refused() {
    let world = World::new();
    world.put("f", "a");
    assert_unsuitable(&world.edit("f", "", "x", false), "empty");
    assert_unsuitable(&world.edit("f", "a", "a", false), "the same");
}

#[test]
fn a_file_that_changed_since_it_was_read_is_not_edited() {
    let world = World::new();
    world.put("f", "a");
    let expected = world.fingerprint("f");
    world.put("f", "a b");
    let path = Bytes::from(world.path("f"));
    let op = FileOp::Edit { path, old: "a".into(), new: "x".into(), replace_all: false, expected };
    let answer = world.run(&op);
    assert!(matches!(answer, Err(FileError::Changed { .. })), "{answer:?}");
    std::fs::remove_file(world.path("f")).unwrap();
    assert_os(&world.run(&op), Errno::ENOENT);
}

#[test]
fn a_file_with_crlf_is_edited_by_a_text_with_plain_line_ends_and_keeps_its_own() {
    let world = World::new();
    world.put("f", "one\r\ntwo\r\nthree\r\n");
    assert_eq!(edited(world.edit("f", "one\ntwo\n", "1\n2\n2b\n", false)).0, 1);
    assert_eq!(world.content("f"), "1\r\n2\r\n2b\r\nthree\r\n");
    // A text within a line, to be replaced by two lines.
    edited(world.edit("f", "three", "3\n4", false));
    assert_eq!(world.content("f"), "1\r\n2\r\n2b\r\n3\r\n4\r\n");
    // From a line end to a line end: the pairs stay whole.
    edited(world.edit("f", "\n2b\n", "\n", false));
    assert_eq!(world.content("f"), "1\r\n2\r\n3\r\n4\r\n");
    assert_occurrences(&world.edit("f", "1\n3", "x", false), 0);
}

#[test]
fn a_text_with_cr_in_it_means_what_it_says() {
    let world = World::new();
    world.put("f", "a\r\nb\r\n");
    edited(world.edit("f", "a\r\n", "a\n", false));
    assert_eq!(world.content("f"), "a\nb\r\n");
}

#[test]
fn in_a_file_of_mixed_line_ends_the_place_decides() {
    let world = World::new();
    world.put("f", "a\r\nb\r\nc\r\nd\ne\n");
    edited(world.edit("f", "d\ne\n", "d\nx\n", false));
    assert_eq!(world.content("f"), "a\r\nb\r\nc\r\nd\nx\n");
}

#[test]
fn a_binary_file_a_folder_and_a_huge_file_are_not_edited() {
    let world = World::new();
    world.put("binary", b"a\0b");
    assert_unsuitable(&world.edit("binary", "a", "x", false), "binary file (3 bytes)");
    std::fs::create_dir(world.path("folder")).unwrap();
    assert_not_a_file(&world.edit("folder", "a", "x", false), "a folder");
    let huge = world.put("huge", "a");
    std::fs::write(&huge, "a".repeat(16 * 1024 * 1024 + 1)).unwrap();
    assert_unsuitable(&world.edit("huge", "b", "x", false), "larger than");
}

#[test]
fn an_edit_that_would_grow_a_file_beyond_bounds_is_refused_before_memory_is_used() {
    let world = World::new();
    world.put("f", "a".repeat(1024 * 1024));
    assert_unsuitable(&world.edit("f", "a", &"b".repeat(1024 * 1024), true), "grow larger");
}

#[test]
fn bytes_that_are_not_utf_8_survive_an_edit() {
    let world = World::new();
    world.put("f", b"\xef\xbb\xbf\xff old \xfe");
    edited_bytes(world.edit("f", "old", "new", false));
    assert_eq!(std::fs::read(world.path("f")).unwrap(), b"\xef\xbb\xbf\xff new \xfe");
}

#[track_caller]
fn edited_bytes(answer: Answer) {
    assert!(matches!(answer, Ok(FileDone::Edited { .. })), "{answer:?}");
}
