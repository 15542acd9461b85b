use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A number that no other test, process or run uses: seven digits or more, fit for `sleep`, for a
/// marker in an argument or a secret.
pub fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.subsec_nanos());
    // Ends in a 7 so that none is the beginning of another of the same process.
    format!("9{:05}{:03}{:03}7", std::process::id() % 100_000, nanos % 1000, n % 1000)
}

/// A folder that is removed with everything in it at the end of a test. Everyone may enter it, so
/// that tests can run as another user.
pub struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    /// A new one, in the folder for temporary files.
    pub fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    /// A new one, in this folder.
    pub fn within(parent: &Path) -> Self {
        fs::create_dir_all(parent).expect("a folder for scratch folders");
        let dir = tempfile::Builder::new()
            .prefix("stockade-test-")
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in(parent)
            .expect("a scratch folder");
        Self { dir }
    }

    /// Its path, absolute and without symbolic links.
    pub fn path(&self) -> PathBuf {
        self.dir.path().canonicalize().expect("the scratch folder exists")
    }

    /// Makes a folder in it.
    pub fn folder(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(&path).unwrap_or_else(|e| panic!("cannot make {path:?}: {e}"));
        path
    }

    /// Makes a git repository in it: a small crate with a README, in three commits.
    pub fn repository(&self, name: &str) -> PathBuf {
        let root = self.folder(name);
        git(&root, &["init", "--quiet", "--initial-branch=main"]);
        write(&root.join("README.md"), "# Sums\n\nA crate that adds two numbers.\n");
        write(
            &root.join("Cargo.toml"),
            "[package]\nname = \"sums\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        );
        commit(&root, "Name the crate");
        let body = "fn main() {\n    println!(\"{}\", sums::add(2, 3));\n}\n";
        write(&root.join("src/main.rs"), body);
        write(&root.join("src/lib.rs"), "pub fn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n");
        commit(&root, "Add two numbers");
        write(&root.join("config/deep/limits.toml"), "largest = 12\n");
        write(&root.join("docs/table.txt"), &"one line of many\n".repeat(40));
        commit(&root, "Write down the limits");
        root
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("a folder");
    fs::write(path, text).unwrap_or_else(|e| panic!("cannot write {path:?}: {e}"));
}

fn commit(root: &Path, message: &str) {
    git(root, &["add", "--all"]);
    git(root, &["commit", "--quiet", "-m", message]);
}

fn git(root: &Path, args: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.invalid"])
        .args(["-c", "commit.gpgsign=false"])
        .args(args)
        .current_dir(root)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .status()
        .expect("git can be run");
    assert!(status.success(), "git {args:?} failed");
}
