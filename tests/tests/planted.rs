//! What a command plants at protected paths that did not exist when it started (spec 5.4): there is no stub on the host, and it is
//! put aside before the result is given. Judged from outside.

#![forbid(unsafe_code)]

use serde_json::json;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};
use stockade_tests::{Confined, RunReport, Scratch, turn};

fn run(work: &Path, line: &str) -> RunReport {
    Confined::new("workspace-write", work).report(&["bash", "-c", line])
}

// spec 5.4, 5.9
#[test]
fn a_hook_planted_in_a_repository_of_its_own_making_is_put_aside_and_named() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let ran = run(&work, "git init -q . && echo evil > .git/hooks/pre-commit");
    assert_eq!(ran.exit_code, Some(0), "{}", ran.stderr);
    let hooks = work.join(".git/hooks");
    assert!(!hooks.join("pre-commit").exists());
    // Nothing is lost: it lies beside, under a name that git does not run.
    assert_eq!(fs::read_to_string(hooks.join("pre-commit.quarantined")).expect("kept"), "evil\n");
    assert!(hooks.join("pre-commit.sample").exists(), "what git init makes stays");
    assert!(work.join(".git/config").exists());
    let named = ran.denials.iter().any(|denial| {
        denial["target"].as_str().is_some_and(|target| target.ends_with(".git/hooks/pre-commit"))
    });
    assert!(named, "{:?}", ran.denials);
}

// spec 5.4
#[test]
fn settings_that_make_git_run_something_are_put_aside() {
    let scratch = Scratch::new();
    for setting in ["core.fsmonitor ./evil", "alias.st '!evil'", "filter.x.clean evil"] {
        let work = scratch.folder("work");
        run(&work, &format!("git init -q . && git config {setting}"));
        assert!(!work.join(".git/config").exists(), "{setting}");
        assert!(work.join(".git/config.quarantined").exists(), "{setting}");
        fs::remove_dir_all(&work).expect("removed");
    }
}

// spec 5.4
#[test]
fn links_and_files_in_the_place_of_a_git_folder_are_put_aside() {
    let scratch = Scratch::new();
    for line in [
        "mkdir -p evil/hooks && echo evil > evil/hooks/pre-commit && ln -s evil .git",
        "mkdir -p evil/hooks && echo 'gitdir: evil' > .git",
    ] {
        let work = scratch.folder("work");
        run(&work, line);
        assert!(fs::symlink_metadata(work.join(".git")).is_err(), "{line}");
        fs::remove_dir_all(&work).expect("removed");
    }
}

// spec 5.4
#[test]
fn settings_of_editors_and_agents_are_put_aside_and_ordinary_files_are_not() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    run(
        &work,
        "mkdir .vscode && echo {} > .vscode/tasks.json; echo evil > .envrc; echo fine > file",
    );
    assert!(!work.join(".vscode").exists());
    assert!(work.join(".vscode.quarantined/tasks.json").exists());
    assert!(!work.join(".envrc").exists());
    assert!(work.join("file").exists());
}

// spec 5.4
#[test]
fn git_init_and_a_commit_leave_a_repository_that_works_and_nothing_put_aside() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let ran = run(
        &work,
        "git init -q . && echo a > a && git add a && git -c user.name=a -c user.email=a@b commit -qm a && git log --oneline | wc -l",
    );
    assert_eq!(ran.stdout.trim(), "1", "{}", ran.stderr);
    assert!(ran.denials.is_empty(), "{:?}", ran.denials);
}

// spec 5.4
#[test]
fn a_repository_cannot_be_renamed_away_from_under_its_protection() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    run(&work, "git init -q .");
    let ran = run(&work, "mv .git .old; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit");
    assert_ne!(ran.exit_code, Some(0));
    assert!(!work.join(".git/hooks/pre-commit").exists());
    assert!(!work.join(".old").exists());
}

// spec 5.4
#[test]
fn a_hard_link_to_new_settings_does_not_open_them_later() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    run(&work, "git init -q . && ln .git/config x");
    run(&work, "printf '[core]\\n\\tfsmonitor = ./evil\\n' >> x");
    let config = fs::read_to_string(work.join(".git/config")).unwrap_or_default();
    assert!(!config.contains("fsmonitor"), "{config}");
}

// spec 5.4
#[test]
fn a_folder_on_the_way_to_the_workspace_cannot_be_renamed() {
    let scratch = Scratch::new();
    let work = scratch.folder("a/b/work");
    let folder = scratch.path().join("a");
    let line = format!("mv {0} {0}2; mv {0}/b {0}/c", folder.display());
    let ran = run(&work, &line);
    assert_eq!(ran.stderr.matches("busy").count(), 2, "{}", ran.stderr);
}

// spec 5.4
#[test]
fn what_is_hidden_stays_hidden_when_a_folder_above_it_is_to_be_renamed() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    fs::create_dir_all(work.join("sec/d")).expect("folders");
    fs::write(work.join("sec/d/key"), "TOPSECRET").expect("a file");
    let hidden = work.join("sec/d/key");
    let confined = || {
        let options = ["--hide", hidden.to_str().expect("UTF-8")];
        Confined::new("workspace-write", &work).options(&options)
    };
    confined().report(&["bash", "-c", "mv sec s2; mv sec/d sec/e"]);
    let ran = confined().report(&["bash", "-c", "cat s2/d/key sec/e/key sec/d/key"]);
    assert!(!ran.stdout.contains("TOPSECRET"));
    assert_eq!(fs::read_to_string(&hidden).expect("where it was"), "TOPSECRET");
}

// spec 5.4
#[test]
fn links_that_stood_there_before_are_nobodys_plant() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    run(&work, "git init -q --bare real; true");
    symlink("real", work.join(".git")).expect("a link");
    symlink("nowhere", work.join(".vscode")).expect("a link");
    let ran = run(&work, "true");
    assert!(ran.denials.is_empty(), "{:?}", ran.denials);
    // But what is planted behind one is found.
    let ran = run(&work, "echo evil > .git/commondir; ln -sfn elsewhere .vscode");
    assert_eq!(ran.denials.len(), 2, "{:?}", ran.denials);
    assert!(!work.join("real/commondir").exists());
}

// spec 5.4
#[test]
fn names_for_what_is_put_aside_cannot_be_used_up() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let ran = run(
        &work,
        "echo evil > .bashrc; touch .bashrc.quarantined; for i in $(seq 999); do : > .bashrc.$i.quarantined; done",
    );
    assert!(!work.join(".bashrc").exists(), "{:?}", ran.denials);
}

// spec 5.4, 6.3
#[test]
fn what_was_planted_is_put_aside_also_when_the_runtime_is_killed() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let line =
        "mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit && touch planted && sleep 60";
    let mut child = std::process::Command::new(stockade_tests::stockade_bin())
        .args(["run", "--workspace"])
        .arg(&work)
        .args(["--", "bash", "-c", line])
        .spawn()
        .expect("stockade");
    let wait_for = |what: &dyn Fn() -> bool| {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !what() && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        what()
    };
    assert!(wait_for(&|| work.join("planted").exists()), "the plant is real");
    child.kill().expect("SIGKILL");
    child.wait().expect("its end");
    assert!(wait_for(&|| !work.join(".git/hooks/pre-commit").exists()));
    assert!(work.join(".git/hooks/pre-commit.quarantined").exists());
}

fn within_seconds(what: &dyn Fn() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    while !what() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    what()
}

fn targets(ran: &RunReport, note: &str) -> Vec<String> {
    let named = ran
        .denials
        .iter()
        .filter(|denial| denial["note"].as_str().is_some_and(|text| text.contains(note)));
    named.filter_map(|denial| denial["target"].as_str().map(Into::into)).collect()
}

// spec 5.4
#[test]
fn a_later_call_does_not_take_what_a_background_task_planted_for_the_hosts_own() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let plant = "git init -q .; echo evil > .git/hooks/pre-commit; mkdir .vscode; echo evil > .vscode/tasks.json; \
        git init -q sub; echo evil > sub/.git/hooks/pre-commit; touch planted; sleep 2; echo evil > .git/hooks/post-commit";
    let wait = "until [ -e planted ]; do sleep 0.1; done";
    let calls = [
        ("Bash", json!({"command": plant, "run_in_background": true})),
        ("Bash", json!({"command": wait})),
        ("Bash", json!({"command": "ls .git/hooks sub/.git/hooks .vscode; sleep 3"})),
    ];
    let ran = turn::exec(&work, &scratch.folder("state"), &turn::of_calls(&calls));
    assert!(work.join("planted").exists(), "{}", ran.err());
    assert!(work.join(".git/hooks/pre-commit.quarantined").exists(), "it was real");
    for planted in
        [".git/hooks/pre-commit", ".git/hooks/post-commit", ".vscode", "sub/.git/hooks/pre-commit"]
    {
        assert!(!work.join(planted).exists(), "{planted}: {}", ran.out());
    }
    let answers = turn::answers(&ran.out());
    assert!(!answers[2].text.contains("pre-commit\n"), "{answers:?}");
}

// spec 5.4, 1.21
#[test]
fn what_a_call_that_runs_on_plants_is_put_aside_while_it_does_and_named_at_its_end() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let line = "git init -q sub; echo evil > .envrc; echo evil > sub/.git/hooks/pre-commit; touch planted; \
        until [ -e go ]; do sleep 0.1; done; mkdir .vscode; echo evil > .vscode/tasks.json; sleep 600";
    let mut child = std::process::Command::new(stockade_tests::stockade_bin())
        .args(["run", "--json", "--workspace"])
        .arg(&work)
        .args(["--", "bash", "-c", line])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("stockade");
    let is_aside = |name: &str| {
        within_seconds(&|| {
            !work.join(name).exists() && work.join(format!("{name}.quarantined")).exists()
        })
    };
    assert!(within_seconds(&|| work.join("planted").exists()), "the plant is real");
    let aside = is_aside(".envrc") && is_aside("sub/.git/hooks/pre-commit");
    fs::write(work.join("go"), "").expect("a file");
    let aside_later = is_aside(".vscode");
    let runs_on = child.try_wait().expect("a child").is_none();
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it runs");
    let output = child.wait_with_output().expect("its end");
    assert!(aside && aside_later && runs_on, "{aside} {aside_later} {runs_on}");
    let report: RunReport = serde_json::from_slice(&output.stdout).expect("a report");
    let named = targets(&report, "put aside");
    for name in [".envrc", "sub/.git/hooks/pre-commit", ".vscode"] {
        assert!(named.iter().any(|target| target.ends_with(name)), "{name}: {named:?}");
    }
}

// spec 5.4
#[test]
fn a_link_to_a_protected_file_and_what_it_leads_to_stay() {
    for attack in [
        "rm .mcp.json; echo EVIL > .mcp.json",
        "ln -sf evil .mcp.json; echo EVIL > evil",
        "mv dot old; mkdir dot; echo EVIL > dot/mcp.json",
        "echo EVIL > dot/mcp.json",
        "echo EVIL > x; mv -f x dot/mcp.json",
    ] {
        let scratch = Scratch::new();
        let work = scratch.folder("work");
        fs::create_dir(work.join("dot")).expect("a folder");
        fs::write(work.join("dot/mcp.json"), "{}").expect("a file");
        symlink("dot/mcp.json", work.join(".mcp.json")).expect("a link");
        run(&work, attack);
        let found = fs::read_to_string(work.join(".mcp.json")).unwrap_or_default();
        assert!(!found.contains("EVIL"), "{attack}");
    }
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    fs::create_dir_all(work.join("gh/workflows")).expect("a folder");
    symlink("gh", work.join(".github")).expect("a link");
    run(&work, "mkdir -p e/workflows; echo EVIL > e/workflows/x.yml; rm .github; ln -s e .github");
    assert!(!work.join(".github/workflows/x.yml").exists());
}

// spec 5.4
#[test]
fn what_a_dangling_link_leads_to_is_put_aside_where_it_lies() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    symlink("dot/envrc", work.join(".envrc")).expect("a link");
    let ran = run(&work, "mkdir dot; echo EVIL > dot/envrc; echo fine > dot/other");
    assert!(fs::read_to_string(work.join(".envrc")).is_err(), "{:?}", ran.denials);
    assert_eq!(fs::read_to_string(work.join("dot/envrc.quarantined")).expect("kept"), "EVIL\n");
    assert!(work.join("dot/other").exists(), "nothing else is touched");
    assert!(fs::symlink_metadata(work.join(".envrc")).is_ok(), "the link is the host's");
    // By another link on the way.
    run(&work, "echo EVIL > dot/evil; ln -s evil dot/envrc");
    assert!(fs::read_to_string(work.join(".envrc")).is_err());
}

// spec 5.4, 5.9
#[test]
fn of_very_many_planted_files_all_are_put_aside_and_the_first_are_named() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let line = "git init -q .; cd .git/hooks; for i in $(seq 3000); do : > evil-$i; done";
    let ran = run(&work, line);
    let names = fs::read_dir(work.join(".git/hooks")).expect("hooks");
    let names = names.map(|entry| entry.expect("a name").file_name().into_string().expect("UTF-8"));
    let (aside, live): (Vec<_>, Vec<_>) =
        names.filter(|n| n.starts_with("evil")).partition(|n| n.ends_with(".quarantined"));
    assert_eq!((aside.len(), live.len()), (3000, 0));
    assert!((51..=55).contains(&ran.denials.len()), "{}", ran.denials.len());
    assert_eq!(targets(&ran, "so many more"), ["(2950 more)"]);
}

// spec 5.4, 5.9
#[test]
fn what_the_host_replaces_while_a_call_runs_is_named_and_stays_if_it_runs_nothing_new() {
    let scratch = Scratch::new();
    let work = scratch.repository("work");
    std::process::Command::new("git")
        .args(["init", "-q", "nested"])
        .current_dir(&work)
        .status()
        .expect("git");
    let hosts = |folder: &Path, key: &str| {
        let args = ["config", key, "!status"];
        let status = std::process::Command::new("git").args(args).current_dir(folder).status();
        assert!(status.expect("git").success());
    };
    hosts(&work, "user.name");
    let line = "touch started; until [ -e go ]; do sleep 0.05; done";
    let ran = std::thread::scope(|scope| {
        let call = scope.spawn(|| run(&work, line));
        assert!(within_seconds(&|| work.join("started").exists()));
        hosts(&work, "branch.main.description");
        hosts(&work.join("nested"), "alias.st");
        fs::write(work.join("go"), "").expect("a file");
        call.join().expect("the call")
    });
    for (config, stays) in
        [(".git/config", ".git/config"), ("nested/.git/config", "nested/.git/config.quarantined")]
    {
        let text = fs::read_to_string(work.join(stays)).unwrap_or_default();
        assert!(text.contains("!status"), "{config}: {:?}", ran.denials);
        let path = work.join(config).display().to_string();
        assert!(targets(&ran, "replaced").contains(&path), "{:?}", ran.denials);
    }
    // The call could have written it as well, as soon as the host's own was gone.
    assert!(!work.join("nested/.git/config").exists());
}

// spec 5.4: two sessions in one folder
#[test]
fn what_one_session_plants_and_puts_aside_opens_the_place_to_no_other() {
    for (place, plant, later) in [
        (
            ".git/hooks",
            "echo x > .git/hooks",
            "mkdir .git/hooks; echo evil > .git/hooks/pre-commit",
        ),
        (".envrc", "echo x > .envrc", "echo evil > .envrc"),
        (
            ".git/config",
            "printf '[alias]\\nst = !x\\n' > .git/config",
            "printf '[alias]\\nst = !x\\n' > .git/config",
        ),
        (
            ".claude",
            "mkdir -p .claude; echo x > .claude/settings.json",
            "mkdir .claude; echo evil > .claude/settings.json",
        ),
    ] {
        let scratch = Scratch::new();
        let work = scratch.folder("work");
        fs::create_dir_all(work.join(".git")).expect("a folder");
        let first = format!("{plant}; touch up; until [ -e other ]; do sleep 0.02; done");
        let second =
            format!("touch other; while [ -e {place} ]; do sleep 0.02; done; {later}; touch late");
        std::thread::scope(|scope| {
            let one = scope.spawn(|| run(&work, &first));
            assert!(within_seconds(&|| work.join("up").exists()));
            let other = run(&work, &second);
            one.join().expect("the call");
            assert!(work.join("late").exists(), "{plant}: the second session saw it go");
            assert!(!other.denials.is_empty(), "{plant}");
        });
        let live = work.join(if place == ".git/hooks" { ".git/hooks/pre-commit" } else { place });
        assert!(!live.exists(), "{plant}: {live:?}");
    }
}

/// Where nobody may make a namespace, and nobody is root.
fn bare(scratch: &Scratch, work: &Path, line: &str) -> RunReport {
    let policy = stockade_tests::lowered_policy(&scratch.path());
    let output = std::process::Command::new("env")
        .args(stockade_tests::WITHOUT_NAMESPACES)
        .arg(stockade_tests::stockade_bin())
        .args(["run", "--json", "--policy"])
        .arg(&policy)
        .arg("--workspace")
        .arg(work)
        .args(["--", "bash", "-c", line])
        .output()
        .expect("unshare");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

// spec 5.4
#[test]
fn a_plant_in_a_folder_that_may_not_be_written_is_put_aside() {
    let line = "mkdir -p .github/workflows .git/hooks; echo evil > .github/workflows/x.yml; chmod 555 .github; \
        echo evil > .git/hooks/pre-commit; chmod 555 .git/hooks";
    for is_bare in [false, true] {
        let scratch = Scratch::new();
        let work = scratch.folder("work");
        let ran = if is_bare { bare(&scratch, &work, line) } else { run(&work, line) };
        assert!(!work.join(".github/workflows").exists(), "{is_bare}: {:?}", ran.denials);
        assert!(!work.join(".git/hooks/pre-commit").exists(), "{is_bare}: {:?}", ran.denials);
        let mode = fs::metadata(work.join(".github")).expect("a folder").permissions().mode();
        assert_eq!(mode & 0o777, 0o555);
    }
}

// spec 5.4: what exists cannot be covered there, but what is planted is found all the same
#[test]
fn without_mounts_what_is_planted_in_repositories_below_is_put_aside_and_the_hosts_own_is_not() {
    let scratch = Scratch::new();
    let work = scratch.repository("work");
    let own = "git init -q own; git -C own config alias.st status; echo x > own/.git/hooks/pre-push; mkdir own/.vscode";
    let status = std::process::Command::new("bash").args(["-c", own]).current_dir(&work).status();
    assert!(status.expect("bash").success());
    let ran = bare(
        &scratch,
        &work,
        "export GIT_CONFIG_GLOBAL=/dev/null; git init -q new; git -C new config alias.x '!evil'; echo evil > new/.git/hooks/pre-commit; echo evil > own/.git/hooks/pre-commit",
    );
    for planted in ["new/.git/config", "new/.git/hooks/pre-commit", "own/.git/hooks/pre-commit"] {
        assert!(!work.join(planted).exists(), "{planted}: {:?}", ran.denials);
        assert!(
            work.join(format!("{planted}.quarantined")).exists(),
            "{planted}: {} {:?}",
            ran.stderr,
            ran.denials
        );
    }
    for own in ["own/.git/config", "own/.git/hooks/pre-push", "own/.vscode"] {
        assert!(work.join(own).exists(), "{own}: {:?}", ran.denials);
    }
    assert_eq!(ran.denials.len(), 3, "{:?}", ran.denials);
}

// spec 5.4: a home folder as the workspace
#[test]
fn what_is_hidden_and_does_not_exist_is_swept_like_what_is_protected() {
    let scratch = Scratch::new();
    let home = scratch.folder("home");
    fs::create_dir(home.join(".aws")).expect("a folder");
    fs::write(home.join(".aws/credentials"), "SECRET").expect("a file");
    let mut confined = Confined::new("workspace-write", &home);
    confined.process().env("HOME", &home);
    let line = "mkdir -p .ssh .cargo; echo evil > .ssh/config; echo evil > .npmrc; echo evil > .netrc; echo fine > .cargo/fine; cat .aws/credentials";
    let ran = confined.report(&["bash", "-c", line]);
    for planted in [".ssh", ".npmrc", ".netrc"] {
        assert!(!home.join(planted).exists(), "{planted}: {:?}", ran.denials);
        assert!(home.join(format!("{planted}.quarantined")).exists(), "{planted}");
    }
    assert!(home.join(".cargo/fine").exists() && !ran.stdout.contains("SECRET"));
    assert_eq!(fs::read_to_string(home.join(".aws/credentials")).expect("kept"), "SECRET");
}

// spec 5.4: no residue
#[test]
fn without_namespaces_folders_of_every_mode_go_with_the_session() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let line = "mkdir -p $TMPDIR/a/b/c; touch $TMPDIR/a/b/c/x; chmod 000 $TMPDIR/a/b/c $TMPDIR/a; echo $TMPDIR";
    let ran = bare(&scratch, &work, line);
    let folder = std::path::PathBuf::from(ran.stdout.trim());
    assert!(folder.is_absolute() && folder != Path::new("/tmp"), "{}", ran.stderr);
    assert!(!folder.exists(), "{folder:?}");
}

// spec 5.4, 5.8
#[test]
fn the_file_tools_refuse_to_write_what_is_hidden_and_does_not_exist() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let policy = scratch.path().join("hiding.toml");
    let text = "name = \"hiding\"\nextends = \"workspace-write\"\n[filesystem]\nhide = [\"$WORKSPACE/.secret\"]\n";
    fs::write(&policy, text).expect("a policy");
    let write = |name: &str| ("Write", json!({"file_path": work.join(name), "content": "x"}));
    let calls = [write(".secret/x"), write(".secret"), write("fine")];
    let mut command = std::process::Command::new(stockade_tests::stockade_bin());
    command
        .args(["exec", "--cascade", "off", "--policy"])
        .arg(&policy)
        .arg("--workspace")
        .arg(&work);
    command.arg("--state-dir").arg(scratch.folder("state"));
    let ran = stockade_tests::finish(
        &mut command,
        turn::of_calls(&calls).as_bytes(),
        Duration::from_secs(120),
    );
    let answers: Vec<_> = turn::answers(&ran.out()).iter().map(|answer| answer.is_error).collect();
    assert_eq!(answers, [Some(true), Some(true), Some(false)], "{}{}", ran.out(), ran.err());
    assert!(!work.join(".secret").exists() && work.join("fine").exists());
}
