//! `stockade run` from outside: what it passes through, what it keeps out, and how it ends (spec
//! 10.1, 10.2, 5.4 to 5.7, 6.1).

#![forbid(unsafe_code)]

mod ends;
mod files;
mod host;
mod streams;
mod words;

use std::path::{Path, PathBuf};
use stockade_tests::{Confined, Scratch};

fn workspace_write(workspace: &Path) -> Confined {
    Confined::new("workspace-write", workspace)
}

fn work(scratch: &Scratch) -> PathBuf {
    scratch.folder("work")
}
