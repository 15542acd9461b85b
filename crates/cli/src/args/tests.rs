use super::*;
use clap::CommandFactory;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;
use stockade_policy::NetworkMode;

fn run(args: &[&str]) -> Result<RunArgs, clap::Error> {
    let args = ["stockade", "run"].iter().chain(args);
    match Cli::try_parse_from(args)?.command {
        Command::Run(args) => Ok(args),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_command_line_is_well_formed() {
    Cli::command().debug_assert();
}

// spec 10.1
#[test]
fn what_follows_the_command_is_its_own_even_if_it_looks_like_an_option() {
    let args = run(&["--json", "ls", "--json", "-la", "--", "--policy", "x"]).unwrap();
    assert_eq!(args.command, ["ls", "--json", "-la", "--", "--policy", "x"]);
    assert!(args.json);
    let args = run(&["--", "--odd", "--json"]).unwrap();
    assert_eq!(args.command, ["--odd", "--json"]);
    assert!(!args.json);
    let args = run(&["ls", "--help"]).unwrap();
    assert_eq!(args.command, ["ls", "--help"]);
}

#[test]
fn a_mistyped_option_is_an_error_and_not_the_command() {
    for args in [&["--workspce", "d", "ls"][..], &["--bogus"], &["-x", "ls"]] {
        assert!(run(args).is_err(), "{args:?}");
    }
    assert!(run(&[]).is_err());
}

#[test]
fn every_option_of_run_is_understood() {
    let args = run(&[
        "--policy",
        "read-only",
        "--workspace",
        "/w",
        "--timeout",
        "90s",
        "--grace",
        "500ms",
        "--read",
        "/a",
        "--read",
        "/b",
        "--write",
        "/c",
        "--hide",
        "/d",
        "--net",
        "none",
        "--env",
        "A",
        "--env",
        "B=c=d",
        "--limit",
        "memory=2G",
        "--limit",
        "pids=512",
        "--tty",
        "--status-fd",
        "3",
        "--",
        "true",
    ])
    .unwrap();
    assert_eq!(args.confine.timeout, Some(Duration::from_secs(90)));
    assert_eq!(args.confine.grace, Some(Duration::from_millis(500)));
    assert_eq!(args.confine.read, [PathBuf::from("/a"), PathBuf::from("/b")]);
    assert_eq!(args.confine.env, ["A", "B=c=d"]);
    assert_eq!(args.confine.limit, ["memory=2G", "pids=512"].map(|limit| limit.parse().unwrap()));
    assert_eq!(args.confine.net.map(|net| net.mode), Some(NetworkMode::None));
    assert_eq!(args.status_fd, Some(3));
    assert!(run(&["--status-fd", "-1", "true"]).is_err());
    for bad in [
        &["--timeout", "soon"][..],
        &["--timeout", "0"],
        &["--net", "https://a"],
        &["--tty", "--json"],
        &["--limit", "memroy=1G"],
        &["--env", "=x"],
        &["--env", ""],
    ] {
        assert!(run(&[bad, &["true"]].concat()).is_err(), "{bad:?}");
    }
}

#[test]
fn paths_and_arguments_are_bytes() {
    let odd = OsString::from_vec(b"/w/\xff".to_vec());
    let args = [
        "stockade".into(),
        "run".into(),
        "--workspace".into(),
        odd.clone(),
        "echo".into(),
        odd.clone(),
    ];
    let Command::Run(args) = Cli::try_parse_from(args).unwrap().command else { panic!() };
    assert_eq!(args.confine.place.workspace, Some(odd.clone().into()));
    assert_eq!(args.command, [OsString::from("echo"), odd]);
}

#[test]
fn exec_reads_stdin_and_denies_by_default() {
    let Command::Exec(args) = Cli::try_parse_from(["stockade", "exec"]).unwrap().command else {
        panic!()
    };
    assert_eq!(args.input, PathBuf::from("-"));
    assert_eq!(args.approve, Approve::Deny);
    assert_eq!(args.max_parallel, 10);
    assert_eq!(args.place.policy, "workspace-write");
    for bad in [["--max-parallel", "0"], ["--approve", "maybe"], ["--format", "xml"]] {
        assert!(Cli::try_parse_from(["stockade", "exec"].iter().chain(&bad)).is_err());
    }
}
