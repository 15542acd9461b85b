//! What a command has planted is named also where the call is lost in the middle, since somebody has killed its init or the launcher (spec 5.4,
//! 5.9, 6.3).

#![forbid(unsafe_code)]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use stockade_tests::{Scratch, procs, stockade_bin, turn};

const PLANT: &str = "mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; echo evil > .envrc; touch planted; sleep 600";

fn start(work: &Path, state: &Path) -> Child {
    let mut command = turn::exec_command(work, state);
    let turn = turn::of_commands(&[PLANT]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("stockade starts");
    std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), turn.as_bytes())
        .expect("written");
    let planted =
        procs::until(Duration::from_secs(120), || work.join("planted").exists().then_some(()));
    assert!(planted.is_some(), "the plant is real");
    child
}

fn assert_told(work: &Path, state: &Path, child: Child) {
    let output = child.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for name in [".git/hooks/pre-commit", ".envrc"] {
        assert!(!work.join(name).exists(), "{name} is still there");
        let aside = work.join(format!("{name}.quarantined"));
        assert_eq!(fs::read_to_string(&aside).expect("kept"), "evil\n");
        assert!(said.contains(aside.to_str().expect("UTF-8")), "{said}");
    }
    let audit = Command::new(stockade_bin())
        .args(["audit", "query", "--json", "--state-dir"])
        .arg(state)
        .output()
        .expect("audit");
    let records = String::from_utf8_lossy(&audit.stdout).into_owned();
    let named = records.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let named =
        named.filter(|record| record.to_string().contains("pre-commit.quarantined")).count();
    assert!(named > 0, "{records}");
}

/// The inner pids of the processes below: an init is pid 1 of the deepest namespace.
fn init_of(child: &Child) -> i32 {
    let inner = procs::descendants(child.id() as i32);
    let first = inner.iter().filter_map(|process| {
        procs::inner_pid(process.pid).map(|(depth, pid)| (depth, pid, process.pid))
    });
    first.filter(|(_, pid, _)| *pid == 1).max().expect("the call has an init").2
}

/// The first child, of which all others descend.
fn launcher_of(child: &Child) -> i32 {
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id()));
    let children = children.expect("its children");
    children.split_whitespace().next().expect("a launcher").parse().expect("a pid")
}

#[test]
fn the_plants_of_a_call_whose_init_was_killed_are_named() {
    let scratch = Scratch::new();
    let (work, state) = (scratch.folder("work"), scratch.folder("state"));
    let child = start(&work, &state);
    kill(Pid::from_raw(init_of(&child)), Signal::SIGKILL).expect("it is alive");
    assert_told(&work, &state, child);
}

#[test]
fn the_plants_of_a_call_whose_launcher_was_killed_are_named() {
    let scratch = Scratch::new();
    let (work, state) = (scratch.folder("work"), scratch.folder("state"));
    let child = start(&work, &state);
    kill(Pid::from_raw(launcher_of(&child)), Signal::SIGKILL).expect("it is alive");
    assert_told(&work, &state, child);
}

/// Who knew what was there before is gone: what changed is named, and stays.
#[test]
fn the_plants_of_a_call_whose_cell_was_killed_are_named_where_they_are() {
    let scratch = Scratch::new();
    let (work, state) = (scratch.folder("work"), scratch.folder("state"));
    let child = start(&work, &state);
    let cell = procs::read(init_of(&child)).expect("it is alive").parent;
    kill(Pid::from_raw(cell), Signal::SIGKILL).expect("it is alive");
    let output = child.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("the cell was killed"), "{said}");
    for name in [".git/hooks", ".envrc"] {
        let (plant, aside) = (work.join(name), work.join(format!("{name}.quarantined")));
        let kept = if plant.exists() { &plant } else { &aside };
        assert!(said.contains(kept.to_str().expect("UTF-8")), "{name}: {said}");
    }
}
