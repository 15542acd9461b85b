//! Repositories below the workspace (spec 5.4): honest work in them goes on, and what is looked at has an end that is said. What an
//! attacker comes to in them is in `escape/protected.rs`.

#![forbid(unsafe_code)]

use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;
use stockade_tests::{Confined, Conversation, RunReport, Scratch, turn};

const WHO: &str = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; \
    git() { command git -c protocol.file.allow=always \"$@\"; }; set -e; ";

fn run(work: &Path, line: &str) -> RunReport {
    Confined::new("workspace-write", work).report(&["bash", "-c", &format!("{WHO}{line}")])
}

fn outside(work: &Path, line: &str) -> String {
    let output = Command::new("bash").args(["-c", line]).current_dir(work).output().expect("bash");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn is_undisturbed(ran: &RunReport) {
    assert_eq!(ran.exit_code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.denials.is_empty(), "{:?}", ran.denials);
}

// spec 5.4
#[test]
fn clones_worktrees_bare_repositories_and_submodules_can_be_made_and_stay() {
    let scratch = Scratch::new();
    let work = scratch.repository("work");
    is_undisturbed(&run(
        &work,
        "git clone -q . copy; git clone -q --bare . bare.git; git init -q new; git worktree add -q linked; \
         cd new; git commit -q --allow-empty -m x; git submodule --quiet add ../copy module; git commit -qm module; git checkout -qb other; \
         git -C ../copy push -q ../bare.git HEAD:refs/heads/x",
    ));
    for repository in ["copy", "bare.git", "new", "linked", "new/module"] {
        let said = outside(&work, &format!("git -C {repository} log --oneline -1"));
        assert!(said.len() > 8 && !said.contains("fatal"), "{repository}: {said}");
    }
}

// spec 5.4
#[test]
fn a_session_works_on_in_what_it_made_and_can_remove_it() {
    let scratch = Scratch::new();
    let work = scratch.repository("work");
    let lines = [
        "git clone -q . copy && git worktree add -q linked",
        "cd copy && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git checkout -qb y && git gc -q",
        "mv copy elsewhere && git -C elsewhere status",
        "rm -rf elsewhere && git worktree remove linked && ls",
    ];
    let calls: Vec<_> = lines.iter().map(|line| ("Bash", json!({"command": line}))).collect();
    let ran = turn::exec(&work, &scratch.folder("state"), &turn::of_calls(&calls));
    for answer in turn::answers(&ran.out()) {
        assert_eq!(answer.is_error, Some(false), "{answer:?}");
    }
    assert!(!work.join("elsewhere").exists() && !work.join("linked").exists());
}

// spec 5.4
#[test]
fn work_in_repositories_of_the_host_goes_on_while_what_git_obeys_in_them_is_read_only() {
    let scratch = Scratch::new();
    let work = scratch.repository("work");
    outside(
        &work,
        "git clone -q . nested; git worktree add -q linked; git -C nested config alias.st status; \
         printf '#!/bin/sh\\nexit 0\\n' > nested/.git/hooks/pre-commit; chmod +x nested/.git/hooks/pre-commit",
    );
    let config = fs::read(work.join("nested/.git/config")).expect("settings");
    is_undisturbed(&run(
        &work,
        "for r in nested linked; do cd $r; echo x > new; git add new; git commit -qm new; git checkout -qb b-$r; git stash list; cd ..; done; \
         git -C nested st; git -C nested gc -q; mv nested moved; mv moved nested",
    ));
    // A person's own hook and alias are nobody's plant.
    assert_eq!(fs::read(work.join("nested/.git/config")).expect("settings"), config);
    assert!(work.join("nested/.git/hooks/pre-commit").exists());
    let ran = run(&work, "git -C nested config alias.st '!evil'");
    assert_ne!(ran.exit_code, Some(0));
    assert_eq!(fs::read(work.join("nested/.git/config")).expect("settings"), config);
}

// spec 5.4
#[test]
fn links_of_the_host_in_the_place_of_what_git_obeys_stay_and_lead_where_they_led() {
    let scratch = Scratch::new();
    let work = scratch.repository("work");
    outside(
        &work,
        "git init -q nested; mkdir shared; printf '#!/bin/sh\\nexit 0\\n' > shared/pre-commit; \
         rm -rf nested/.git/hooks; ln -s ../../shared nested/.git/hooks; git init -q real; mkdir led; ln -s ../real/.git led/.git",
    );
    is_undisturbed(&run(&work, "git -C led status; git -C nested status"));
    assert!(work.join("nested/.git/hooks/pre-commit").exists());
    // Removed and made again, a link often has the number that the old one had.
    let ran = run(
        &work,
        "set +e; echo evil > shared/pre-commit; mkdir evil; echo evil > evil/post-commit; \
         rm nested/.git/hooks led/.git; ln -s ../../evil nested/.git/hooks; ln -s ../real/.git led/.git",
    );
    assert!(
        !outside(&work, "cat shared/pre-commit nested/.git/hooks/post-commit").contains("evil")
    );
    assert!(fs::symlink_metadata(work.join("led/.git")).is_err(), "{:?}", ran.denials);
}

// spec 5.4, 5.9: what is not looked at is said
#[test]
fn more_folders_than_are_looked_at_are_said() {
    // In memory: fifty thousand folders take their time on a disk.
    let scratch = Scratch::within(Path::new("/dev/shm"));
    let work = scratch.folder("work");
    for outer in 0..51 {
        for inner in 0..1000 {
            fs::create_dir_all(work.join(format!("{outer}/{inner}"))).expect("a folder");
        }
    }
    let ran = run(&work, "true");
    assert_eq!(ran.exit_code, Some(0), "{}", ran.stderr);
    let note = ran.denials.iter().filter_map(|denial| denial["note"].as_str());
    assert!(note.into_iter().any(|note| note.contains("too many folders")), "{:?}", ran.denials);
}

/// The mark that whatever a person does after the call leaves, if it runs what the attack has planted. Each attack is first tried
/// without a sandbox, so that it is one.
fn is_held(before: &str, attack: &str, looks: &str) -> RunReport {
    let evil = "evil() { mkdir -p \"$(dirname \"$1\")\"; printf '#!/bin/sh\\ntouch \"%s/ran\"\\n' \"$TOP\" > \"$1\"; chmod +x \"$1\"; }; TOP=$PWD; ";
    let prepared = || {
        let scratch = Scratch::new();
        let work = scratch.repository("work");
        outside(
            &work,
            &format!(
                "{WHO}good() {{ mkdir -p \"$(dirname \"$1\")\"; printf '#!/bin/sh\\n' > \"$1\"; chmod +x \"$1\"; }}; {before}"
            ),
        );
        (scratch, work)
    };
    let attack = format!("{evil}{attack}");
    let looks = format!("{WHO}set +e; {looks}");
    let (_scratch, work) = prepared();
    outside(&work, &format!("{WHO}{attack}"));
    outside(&work, &looks);
    assert!(work.join("ran").exists(), "unconfined: {attack}");
    let (_scratch, work) = prepared();
    let ran = run(&work, &attack);
    outside(&work, &looks);
    assert!(!work.join("ran").exists(), "{attack}: {} {:?}", ran.stderr, ran.denials);
    ran
}

fn is_put_aside(before: &str, attack: &str, looks: &str) {
    let ran = is_held(before, attack, looks);
    assert!(!ran.denials.is_empty(), "{attack}");
}

// spec 5.4: a common folder needs no HEAD, so that nothing but the pointer tells of it
#[test]
fn a_pointer_leads_where_git_would_go_and_nowhere_else() {
    // Beside the folder that git takes, the one that a careless reader takes, with nothing bad in it.
    let make = "git init -q sub; cd sub; echo x > x; git add x; evil fsm; for c in \"$C\" \"$TWIN\"; do mkdir -p \"$c\"; \
        cp -r .git/objects .git/refs \"$c\"; done; \
        printf '[core]\\n repositoryformatversion = 0\\n fsmonitor = ./fsm\\n' > \"$C/config\"; rm .git/config; ";
    for (pointer, twin) in [(" c", "c"), ("safe ", "safe"), ("c\\t\\n", "c"), (" c\\r\\n", "c")] {
        let name = pointer.trim_end_matches("\\n").trim_end_matches("\\r");
        let attack = format!(
            "C=$(printf '.git/{name}'); TWIN='.git/{twin}'; {make} printf '{pointer}' > .git/commondir"
        );
        is_put_aside("true", &attack, "git -C sub status");
    }
    // The kernel goes up from where the link leads.
    let behind = format!(
        "C=far/common; TWIN=common; {make} mkdir -p far/dir; ln -s far/dir lnk; printf '../lnk/../common\\n' > .git/commondir"
    );
    is_put_aside("true", &behind, "git -C sub status");
    // In the root's own repository.
    is_put_aside(
        "true",
        "git worktree add -q wt; cd .git/worktrees/wt; mkdir 'c '; cp -r ../../objects ../../refs 'c '; cp -r 'c ' c; evil fsm; \
         printf \"[core]\\n repositoryformatversion = 0\\n fsmonitor = $PWD/fsm\\n\" > 'c /config'; printf 'c \\n' > commondir",
        "git -C wt status",
    );
    // A hook in the place of settings.
    is_put_aside(
        "true",
        &format!(
            "C='.git/ c'; TWIN=.git/c; {make} mkdir \"$C/hooks\"; evil \"$C/hooks/post-checkout\"; rm \"$C/config\"; printf ' c' > .git/commondir"
        ),
        "cd sub; git -c user.name=a -c user.email=a@b commit -q -m x; git checkout -qb y",
    );
}

// spec 5.4: a host's checkout would write through the link
#[test]
fn a_submodules_worktree_behind_a_link_is_no_harmless_setting() {
    let before = "git init -q ../source; git -C ../source commit -q --allow-empty -m x; echo x > ../source/ran; \
        git -C ../source add ran; git -C ../source commit -qm y; git submodule --quiet add ../source sub; git commit -qm sub; rm -f ran";
    is_put_aside(
        before,
        "mkdir -p d; git init -q d/.git/modules/m 2>/dev/null; cp -r .git/modules/sub d/.git/modules/n; \
         ln -s .. d/lnk; printf '[core]\\n repositoryformatversion = 0\\n worktree = ../../../lnk\\n' > d/.git/modules/n/config",
        "cd d; git --git-dir .git/modules/n checkout -f -q",
    );
}

const COMMIT: &str = "git commit -q --allow-empty -m x";

// spec 5.4: issue 3 asks for what `core.hooksPath`, `core.fsmonitor` and filters could run
#[test]
fn what_settings_of_the_host_name_in_the_workspace_is_protected_whether_it_exists_or_not() {
    let attributes = "echo '*.x filter=f' > .gitattributes; git add .; git commit -qm x; ";
    let filtered = "echo x > a.x; git add a.x";
    for (before, attack, looks) in [
        ("git config core.hooksPath hk; good hk/pre-push", "evil hk/pre-commit", COMMIT),
        ("git config core.hooksPath hk", "evil hk/pre-commit", COMMIT),
        ("git config core.hooksPath \"$PWD\"", "evil pre-commit", COMMIT),
        (
            "git config core.hooksPath .husky/_; good .husky/_/pre-commit; echo 'sh .husky/pre-commit' >> .husky/_/pre-commit; good .husky/pre-commit",
            "evil .husky/pre-commit",
            COMMIT,
        ),
        ("git config core.fsmonitor ./fsm.sh; good fsm.sh", "evil fsm.sh", "git status"),
        (
            "git config core.fsmonitor ./t/fsm.sh; good t/fsm.sh",
            "mv t t2; evil t/fsm.sh",
            "git status",
        ),
        ("git config core.fsmonitor \"$PWD/fsm.sh\"", "evil fsm.sh", "git status"),
        (
            "git config include.path ../shared.cfg; echo > shared.cfg",
            "evil e; printf '[core]\\n fsmonitor = ./e\\n' > shared.cfg",
            "git status",
        ),
        (
            "git config include.path ../a/shared.cfg; mkdir a; printf '[include]\\n path = more.cfg\\n' > a/shared.cfg",
            "evil e; printf '[core]\\n fsmonitor = ./e\\n' > a/more.cfg",
            "git status",
        ),
        (
            &format!("{attributes} good tools/f; git config filter.f.clean './tools/f %f'"),
            "evil tools/f",
            filtered,
        ),
        (
            &format!("{attributes} good tools/f.sh; git config filter.f.clean 'sh tools/f.sh'"),
            "evil tools/f.sh",
            filtered,
        ),
        (
            "git init -q n; git -C n config core.hooksPath hk",
            "evil n/hk/pre-commit",
            "cd n; git commit -q --allow-empty -m x",
        ),
        (
            "git init -q n; git -C n config core.hooksPath hk; good n/hk/pre-push",
            "evil n/hk/pre-commit",
            "cd n; git commit -q --allow-empty -m x",
        ),
        (
            "git config core.hooksPath hk; git worktree add -q wt",
            "evil wt/hk/pre-commit",
            "cd wt; git commit -q --allow-empty -m x",
        ),
    ] {
        is_held(before, &format!("set +e; {attack}"), looks);
    }
}

// spec 5.4: git hands these to a shell, which has many ways to write a name
#[test]
fn programs_that_settings_name_in_a_shells_ways_are_protected() {
    for command in [
        r#"\"$(git rev-parse --show-toplevel)/tools/f\""#,
        r#"\"$PWD/tools/f\""#,
        "cd tools && ./f",
        "cat>/dev/null;tools/f",
        "../work/tools/f",
        r"to\\ols/f",
        "PATH=tools:$PATH f",
        "sh tools/p",
        ". ./tools/p",
        "sh <tools/p",
    ] {
        let before = format!(
            "echo '*.x filter=f' > .gitattributes; git add .; git commit -qm x; good tools/f; good tools/p; chmod 644 tools/p; \
             printf '%s\n' '[filter \"f\"]' 'clean = \"{command}\"' >> .git/config"
        );
        let looks = "echo x > a.x; git add a.x";
        is_held(&before, "set +e; evil tools/f; evil tools/p; chmod 644 tools/p", looks);
    }
}

// spec 5.4: no folder on the way to a nested repository is held
#[test]
fn what_settings_of_a_nested_repository_name_is_looked_at_where_its_folder_was_moved_away() {
    let fsmonitor = "git init -q n; good n/t/u/a; git -C n config core.fsmonitor t/u/a";
    let hooks = "git init -q n; good n/t/u/pre-push; git -C n config core.hooksPath t/u";
    let commit = "cd n; git commit -q --allow-empty -m x";
    for (before, attack, looks) in [
        (fsmonitor, "cd n; mv t t2; evil t/u/a", "git -C n status"),
        (fsmonitor, "cd n; mv t/u t/v; evil t/u/a", "git -C n status"),
        (fsmonitor, "cd n; mv t t2; evil e/u/a; ln -s e t", "git -C n status"),
        (fsmonitor, "mv n m; cd m; mv t t2; evil t/u/a", "git -C m status"),
        (hooks, "cd n; mv t t2; evil t/u/pre-commit", commit),
        (hooks, "cd n; mv t t2; evil e/pre-commit; mkdir t; ln -s ../e t/u", commit),
        (
            "git init -q n; good n/t/u/f; cd n; echo '*.x filter=f' > .gitattributes; git config filter.f.clean t/u/f",
            "cd n; mv t t2; evil t/u/f",
            "cd n; echo x > a.x; git add a.x",
        ),
        (
            "git init -q n; good n/t/u/f.sh; cd n; echo '*.x filter=f' > .gitattributes; git config filter.f.clean 'sh t/u/f.sh'",
            "cd n; mv t t2; evil t/u/f.sh",
            "cd n; echo x > a.x; git add a.x",
        ),
        (
            "git init -q n; good n/r/u/a; ln -s r n/t; git -C n config core.fsmonitor t/u/a",
            "cd n; evil r/u/a",
            "git -C n status",
        ),
        (
            "git init -q ../s; git -C ../s commit -q --allow-empty -m x; git submodule --quiet add ../s m; good m/t/u/a; \
             git -C m config core.fsmonitor t/u/a",
            "cd m; mv t t2; evil t/u/a",
            "git -C m status",
        ),
        (
            "git init -q n; good n/.vscode/tasks.json",
            "mv n m; cd m; mv .vscode x; evil .vscode/tasks.json",
            "sh m/.vscode/tasks.json",
        ),
        (
            "git worktree add -q w; good w/t/u/a; good t/u/a; git config core.fsmonitor t/u/a",
            "cd w; mv t t2; evil t/u/a",
            "git -C w status",
        ),
    ] {
        is_held(before, &format!("set +e; {attack}"), looks);
    }
}

// spec 5.4
#[test]
fn what_settings_of_the_host_name_does_not_hinder_work_beside_it() {
    let scratch = Scratch::new();
    let work = scratch.repository("work");
    outside(
        &work,
        "git config core.hooksPath hk; git config alias.r 'log README.md'; git config blame.ignoreRevsFile revs; \
         git config core.fsmonitor false; echo > revs; echo > README.md",
    );
    is_undisturbed(&run(
        &work,
        "echo x > README.md; echo y > revs; git add README.md revs; git commit -qm x; git checkout -qb y; mkdir -p src/a; mv src src2",
    ));
}

// spec 5.4
#[test]
fn what_links_in_protected_folders_lead_to_and_other_names_of_protected_files_are_protected() {
    for (before, attack, looks) in [
        ("good tools/a; ln -s ../../tools/a .git/hooks/pre-commit", "evil tools/a", COMMIT),
        (
            "good tools/a; ln -s ../../tools/a .git/hooks/pre-commit",
            "rm -f tools/a; evil tools/a",
            COMMIT,
        ),
        ("ln -s ../../tools/a .git/hooks/pre-commit", "evil tools/a", COMMIT),
        ("good b; ln b .git/hooks/post-commit", "evil b", COMMIT),
        ("good deep/er/b; ln deep/er/b .git/hooks/post-commit", "evil deep/er/b", COMMIT),
        ("good .envrc; ln .envrc copy", "evil copy", "sh .envrc"),
        (
            "good conf/s; mkdir .vscode; ln -s ../conf/s .vscode/tasks.json",
            "evil conf/s",
            "sh .vscode/tasks.json",
        ),
        (
            "good conf/d/s; mkdir -p .vscode/x; ln -s ../../conf .vscode/x/link",
            "evil conf/d/s",
            "sh .vscode/x/link/d/s",
        ),
        (
            "git init -q n; good n/a; ln -s ../../a n/.git/hooks/pre-commit",
            "evil n/a",
            "cd n; git commit -q --allow-empty -m x",
        ),
        (
            "git init -q n; git -C n config core.hooksPath hk; good n/run.sh; mkdir n/hk; ln -s ../run.sh n/hk/pre-commit",
            "evil n/run.sh",
            "cd n; git commit -q --allow-empty -m x",
        ),
        (
            "git init -q n; git -C n config core.hooksPath hk; good x/run; mkdir n/hk; ln -s ../../x n/hk/x; printf '#!/bin/sh\nhk/x/run' > n/hk/pre-commit; chmod +x n/hk/pre-commit",
            "evil x/run",
            "cd n; git commit -q --allow-empty -m x",
        ),
        (
            "git init -q n; good n/.git/hooks/pre-commit; ln n/.git/hooks/pre-commit hook.sh",
            "evil hook.sh",
            "cd n; git commit -q --allow-empty -m x",
        ),
        (
            "git init -q n; good deep/er/h; git -C n config core.hooksPath hk; mkdir n/hk; ln deep/er/h n/hk/pre-commit",
            "evil deep/er/h",
            "cd n; git commit -q --allow-empty -m x",
        ),
        (
            "git init -q n; good n/f; git -C n config core.fsmonitor ./f; ln n/f n/copy",
            "evil n/copy",
            "git -C n status",
        ),
        (
            "git init -q n; ln n/.git/config copy",
            "evil n/e; printf '[core]\n fsmonitor = ./e\n' >> copy",
            "git -C n status",
        ),
    ] {
        is_held(before, &format!("set +e; {attack}"), looks);
    }
}

// spec 5.4
#[test]
fn links_in_a_hook_folder_to_where_work_goes_on_do_not_hinder_it() {
    let scratch = Scratch::new();
    let work = scratch.repository("work");
    outside(
        &work,
        "git init -q n; git -C n config core.hooksPath hk; mkdir n/hk; ln -s .. n/hk/up; ln -s ../../ n/hk/top; ln -s hk n/hk/self; \
         ln -s ../hk n/hk/round; git init -q m; ln -s ../../m n/hk/m",
    );
    is_undisturbed(&run(
        &work,
        "echo x > n/x; git -C n add x; git -C n commit -qm x; echo x > m/x; git -C m add x; git -C m commit -qm x; echo x > x; mv n k",
    ));
}

// spec 5.4
#[test]
fn settings_that_run_nothing_stay_whoever_writes_them() {
    let scratch = Scratch::new();
    let work = scratch.repository("work");
    is_undisturbed(&run(
        &work,
        "git clone -q --mirror . m.git; git init -q --shared s; cd s; git config user.name 'A B'; git config commit.gpgsign false; \
         git config pull.rebase true; git config diff.renames copies; git config push.default simple; git config core.fsmonitor false; \
         git config remote.o.promisor true; git config remote.o.partialclonefilter blob:none; git config gc.auto 0; git config color.ui auto",
    ));
    for config in ["m.git/config", "s/.git/config"] {
        assert!(work.join(config).exists(), "{config}");
    }
}

// spec 5.4: a file tool writes what only these settings make a hook, at any time
#[test]
fn what_a_file_tool_writes_where_settings_of_the_host_lead_is_put_aside_with_or_without_a_later_command()
 {
    for later in [true, false] {
        let scratch = Scratch::new();
        let work = scratch.repository("work");
        outside(
            &work,
            "git config core.hooksPath hk; mkdir -p docs/objects docs/refs; echo ref: refs/heads/x > docs/HEAD",
        );
        let write = |path: &str, text: &str| {
            ("Write", json!({"file_path": work.join(path), "content": text}))
        };
        let mut calls = vec![write("hk/pre-commit", "evil"), write("fine/pre-commit", "fine")];
        if later {
            calls.push(("Bash", json!({"command": "true"})));
        }
        let ran = turn::exec(&work, &scratch.folder("state"), &turn::of_calls(&calls));
        assert!(work.join("fine/pre-commit").exists(), "{}", ran.out());
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while work.join("hk/pre-commit").exists() && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(!work.join("hk/pre-commit").exists(), "{later}: {}", ran.out());
    }
}

// spec 5.4
#[test]
fn a_repository_that_the_host_makes_between_two_calls_of_a_session_is_the_hosts() {
    let scratch = Scratch::new();
    let work = scratch.repository("work");
    let mut command = turn::exec_command(&work, &scratch.folder("state"));
    let mut session = Conversation::start(&mut command);
    let mut call = |id: &str, line: &str| session.bash(id, line);
    call("one", "git init -q theirs; git -C theirs config user.name x");
    outside(
        &work,
        "git init -q mine; git -C mine config alias.st status; echo x > mine/.git/hooks/pre-push",
    );
    call(
        "two",
        "git -C theirs config user.email y; echo evil > mine/.git/hooks/pre-commit; git -C mine config alias.x '!evil'; true",
    );
    let mut said = call("three", "rm -rf theirs");
    outside(&work, "git init -q later; echo x > later/.git/hooks/post-commit");
    said += &call("four", "true");
    said += &call("five", "true");
    assert!(!said.contains("planted"), "{said}");
    session.end();
    assert!(outside(&work, "git -C mine config alias.st").contains("status"));
    assert!(work.join("mine/.git/hooks/pre-push").exists());
    assert!(!work.join("mine/.git/hooks/pre-commit").exists());
    assert!(work.join("later/.git/hooks/post-commit").exists(), "{said}");
    assert!(!outside(&work, "cat mine/.git/config").contains("evil"));
    assert!(!work.join("theirs").exists());
}

// spec 5.4
#[test]
fn settings_of_other_version_control_systems_are_protected_at_any_depth() {
    let plant = "mkdir -p new/.hg deep/er/.jj/repo link elsewhere; echo evil > new/.hg/hgrc; echo evil > deep/er/.jj/repo/config.toml; \
        echo evil > elsewhere/hgrc; ln -s ../elsewhere link/.hg; echo evil > own/.hg/hgrc; echo fine > new/.hg/requires; \
        mkdir -p shared/.hg file/.jj led/.jj; printf %s \"$PWD/elsewhere\" > shared/.hg/sharedpath; echo ../../elsewhere > file/.jj/repo; \
        ln -s ../../elsewhere led/.jj/repo; echo evil > second/.jj/repo; echo evil > .hg/sharedpath";
    let scratch = Scratch::new();
    let work = scratch.repository("work");
    outside(
        &work,
        "mkdir -p .hg own/.hg second/.jj; echo '[ui]' > own/.hg/hgrc; echo /first > second/.jj/repo",
    );
    let ran = run(&work, &format!("set +e; {plant}"));
    for planted in [
        "new/.hg/hgrc",
        "deep/er/.jj/repo/config.toml",
        "link/.hg",
        ".hg/sharedpath",
        "shared/.hg/sharedpath",
        "file/.jj/repo",
        "led/.jj/repo",
    ] {
        assert!(fs::symlink_metadata(work.join(planted)).is_err(), "{planted}: {:?}", ran.denials);
    }
    assert_eq!(fs::read_to_string(work.join("own/.hg/hgrc")).expect("the host's"), "[ui]\n");
    assert_eq!(fs::read_to_string(work.join("second/.jj/repo")).expect("the host's"), "/first\n");
    assert!(work.join("new/.hg/requires").exists() && work.join("elsewhere/hgrc").exists());
}

// spec 5.4
#[test]
fn a_path_too_long_to_be_named_hides_no_plant_beside_it_and_is_said() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let deep =
        "python3 -c 'import os\nfor i in range(20): os.mkdir(\"d\" * 250); os.chdir(\"d\" * 250)'";
    for line in [deep, "true"] {
        let ran =
            run(&work, &format!("{line}\ngit init -q x; echo evil > x/.git/hooks/pre-commit"));
        assert!(!work.join("x/.git/hooks/pre-commit").exists(), "{line}: {:?}", ran.denials);
        let said = format!("{:?}", ran.denials);
        assert!(said.contains("too deep"), "{line}: {said}");
    }
}

// spec 5.4: a call cannot hide what it planted among folders that it made for that
#[test]
fn a_plant_behind_very_many_folders_is_found() {
    let scratch = Scratch::within(Path::new("/dev/shm"));
    let work = scratch.folder("work");
    let line = "git init -q sub; echo evil > sub/.git/hooks/pre-commit; python3 -c '\nimport os\nfor a in range(210):\n  os.mkdir(str(a))\n  for b in range(1000):\n    os.mkdir(f\"{a}/{b}\")\n'";
    let ran = run(&work, &line.replace("\\n", "\n"));
    assert_eq!(ran.exit_code, Some(0), "{}", ran.stderr);
    assert!(!work.join("sub/.git/hooks/pre-commit").exists(), "{:?}", ran.denials);
    let note = ran.denials.iter().filter_map(|denial| denial["note"].as_str());
    assert!(!note.into_iter().any(|note| note.contains("too many folders")), "{:?}", ran.denials);
}
