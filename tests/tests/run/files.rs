//! Which files a run sees and may write (spec 5.1, 5.4).

use crate::{work, workspace_write};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;
use stockade_tests::{Confined, Scratch, tree, unique};

#[test]
fn workspaces_of_any_name_are_the_folder_that_was_meant() {
    let scratch = Scratch::new();
    let names: [&[u8]; 8] = [
        b"[id]",
        b"a space",
        b"a\nnewline",
        b"caf\xc3\xa9",
        b"not \xff utf-8 \xfe",
        b"$HOME",
        b"-x",
        b"*",
    ];
    for name in names {
        let work = scratch.folder(OsStr::from_bytes(name));
        fs::write(work.join("before"), "content").expect("a file");
        let ran = workspace_write(&work).bash("cat before && echo written > after && pwd");
        assert_eq!(ran.code(), 0, "{work:?}: {}", ran.err());
        let expected = [b"content", work.as_os_str().as_bytes(), b"\n"].concat();
        assert_eq!(ran.stdout, expected, "{work:?}");
        assert_eq!(fs::read_to_string(work.join("after")).expect("it was written"), "written\n");
    }
    let written: Vec<_> = tree::snapshot(&scratch.path())
        .into_keys()
        .filter(|path| path.file_name() == Some(OsStr::new("after")))
        .collect();
    assert_eq!(written.len(), names.len(), "and nowhere else: {written:?}");
}

#[test]
fn a_symlinked_workspace_is_the_folder_behind_it() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    symlink(&work, scratch.path().join("way")).expect("a link");
    let ran = workspace_write(&scratch.path().join("way")).bash("echo through > file; pwd -P");
    assert_eq!(ran.out().trim_end().as_bytes(), work.as_os_str().as_bytes(), "{}", ran.err());
    assert_eq!(fs::read_to_string(work.join("file")).expect("it was written"), "through\n");
}

#[test]
fn the_workspace_is_the_current_folder_unless_another_is_named() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    let mut command = std::process::Command::new(stockade_tests::stockade_bin());
    command.args(["run", "bash", "-c", "pwd -P; echo x > here"]).current_dir(&work);
    let ran = stockade_tests::finish(&mut command, &[], Duration::from_secs(120));
    assert_eq!(ran.out().trim_end().as_bytes(), work.as_os_str().as_bytes(), "{}", ran.err());
    assert!(work.join("here").exists());
}

/// Tries to write in many places and ways; prints the number of each that worked.
const WRITES: &str = r#"
n=0; try() { n=$((n+1)); ("$@") 2>/dev/null && echo "worked: $n: $*"; }
try sh -c 'echo x > new'
try sh -c 'echo x >> file'
try sh -c ': > file'
try truncate -s 0 file
try rm -f file
try mv file moved
try mkdir folder
try ln -s file link
try ln file hard
try chmod 600 file
try touch file
try rmdir empty
try mkfifo pipe
try python3 -c 'import os; os.utime("file", (1, 1))'
true
"#;

// spec 5.1, 5.4
#[test]
fn read_only_really_denies_every_kind_of_write() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    fs::create_dir(work.join("empty")).expect("a folder");
    fs::write(work.join("file"), "content").expect("a file");
    let before = tree::snapshot(&work);
    let ran = Confined::new("read-only", &work).bash(WRITES);
    assert_eq!(ran.out(), "", "{}", ran.err());
    assert_eq!(tree::touched(&before, &tree::snapshot(&work)), [""; 0]);
    let read = Confined::new("read-only", &work).bash("cat file; ls");
    assert_eq!(read.out(), "contentempty\nfile\n", "reading works: {}", read.err());
    let writable = workspace_write(&work).bash(WRITES);
    assert!(writable.out().lines().count() >= 10, "the probe can succeed: {}", writable.out());
}

// spec 5.1, 5.4
#[test]
fn workspace_write_denies_writing_anywhere_else() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    let outside = scratch.folder("outside");
    fs::create_dir(outside.join("empty")).expect("a folder");
    fs::write(outside.join("file"), "content").expect("a file");
    symlink(&outside, work.join("way")).expect("a link");
    fs::write(work.join("mine"), "").expect("a file");
    let before = tree::snapshot(&scratch.path());
    let there = outside.to_str().expect("UTF-8");
    for line in [
        format!("cd {there:?} && {{ {WRITES} }}"),
        format!("cd way && {{ {WRITES} }}"),
        format!("echo x > {there}/new"),
        format!("echo x > {there}/file"),
        format!("rm -rf {there}/* ; rm -rf way/*"),
        format!("ln {there}/file hard && echo x > hard"),
        format!("mv mine {there}/"),
        "echo x > ../escaped".into(),
        "echo x > /etc/stockade-test-was-here".into(),
        "echo x > /usr/stockade-test-was-here".into(),
        "echo x > /stockade-test-was-here".into(),
        "echo '|/bin/false' > /proc/sys/kernel/core_pattern".into(),
    ] {
        let ran = workspace_write(&work).bash(&line);
        assert!(!ran.out().contains("worked"), "{line}: {}", ran.out());
    }
    let after = tree::snapshot(&scratch.path());
    assert_eq!(tree::touched(&before, &after), [""; 0]);
    for planted in
        ["/etc/stockade-test-was-here", "/usr/stockade-test-was-here", "/stockade-test-was-here"]
    {
        assert!(!Path::new(planted).exists(), "{planted}");
    }
}

// spec 5.1
#[test]
fn danger_full_access_is_really_unconfined_in_files() {
    let scratch = Scratch::new();
    let outside = scratch.folder("outside");
    let line = format!("echo x > {outside:?}/written");
    let ran = Confined::new("danger-full-access", &work(&scratch)).bash(&line);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert!(outside.join("written").exists());
}

#[test]
fn tmp_is_private_and_the_home_is_empty_but_both_can_be_written() {
    let scratch = Scratch::new();
    let name = format!("/tmp/stockade-test-{}", unique());
    let line = format!("echo x > {name} && cat {name} && echo y > ~/mine && cat ~/mine");
    let ran = workspace_write(&work(&scratch)).bash(&line);
    assert_eq!(ran.out(), "x\ny\n", "{}", ran.err());
    assert!(!Path::new(&name).exists(), "{name} appeared on the host");
    fs::write(&name, "of the host").expect("a file");
    let ran = workspace_write(&work(&scratch)).bash(&format!("cat {name}"));
    fs::remove_file(&name).ok();
    assert_ne!(ran.code(), 0, "the host's /tmp is visible");
}

// spec 10.1
#[test]
fn read_write_and_hide_change_the_view_as_named() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    let extra = scratch.folder("extra");
    fs::write(extra.join("file"), "extra").expect("a file");
    fs::write(work.join("hidden"), "hidden").expect("a file");
    let extra_text = extra.to_str().expect("UTF-8");
    let probe = format!("cat {extra_text}/file; echo x > {extra_text}/new; cat hidden");
    let ran = workspace_write(&work).bash(&probe);
    assert_eq!(ran.out(), "hidden", "{}", ran.err());
    let ran = workspace_write(&work).options(&["--read", extra_text]).bash(&probe);
    assert_eq!(ran.out(), "extrahidden", "{}", ran.err());
    assert!(!extra.join("new").exists());
    let hidden = work.join("hidden");
    let hide = ["--write", extra_text, "--hide", hidden.to_str().expect("UTF-8")];
    let ran = workspace_write(&work).options(&hide).bash(&probe);
    assert_eq!(ran.out(), "extra", "{}", ran.err());
    assert!(extra.join("new").exists());
}

#[test]
fn nothing_is_left_in_the_folder_for_temporary_files() {
    let scratch = Scratch::new();
    let temporary = scratch.folder("temporary");
    for line in ["echo x > /tmp/x; echo y > ~/y", "kill -9 $$", "sleep 5"] {
        let mut confined =
            workspace_write(&work(&scratch)).options(&["--timeout", "300ms", "--grace", "100ms"]);
        confined.process().env("TMPDIR", &temporary).env("XDG_RUNTIME_DIR", &temporary);
        confined.bash(line);
    }
    let left: Vec<_> =
        tree::snapshot(&temporary).into_keys().filter(|p| p != Path::new("")).collect();
    assert!(left.is_empty(), "{left:?}");
}

// spec 5.4: what a command leaves behind decides nothing for the next
#[test]
fn a_link_that_a_command_left_where_the_policy_names_a_path_opens_nothing() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    let secret = scratch.folder("secret");
    fs::write(secret.join("s"), "s3cret").expect("a secret");
    fs::create_dir_all(work.join("parts")).expect("a folder");
    let policy = scratch.path().join("p.toml");
    let text = "extends = \"workspace-write\"\n[filesystem]\n\
        read = [\"$WORKSPACE/vendor\", \"$WORKSPACE/parts/*\"]\nwrite = [\"$WORKSPACE/out\"]\n";
    fs::write(&policy, text).expect("a policy");
    fs::create_dir_all(work.join("out")).expect("a folder");
    let run = |line: &str| {
        let policy = policy.to_str().expect("UTF-8");
        Confined::new(policy, &work).bash(line)
    };
    let target = secret.display();
    let planted = run(&format!("ln -s {target} vendor; ln -s {target} parts/x; echo planted"));
    assert_eq!(planted.out(), "planted\n", "{}", planted.err());
    assert_eq!(fs::read_to_string(work.join("vendor/s")).expect("outside"), "s3cret");
    let next = run("cat vendor/s parts/x/s; echo read");
    assert_eq!(next.out(), "read\n", "{}", next.err());
    run(&format!("rmdir out && ln -s {target} out"));
    let next = run("echo x > out/s");
    assert_eq!(next.code(), 126, "{}", next.err());
    assert!(next.err().contains("through the link"), "{}", next.err());
    assert_eq!(fs::read_to_string(secret.join("s")).expect("the secret"), "s3cret");
}
