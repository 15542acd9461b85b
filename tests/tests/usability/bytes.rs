//! What goes in and comes out, byte for byte (spec 10.1).

use crate::same::Site;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use stockade_tests::{Confined, Scratch};

fn same<S: AsRef<OsStr>>(argv: &[S], stdin: &[u8]) {
    let site = Site::new();
    let bare = site.bare(argv, stdin);
    let (confined, errors) = site.confined(argv, stdin);
    assert!(bare == confined, "{} against {}: {errors}", bare.code, confined.code);
}

#[test]
fn every_exit_code_is_the_commands_own() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    for code in 0..=255 {
        let ran =
            Confined::new("workspace-write", &work).run(&["sh", "-c", &format!("exit {code}")]);
        assert_eq!(ran.code(), code, "{}", ran.err());
    }
}

#[test]
fn every_signal_that_ends_a_command_is_128_and_its_number() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    // signal(7): those whose default is to end the process.
    for signal in [1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 24, 31] {
        let line = format!("ulimit -c 0; kill -{signal} $$; sleep 5");
        let ran = Confined::new("workspace-write", &work).run(&["sh", "-c", &line]);
        assert_eq!(ran.code(), 128 + signal, "{}", ran.err());
    }
}

#[test]
fn ten_megabytes_pass_through_both_ways() {
    let bytes: Vec<u8> =
        (0..10_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    same(&["cat"], &bytes);
    same(&["sha256sum"], &bytes);
    same(&["sh", "-c", "seq 1500000"], b"");
}

#[test]
fn every_byte_passes_through_arguments_and_output() {
    let all: Vec<u8> = (1..=255).collect();
    same(&[OsString::from("printf"), "%s".into(), OsString::from_vec(all)], b"");
    let each: Vec<OsString> =
        (1..=255u8).map(|byte| OsStr::from_bytes(&[byte]).to_owned()).collect();
    let argv: Vec<OsString> =
        ["printf", "<%s>"].map(OsString::from).into_iter().chain(each).collect();
    same(&argv, b"");
    same(&["sh", "-c", r"printf '\000\001\377\r\n\033[0m'"], b"");
}

#[test]
fn a_command_line_may_be_as_long_as_the_kernel_lets_it() {
    // One argument may have 128 KiB less its end (execve(2)), and there may be many.
    let long = format!("echo {} | wc -c", "x".repeat(131_000));
    same(&["bash", "-c", &long], b"");
    let many: Vec<String> = std::iter::repeat_n("y".repeat(1000), 120).collect();
    let argv: Vec<String> = ["printf", "%s"].map(String::from).into_iter().chain(many).collect();
    same(&argv, b"");
}
