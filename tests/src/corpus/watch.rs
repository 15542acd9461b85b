//! Things of the host that a confined command must not touch, beside and above its workspace.

use crate::{FakeHome, Scratch, procs, tree, unique};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A home, a file in /tmp, a folder beside the workspace, the machine's devices, and a running process.
pub struct Watch {
    home: FakeHome,
    outside: PathBuf,
    in_tmp: PathBuf,
    sleeper: Child,
    before: [tree::Snapshot; 3],
    devices: Vec<String>,
}

/// What every process of the machine shares: each node with its mode and its owner.
fn devices() -> Vec<String> {
    let names = ["null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"];
    let found = names.iter().filter_map(|name| {
        let path = Path::new("/dev").join(name);
        let meta = fs::symlink_metadata(&path).ok()?;
        Some(format!("{} {:o} {} {}", path.display(), meta.mode(), meta.uid(), meta.gid()))
    });
    found.collect()
}

impl Watch {
    /// Sets them up in this scratch folder.
    pub fn new(scratch: &Scratch) -> std::io::Result<Self> {
        let home = FakeHome::new(&scratch.folder("home"));
        let outside = scratch.folder("outside");
        fs::write(outside.join("marker"), "untouched")?;
        let in_tmp = PathBuf::from(format!("/tmp/stockade-marker-{}", unique()));
        fs::write(&in_tmp, "untouched")?;
        let sleeper = Command::new("sleep").arg(unique()).stdin(Stdio::null()).spawn()?;
        let before = snapshots(&home, &outside, &in_tmp);
        Ok(Self { home, outside, in_tmp, sleeper, before, devices: devices() })
    }

    /// The home, for a process to be given.
    pub fn home(&self) -> &FakeHome {
        &self.home
    }

    /// What has changed; empty when nothing has.
    pub fn changes(&mut self) -> Vec<String> {
        let now = snapshots(&self.home, &self.outside, &self.in_tmp);
        let mut lines: Vec<String> =
            self.before.iter().zip(&now).flat_map(|(b, n)| tree::touched(b, n)).collect();
        let changed = devices().into_iter().filter(|device| !self.devices.contains(device));
        lines.extend(changed);
        match self.sleeper.try_wait() {
            Ok(None) => {}
            ended => lines.push(format!("the process outside was ended: {ended:?}")),
        }
        lines
    }
}

fn snapshots(home: &FakeHome, outside: &Path, in_tmp: &Path) -> [tree::Snapshot; 3] {
    [tree::snapshot(home.path()), tree::snapshot(outside), tree::snapshot(in_tmp)]
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.sleeper.kill().ok();
        self.sleeper.wait().ok();
        fs::remove_file(&self.in_tmp).ok();
    }
}

/// Processes that still carry this marker in an argument or a variable, a moment after the call.
pub fn left_over(marker: &str) -> Vec<i32> {
    let left = procs::none_left(Duration::from_millis(300), || procs::marked(marker));
    left.iter().map(|process| process.pid).collect()
}
