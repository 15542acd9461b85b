//! The confined side. One thread, no tokio, nothing of the host kept.
//!
//! * the **launcher** ([`server`]) opens the session: its user namespace, its private folders;
//! * a **cell** ([`cell`]) holds the namespaces and mounts of one policy, and never runs foreign code itself;
//! * an **init** ([`init`]) is pid 1 of one call;
//! * the **command stage** ([`command`]) confines itself and becomes the command;
//! * the **file worker** ([`worker`]) does the file tools' work inside the cell.
//!
//! Each of them ends when the one above it does: by the end of a socket or pipe, or because the kernel ends a pid
//! namespace with its first process. Nothing relies on a signal being delivered.
#![forbid(unsafe_code)]

mod absent;
mod calls;
mod cell;
pub mod cgroup;
mod command;
mod filter;
mod git_config;
mod hunt;
mod init;
mod landlock_rules;
mod listing;
mod memory;
mod probe;
mod protect;
mod refused;
mod server;
mod session_root;
mod spawn;
mod tree;
mod view;
mod worker;

pub use server::{OnlyCell, fork, fork_only_cell, serve};

/// `argv[0]` of a process that is to be a launcher.
pub const ARGV0: &str = "stockade-launcher";

/// Its only argument, if it has one: enter no user namespace, to try out a machine that has none.
pub const WITHOUT_USER_NAMESPACE: &str = "without-user-namespace";

/// Turns this process into the launcher if it was started as one, and then never returns. The first line of `main` of
/// every program that embeds Stockade and lets it re-execute itself. No thread may exist yet.
pub fn main_if_launcher() {
    let mut arguments = std::env::args_os();
    if arguments.next().is_some_and(|name| name == ARGV0) {
        let user_namespace = arguments.next().is_none_or(|word| word != WITHOUT_USER_NAMESPACE);
        let status = match stockade_sys::fd::inherited(0) {
            Ok(control) => serve(control, user_namespace),
            Err(_) => 125,
        };
        std::process::exit(status);
    }
}
