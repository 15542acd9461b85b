//! The corpora hold destructive commands. Before the first of them runs, harmless ones must have been
//! stopped: a Stockade that confines nothing is found out before it can do harm.

use crate::{Confined, RunReport, Scratch, procs, unique};
use anyhow::{Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Checks that this policy keeps a command from the host's files, processes, network and privileges.
pub fn check(policy: &str, workspace: &Path) -> Result<()> {
    let scratch = Scratch::new();
    let file = scratch.path().join("canary");
    fs::write(&file, "alive")?;
    let mut sleeper = Command::new("sleep").arg(unique()).spawn()?;
    let pid = sleeper.id().cast_signed();
    let outcome = judge(policy, workspace, &file, pid);
    sleeper.kill()?;
    sleeper.wait()?;
    outcome
}

fn judge(policy: &str, workspace: &Path, file: &Path, sleeper: i32) -> Result<()> {
    let ask = |line: &str| -> RunReport {
        Confined::new(policy, workspace).report(&["bash", "-c", line])
    };
    ensure!(ask("echo ran").stdout == "ran\n", "{policy}: an ordinary command does not run");
    ask(&format!("rm -f {file:?}; echo dead > {file:?}; rm -rf {:?}", file.parent()));
    ensure!(
        fs::read(file)? == b"alive",
        "{policy} lets a command write outside: nothing else is run"
    );
    ask(&format!("kill {sleeper}; kill -9 {sleeper}"));
    ensure!(procs::read(sleeper).is_some(), "{policy} lets a command signal the host's processes");
    let status =
        ask("cat /proc/self/status; ls /sys/class/net /proc/net/dev 2>&1; cat /proc/net/dev")
            .stdout;
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        let none = status.contains(&format!("{set}:\t0000000000000000"));
        ensure!(none, "{policy} leaves a command capabilities");
    }
    ensure!(status.contains("NoNewPrivs:\t1"), "{policy} lets a command gain privileges");
    ensure!(status.contains("Seccomp:\t2"), "{policy} filters no system call");
    ensure!(!status.contains("eth0:"), "{policy} leaves a command the host's network");
    Ok(())
}
