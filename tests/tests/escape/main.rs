//! Ways out of a sandbox, by table: each is first run without one, against a fake host that the test makes, to prove that it works
//! here, then under `stockade run`, and judged from outside, as root and as an ordinary user.
//!
//! `cargo test -p stockade-tests --test escape -- --nocapture` prints a line for each.

#![forbid(unsafe_code)]

mod credentials;
mod filesystem;
mod judge;
mod kernel;
mod listeners;
mod namespaces;
mod network;
mod processes;
mod protected;
mod scene;
mod shared;
mod technique;

use std::collections::BTreeSet;
use technique::Technique;

const FAMILIES: &[&[Technique]] = &[
    filesystem::TABLE,
    protected::TABLE,
    namespaces::TABLE,
    processes::TABLE,
    shared::TABLE,
    network::TABLE,
    kernel::TABLE,
    credentials::TABLE,
];

#[test]
fn there_are_at_least_120_techniques_each_with_an_id_of_its_own_and_a_source() {
    let all: Vec<&Technique> = FAMILIES.iter().copied().flatten().collect();
    let ids: BTreeSet<&str> = all.iter().map(|technique| technique.id).collect();
    assert_eq!(ids.len(), all.len(), "an id is used twice");
    assert!(all.len() >= 120, "{}", all.len());
    assert!(all.iter().all(|t| !t.source.is_empty() && !t.what.is_empty()));
}

// spec 5.4
#[test]
fn no_way_through_the_file_system_leads_out() {
    judge::family(filesystem::TABLE);
}

// spec 5.2
#[test]
fn no_mount_and_no_namespace_of_ones_own_leads_out() {
    judge::family(namespaces::TABLE);
}

// spec 6.1
#[test]
fn no_other_process_can_be_reached_and_none_outlives_its_call() {
    judge::family(processes::TABLE);
}

// spec 5.5, 5.7
#[test]
fn no_socket_queue_memory_key_or_terminal_of_the_host_can_be_reached() {
    judge::family(shared::TABLE);
}

// spec 5.5
#[test]
fn no_network_leads_out() {
    judge::family(network::TABLE);
}

// spec 5.2
#[test]
fn no_call_leads_into_the_kernel() {
    judge::family(kernel::TABLE);
}

// spec 5.6, 6.6
#[test]
fn no_secret_no_limit_and_no_part_of_stockade_itself_gives_way() {
    judge::family(credentials::TABLE);
}

// spec 5.4
#[test]
fn no_trap_for_a_person_outside_can_be_set() {
    judge::family(protected::TABLE);
}
