use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The `stockade` binary under test: what `STOCKADE_BIN` names, or else the one of this very target
/// folder and profile, brought up to date by cargo once a process.
///
/// # Panics
/// When it cannot be built: there is nothing to test then.
pub fn stockade_bin() -> &'static Path {
    static BIN: OnceLock<PathBuf> = OnceLock::new();
    BIN.get_or_init(|| match env::var_os("STOCKADE_BIN") {
        Some(path) => PathBuf::from(&path)
            .canonicalize()
            .unwrap_or_else(|e| panic!("STOCKADE_BIN={path:?} is no file: {e}")),
        None => build(),
    })
}

/// A copy of an executable, made by another process: whatever this one has open for writing, a child that another test forks at that
/// moment holds on to until it executes something, and what is held so cannot be executed (execve(2), `ETXTBSY`).
///
/// # Panics
/// When it cannot be made.
pub fn copy_executable(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("--").args([from, to]).status();
    assert!(copied.is_ok_and(|status| status.success()), "a copy of {from:?}");
}

fn build() -> PathBuf {
    let profile = profile_dir();
    let mut build = cargo();
    build.args(["build", "--quiet", "-p", "stockade-cli", "--target-dir"]).arg(target_dir());
    if profile.file_name().is_some_and(|name| name == "release") {
        build.arg("--release");
    }
    let status = build.current_dir(workspace_root()).status().expect("cargo can be run");
    assert!(status.success(), "cargo could not build stockade-cli");
    profile.join("stockade")
}

/// `target/<profile>`. A test lies in its `deps`, a binary of this package in itself.
fn profile_dir() -> PathBuf {
    let exe = env::current_exe().expect("the path of the test binary");
    let mut folders = exe.ancestors().skip(1);
    let profile = folders.find(|dir| dir.file_name().is_some_and(|name| name != "deps"));
    profile.expect("the test binary lies in a target folder").to_path_buf()
}

/// Cargo's target folder, in which this very test was built.
pub fn target_dir() -> PathBuf {
    profile_dir().parent().expect("a profile folder lies in a target folder").to_path_buf()
}

/// The cargo that runs these tests.
pub fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace")
}

/// The folder `tests/data`.
pub fn data_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
}
