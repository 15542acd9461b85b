//! What a run is given: options, the command's words, and variables (spec 10.1, 5.6).

use crate::{work, workspace_write};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;
use stockade_tests::{FakeHome, Scratch};

// spec 10.1, 10.7: a slip of the finger is no grant, and no protection
#[test]
fn a_path_option_that_names_nothing_is_an_error() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    let absent = work.join("secrte");
    let absent = absent.to_str().expect("UTF-8");
    for option in ["--read", "--write", "--hide"] {
        let ran = workspace_write(&work).options(&[option, absent]).bash("echo ran");
        assert_eq!((ran.code(), ran.out().as_str()), (125, ""), "{option}: {}", ran.err());
        assert!(ran.err().contains("secrte"), "{option}: {}", ran.err());
    }
}

// spec 10.1
#[test]
fn a_variable_without_a_name_is_refused_and_one_that_is_not_set_is_told() {
    let scratch = Scratch::new();
    let ran = workspace_write(&work(&scratch)).options(&["--env", "=x"]).bash("echo ran");
    assert_eq!((ran.code(), ran.out().as_str()), (125, ""), "{}", ran.err());
    let ran = workspace_write(&work(&scratch))
        .options(&["--env", "NO_SUCH_VARIABLE_HERE"])
        .bash("echo ran");
    assert_eq!((ran.code(), ran.out().as_str()), (0, "ran\n"), "{}", ran.err());
    assert!(ran.err().contains("NO_SUCH_VARIABLE_HERE"), "{}", ran.err());
}

// spec 10.1
#[test]
fn argv_arrives_byte_for_byte() {
    let scratch = Scratch::new();
    let awkward: Vec<OsString> = [
        &b""[..],
        b" ",
        b"two words",
        b"line\nbreak",
        b"\xff\xfe\x80",
        b"$HOME `id` \"quoted\" 'q' \\ *",
        b"--json",
        b"-",
        b"--",
        b"\t",
        b"",
    ]
    .iter()
    .map(|bytes| OsString::from_vec(bytes.to_vec()))
    .collect();
    let mut argv: Vec<OsString> = vec!["printf".into(), "%s\\0".into()];
    argv.extend(awkward.iter().cloned());
    let ran = workspace_write(&work(&scratch)).run(&argv);
    let mut expected = Vec::new();
    for arg in &awkward {
        expected.extend_from_slice(arg.as_bytes());
        expected.push(0);
    }
    assert_eq!(ran.stdout, expected, "{}", ran.err());
}

// spec 10.1
#[test]
fn the_first_argument_that_is_no_option_begins_the_command() {
    let scratch = Scratch::new();
    let mut command = std::process::Command::new(stockade_tests::stockade_bin());
    command.args(["run", "--workspace"]).arg(work(&scratch)).args(["echo", "--json", "-n", "x"]);
    let ran = stockade_tests::finish(&mut command, &[], Duration::from_secs(120));
    assert_eq!(ran.out(), "--json -n x\n", "{}", ran.err());
}

// spec 5.6
#[test]
fn no_secret_of_the_environment_and_no_loader_variable_gets_in() {
    let scratch = Scratch::new();
    let home = FakeHome::new(&scratch.folder("home"));
    let mut confined = workspace_write(&work(&scratch));
    home.dress(confined.process());
    let code = work(&scratch).join("evil.sh");
    fs::write(&code, "echo loaded\n").expect("a file");
    confined
        .process()
        .env("BASH_ENV", &code)
        .env("LD_LIBRARY_PATH", "/evil")
        .env("LD_AUDIT", "/evil.so")
        .env("PYTHONSTARTUP", &code)
        .env("PYTHONPATH", "/evil")
        .env("NODE_OPTIONS", "--require=/evil.js")
        .env("PERL5OPT", "-Mevil")
        .env("GIT_SSH_COMMAND", "/evil")
        .env("PROMPT_COMMAND", "/evil")
        .env("SOMETHING_ELSE", "unlisted");
    let ran = confined.bash("env; cat /proc/1/environ | tr '\\0' '\\n'");
    let out = ran.out();
    assert!(out.contains("PATH=") && out.contains("HOME="), "{out} {}", ran.err());
    assert!(!out.contains(home.marker()), "{out}");
    for never in ["loaded", "/evil", "-Mevil", "SOMETHING_ELSE"] {
        assert!(!out.contains(never), "{never} got in: {out}");
    }
}

// spec 10.1
#[test]
fn env_passes_what_is_named_and_nothing_more() {
    let scratch = Scratch::new();
    let mut confined =
        workspace_write(&work(&scratch)).options(&["--env", "SET=a b", "--env", "TAKEN"]);
    confined.process().env("TAKEN", "from outside").env("OTHER", "no");
    let ran = confined.bash("echo \"$SET/$TAKEN/$OTHER\"");
    assert_eq!(ran.out(), "a b/from outside/\n", "{}", ran.err());
}
