//! What git's settings of the host name is allowed where they lie, if they are so old that they are nobody's plant (spec 5.4). By itself,
//! since they take their time to become that old.

#![forbid(unsafe_code)]

use std::fs;
use std::process::Command;
use std::time::Duration;
use stockade_tests::{Confined, Scratch};

const OLD: Duration = Duration::from_secs(122);

#[test]
fn a_copy_of_a_repository_in_its_place_is_not_the_hosts() {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let outside = |line: &str| {
        let git = "git() { command git -c user.name=a -c user.email=a@b \"$@\"; }";
        let mut bash = Command::new("bash");
        let output = bash.args(["-c", &format!("{git}; {line}")]).current_dir(&work).output();
        let output = output.expect("bash");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    outside(
        "for r in app own; do git init -q $r; mkdir -p $r/hooks; printf '#!/bin/sh\n' > $r/hooks/pre-commit; chmod +x $r/hooks/pre-commit; \
         git -C $r config core.hooksPath hooks; done",
    );
    std::thread::sleep(OLD);
    let attack = "mv app x; cp -r x app; printf '#!/bin/sh\ntouch ../ran\n' > app/hooks/pre-commit; git -C own status";
    let commit = "git -C app commit -q --allow-empty -m x; git -C own commit --allow-empty -m y";
    let ran = Confined::new("workspace-write", &work).report(&["bash", "-c", attack]);
    let said = outside(commit);
    assert!(!work.join("ran").exists(), "{said} {:?}", ran.denials);
    assert!(!ran.denials.is_empty(), "it is said");
    // What is old where it was stays as it is.
    assert!(
        fs::read_to_string(work.join("own/.git/config")).expect("settings").contains("hooksPath")
    );
    outside(&format!("rm -rf app; {attack}; {commit}"));
    assert!(work.join("ran").exists(), "the attack is real");
}
