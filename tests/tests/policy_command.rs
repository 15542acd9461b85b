//! `stockade policy` from outside (spec 10.1; issue 3).

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use stockade_tests::{Confined, Scratch, stockade_bin};

fn policy(args: &[&str], home: &Path) -> Output {
    Command::new(stockade_bin())
        .arg("policy")
        .args(args)
        .env("HOME", home)
        .current_dir(home)
        .output()
        .expect("stockade starts")
}

fn out(output: &Output) -> String {
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&out(output)).expect("JSON")
}

fn file(scratch: &Scratch, name: &str, text: &str) -> String {
    let path = scratch.path().join(name);
    fs::write(&path, text).expect("a policy file");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn list_names_every_shipped_policy_with_what_it_is_for() {
    let scratch = Scratch::new();
    let listed = out(&policy(&["list"], &scratch.path()));
    for name in
        ["read-only", "offline-tests", "workspace-write", "ci", "build", "danger-full-access"]
    {
        assert!(
            listed.lines().any(|line| line.split_whitespace().next() == Some(name)),
            "{listed}"
        );
    }
    let listed = json(&policy(&["list", "--json"], &scratch.path()));
    assert_eq!(listed["policies"].as_array().map(Vec::len), Some(6));
}

#[test]
fn show_is_a_policy_of_the_same_meaning_with_the_origin_of_every_line() {
    let scratch = Scratch::new();
    let mine = file(
        &scratch,
        "mine.toml",
        "extends = \"workspace-write\"\n[filesystem]\nread = [\"/srv\"]\n",
    );
    let shown = out(&policy(&["show", &mine], &scratch.path()));
    assert!(shown.contains(&format!("# {mine}:3:9")), "{shown}");
    assert!(shown.contains("# policies/read-only.toml:"), "{shown}");
    let values = shown.lines().filter(|line| line.contains('"') || line.contains(" = "));
    for line in values.filter(|line| !line.ends_with('[') && !line.starts_with('#')) {
        assert!(line.contains("# "), "no origin: {line}");
    }
    let again = file(&scratch, "again.toml", &shown);
    let same = policy(&["diff", &mine, &again], &scratch.path());
    assert_eq!(same.status.code(), Some(0), "{}", out(&same));
    let object = json(&policy(&["show", &mine, "--json"], &scratch.path()));
    let lines = object["lines"].as_array().expect("lines");
    let srv = lines.iter().find(|line| line["value"] == "/srv").expect("the line");
    assert_eq!(
        (srv["key"].as_str(), srv["origin"]["line"].as_u64()),
        (Some("filesystem.read"), Some(3))
    );
}

// spec 5.1: errors with line and column
#[test]
fn check_says_what_is_wrong_and_where() {
    let scratch = Scratch::new();
    scratch.folder("out/w");
    let good = file(&scratch, "good.toml", "extends = \"build\"\n");
    assert_eq!(policy(&["check", &good], &scratch.path()).status.code(), Some(0));
    for (text, problem) in [
        (
            "[filesystem]\nraed = []\n",
            ":2:1: unknown key \"raed\" in [filesystem]; did you mean \"read\"?",
        ),
        ("[limits]\npids = \"many\"\n", ":2:8: limit pids: \"many\" is not a whole number"),
        ("[escalation]\nceiling = \"./none.toml\"\n", "cannot read the policy file"),
        // What `run` would refuse on every host.
        ("[syscalls]\nallow = [\"nosuch\"]\n", "\"nosuch\""),
        ("[syscalls]\ndeny = [\"execve\"]\n", "bad.toml:2:9: no command can run without"),
        ("[limits]\npids = 10\n", "the least is 301"),
        ("[filesystem]\nprotect = [\"**/.envrc\"]\n", "name each path without '*'"),
        (
            "extends = \"workspace-write\"\n[filesystem]\nwrite = [\"$WORKSPACE/out/w\"]\nprotect = [\"out\"]\n",
            "cannot be writable inside",
        ),
    ] {
        let bad = file(&scratch, "bad.toml", text);
        let checked = policy(&["check", &bad], &scratch.path());
        assert_eq!(checked.status.code(), Some(1));
        assert!(out(&checked).contains(problem), "{}", out(&checked));
        let object = json(&policy(&["check", &bad, "--json"], &scratch.path()));
        assert_eq!(object["valid"], false);
    }
}

// A grant that changes nothing is none.
#[test]
fn explain_offers_no_grant_for_calls_that_take_capabilities_besides() {
    let scratch = Scratch::new();
    let ask = |call: &str| out(&policy(&["explain", call], &scratch.path()));
    assert!(ask("mount").contains("no grant makes it work"), "{}", ask("mount"));
    assert!(!ask("mount").contains("would allow it"), "{}", ask("mount"));
    assert!(ask("keyctl").contains("would allow it"), "{}", ask("keyctl"));
}

fn verdict(explained: &Value, action: &str) -> (bool, String, bool) {
    let verdicts = explained["verdicts"].as_array().expect("verdicts");
    let verdict = verdicts.iter().find(|verdict| verdict["action"] == action).expect("the action");
    let by = verdict["by"]["entry"].as_str().unwrap_or("-").to_owned();
    (verdict["allowed"] == true, by, verdict["grant"].is_string())
}

#[test]
fn explain_says_what_a_command_then_meets() {
    // The verdict, and what a confined command can really do, must be the same.
    let scratch = Scratch::new();
    let home = scratch.folder("home");
    let work = scratch.folder("home/work");
    for path in [".ssh/id", ".cargo/bin/tool", "notes", "work/.git/hooks/pre-commit", "work/file"] {
        let path = home.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, "text").expect("a file");
    }
    std::os::unix::fs::symlink("../.ssh/id", work.join("link")).expect("a link");
    let workspace = work.to_str().expect("UTF-8");
    for (path, reads, writes, by) in [
        (".ssh/id", false, false, "~/.ssh"),
        (".cargo/bin/tool", true, false, "~/.cargo/bin"),
        ("notes", false, false, "-"),
        ("work/file", true, true, "$WORKSPACE"),
        ("work/.git/hooks/pre-commit", true, false, "$WORKSPACE"),
        ("work/link", false, false, "~/.ssh"),
    ] {
        let path = home.join(path);
        let path = path.to_str().expect("UTF-8");
        let explained =
            json(&policy(&["explain", path, "--workspace", workspace, "--json"], &home));
        let read = verdict(&explained, "read");
        assert_eq!((read.0, read.1.as_str()), (reads, by), "{path}: {explained:#}");
        assert_eq!(verdict(&explained, "write").0, writes, "{path}: {explained:#}");
        let can = |line: &str| {
            let mut run = Confined::new("workspace-write", &work);
            run.process().env("HOME", &home);
            run.bash(line).code() == 0
        };
        assert_eq!(can(&format!("cat {path}")), reads, "{path}");
        assert_eq!(can(&format!("test -e {path} && echo x >> {path}")), writes, "{path}");
        // The grant that is named does allow it.
        if verdict(&explained, "read").2 {
            let mut run = Confined::new("workspace-write", &work).options(&["--read", path]);
            run.process().env("HOME", &home);
            assert_eq!(run.bash(&format!("cat {path}")).out(), "text");
        }
    }
}

#[test]
fn explain_tells_hosts_and_system_calls_and_names_the_entry() {
    let scratch = Scratch::new();
    let home = scratch.path();
    let explain = |args: &[&str]| policy(&[&["explain"], args].concat(), &home);
    let host = out(&explain(&["example.org:443"]));
    assert!(
        host.contains("refused  by network.mode = \"none\" (policies/read-only.toml:"),
        "{host}"
    );
    assert!(host.contains("--net example.org:443 would allow it"), "{host}");
    assert!(out(&explain(&["example.org", "--policy", "danger-full-access"])).contains("allowed"));
    let mine = file(
        &scratch,
        "mine.toml",
        "extends = \"read-only\"\n[syscalls]\ndeny = [\"chmod\"]\nallow = [\"ptrace\"]\n",
    );
    let call = out(&explain(&["chmod", "--policy", &mine]));
    assert!(
        call.contains(&format!("refused  by syscalls.deny = \"chmod\" ({mine}:3:9)")),
        "{call}"
    );
    assert!(out(&explain(&["bpf", "--policy", &mine])).contains("refused"));
    assert!(out(&explain(&["ptrace", "--policy", &mine])).contains("allowed"));
    assert!(out(&explain(&["read"])).contains("allowed"));
    assert!(out(&explain(&["getdents64"])).contains("without those names"));
    assert!(out(&explain(&["getdents"])).contains("ENOSYS"));
    // What is allowed with conditions is neither allowed nor refused, and the conditions are said.
    for (name, condition) in [
        ("openat", "openat is allowed for these alone: makes nothing, ordinary mode"),
        ("clone", "clone is refused with CLONE_NEWNS,"),
        ("ioctl", "TIOCSTI, TIOCLINUX"),
    ] {
        let said = out(&explain(&[name]));
        assert!(said.contains("allowed or refused by its arguments"), "{said}");
        assert!(said.contains(condition), "{said}");
        let object = json(&explain(&[name, "--json"]));
        assert_eq!(object["answer"], "by_arguments", "{object:#}");
    }
    assert_eq!(json(&explain(&["bpf", "--json"]))["answer"], "refused");
    assert_eq!(json(&explain(&["read", "--json"]))["answer"], "allowed");
    assert!(out(&explain(&["clone3"])).contains("ENOSYS"));
    let unknown = explain(&["no_such_thing", "--as", "syscall"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("no system call"));
    let tmp = out(&explain(&["/tmp/x"]));
    assert!(tmp.contains("the session's own"), "{tmp}");
}

#[test]
fn diff_says_what_differs_and_which_policy_allows_more() {
    let scratch = Scratch::new();
    let differ = policy(&["diff", "read-only", "workspace-write"], &scratch.path());
    assert_eq!(differ.status.code(), Some(1));
    let text = out(&differ);
    assert!(
        text.contains("+ filesystem.write = \"$WORKSPACE\"  # policies/workspace-write.toml:"),
        "{text}"
    );
    assert!(text.contains("workspace-write allows more than read-only: to write "), "{text}");
    let object = json(&policy(&["diff", "workspace-write", "ci", "--json"], &scratch.path()));
    assert_eq!(
        (&object["a_covers_b"], &object["b_covers_a"]),
        (&Value::Bool(false), &Value::Bool(false))
    );
    let same = policy(&["diff", "build", "build"], &scratch.path());
    assert_eq!(
        (same.status.code(), out(&same).as_str()),
        (Some(0), "build and build allow the same\n")
    );
}

#[test]
fn schema_prints_a_json_schema() {
    let scratch = Scratch::new();
    let schema = json(&policy(&["schema"], &scratch.path()));
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    for key in [
        "extends",
        "require",
        "filesystem",
        "network",
        "environment",
        "limits",
        "syscalls",
        "escalation",
    ] {
        assert!(schema["properties"][key]["description"].is_string(), "{key}");
    }
}
