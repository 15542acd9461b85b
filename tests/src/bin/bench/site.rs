//! What is measured, and where.

use anyhow::{Context, Result, ensure};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use stockade_policy::{Policy, Variables};
use stockade_tests::{Confined, Reference, Scratch, equal_profile};

/// The folder of a bench run: a workspace that holds the no-op.
pub struct Site {
    scratch: Scratch,
    workspace: PathBuf,
    noop: String,
    binary: PathBuf,
    /// Made beforehand, since making it is not what is measured.
    equal: Vec<OsString>,
    whole_root: Vec<OsString>,
}

impl Site {
    /// Builds the no-op: static, since every start of a glibc program costs more than what is measured.
    pub fn new(binary: PathBuf) -> Result<Self> {
        let scratch = Scratch::new();
        let workspace = scratch.folder("work");
        let source = scratch.path().join("noop.c");
        fs::write(&source, "int main(void) { return 0; }\n")?;
        let program = workspace.join("noop");
        let mut cc = Command::new("cc");
        let status = cc.args(["-O2", "-static", "-o"]).arg(&program).arg(&source).status();
        ensure!(status.context("cc")?.success(), "cc could not build the static no-op");
        let noop = program.to_str().context("the scratch folder's name is not UTF-8")?.to_owned();
        let confined = || Confined::with(&binary, "workspace-write", &workspace);
        let reference = Reference::like_stockade(&workspace, confined);
        let policy = Policy::load("workspace-write".as_ref())?;
        let home = std::env::home_dir().context("HOME is set")?;
        let variables = Variables { workspace: workspace.clone(), home, session: None };
        let equal = words(&equal_profile(&reference, &policy, &variables));
        let whole_root = words(&reference.command(&[]));
        Ok(Self { noop, binary: binary.clone(), equal, whole_root, scratch, workspace })
    }

    /// The workspace.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// A folder for the state of sessions.
    pub fn state(&self) -> PathBuf {
        self.scratch.folder("state")
    }

    /// The binary that is measured.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// The no-op's path.
    pub fn noop(&self) -> &str {
        &self.noop
    }

    /// What the Bash tool runs for a command that is just the no-op's path.
    pub fn bash_noop(&self) -> Vec<String> {
        vec!["bash".into(), "-c".into(), self.noop.clone()]
    }

    /// bubblewrap with a profile equal to the policy's.
    pub fn bubblewrap(&self) -> Command {
        command(&self.equal)
    }

    /// bubblewrap with the whole root, read-only.
    pub fn bubblewrap_root(&self) -> Command {
        command(&self.whole_root)
    }
}

fn words(command: &Command) -> Vec<OsString> {
    [command.get_program()].into_iter().chain(command.get_args()).map(OsStr::to_owned).collect()
}

fn command(words: &[OsString]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}
