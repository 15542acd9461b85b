//! Everyday jobs under `workspace-write`: each is run without a sandbox and within, in the same folder as it was before, and must come to
//! the same output, exit code and files. What a job needs and this host does not have makes its test fail.
//!
//! `cargo test -p stockade-tests --test usability -- --nocapture` prints a line for each.

#![forbid(unsafe_code)]

mod bytes;
mod jobs;
mod same;

#[test]
fn there_are_at_least_50_jobs_each_with_a_name_of_its_own() {
    let all: Vec<&str> = jobs::FAMILIES.iter().copied().flatten().map(|job| job.0).collect();
    let names: std::collections::BTreeSet<&&str> = all.iter().collect();
    assert_eq!(names.len(), all.len());
    assert!(all.len() >= 50, "{}", all.len());
}

#[test]
fn git_does_its_work() {
    same::family(jobs::GIT);
}

#[test]
fn compilers_and_build_tools_do_their_work() {
    same::family(jobs::BUILD);
}

#[test]
fn interpreters_and_their_package_managers_do_their_work() {
    same::family(jobs::INTERPRETERS);
}

#[test]
fn shells_and_processes_do_their_work() {
    same::family(jobs::SHELL);
}

#[test]
fn files_archives_and_databases_do_their_work() {
    same::family(jobs::FILES);
}

#[test]
fn sockets_and_shared_memory_do_their_work() {
    same::family(jobs::SHARED);
}
