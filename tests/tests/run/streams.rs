//! What a run passes through and tells: its streams, and the object of `--json` (spec 10.1, 6.4).

use crate::{work, workspace_write};
use stockade_tests::Scratch;

// spec 10.1, 5.9: what was put aside is told without --json too
#[test]
fn what_the_sandbox_put_aside_is_named_on_stderr() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    let ran =
        workspace_write(&work).bash("mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit");
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let told = ran.err().lines().any(|line| {
        line.starts_with("stockade: ") && line.contains(".git/hooks") && line.contains("writing")
    });
    assert!(told, "{}", ran.err());
}

// spec 10.1
#[test]
fn stdin_stdout_and_stderr_pass_through_byte_for_byte() {
    let scratch = Scratch::new();
    let bytes: Vec<u8> =
        (0..3_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let ran = workspace_write(&work(&scratch)).stdin(&bytes).bash("tee /dev/stderr");
    assert_eq!(ran.code(), 0);
    assert!(ran.stdout == bytes, "stdout: {} of {} bytes", ran.stdout.len(), bytes.len());
    assert!(ran.stderr == bytes, "stderr: {} of {} bytes", ran.stderr.len(), bytes.len());
}

#[test]
fn a_writer_whose_reader_is_gone_ends_by_sigpipe() {
    let scratch = Scratch::new();
    let ran = workspace_write(&work(&scratch)).bash("yes | head -n 1; echo ${PIPESTATUS[0]}");
    assert_eq!(ran.out(), "y\n141\n", "signal dispositions are reset: {}", ran.err());
}

// spec 10.1
#[test]
fn json_is_one_object_with_every_key_of_the_contract() {
    let scratch = Scratch::new();
    let ran = workspace_write(&work(&scratch))
        .options(&["--json"])
        .bash("printf 'out\\377'; printf err >&2; exit 7");
    let report: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("one object");
    for key in [
        "outcome",
        "exit_code",
        "signal",
        "stdout",
        "stderr",
        "truncated",
        "usage",
        "denials",
        "killed",
        "layers",
    ] {
        assert!(report.get(key).is_some(), "{key} is missing in {report}");
    }
    assert_eq!(report["outcome"], "exited");
    assert_eq!(report["exit_code"], 7);
    assert!(report["signal"].is_null());
    assert!(report["stdout"].as_str().is_some_and(|out| out.starts_with("out")));
    assert_eq!(report["stderr"], "err");
    let layers = report["layers"].to_string();
    for layer in ["user_namespace", "pid_namespace", "landlock", "seccomp", "mount_tree"] {
        assert!(layers.contains(layer), "{layer} is missing in {layers}");
    }
}

// spec 10.1: the outcomes that are no exit
#[test]
fn json_tells_what_the_exit_code_cannot() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    assert_eq!(workspace_write(&work).report(&["bash", "-c", "exit 124"]).outcome, "exited");
    assert_eq!(workspace_write(&work).report(&["bash", "-c", "exit 125"]).outcome, "exited");
    let report = workspace_write(&work.join("absent")).report(&["true"]);
    assert_eq!(report.outcome, "setup_failed");
    assert_eq!(report.exit_code, None);
}

// spec 6.4: memory is bounded however much is written
#[test]
fn a_flood_of_output_is_bounded_and_said_to_be_cut() {
    let scratch = Scratch::new();
    let report = workspace_write(&work(&scratch)).report(&[
        "bash",
        "-c",
        "head -c 200000000 /dev/zero | tr '\\0' x",
    ]);
    assert_eq!(report.status(), 0);
    assert!(report.stdout.len() < 64 << 20, "{} bytes were kept", report.stdout.len());
    assert!(report.truncated["stdout"] == true, "{:?}", report.truncated);
}

// spec 6.5, 5.7
#[test]
fn the_callers_streams_are_given_back_as_they_stood() {
    let scratch = Scratch::new();
    let work = work(&scratch);
    let stockade = stockade_tests::stockade_bin().display();
    let by = |change: &str| format!("{stockade} run --workspace {} -- {change}", work.display());
    let output = |command: &mut std::process::Command| {
        let output = command.stdin(std::process::Stdio::null()).output().expect("it starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let change = "python3 -c 'import fcntl, os; fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK)'";
    let look =
        "python3 -c 'import fcntl, os; print(fcntl.fcntl(1, fcntl.F_GETFL) & os.O_NONBLOCK)'";
    let bash = |line: String| output(std::process::Command::new("bash").args(["-c", &line]));
    assert_ne!(bash(format!("{change}; {look}")), "0\n", "the change is real");
    assert_eq!(bash(format!("{}; {look}", by(change))), "0\n");

    let at_terminal = |line: String| {
        output(std::process::Command::new("script").args(["-qec", &line, "/dev/null"]))
    };
    let is_raw = |text: &str| text.contains("-icanon") && text.contains("-echo ");
    assert!(is_raw(&at_terminal("stty raw -echo; stty -a".into())), "the change is real");
    let after = at_terminal(format!("{}; stty -a", by("stty raw -echo")));
    assert!(after.contains(" icanon") && !is_raw(&after), "{after}");
    let killed = by("bash -c 'stty raw -echo; kill -9 $$'");
    let after = at_terminal(format!("{killed}; stty -a"));
    assert!(after.contains(" icanon") && !is_raw(&after), "{after}");
}
