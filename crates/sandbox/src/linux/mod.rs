//! The Linux provider: a session is a launcher process, a cell is a process in its own namespaces, a call is a pid
//! namespace in the cell's.

mod audit;
mod bare;
mod cell;
mod cell_group;
mod cell_source;
mod channel;
mod child;
mod command_plan;
mod filter;
mod host;
mod id_map;
mod infer;
mod launcher;
mod planted;
mod provider;
mod resolve;
mod seal;
mod worker_client;

use stockade_policy::{Policy, Variables};
use stockade_types::Refusal;

pub use bare::remove_stale_folders;
pub use filter::{FilterRule, SyscallAnswer, SyscallVerdict, explain_syscall, filter_rules};
pub use host::{HostCaps, Lack, Tier};
pub use launcher::LauncherSource;
pub use provider::{LinuxProvider, SessionOptions};
/// Refuses a policy that cannot be enforced on any host: for whoever checks one without running anything. What depends on what this host
/// has, or on whether a path exists here, is not asked.
pub fn check_policy(policy: &Policy, variables: &Variables) -> Result<(), Refusal> {
    seal::check(policy, false, cell_group::available(&policy.limits))?;
    filter::compile(
        &policy.syscalls,
        filter::Refusals::Silent,
        filter::Surroundings::Namespaces,
        filter::Listings::Whole,
    )?;
    if policy.is_full_access() {
        return Ok(());
    }
    match resolve::resolve(policy, variables) {
        Err(resolve::ResolveError::Refused(refusal)) => Err(refusal),
        Err(resolve::ResolveError::Setup(_)) | Ok(_) => Ok(()),
    }
}

/// The path resolver, for its fuzzer alone.
#[cfg(fuzzing)]
pub use resolve::resolve as resolve_for_fuzzing;
