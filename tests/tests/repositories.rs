//! Repositories below the workspace (spec 5.4): honest work in them goes on, and what is looked at has an end that is said. What an
//! attacker comes to in them is in `escape/protected.rs`.

#![forbid(unsafe_code)]

use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;
use stockade_tests::{Confined, RunReport, Scratch, turn};

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

/// What `git status` of a person runs after the call: the mark that it leaves. Each is first tried without a sandbox, so that it is an attack.
fn is_put_aside(before: &str, attack: &str, looks: &str) {
    let prepared = || {
        let scratch = Scratch::new();
        let work = scratch.repository("work");
        outside(&work, &format!("{WHO}{before}"));
        (scratch, work)
    };
    let evil = "evil() { printf '#!/bin/sh\\ntouch \"%s/ran\"\\n' \"$TOP\" > \"$1\"; chmod +x \"$1\"; }; TOP=$PWD; ";
    let (_scratch, work) = prepared();
    outside(&work, &format!("{WHO}{evil}{attack}"));
    outside(&work, looks);
    assert!(work.join("ran").exists(), "unconfined: {attack}");
    let (_scratch, work) = prepared();
    let ran = run(&work, &format!("{evil}{attack}"));
    outside(&work, looks);
    assert!(!work.join("ran").exists(), "{attack}: {:?}", ran.denials);
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
