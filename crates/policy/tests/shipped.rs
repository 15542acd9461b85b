//! The policies that come with Stockade say what they promise.
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;
use stockade_policy::{
    ExpandedFilesystem, NetworkMode, PathPattern, Policy, Variables, environment, shipped_names,
    shipped_summary,
};
use stockade_types::Layer;

fn shipped(name: &str) -> Policy {
    Policy::load(OsStr::new(name)).unwrap()
}

fn variables() -> Variables {
    Variables { workspace: "/home/u/project".into(), home: "/home/u".into(), session: None }
}

fn expanded(name: &str) -> ExpandedFilesystem {
    shipped(name).expand(&variables()).unwrap()
}

fn covered(patterns: &[PathPattern], path: &str) -> bool {
    patterns.iter().any(|pattern| pattern.covers(Path::new(path)))
}

#[test]
fn six_policies_are_shipped_and_load_under_their_own_names() {
    // spec 5.1, issue 3
    let names: Vec<&str> = shipped_names().collect();
    assert_eq!(
        names,
        ["read-only", "offline-tests", "workspace-write", "ci", "build", "danger-full-access"]
    );
    for name in names {
        assert_eq!(shipped(name).name, name);
        assert!(shipped_summary(name).is_some_and(|summary| summary.len() > 20), "{name}");
    }
}

#[test]
fn read_only_writes_nothing_and_has_no_network() {
    // spec 5.1, 5.5
    let policy = shipped("read-only");
    assert!(policy.filesystem.write.is_empty());
    assert_eq!(policy.network.mode, NetworkMode::None);
    assert_eq!(policy.require, Layer::ALL);
}

#[test]
fn workspace_write_is_read_only_plus_the_workspace() {
    // spec 5.1, 5.4
    let (read_only, workspace) = (shipped("read-only"), shipped("workspace-write"));
    assert_eq!(workspace.filesystem.write, ["$WORKSPACE"]);
    assert_eq!(workspace.filesystem.read, read_only.filesystem.read);
    assert_eq!(workspace.filesystem.hide, read_only.filesystem.hide);
    assert_eq!(workspace.environment, read_only.environment);
    assert_eq!(workspace.limits, read_only.limits);
    assert_eq!(workspace.require, Layer::ALL);
    assert_eq!(workspace.limits.wall, None);
    assert_eq!(workspace.limits.grace, Some(Duration::from_secs(2)));
    assert_eq!(workspace.limits.pids, Some(4096));
    assert_eq!(workspace.limits.output, Some(1 << 20));
    for path in [".git/hooks", ".git/config", ".bashrc", ".envrc", ".vscode", ".github/workflows"] {
        assert!(workspace.filesystem.protect.iter().any(|entry| entry == path), "{path}");
    }
}

#[test]
fn tools_below_the_home_folder_are_readable_and_the_home_folder_is_not() {
    // spec 5.4
    let files = expanded("workspace-write");
    for path in [
        "/usr/bin/git",
        "/home/u/.cargo/bin/cargo",
        "/home/u/.rustup/toolchains",
        "/home/u/project/x",
    ] {
        assert!(covered(&files.read, path), "{path}");
    }
    for path in [
        "/home/u",
        "/home/u/.gitconfig",
        "/home/u/other",
        "/root",
        "/var",
        "/run",
        "/tmp",
        "/home/v",
    ] {
        assert!(!covered(&files.read, path), "{path}");
    }
}

#[test]
fn no_credential_is_readable_even_if_the_workspace_is_the_home_folder() {
    // spec 5.4: hidden paths are absent
    let variables =
        Variables { workspace: "/home/u".into(), home: "/home/u".into(), session: None };
    let files = shipped("workspace-write").expand(&variables).unwrap();
    for path in [
        "/etc/shadow",
        "/etc/gshadow-",
        "/etc/sudoers.d/x",
        "/etc/ssh/ssh_host_ed25519_key",
        "/etc/ssl/private/a.key",
        "/home/u/.ssh/id_ed25519",
        "/home/u/.aws/credentials",
        "/home/u/.gnupg",
        "/home/u/.netrc",
        "/home/u/.git-credentials",
        "/home/u/.config/gh/hosts.yml",
        "/home/u/.docker/config.json",
        "/home/u/.kube/config",
        "/home/u/.npmrc",
        "/home/u/.pypirc",
        "/home/u/.cargo/credentials.toml",
        "/home/u/.config/google-chrome/Default/Cookies",
        "/home/u/.bash_history",
    ] {
        assert!(covered(&files.hide, path), "{path}");
    }
    // The public halves of the host keys are no secret.
    assert!(!covered(&files.hide, "/etc/ssh/ssh_host_ed25519_key.pub"));
    assert!(!covered(&files.hide, "/etc/passwd"));
}

#[test]
fn no_grant_of_a_shipped_policy_lies_in_a_hidden_path() {
    for name in ["read-only", "workspace-write"] {
        let files = expanded(name);
        for granted in files.read.iter().chain(&files.write) {
            assert!(!files.hide.iter().any(|hidden| hidden.covers(granted.base())), "{granted}");
        }
    }
}

#[test]
fn the_environment_of_a_job_is_useful_and_holds_no_secret() {
    // spec 5.6
    let host = [
        ("PATH", "/usr/bin"),
        ("HOME", "/elsewhere"),
        ("LC_ALL", "C.UTF-8"),
        ("TMPDIR", "/var/folders/x"),
        ("PAGER", "less"),
        ("GITHUB_TOKEN", "x"),
        ("LD_PRELOAD", "/x.so"),
        ("SSH_AUTH_SOCK", "/run/agent"),
        ("UNHEARD_OF", "x"),
    ]
    .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let policy = shipped("workspace-write");
    let environment =
        environment::build(&policy.environment, &variables(), host.clone().into_iter()).unwrap();
    let value = |name: &str| {
        environment.iter().find(|(n, _)| n == name).and_then(|(_, value)| value.to_str())
    };
    assert_eq!(value("PATH"), Some("/usr/bin"));
    assert_eq!(value("HOME"), Some("/home/u"));
    assert_eq!(value("LC_ALL"), Some("C.UTF-8"));
    assert_eq!(value("TMPDIR"), Some("/tmp"));
    assert_eq!(value("PAGER"), Some("cat"));
    assert_eq!(value("GIT_TERMINAL_PROMPT"), Some("0"));
    for name in ["GITHUB_TOKEN", "LD_PRELOAD", "SSH_AUTH_SOCK", "UNHEARD_OF"] {
        assert_eq!(value(name), None, "{name}");
    }
    // Full access passes all of it on.
    let full = shipped("danger-full-access");
    let environment =
        environment::build(&full.environment, &variables(), host.clone().into_iter()).unwrap();
    assert_eq!(environment.len(), host.len());
}

#[test]
fn danger_full_access_confines_nothing_and_requires_only_its_limits() {
    // spec 5.1, 7.5
    let policy = shipped("danger-full-access");
    assert!(policy.is_full_access());
    assert_eq!(policy.network.mode, NetworkMode::Host);
    assert_eq!(policy.require, [Layer::Rlimits]);
    assert!(!shipped("workspace-write").is_full_access());
}

#[test]
fn every_grant_in_a_shipped_file_is_explained() {
    // spec 5.1: a comment on every grant. In a list, each paragraph begins with one.
    for name in shipped_names() {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../policies/{name}.toml"));
        let text = std::fs::read_to_string(path).unwrap();
        let mut explained = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with('#') {
                explained = true;
            } else if line.is_empty() {
                explained = false;
            } else if line.starts_with('"') {
                assert!(explained, "{name}: {line}");
            }
        }
    }
}

#[test]
fn the_policies_for_jobs_have_no_network_and_hide_and_protect_as_much_as_workspace_write() {
    // issue 3
    let base = shipped("workspace-write");
    for name in ["offline-tests", "ci", "build"] {
        let policy = shipped(name);
        assert_eq!(policy.network.mode, NetworkMode::None, "{name}");
        assert_eq!(policy.filesystem.hide, base.filesystem.hide, "{name}");
        assert_eq!(policy.filesystem.protect, base.filesystem.protect, "{name}");
        assert_eq!(policy.require, Layer::ALL, "{name}");
        assert!(policy.environment.scrub_secrets && policy.environment.scrub_loaders, "{name}");
        for secret in
            ["/home/u/.cargo/credentials.toml", "/home/u/.m2/settings.xml", "/home/u/.npmrc"]
        {
            let access = policy.access(Path::new(secret), &variables()).unwrap();
            assert!(!access.read && !access.write, "{name}: {secret}");
        }
    }
    let build = shipped("build");
    let writes = |path: &str| build.access(Path::new(path), &variables()).unwrap().write;
    assert!(writes("/home/u/.cache/sccache/x") && writes("/home/u/.cargo/registry/src"));
    assert!(!writes("/home/u/.cargo/bin/x") && !writes("/home/u/.rustup") && !writes("/usr/x"));
    assert!(
        shipped("ci").limits.wall.is_some() && shipped("offline-tests").limits.memory.is_some()
    );
}
