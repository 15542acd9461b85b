//! What policy files say, seen from inside a confined command and from outside (spec 5.1, 5.4; issue 3).

use serde_json::Value;
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use stockade_tests::{Confined, Scratch, stockade_bin, unique};

/// A policy file that extends `workspace-write` and adds this.
fn policy(scratch: &Scratch, text: &str) -> String {
    let file = scratch.path().join(format!("{}.toml", unique()));
    fs::write(&file, format!("extends = \"workspace-write\"\n{text}")).expect("a policy file");
    file.to_str().expect("UTF-8").to_owned()
}

fn home(scratch: &Scratch) -> PathBuf {
    let home = scratch.folder("home");
    for (file, text) in [
        (".config/app/token", "hidden"),
        (".config/app/open/readme", "shown"),
        (".config/app/out/old", "old"),
        (".config/other", "beside"),
    ] {
        let path = home.join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, text).expect("a file");
    }
    home
}

const NESTED: &str = r#"
[filesystem]
read = ["~/.config", "~/.config/app/open"]
write = ["~/.config/app/out"]
hide = ["~/.config/app"]
"#;

// spec 5.4: allow in deny, in allow
#[test]
fn a_folder_named_inside_a_hidden_one_is_there_and_nothing_beside_it() {
    let scratch = Scratch::new();
    let (home, work) = (home(&scratch), scratch.folder("work"));
    let policy = policy(&scratch, NESTED);
    let inside = |line: &str| {
        let mut run = Confined::new(&policy, &work);
        run.process().env("HOME", &home);
        run.bash(line)
    };
    let ran = inside("cd ~/.config; cat other app/open/readme; cat app/token; ls app");
    assert_eq!(ran.out(), "besideshownopen\nout\n", "{}", ran.err());
    assert!(ran.err().contains("app/token: No such file"), "{}", ran.err());
    let ran = inside(
        "cd ~/.config/app; echo new > out/new; echo x > open/readme; echo x > token; mkdir d",
    );
    assert_eq!(fs::read_to_string(home.join(".config/app/out/new")).expect("written"), "new\n");
    assert_eq!(ran.err().matches("Read-only file system").count(), 3, "{}", ran.err());
    assert_eq!(fs::read_to_string(home.join(".config/app/token")).expect("there"), "hidden");
    assert_eq!(fs::read_to_string(home.join(".config/app/open/readme")).expect("there"), "shown");
}

// spec 5.4: what a command can put in the place of a folder that the policy reads
#[test]
fn a_link_into_a_hidden_folder_shows_nothing_of_it_to_the_next_command() {
    let scratch = Scratch::new();
    let home = home(&scratch);
    fs::create_dir_all(home.join("keys/inner")).expect("folders");
    fs::write(home.join("keys/inner/key"), "secret").expect("a file");
    symlink("keys", home.join(".ssh")).expect("a link");
    let inside = |line: &str| {
        let mut run = Confined::new("workspace-write", &home);
        run.process().env("HOME", &home);
        run.bash(line)
    };
    let ran = inside("ln -s keys/inner .pyenv; ls -d .pyenv");
    assert_eq!(ran.out(), ".pyenv\n", "the attack: {}", ran.err());
    assert_eq!(fs::read_to_string(home.join(".pyenv/key")).expect("unconfined"), "secret");
    let ran = inside("cat .pyenv/key keys/inner/key .ssh/inner/key");
    assert_eq!(ran.out(), "", "{}", ran.err());
}

// spec 5.1: unix_sockets
#[test]
fn a_socket_of_the_host_is_reached_where_the_policy_names_it_alone() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let socket = scratch.path().join("service.sock");
    let listener = UnixListener::bind(&socket).expect("a listener");
    let connect = format!(
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect({:?}); print('connected')",
        socket.to_str().expect("UTF-8")
    );
    let unconfined = std::process::Command::new("python3").args(["-c", &connect]).output();
    assert_eq!(unconfined.expect("python3").stdout, b"connected\n", "the socket answers");
    let run = |policy: &str| Confined::new(policy, &work).run(&["python3", "-c", &connect]);
    let ran = run("workspace-write");
    assert!(ran.err().contains("FileNotFoundError"), "{}", ran.err());
    let named = policy(&scratch, &format!("[network]\nunix_sockets = [{socket:?}]\n"));
    let ran = run(&named);
    assert_eq!(ran.out(), "connected\n", "{}", ran.err());
    drop(listener);
}

// spec 5.3: nothing is dropped silently
#[test]
fn a_key_that_is_not_enforced_yet_is_refused_by_its_name() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    for (text, name) in [
        ("[network]\nmode = \"proxy\"\nallow = [\"example.org\"]\n", "proxy"),
        ("[filesystem]\nprotect = [\"**/.envrc\"]\n", "**/.envrc"),
    ] {
        let ran = Confined::new(&policy(&scratch, text), &work).bash("echo ran");
        assert_eq!((ran.code(), ran.out().as_str()), (126, ""), "{text}");
        assert!(ran.err().contains(name), "{}", ran.err());
    }
}

// spec 5.4: protected, and a policy that lifts it on purpose
#[test]
fn a_policy_that_names_a_protected_path_as_writable_lifts_it_and_an_option_does_not() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    fs::create_dir_all(work.join(".github/workflows")).expect("folders");
    fs::create_dir_all(work.join("vendor")).expect("folders");
    let line =
        "echo a > .github/workflows/ci.yml && echo written; echo b > vendor/x && echo written";
    let run = |policy: &str| Confined::new(policy, &work).bash(line);
    assert_eq!(run("workspace-write").out(), "written\n");
    let lifted = policy(
        &scratch,
        "[filesystem]\nwrite = [\"$WORKSPACE/.github/workflows\"]\nprotect = [\"$WORKSPACE/vendor\"]\n",
    );
    let ran = run(&lifted);
    assert_eq!(ran.out(), "written\n", "{}", ran.err());
    assert!(work.join(".github/workflows/ci.yml").exists());
    assert_eq!(ran.err().matches("vendor/x: Read-only file system").count(), 1, "{}", ran.err());
    let path = work.join(".github/workflows");
    let option = ["--write", path.to_str().expect("UTF-8")];
    let ran = Confined::new("workspace-write", &work).options(&option).bash("echo ran");
    assert_eq!((ran.code(), ran.out().as_str()), (126, ""));
    assert!(ran.err().contains("protected by \".github/workflows\""), "{}", ran.err());
}

/// A workspace and a home in which much is wrong.
fn troubled(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let (home, work) = (home(scratch), scratch.folder("work"));
    symlink("/nonexistent/target", home.join(".rustup")).expect("a dangling link");
    symlink("loop", home.join(".nvm")).expect("a link");
    symlink(".nvm", home.join("loop")).expect("a loop");
    fs::create_dir_all(home.join(".aws/locked")).expect("folders");
    (home, work)
}

fn lock(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
}

// issue 3: no residue, nothing stops
#[test]
fn an_unreadable_folder_a_dangling_link_and_a_loop_stop_nothing() {
    let scratch = Scratch::new();
    let (home, work) = troubled(&scratch);
    for folder in [home.join(".aws"), home.join(".config/app")] {
        lock(&folder, 0);
    }
    let extra = policy(
        &scratch,
        "[filesystem]\nread = [\"~/.config/app/*\", \"~/.aws/*/x\", \"~/loop\", \"~/.rustup\"]\nhide = [\"~/.aws/locked\", \"~/.config/*/token\", \"~/.nvm\"]\n",
    );
    for policy in ["workspace-write", &extra] {
        let mut run = Confined::new(policy, &work);
        run.process().env("HOME", &home);
        if nix::unistd::geteuid().is_root() {
            // To root, no folder is unreadable.
            chown(&work, Some(65_534), Some(65_534)).expect("chown");
            run.process().uid(65_534).gid(65_534);
        }
        let ran = run.bash("echo ran > file && cat file; rm file");
        assert_eq!(ran.out(), "ran\n", "{policy}: {}", ran.err());
    }
    for folder in [home.join(".aws"), home.join(".config/app")] {
        lock(&folder, 0o755);
    }
}

// issue 3: 5,000 listed paths
#[test]
fn five_thousand_listed_paths_stop_nothing() {
    let scratch = Scratch::new();
    let (home, work) = (home(&scratch), scratch.folder("work"));
    let many = scratch.folder("many");
    for n in 0..5000 {
        // Every second one does not exist.
        if n % 2 == 0 {
            fs::write(many.join(n.to_string()), n.to_string()).expect("a file");
        }
    }
    let list = |from: usize, to: usize| {
        let paths = (from..to).map(|n| format!("{:?}", many.join(n.to_string())));
        paths.collect::<Vec<_>>().join(",\n")
    };
    let absent = (0..1000).map(|n| format!("\"absent-{n}\"")).collect::<Vec<_>>().join(", ");
    let text = format!(
        "[filesystem]\nread = [{}]\nhide = [{:?}, {}]\nprotect = [{absent}]\n",
        list(0, 2500),
        many,
        list(2500, 5000),
    );
    let policy = policy(&scratch, &text);
    let mut run = Confined::new(&policy, &work);
    run.process().env("HOME", &home);
    let ran =
        run.bash(&format!("cd {} && cat 0 2 2498 && echo && ls | wc -l; cat 2500", many.display()));
    assert_eq!(ran.out(), "022498\n1250\n", "{}", ran.err());
    assert!(ran.err().contains("2500: No such file"), "{}", ran.err());
}

// spec 5.4: a wildcard names nothing, here, in what `explain` says and in what a command meets
#[test]
fn a_wildcard_shows_nothing_of_a_hidden_folder() {
    let scratch = Scratch::new();
    let home = scratch.folder("home");
    for file in [".ssh/config", ".ssh/id.pub", ".ssh/id", "app/config"] {
        let path = home.join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, "text").expect("a file");
    }
    let work = scratch.folder("work");
    let named = "\"~/.ssh/*.pub\"";
    // With and without the folder around it: what is hidden where nothing is shown is covered by nothing.
    for read in ["\"~/*/config\"", "\"~\", \"~/*/config\""] {
        let text = format!("[filesystem]\nread = [{read}, {named}]\nhide = [\"~/.ssh\"]\n");
        let policy = policy(&scratch, &text);
        for (file, shown) in [
            (".ssh/config", false),
            (".ssh/id.pub", true),
            (".ssh/id", false),
            ("app/config", true),
        ] {
            let mut run = Confined::new(&policy, &work);
            run.process().env("HOME", &home);
            let ran = run.run(&["cat".as_ref(), home.join(file).as_os_str()]);
            assert_eq!(ran.out() == "text", shown, "{read} {file}: {}", ran.err());
            let explained = Command::new(stockade_bin())
                .args(["policy", "explain", "--json", "--policy", &policy])
                .arg(home.join(file))
                .env("HOME", &home)
                .output()
                .expect("explain");
            let explained: Value = serde_json::from_slice(&explained.stdout).expect("JSON");
            assert_eq!(explained["verdicts"][0]["allowed"], shown, "{read} {file}: {explained}");
        }
    }
}
