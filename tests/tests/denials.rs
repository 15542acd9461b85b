//! What was refused is named, with how sure that is (spec 5.9).

#![forbid(unsafe_code)]

use serde_json::Value;
use std::fs;
use stockade_tests::{Confined, RunReport, Scratch};

fn report(line: &str, prepare: impl FnOnce(&std::path::Path)) -> RunReport {
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    prepare(&work);
    Confined::new("workspace-write", &work).report(&["bash", "-c", line])
}

fn find<'a>(ran: &'a RunReport, kind: &str, target: &str) -> &'a Value {
    let fits = |denial: &&Value| {
        denial["kind"] == kind && denial["target"].as_str().is_some_and(|t| t.ends_with(target))
    };
    ran.denials.iter().find(fits).unwrap_or_else(|| panic!("{kind} {target} in {ran:#?}"))
}

#[test]
fn a_write_outside_the_workspace_is_named_with_its_grant() {
    let ran = report("touch /usr/planted", |_| {});
    let denial = find(&ran, "write", "/usr/planted");
    assert_eq!(
        (&denial["evidence"], &denial["grant"]),
        (&"inferred".into(), &"--write /usr/planted".into())
    );
}

#[test]
fn a_protected_path_that_was_written_to_is_named_without_a_grant() {
    let ran = report("echo evil >> .git/hooks/pre-commit", |work| {
        fs::create_dir_all(work.join(".git/hooks")).expect("a folder");
    });
    let denial = find(&ran, "write", ".git/hooks/pre-commit");
    assert_eq!(denial["evidence"], "inferred");
    assert_eq!(denial.get("grant"), None);
}

#[test]
fn a_path_that_the_policy_does_not_show_is_named_whether_or_not_it_exists() {
    // Told apart, a command could find out what exists on the host.
    let there = ["/srv", "/media", "/mnt", "/boot", "/var/log"]
        .into_iter()
        .find(|path| fs::symlink_metadata(path).is_ok())
        .expect("a folder of the host that no policy shows");
    let told = |path: &str| {
        let ran = report(&format!("cat {path}"), |_| {});
        let mut denial = find(&ran, "read", path).clone();
        denial["target"] = Value::Null;
        denial["grant"] = Value::Null;
        denial
    };
    assert_eq!(told(there), told("/no-such-folder-on-any-host"));
}

#[test]
fn a_host_on_the_network_is_named() {
    let ran = report(
        "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 5)'",
        |_| {},
    );
    assert_eq!(find(&ran, "network", "the network")["evidence"], "inferred");
}

#[test]
fn errors_that_the_sandbox_has_no_part_in_are_no_denials() {
    let ran =
        report("cat missing; ls nowhere/at/all; touch locked; chmod 0 locked; ./locked", |_| {});
    assert!(ran.denials.is_empty(), "{:?}", ran.denials);
}

#[test]
fn what_the_kernel_reports_is_not_told_twice() {
    let ran = report("unshare --user true", |_| {});
    assert_eq!(find(&ran, "syscall", "unshare(CLONE_NEWUSER)")["evidence"], "kernel");
    assert_eq!(ran.denials.len(), 1, "{:?}", ran.denials);
}
