//! spec 10.4: Read.

use super::*;
use nix::errno::Errno;
use nix::sys::stat::Mode;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;

const ALL: u64 = u64::MAX;

/// Content, first line, lines, total, truncated.
#[track_caller]
fn parts(answer: Answer) -> (Vec<u8>, u64, u64, Option<u64>, bool) {
    let Ok(FileDone::Read { content, first_line, lines, total_lines, truncated, .. }) = answer
    else {
        panic!("{answer:?}")
    };
    (content.0, first_line, lines, total_lines, truncated)
}

#[test]
fn lines_are_returned_from_the_first_asked_for_up_to_the_limit() {
    let world = World::new();
    world.put("f", "one\ntwo\nthree\nfour");
    assert_eq!(parts(world.read("f", 2, 2, ALL)), (b"two\nthree\n".to_vec(), 2, 2, Some(4), false));
    assert_eq!(parts(world.read("f", 3, 9, ALL)), (b"three\nfour".to_vec(), 3, 2, Some(4), false));
    // 0 is taken as the beginning.
    assert_eq!(parts(world.read("f", 0, 1, ALL)), (b"one\n".to_vec(), 1, 1, Some(4), false));
    assert_eq!(parts(world.read("f", 9, 9, ALL)), (vec![], 9, 0, Some(4), false));
}

#[test]
fn an_empty_file_has_no_lines() {
    let world = World::new();
    world.put("f", "");
    assert_eq!(parts(world.read("f", 1, ALL, ALL)), (vec![], 1, 0, Some(0), false));
}

#[test]
fn a_byte_order_mark_and_line_ends_come_as_they_are() {
    let world = World::new();
    let content = b"\xef\xbb\xbfa\r\nb\r\n\xffnot utf-8\n";
    world.put("f", content);
    assert_eq!(parts(world.read("f", 1, ALL, ALL)), (content.to_vec(), 1, 3, Some(3), false));
}

#[test]
fn content_over_the_byte_limit_ends_at_a_whole_line() {
    let world = World::new();
    world.put("f", "one\ntwo\nthree\n");
    assert_eq!(parts(world.read("f", 1, ALL, 10)), (b"one\ntwo\n".to_vec(), 1, 2, Some(3), true));
    assert_eq!(parts(world.read("f", 1, ALL, 8)), (b"one\ntwo\n".to_vec(), 1, 2, Some(3), true));
    // Exactly what was asked for: nothing is missing.
    assert_eq!(parts(world.read("f", 1, 2, 8)), (b"one\ntwo\n".to_vec(), 1, 2, Some(3), false));
}

#[test]
fn a_line_over_the_byte_limit_is_cut_between_characters() {
    let world = World::new();
    world.put("f", format!("x{}\nnext\n", "ä".repeat(300_000)));
    let (content, _, lines, total, truncated) = parts(world.read("f", 1, ALL, 100_000));
    assert_eq!(content.len(), 99_999);
    assert!(std::str::from_utf8(&content).is_ok());
    assert_eq!((lines, total, truncated), (1, Some(2), true));
    assert_eq!(parts(world.read("f", 2, 1, 100)).0, b"next\n");
}

#[test]
fn lines_far_into_a_file_are_found_across_the_pieces_it_is_read_in() {
    let world = World::new();
    let text: String = (1..=100_000).map(|n| format!("line {n}\n")).collect();
    world.put("f", &text);
    let (content, first, lines, total, _) = parts(world.read("f", 70_000, 2, ALL));
    assert_eq!(String::from_utf8(content).unwrap(), "line 70000\nline 70001\n");
    assert_eq!((first, lines, total), (70_000, 2, Some(100_000)));
}

#[test]
fn the_beginning_of_a_huge_file_comes_without_reading_all_of_it() {
    let world = World::new();
    let path = world.put("f", "one\ntwo\n".repeat(2000));
    // Sparse: no memory or disk has ten gigabytes for a test.
    std::fs::File::options().write(true).open(&path).unwrap().set_len(10 << 30).unwrap();
    let (content, _, lines, total, truncated) = parts(world.read("f", 1, 2, ALL));
    assert_eq!((content.as_slice(), lines, truncated), (b"one\ntwo\n".as_slice(), 2, false));
    assert_eq!(total, None);
}

#[test]
fn a_binary_file_is_named_with_its_size() {
    let world = World::new();
    world.put("f", b"\x7fELF\0\0");
    assert_unsuitable(&world.read("f", 1, ALL, ALL), "binary file (6 bytes)");
}

#[test]
fn what_is_not_a_regular_file_is_named_and_never_hangs() {
    let world = World::new();
    std::fs::create_dir(world.path("folder")).unwrap();
    nix::unistd::mkfifo(&world.path("pipe"), Mode::S_IRWXU).unwrap();
    let _listener = UnixListener::bind(world.path("socket")).unwrap();
    world.link("null", "/dev/null");
    for (name, kind) in
        [("folder", "a folder"), ("pipe", "a pipe"), ("socket", "a socket"), ("null", "a device")]
    {
        assert_not_a_file(&world.read(name, 1, ALL, ALL), kind);
    }
}

#[test]
fn a_file_in_proc_has_content_although_its_size_is_0() {
    let world = World::new();
    let answer = world.run(&read_op(Path::new("/proc/self/status"), 1, 1, ALL));
    assert!(parts(answer).0.starts_with(b"Name:"));
}

#[test]
fn a_missing_file_and_a_relative_path_are_errors_of_their_own() {
    let world = World::new();
    assert_os(&world.read("missing", 1, ALL, ALL), Errno::ENOENT);
    assert_unsuitable(&world.run(&read_op(Path::new("f"), 1, 1, 1)), "not an absolute path");
    assert_os(&world.run(&read_op(Path::new("/a\0b"), 1, 1, 1)), Errno::EINVAL);
}

#[test]
fn a_name_that_is_not_utf_8_is_read() {
    let world = World::new();
    let path = world.folder.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9 \n[id]"));
    std::fs::write(&path, "x").unwrap();
    assert_eq!(parts(world.run(&read_op(&path, 1, 1, ALL))).0, b"x");
}

// spec 10.4: Edit wants the file unchanged since it was read.
#[test]
fn the_fingerprint_is_that_of_the_file_until_it_changes() {
    let world = World::new();
    world.put("f", "x");
    let Ok(FileDone::Read { fingerprint, .. }) = world.read("f", 1, 1, ALL) else { panic!() };
    assert_eq!(fingerprint, world.fingerprint("f"));
    world.put("f", "xy");
    assert_ne!(fingerprint, world.fingerprint("f"));
}

#[test]
fn a_cancelled_read_ends() {
    let world = World::new();
    world.put("f", "x");
    let cancel = Cancel::default();
    cancel.set();
    let answer = world.files.run(&read_op(&world.path("f"), 1, 1, ALL), &cancel);
    assert_eq!(answer, Err(FileError::Cancelled));
}
