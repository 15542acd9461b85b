//! The same job without a sandbox and within.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use stockade_tests::{Confined, Finished, Scratch, finish, tree};

/// A name, and lines of bash.
pub type Job = (&'static str, &'static str);

/// Where a job is done, twice.
pub struct Site {
    scratch: Scratch,
}

/// What came of a job.
#[derive(PartialEq, Eq, Debug)]
pub struct Done {
    /// How it ended.
    pub code: i32,
    /// What it wrote.
    pub stdout: Vec<u8>,
    /// What lies in its folder.
    pub files: Vec<String>,
}

impl Site {
    /// With an empty home.
    pub fn new() -> Self {
        Self { scratch: Scratch::new() }
    }

    fn work(&self) -> PathBuf {
        self.scratch.path().join("work")
    }

    /// An empty folder, of the same name each time.
    fn clear(&self) -> PathBuf {
        let work = self.work();
        if work.exists() {
            fs::remove_dir_all(&work).expect("the folder of the last time");
        }
        self.scratch.folder("work")
    }

    /// The tests' own toolchain, whose folders lie in the real home; no other variable.
    fn dress(&self, command: &mut Command) {
        let keep = ["PATH", "HOME", "RUSTUP_TOOLCHAIN"];
        let kept: Vec<(&str, OsString)> =
            keep.iter().filter_map(|name| Some((*name, env::var_os(name)?))).collect();
        command.env_clear().envs(kept).env("LANG", "C.UTF-8").env("TZ", "Europe/Zurich");
        for (name, value) in [("NAME", "A"), ("EMAIL", "a@example.invalid")] {
            command.env(format!("GIT_AUTHOR_{name}"), value);
            command.env(format!("GIT_COMMITTER_{name}"), value);
        }
        command.current_dir(self.work());
    }

    /// Without a sandbox.
    pub fn bare<S: AsRef<std::ffi::OsStr>>(&self, argv: &[S], stdin: &[u8]) -> Done {
        let work = self.clear();
        let (program, arguments) = argv.split_first().expect("a program");
        let mut command = Command::new(program);
        command.args(arguments);
        self.dress(&mut command);
        // What every cell has: a folder of its own for temporary files, and no settings of the user.
        command.env("TMPDIR", self.scratch.folder("tmp")).env("GIT_CONFIG_GLOBAL", "/dev/null");
        done(&finish(&mut command, stdin, Duration::from_secs(120)), &work)
    }

    /// Within.
    pub fn confined<S: AsRef<std::ffi::OsStr>>(&self, argv: &[S], stdin: &[u8]) -> (Done, String) {
        let work = self.clear();
        let mut confined = Confined::new("workspace-write", &work).stdin(stdin);
        self.dress(confined.process());
        let finished = confined.run(argv);
        (done(&finished, &work), finished.err())
    }
}

fn done(finished: &Finished, work: &Path) -> Done {
    let files = tree::snapshot(work)
        .into_iter()
        // What differs from one run to the next even without a sandbox: git's index holds inode numbers, compilers' output the time.
        .filter(|(path, _)| {
            !path.components().any(|name| is_volatile(&name.as_os_str().to_string_lossy()))
        })
        .map(|(path, entry)| format!("{path:?} {:o} {}", entry.mode, entry.content))
        .collect();
    Done { code: finished.code(), stdout: finished.stdout.clone(), files }
}

fn is_volatile(name: &str) -> bool {
    matches!(
        name,
        "index"
            | "logs"
            | "target"
            | "build"
            | "node_modules"
            | "__pycache__"
            | "venv"
            | "worktrees"
    ) || name.ends_with(".db")
        || name.ends_with(".tar")
        || name.ends_with(".zip")
        || name.ends_with(".tgz")
        || name.ends_with(".whl")
}

/// Does each job of a family twice, and compares.
pub fn family(jobs: &[Job]) {
    let mut wrong = Vec::new();
    for (name, line) in jobs {
        let site = Site::new();
        // What git writes depends on the time.
        let line =
            format!("export GIT_AUTHOR_DATE=@1700000000 GIT_COMMITTER_DATE=@1700000000; {line}");
        let argv = ["bash", "-c", &line];
        let bare = site.bare(&argv, b"");
        if bare.code != 0 {
            wrong.push(format!("{name}: fails even without a sandbox: {bare:?}"));
            continue;
        }
        let (confined, errors) = site.confined(&argv, b"");
        let same = bare == confined;
        println!("{} {name}", if same { "same " } else { "WRONG" });
        if !same {
            wrong.push(format!(
                "{name}: {} against {}; {}\n  without: {}\n  within:  {}\n  files: {:?}",
                bare.code,
                confined.code,
                errors.trim(),
                String::from_utf8_lossy(&bare.stdout),
                String::from_utf8_lossy(&confined.stdout),
                difference(&bare.files, &confined.files),
            ));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn difference<'a>(left: &'a [String], right: &'a [String]) -> Vec<&'a String> {
    let one_sided =
        |a: &'a [String], b: &'a [String]| a.iter().filter(move |line| !b.contains(line));
    one_sided(left, right).chain(one_sided(right, left)).take(6).collect()
}
