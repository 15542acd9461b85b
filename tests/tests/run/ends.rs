//! How a run ends: exit codes, signals, timeouts, and what could not be started (spec 10.2, 6.1).

use crate::{work, workspace_write};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use stockade_tests::{Confined, Scratch, procs, unique};

// spec 10.2
#[test]
fn the_exit_code_is_the_commands_own() {
    let scratch = Scratch::new();
    for code in [0, 1, 2, 42, 123, 255] {
        let ran = workspace_write(&work(&scratch)).bash(&format!("exit {code}"));
        assert_eq!(ran.code(), code, "{}", ran.err());
    }
}

// spec 10.2
#[test]
fn a_signal_is_128_and_its_number() {
    let scratch = Scratch::new();
    for signal in [15, 9, 6, 11] {
        let line = format!("kill -{signal} $$");
        assert_eq!(workspace_write(&work(&scratch)).bash(&line).code(), 128 + signal);
        let report = workspace_write(&work(&scratch)).report(&["bash", "-c", &line]);
        assert_eq!((report.outcome.as_str(), report.signal), ("signaled", Some(signal)));
    }
}

// spec 10.2
#[test]
fn not_found_is_127_and_not_executable_is_126() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    fs::write(work.join("plain"), "no program").expect("a file");
    fs::write(work.join("nonsense"), [0, 1, 2, 3]).expect("a file");
    fs::set_permissions(work.join("nonsense"), fs::Permissions::from_mode(0o755)).expect("chmod");
    for (argv, code) in [
        ("no-such-program-anywhere", 127),
        ("./no-such-file", 127),
        ("./plain", 126),
        ("./nonsense", 126),
        ("/usr/bin", 126),
        // A folder of that name in each of the PATH is passed over, as shells do.
        (".", 127),
    ] {
        let ran = workspace_write(&work).run(&[argv]);
        assert_eq!(ran.code(), code, "{argv}: {}", ran.err());
        assert!(ran.err().contains(argv), "{argv} is named: {}", ran.err());
    }
}

// spec 10.2: nothing was run
#[test]
fn a_confinement_that_cannot_be_set_up_is_125_and_says_why() {
    let scratch = Scratch::new();
    let absent = scratch.path().join("absent-workspace");
    let ran = workspace_write(&absent).bash("echo ran");
    assert_eq!((ran.code(), ran.out().as_str()), (125, ""));
    assert!(ran.err().contains("absent-workspace"), "{}", ran.err());

    let ran = Confined::new("no-such-policy", &work(&scratch)).bash("echo ran");
    assert_eq!((ran.code(), ran.out().as_str()), (125, ""));
    assert!(ran.err().contains("no-such-policy"), "{}", ran.err());

    let broken = scratch.path().join("broken.toml");
    fs::write(&broken, "name = \"broken\"\n[filesystem]\nraed = [\"/usr\"]\n").expect("a file");
    let ran = Confined::new(broken.to_str().expect("UTF-8"), &work(&scratch)).bash("echo ran");
    assert_eq!((ran.code(), ran.out().as_str()), (125, ""));
    assert!(ran.err().contains("raed") && ran.err().contains('3'), "the place: {}", ran.err());
}

// spec 10.1, 6.1
#[test]
fn a_timeout_is_124_and_ends_children_that_ignore_sigterm_and_called_setsid() {
    let scratch = Scratch::new();
    let number = unique();
    let stubborn = format!(
        "for i in 1 2 3; do (setsid bash -c 'trap \"\" TERM; sleep {number}' &); done; trap '' TERM; sleep {number}"
    );
    let options = ["--timeout", "500ms", "--grace", "300ms"];
    let ran = workspace_write(&work(&scratch)).options(&options).bash(&stubborn);
    let left = procs::none_left(Duration::from_secs(10), || procs::with_argument(&number));
    assert!(left.is_empty(), "alive: {left:?}");
    assert_eq!(ran.code(), 124, "{}", ran.err());
    assert!(ran.took < Duration::from_secs(30), "timeout and grace are 0.8 s: {:?}", ran.took);

    let line = ["bash", "-c", &stubborn];
    let report = workspace_write(&work(&scratch)).options(&options).report(&line);
    assert_eq!((report.outcome.as_str(), report.exit_code), ("timed_out", None));
    assert!(report.killed["processes"].as_u64() >= Some(4), "{:?}", report.killed);
    let left = procs::none_left(Duration::from_secs(10), || procs::with_argument(&number));
    assert!(left.is_empty(), "alive: {left:?}");
}

// spec 10.1: the option narrows the limit, and does not lift it
#[test]
fn the_tighter_of_timeout_and_wall_limit_counts() {
    let scratch = Scratch::new();
    for (timeout, wall) in [("60s", "wall=300ms"), ("300ms", "wall=60s")] {
        let ran = workspace_write(&work(&scratch))
            .options(&["--timeout", timeout, "--limit", wall])
            .bash("sleep 60");
        assert_eq!(ran.code(), 124, "{timeout}, {wall}: {}", ran.err());
        assert!(ran.err().contains("300 ms"), "{timeout}, {wall}: {}", ran.err());
    }
}

// spec 10.2, 10.7
#[test]
fn a_script_that_cannot_be_executed_says_what_it_lacks() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    let executable = |name: &str, content: &str| {
        fs::write(work.join(name), content).expect("a file");
        fs::set_permissions(work.join(name), fs::Permissions::from_mode(0o755)).expect("chmod");
    };
    executable("orphan", "#!/no/such/interpreter -x\n");
    executable("plain", "echo no line says who runs it\n");
    for (argv, code, says, errno) in [
        ("./orphan", 127, "/no/such/interpreter", nix::libc::ENOENT),
        ("./plain", 126, "#!", nix::libc::ENOEXEC),
        ("./absent", 127, "not found", nix::libc::ENOENT),
    ] {
        let ran = workspace_write(&work).run(&[argv]);
        assert_eq!(ran.code(), code, "{argv}: {}", ran.err());
        assert!(ran.err().contains(says), "{argv}: {}", ran.err());
        let ran = workspace_write(&work).options(&["--json"]).run(&[argv]);
        let report: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("one object");
        assert_eq!(report["errno"], errno, "{argv}: {report}");
    }
}

// spec 6.1: SIGTERM first
#[test]
fn a_command_has_its_grace_to_end_by_itself() {
    let scratch = Scratch::new();
    let ran = workspace_write(&work(&scratch))
        .options(&["--timeout", "300ms", "--grace", "60s"])
        .bash("trap 'echo cleaned up; exit 0' TERM; sleep 600 & wait");
    assert_eq!((ran.out().trim(), ran.code()), ("cleaned up", 124), "{}", ran.err());
    assert!(ran.took < Duration::from_secs(30), "it did not wait out the grace: {:?}", ran.took);
}

// spec 6.2
#[test]
fn a_child_that_keeps_the_pipe_does_not_keep_the_run() {
    let scratch = Scratch::new();
    let number = unique();
    let line = format!("echo done; setsid sleep {number} & exit 0");
    let ran = workspace_write(&work(&scratch)).bash(&line);
    assert_eq!((ran.out().as_str(), ran.code()), ("done\n", 0), "{}", ran.err());
    assert!(ran.took < Duration::from_secs(60), "{:?}", ran.took);
    let left = procs::none_left(Duration::from_secs(10), || procs::with_argument(&number));
    assert!(left.is_empty(), "alive: {left:?}");
}

// spec 6.3
#[test]
fn sigterm_to_the_runtime_ends_the_tree() {
    let scratch = Scratch::new();
    let number = unique();
    let mut command = std::process::Command::new(stockade_tests::stockade_bin());
    command.args(["run", "--workspace"]).arg(work(&scratch));
    let line = format!("setsid sleep {number} & sleep {number}");
    let mut child = command.args(["--", "bash", "-c", &line]).spawn().expect("it starts");
    let sleeping = || {
        let all = procs::with_argument(&number);
        all.into_iter().filter(|p| p.pid != child.id().cast_signed()).collect::<Vec<_>>()
    };
    let up = procs::until(Duration::from_secs(20), || Some(()).filter(|()| sleeping().len() >= 3));
    assert!(up.is_some(), "the sleepers started: {:?}", sleeping());
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("a signal can be sent");
    let left = procs::none_left(Duration::from_secs(10), sleeping);
    assert!(left.is_empty(), "alive: {left:?}");
    child.wait().expect("it ends");
}

// spec 10.2: a panic's own code would be taken for the command's.
#[test]
fn too_few_open_files_are_a_failure_of_the_set_up() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    let mut ended_well = false;
    for files in [8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 40, 44, 48, 56, 64] {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -n $2; exec \"$0\" run --workspace \"$1\" -- true"]);
        command.arg(stockade_tests::stockade_bin()).arg(&work).arg(files.to_string());
        let ran = stockade_tests::finish(&mut command, &[], Duration::from_secs(120));
        ended_well = ran.code() == 0;
        if !ended_well {
            assert_eq!(ran.code(), 125, "{files}: {}", ran.err());
            assert!(ran.err().contains("ulimit -n"), "{files}: {}", ran.err());
        }
    }
    assert!(ended_well, "with 64 files");
}
