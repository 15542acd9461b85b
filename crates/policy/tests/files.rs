//! Policy files: how they are found, merged, and refused with a place.
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::time::Duration;
use stockade_policy::{Effective, GrantKind, NetworkMode, Policy, PolicyError};
use stockade_types::Layer;
use tempfile::TempDir;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn load(folder: &TempDir, name: &str) -> Result<Policy, PolicyError> {
    Policy::load(folder.path().join(name).as_os_str())
}

/// The message for a file `p.toml` of this text, without the folder's path.
fn refusal(text: &str) -> String {
    let folder = folder(&[("p.toml", text)]);
    let message = load(&folder, "p.toml").unwrap_err().to_string();
    message.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn every_key_of_a_policy_file_is_understood() {
    // spec 5.1
    let folder = folder(&[(
        "p.toml",
        r#"
name = "mine"
require = ["landlock", "seccomp"]

[filesystem]
read = ["/usr", "~/.cargo/bin"]
write = ["$WORKSPACE"]
hide = ["~/.ssh"]
protect = [".git/hooks"]

[network]
mode = "proxy"
allow = ["*.example.org:443"]
deny = ["secret.example.org"]
unix_sockets = ["$SESSION/s"]

[escalation]
ceiling = "workspace-write"
always_ask = ["write", "full_access"]

[environment]
keep = ["PATH", "LC_*"]
scrub = ["LC_ALL"]
scrub_secrets = true
scrub_loaders = false
set = { TMPDIR = "/tmp" }

[limits]
wall = "5m"
grace = "2s"
memory = "2G"
file_size = "512M"
output = 65536
pids = 256
cpu = 60
files = 1024

[syscalls]
allow = ["ptrace"]
deny = ["io_uring"]
"#,
    )]);
    let policy = load(&folder, "p.toml").unwrap();
    assert_eq!(policy.name, "mine");
    assert_eq!(policy.require, [Layer::Landlock, Layer::Seccomp]);
    assert_eq!(policy.filesystem.read, ["/usr", "~/.cargo/bin"]);
    assert_eq!(policy.filesystem.write, ["$WORKSPACE"]);
    assert_eq!(policy.filesystem.hide, ["~/.ssh"]);
    assert_eq!(policy.filesystem.protect, [".git/hooks"]);
    assert_eq!(policy.network.mode, NetworkMode::Proxy);
    assert_eq!(policy.network.allow, ["*.example.org:443"]);
    assert_eq!(policy.network.deny, ["secret.example.org"]);
    assert_eq!(policy.network.unix_sockets, ["$SESSION/s"]);
    assert_eq!(policy.ceiling().unwrap().unwrap().name, "workspace-write");
    assert_eq!(policy.escalation.always_ask, [GrantKind::Write, GrantKind::FullAccess]);
    assert_eq!(policy.environment.keep, ["PATH", "LC_*"]);
    assert_eq!(policy.environment.scrub, ["LC_ALL"]);
    assert!(policy.environment.scrub_secrets && !policy.environment.scrub_loaders);
    assert_eq!(policy.environment.set["TMPDIR"], "/tmp");
    assert_eq!(policy.limits.wall, Some(Duration::from_secs(300)));
    assert_eq!(policy.limits.grace, Some(Duration::from_secs(2)));
    assert_eq!(policy.limits.memory, Some(2 << 30));
    assert_eq!(policy.limits.file_size, Some(512 << 20));
    assert_eq!(policy.limits.output, Some(65536));
    assert_eq!(
        (policy.limits.pids, policy.limits.cpu, policy.limits.files),
        (Some(256), Some(60), Some(1024))
    );
    assert_eq!(policy.syscalls.allow, ["ptrace"]);
    assert_eq!(policy.syscalls.deny, ["io_uring"]);
}

#[test]
fn what_a_file_does_not_say_is_closed() {
    let folder = folder(&[("bare.toml", "")]);
    let policy = load(&folder, "bare.toml").unwrap();
    assert_eq!(policy.name, "bare");
    assert_eq!(policy.network.mode, NetworkMode::None);
    assert!(policy.filesystem.read.is_empty() && policy.filesystem.write.is_empty());
    assert!(policy.environment.scrub_secrets && policy.environment.scrub_loaders);
    // spec 5.3: every layer asked for is required unless the file says otherwise.
    assert_eq!(policy.require, Layer::ALL);
}

#[test]
fn extends_joins_lists_and_replaces_single_values() {
    // spec 5.1
    let folder = folder(&[
        (
            "base.toml",
            r#"
name = "base"
require = ["landlock", "seccomp"]
[filesystem]
read = ["/usr", "/etc"]
[network]
mode = "host"
[environment]
keep = ["PATH"]
scrub_secrets = false
set = { A = "1", B = "1" }
[limits]
memory = "1G"
pids = 10
"#,
        ),
        (
            "sub/child.toml",
            r#"
extends = "../base.toml"
require = ["landlock"]
[filesystem]
read = ["/opt", "/usr"]
[network]
mode = "none"
[environment]
keep = ["HOME"]
set = { B = "2", C = "2" }
[limits]
memory = "none"
"#,
        ),
    ]);
    let policy = load(&folder, "sub/child.toml").unwrap();
    assert_eq!(policy.name, "child");
    assert_eq!(policy.require, [Layer::Landlock]);
    assert_eq!(policy.filesystem.read, ["/usr", "/etc", "/opt"]);
    assert_eq!(policy.network.mode, NetworkMode::None);
    assert_eq!(policy.environment.keep, ["PATH", "HOME"]);
    assert!(!policy.environment.scrub_secrets);
    let set: Vec<_> = policy.environment.set.iter().map(|(n, v)| format!("{n}={v}")).collect();
    assert_eq!(set, ["A=1", "B=2", "C=2"]);
    assert_eq!((policy.limits.memory, policy.limits.pids), (None, Some(10)));
}

#[test]
fn a_file_extends_a_shipped_policy_by_name() {
    let folder =
        folder(&[("p.toml", "extends = \"workspace-write\"\n[filesystem]\nhide = [\"/opt\"]\n")]);
    let policy = load(&folder, "p.toml").unwrap();
    // Hiding what is inherited is no contradiction.
    assert!(policy.filesystem.read.contains(&"/opt".to_owned()));
    assert!(policy.filesystem.hide.contains(&"/opt".to_owned()));
    assert_eq!(policy.filesystem.write, ["$WORKSPACE"]);
}

#[test]
fn a_ceiling_is_a_file_beside_the_one_that_names_it_and_inherited() {
    // spec 5.1, 7.2
    let folder = folder(&[
        ("sub/most.toml", "[network]\nmode = \"host\"\n"),
        ("sub/base.toml", "[escalation]\nceiling = \"most.toml\"\nalways_ask = [\"network\"]\n"),
        ("p.toml", "extends = \"sub/base.toml\"\n[escalation]\nalways_ask = []\n"),
        ("gone.toml", "[escalation]\nceiling = \"nowhere.toml\"\n"),
    ]);
    let policy = load(&folder, "p.toml").unwrap();
    assert_eq!(policy.ceiling().unwrap().unwrap().name, "most");
    assert!(policy.escalation.always_ask.is_empty());
    let message = load(&folder, "gone.toml").unwrap().ceiling().unwrap_err().to_string();
    assert!(message.contains("nowhere.toml"), "{message}");
    assert_eq!(load(&folder, "sub/most.toml").unwrap().ceiling(), Ok(None));
}

#[test]
fn a_text_extends_shipped_policies_and_no_file() {
    let text = "extends = \"read-only\"\n[filesystem]\nread = [\"/srv\"]\n";
    let effective = Effective::from_text("stdin", text).unwrap();
    assert!(effective.policy.filesystem.read.contains(&"/srv".to_owned()));
    let message =
        Effective::from_text("stdin", "extends = \"/etc/x.toml\"").unwrap_err().to_string();
    assert_eq!(message, "stdin:1:11: a policy that is no file can extend the shipped ones alone");
}

#[test]
fn a_circle_of_extends_is_refused_with_its_chain() {
    // spec 5.1
    let folder = folder(&[
        ("a.toml", "extends = \"b.toml\""),
        ("b.toml", "name = \"b\"\nextends = \"./c.toml\""),
        ("self.toml", "extends = \"self.toml\""),
    ]);
    // By a symlink it is the same file all the same.
    std::os::unix::fs::symlink("a.toml", folder.path().join("c.toml")).unwrap();
    let plain = |name: &str| {
        let message = load(&folder, name).unwrap_err().to_string();
        message.replace(&format!("{}/", folder.path().display()), "")
    };
    assert_eq!(
        plain("a.toml"),
        "b.toml:2:11: these policies extend each other in a circle: a.toml -> b.toml -> a.toml"
    );
    assert_eq!(
        plain("self.toml"),
        "self.toml:1:11: these policies extend each other in a circle: self.toml -> self.toml"
    );
}

#[test]
fn an_endless_chain_of_extends_ends() {
    let files: Vec<(String, String)> =
        (0..40).map(|n| (format!("{n}.toml"), format!("extends = \"{}.toml\"", n + 1))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let message = load(&folder(&files), "0.toml").unwrap_err().to_string();
    assert!(
        message.ends_with("15.toml:1:11: more than 16 policies extend one another"),
        "{message}"
    );
}

#[test]
fn an_unknown_name_says_which_there_are() {
    let message = Policy::load(OsStr::new("workspace-wirte")).unwrap_err().to_string();
    assert_eq!(
        message,
        "there is no policy named \"workspace-wirte\"; did you mean \"workspace-write\"? (shipped: read-only, offline-tests, workspace-write, ci, build, danger-full-access); a policy file is named by a path with a '/' or by a name that ends in .toml"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_the_reason() {
    let message = Policy::load(OsStr::new("/no/such.toml")).unwrap_err().to_string();
    assert!(
        message.starts_with("cannot read the policy file /no/such.toml: No such file"),
        "{message}"
    );

    let folder = folder(&[("a.toml", "\nextends = \"gone.toml\"")]);
    let message = load(&folder, "a.toml").unwrap_err().to_string();
    assert!(message.contains("a.toml:2:11: extends: cannot read the policy file "), "{message}");
    let message = refusal("extends = \"read-onyl\"");
    assert!(message.starts_with("p.toml:1:11: extends: there is no policy named \"read-onyl\"; did you mean \"read-only\"?"), "{message}");

    fs::write(folder.path().join("bytes.toml"), b"name = \"\xff\"").unwrap();
    let message = load(&folder, "bytes.toml").unwrap_err().to_string();
    assert!(message.ends_with("it is not UTF-8 from byte 8 on"), "{message}");

    // A mistaken device must not be read for ever.
    let message = Policy::load(OsStr::new("/dev/zero")).unwrap_err().to_string();
    assert!(message.ends_with("it is no regular file"), "{message}");
    fs::write(folder.path().join("long.toml"), "# long\n".repeat(200_000)).unwrap();
    let message = load(&folder, "long.toml").unwrap_err().to_string();
    assert!(message.ends_with("it is longer than 1 MiB, which no policy is"), "{message}");
    assert!(Policy::load(folder.path().as_os_str()).is_err());
}

#[test]
fn a_policy_file_whose_path_is_not_utf8_loads() {
    use std::os::unix::ffi::OsStrExt;
    let folder = folder(&[]);
    let path = folder.path().join(OsStr::from_bytes(b"\xff.toml"));
    fs::write(&path, "name = \"odd\"").unwrap();
    assert_eq!(Policy::load(path.as_os_str()).unwrap().name, "odd");
}

#[test]
fn mistakes_in_a_file_are_told_with_line_and_column() {
    // spec 5.1 and issue 3: unknown keys, wrong types, bad values
    for (text, message) in [
        (
            "[filesystem]\nread = []\nreed = [\"/usr\"]\n",
            "p.toml:3:1: unknown key \"reed\" in [filesystem]; did you mean \"read\"? (known: read, write, hide, protect)",
        ),
        (
            "[filesytem]\nread = []\n",
            "p.toml:1:2: unknown key \"filesytem\"; did you mean \"filesystem\"? (known: name, extends, require, filesystem, network, environment, limits, syscalls, escalation)",
        ),
        (
            "[filesystem]\n  read = \"/usr\"\n",
            "p.toml:2:10: wrong type for filesystem.read: string \"/usr\", expected a list",
        ),
        (
            "[filesystem]\nread = [\"/usr\", 3]\n",
            "p.toml:2:17: wrong type for filesystem.read: integer 3, expected a string",
        ),
        ("name = 3", "p.toml:1:8: wrong type for name: integer 3, expected a string"),
        ("limits = 3", "p.toml:1:10: wrong type for limits: integer 3, expected a table"),
        (
            "[environment.set]\nA = 1\n",
            "p.toml:2:5: wrong type for environment.set.A: integer 1, expected a string",
        ),
        (
            "[network]\nmode = \"prxy\"\n",
            "p.toml:2:8: \"prxy\" is no value for network.mode; did you mean \"proxy\"? (known: none, proxy, host)",
        ),
        (
            "require = [\"landlok\"]\n",
            "p.toml:1:12: \"landlok\" is no value for require; did you mean \"landlock\"? (known: user_namespace, pid_namespace, mount_namespace, network_namespace, ipc_namespace, uts_namespace, cgroup_namespace, mount_tree, landlock, seccomp, no_new_privs, capabilities, rlimits)",
        ),
        (
            "[limits]\nmemroy = \"2G\"\n",
            "p.toml:2:1: there is no limit \"memroy\"; did you mean \"memory\"? (known: wall, grace, memory, pids, cpu, files, file_size, output, task_output)",
        ),
        (
            "[limits]\nmemory = \"2 gigs\"\n",
            "p.toml:2:10: limit memory: \"2 gigs\" is not a number of bytes, such as 1048576, \"64K\", \"512M\" or \"2G\"",
        ),
        (
            "[limits]\npids = 0.5\n",
            "p.toml:2:8: wrong type for limits.pids: floating point 0.5, expected a whole number or a text such as \"2G\" or \"90s\"",
        ),
        (
            "[filesystem]\nhide = [\n  \"~/.ssh\",\n  \"$HMOE/.aws\",\n]\n",
            "p.toml:4:3: \"$HMOE/.aws\": there is no variable $HMOE; did you mean \"$HOME\"? (known: $WORKSPACE, $HOME, $SESSION, ~)",
        ),
        (
            "[filesystem]\nread = [\"usr\"]\n",
            "p.toml:2:9: \"usr\": a path must be absolute or start with $WORKSPACE, $HOME, $SESSION or ~",
        ),
        (
            "[filesystem]\nwrite = [\"$WORKSPACE/../x\"]\n",
            "p.toml:2:10: \"$WORKSPACE/../x\": a path cannot hold '..'",
        ),
        (
            "[filesystem]\nprotect = [\"a/**/b\"]\n",
            "p.toml:2:12: \"a/**/b\": '**' stands for folders at the beginning alone, as in \"**/.git/hooks\"",
        ),
        (
            "[escalation]\nceiling = \"read-olny\"\n",
            "p.toml:2:11: escalation.ceiling: there is no policy named \"read-olny\"; did you mean \"read-only\"? (shipped: read-only, offline-tests, workspace-write, ci, build, danger-full-access); a policy file is named by a path with a '/' or by a name that ends in .toml",
        ),
        (
            "[escalation]\nalways_ask = [\"wirte\"]\n",
            "p.toml:2:15: \"wirte\" is no value for escalation.always_ask; did you mean \"write\"? (known: read, write, network, unix_sockets, syscalls, limits, full_access)",
        ),
        (
            "[environment]\nkeep = [\"A=B\"]\n",
            "p.toml:2:9: \"A=B\": a variable's name cannot be empty or hold '=', white space or control characters; '*' stands for any characters",
        ),
        (
            "[environment.set]\n\"1A\" = \"x\"\n",
            "p.toml:2:1: \"1A\": a variable's name is made of letters, digits and '_', and does not start with a digit",
        ),
        (
            "[environment.set]\nA = \"$NONSENSE\"\n",
            "p.toml:2:5: \"$NONSENSE\": there is no variable $NONSENSE (known: $WORKSPACE, $HOME, $SESSION, ~)",
        ),
        (
            "[syscalls]\nallow = [\"Ptrace\"]\n",
            "p.toml:2:10: \"Ptrace\": the name of a system call or group is made of small letters, digits and '_'",
        ),
        (
            "name = \"a b\"\n",
            "p.toml:1:8: \"a b\": a policy's name is made of 1 to 64 ASCII letters, digits, '-', '_' or '.'",
        ),
        ("name = \"é\" x\n", "p.toml:1:12: unexpected key or value, expected newline, `#`"),
        ("name = \"a\"\nname = \"b\"\n", "p.toml:2:1: duplicate key"),
        ("[filesystem\n", "p.toml:1:12: unclosed table, expected `]`"),
    ] {
        assert_eq!(refusal(text), message);
    }
}

#[test]
fn contradictions_are_refused_and_name_both_places() {
    // spec 5.1 and issue 3: contradictions
    for (text, message) in [
        (
            "[network]\nallow = [\"example.org\"]\n",
            "p.toml:2:10: network.allow counts only with mode = \"proxy\", but the mode is \"none\"",
        ),
        (
            "[network]\nmode = \"host\"\nallow = [\"example.org\"]\n",
            "p.toml:3:10: network.allow counts only with mode = \"proxy\", but the mode is \"host\" (set at p.toml:2:8)",
        ),
        (
            "[network]\ndeny = [\"example.org\"]\n",
            "p.toml:2:9: network.deny counts only with mode = \"proxy\", but the mode is \"none\"",
        ),
        (
            "[network]\nmode = \"proxy\"\nallow = [\"a.example.org:443\"]\ndeny = [\"*.example.org\"]\n",
            "p.toml:4:9: \"*.example.org\" is refused here, but p.toml:3:10 allows \"a.example.org:443\"",
        ),
        (
            "[filesystem]\nread = [\"$HOME/x\"]\nhide = [\"~/x/\"]\n",
            "p.toml:3:9: \"~/x/\" is hidden here and granted at p.toml:2:9",
        ),
        ("[filesystem]\nhide = [\"/\"]\n", "p.toml:2:9: hiding \"/\" leaves nothing to run"),
        (
            "[filesystem]\nwrite = [\"/\"]\nhide = [\"/etc/shadow\"]\n",
            "p.toml:2:10: writing \"/\" is full access, in which nothing can be hidden or protected, but p.toml:3:9 says \"/etc/shadow\"",
        ),
        (
            "require = [\"network_namespace\"]\n[network]\nmode = \"host\"\n",
            "p.toml:1:12: the layer network_namespace is required, but nothing in this policy asks for it",
        ),
        (
            "[syscalls]\nallow = [\"all\"]\ndeny = [\"ptrace\"]\n",
            "p.toml:3:9: \"ptrace\" is refused here, but p.toml:2:10 allows \"all\"",
        ),
        (
            "[syscalls]\ndeny = [\"all\"]\n",
            "p.toml:2:9: refusing \"all\" system calls leaves nothing to run",
        ),
        (
            "[environment]\nkeep = [\"TERM\", \"AWS_*\"]\nscrub = [\"A*\"]\n",
            "p.toml:2:17: \"AWS_*\" is kept here, but p.toml:3:10 scrubs \"A*\", which wins",
        ),
    ] {
        assert_eq!(refusal(text), message);
    }
}

#[test]
fn names_of_no_system_call_and_roots_that_no_cell_can_have_are_refused_with_their_place() {
    for (text, message) in [
        (
            "[syscalls]\ndeny = [\"chmod\", \"ptrac\"]\n",
            "p.toml:2:18: \"ptrac\" is neither a system call nor a group of them; did you mean \"ptrace\"?; the groups are mount,",
        ),
        (
            "[syscalls]\nallow = [\"no_such_call\"]\n",
            "p.toml:2:10: \"no_such_call\" is neither a system call nor a group of them",
        ),
        (
            "[syscalls]\ndeny = [\"chmod\",\n  \"execve\"]\n",
            "p.toml:3:3: no command can run without \"execve\"",
        ),
        (
            "[filesystem]\nwrite = [\"/proc/sys\"]\n",
            "p.toml:2:10: \"/proc/sys\" cannot be a writable root: every cell has a /proc of its own",
        ),
        (
            "[filesystem]\nwrite = [\"~/x\", \"/dev/no-such-device\"]\n",
            "p.toml:2:17: \"/dev/no-such-device\" cannot be a writable root",
        ),
    ] {
        let refused = refusal(text);
        assert!(refused.starts_with(message), "{refused}");
    }
}

#[test]
fn a_contradiction_between_two_files_names_both() {
    let message = refusal("extends = \"workspace-write\"\n[filesystem]\nwrite = [\"/\"]\n");
    assert!(message.starts_with("p.toml:3:10: writing \"/\" is full access"), "{message}");
    assert!(message.contains("policies/read-only.toml:"), "{message}");

    // What a file says once more, it says.
    let message = refusal(
        "extends = \"workspace-write\"\n[filesystem]\nwrite = [\"$WORKSPACE\"]\nhide = [\"$WORKSPACE\"]\n",
    );
    assert_eq!(message, "p.toml:4:9: \"$WORKSPACE\" is hidden here and granted at p.toml:3:10");

    // What is inherited as hidden stays hidden, so to grant the same path would say nothing; a deeper one is shown.
    let granting =
        |path: &str| format!("extends = \"base.toml\"\n[filesystem]\nread = [\"{path}\"]\n");
    for (path, refused) in
        [("$HOME/x/", true), ("~/x", true), ("~/x/deeper", false), ("~/xy", false)]
    {
        let folder = folder(&[
            ("base.toml", "[filesystem]\nhide = [\"~/x\"]\n"),
            ("p.toml", &granting(path)),
        ]);
        let loaded = Policy::load(folder.path().join("p.toml").as_os_str());
        let message = loaded.err().map(|error| error.to_string()).unwrap_or_default();
        let named = message.contains("p.toml:3:9: ") && message.contains("base.toml:2:9, and");
        assert_eq!((named, message.is_empty()), (refused, !refused), "{path}: {message}");
    }
    // The other way round it counts: hiding what is inherited as readable, and keeping less of the environment.
    for text in [
        "extends = \"workspace-write\"\n[filesystem]\nhide = [\"/usr\"]\n",
        "extends = \"workspace-write\"\n[environment]\nscrub = [\"*\"]\n",
    ] {
        let folder = folder(&[("p.toml", text)]);
        Policy::load(folder.path().join("p.toml").as_os_str()).expect("no contradiction");
    }
}

#[test]
fn no_cut_or_changed_byte_of_a_policy_file_makes_the_loader_panic() {
    let text =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies/workspace-write.toml"))
            .unwrap();
    let folder = folder(&[]);
    let path = folder.path().join("p.toml");
    let mut refused = 0;
    for at in (0..text.len()).step_by(41) {
        for changed in [text[..at].to_vec(), {
            let mut changed = text.clone();
            changed[at] = b'"';
            changed
        }] {
            fs::write(&path, changed).unwrap();
            refused += usize::from(Policy::load(path.as_os_str()).is_err());
        }
    }
    assert!(refused > 0);
}
