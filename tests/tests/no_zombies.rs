//! In a container the first process is often one that waits for nobody but its own child: what a session leaves behind unwaited for stays there
//! for ever, until there are no process numbers left (spec 5.9).
#![forbid(unsafe_code)]

use std::fs;
use std::process::Command;
use std::time::Duration;
use stockade_tests::{Scratch, WITHOUT_NAMESPACES, finish, lowered_policy, stockade_bin, turn};

/// Pid 1 of a namespace of its own: runs a command and says which processes are left, dead or alive.
const FIRST_PROCESS: &str = r#"
import os, subprocess, sys, time
child = subprocess.run(sys.argv[1:], stdin=open(os.environ["INPUT"]), stdout=subprocess.DEVNULL)
time.sleep(0.5)
left = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    if pid != "1":
        left.append(open(f"/proc/{pid}/stat").read())
print(os.getpid(), child.returncode, left)
"#;

#[test]
fn a_first_process_that_waits_for_nobody_is_left_no_dead_one() {
    let scratch = Scratch::new();
    let (work, state) = (scratch.folder("work"), scratch.folder("state"));
    let input = scratch.path().join("turn");
    fs::write(&input, turn::of_commands(&["sleep 0.1 & echo hi"])).expect("a turn");
    let lowered = lowered_policy(&scratch.path());
    let [binary, work, state, lowered] =
        [stockade_bin(), &work, &state, &lowered].map(|path| path.to_str().expect("UTF-8"));
    let run = [binary, "run", "--workspace", work, "--policy"];
    let exec = [binary, "exec", "--workspace", work, "--state-dir", state, "-"];
    for (what, argv) in [
        ("orphans", vec!["bash", "-c", "(sleep 0.1 &) ; exit 0"]),
        ("run", [&run[..], &["workspace-write", "--", "true"]].concat()),
        (
            "run, killed",
            [&run[..], &["workspace-write", "--limit", "wall=1s", "--", "sleep", "60"]].concat(),
        ),
        (
            "run without namespaces",
            [&WITHOUT_NAMESPACES[..], &run, &[lowered, "--", "true"]].concat(),
        ),
        ("exec", exec.to_vec()),
    ] {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--"]);
        command.args(["python3", "-c", FIRST_PROCESS]).args(&argv).env("INPUT", &input);
        let ran = finish(&mut command, &[], Duration::from_secs(120));
        let said = ran.out();
        let code = if what == "run, killed" { 124 } else { 0 };
        let first = format!("1 {code} ");
        assert!(said.starts_with(&first), "{what}: the first process ran it: {said} {}", ran.err());
        // What bash starts and forgets is left, so the look finds what there is.
        assert_eq!(
            said.trim_end().ends_with("[]"),
            what != "orphans",
            "{what}: {said} {}",
            ran.err()
        );
    }
}
