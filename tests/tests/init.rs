//! What would end a call's init, or lead past its view, without touching either (spec 5.1, 5.2, 6.3).
#![forbid(unsafe_code)]

use nix::libc;
use std::fs;
use std::process::Command;
use std::time::Duration;
use stockade_tests::{Finished, RunReport, Scratch, finish, stockade_bin};

fn run(scratch: &Scratch, words: &str, line: &str) -> Finished {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec \"$0\" run {words} -- bash -c \"$1\"")]);
    command.arg(stockade_bin()).arg(line).current_dir(scratch.folder("work"));
    finish(&mut command, &[], Duration::from_secs(120))
}

// spec 5.1: `/proc/self/fd/0/…` would lead past what is hidden and protected
#[test]
fn a_folder_as_one_of_the_streams_is_refused_before_anything_runs() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    fs::create_dir_all(work.join("p")).expect("a folder");
    fs::write(work.join("p/secret"), "s3cret").expect("a file");
    let attack = "touch ran; cat /proc/self/fd/0/p/secret";
    let hide = format!("--hide {}/p/secret", work.display());
    let unconfined = Command::new("bash")
        .args(["-c", &format!("exec bash -c '{attack}' <.")])
        .current_dir(&work)
        .output()
        .expect("bash");
    assert_eq!(String::from_utf8_lossy(&unconfined.stdout), "s3cret", "the attack is real");
    fs::remove_file(work.join("ran")).expect("it was made");
    for stream in ["<.", "</", "1<.", "2<."] {
        let ran = run(&scratch, &format!("{hide} {stream}"), attack);
        assert_eq!(ran.code(), 126, "{stream}: {} {}", ran.out(), ran.err());
        assert!(stream == "2<." || ran.err().contains("is a folder"), "{stream}: {}", ran.err());
        assert!(!work.join("ran").exists(), "{stream}");
    }
}

// spec 5.2, 6.3: the init has the command's user, and the truth about how it ended comes from the init
#[test]
fn a_command_cannot_end_its_init_by_limits() {
    let scratch = Scratch::new();
    for resource in [libc::RLIMIT_NOFILE, libc::RLIMIT_CPU, libc::RLIMIT_AS] {
        let line = format!(
            "python3 -c 'import resource; resource.prlimit(1, {resource}, (0, 0))' 2>err; \
             python3 -c 'import os,resource; resource.prlimit(0, {resource}, resource.getrlimit({resource}))' || exit 9; \
             grep -c PermissionError err; exit 5"
        );
        let report = RunReport::of(&run(&scratch, "--json", &line));
        assert_eq!((report.exit_code, report.stdout.trim()), (Some(5), "1"), "{report:?}");
        let named = |denial: &serde_json::Value| {
            denial["evidence"] == "kernel"
                && denial["target"].as_str().is_some_and(|target| target.starts_with("prlimit64("))
        };
        assert!(report.denials.iter().any(named), "{report:?}");
    }
}
