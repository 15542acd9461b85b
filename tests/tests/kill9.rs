//! SIGKILL to each part of Stockade in mid-call, `STOCKADE_KILL_ROUNDS` times (5 by default; a hundred
//! times by `scripts/corpus kill9`).

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::Command;
use std::time::Duration;
use stockade_tests::corpus::kill9::{self, Victim};
use stockade_tests::{Scratch, procs, stockade_bin, unique};

/// How long the kernel may take to end what hung on the victim.
const SOON: Duration = Duration::from_secs(20);

fn repeat(victim: Victim) {
    for round in 1..=kill9::rounds_asked_for() {
        let fate = kill9::in_mid_call(victim);
        fate.unwrap_or_else(|e| panic!("{victim:?}, round {round}: {e:#}"));
    }
}

// spec 6.3
#[test]
fn nothing_survives_the_runtime() {
    repeat(Victim::Runtime);
}

// spec 6.3
#[test]
fn nothing_survives_the_launcher_and_the_next_call_is_answered() {
    repeat(Victim::Launcher);
}

// spec 6.3
#[test]
fn nothing_survives_the_cell_and_the_next_call_is_answered() {
    repeat(Victim::Cell);
}

// spec 6.3
#[test]
fn nothing_survives_the_init_and_the_next_call_is_answered() {
    repeat(Victim::Init);
}

// spec 6.3
#[test]
fn nothing_survives_a_runtime_or_a_launcher_that_is_killed_while_it_starts() {
    for round in 0..kill9::rounds_asked_for() {
        let after = std::time::Duration::from_micros(u64::from(round) * 2_500);
        for victim in [Victim::Runtime, Victim::Launcher] {
            let fate = kill9::at_start(victim, after);
            fate.unwrap_or_else(|e| panic!("{victim:?} {after:?} after the start: {e:#}"));
        }
    }
}

// spec 6.3
#[test]
fn nothing_survives_what_run_has_started_nor_run_itself() {
    // `run` has no launcher: its child is the cell, whose child is the init.
    for victim in ["run", "cell", "init"] {
        let scratch = Scratch::new();
        let number = unique();
        let line = format!("trap '' TERM HUP; setsid sleep {number} & sleep {number} & wait");
        let mut run = Command::new(stockade_bin());
        run.args(["run", "--policy", "read-only", "--workspace"]).arg(scratch.folder("work"));
        let mut run = run.args(["--", "bash", "-c", &line]).spawn().expect("stockade run");
        let pid = i32::try_from(run.id()).expect("a pid");
        let asleep = || Some(procs::with_argument(&number)).filter(|all| all.len() >= 3);
        let doomed = procs::until(SOON, asleep).expect("the call's children did not start");
        let child_of = |parent| {
            let all = procs::descendants(pid);
            all.into_iter().find(|p| p.parent == parent).expect("a child").pid
        };
        let target = match victim {
            "run" => pid,
            "cell" => child_of(pid),
            _ => child_of(child_of(pid)),
        };
        kill(Pid::from_raw(target), Signal::SIGKILL).expect("it is alive");
        let left =
            procs::none_left(SOON, || doomed.iter().copied().filter(procs::is_alive).collect());
        assert_eq!(left, [], "after the {victim} was killed");
        let status = run.wait().expect("its end");
        assert!(!status.success(), "{victim}: {status}");
    }
}
