//! The Linux provider: a session is a launcher process, a cell is a process in its own namespaces, a call is a pid
//! namespace in the cell's.

mod audit;
mod bare;
mod cell;
mod cell_source;
mod channel;
mod child;
mod command_plan;
mod filter;
mod host;
mod id_map;
mod infer;
mod launcher;
mod provider;
mod resolve;
mod seal;
mod worker_client;

pub use bare::remove_stale_folders;
pub use filter::{FilterRule, SyscallAnswer, SyscallVerdict, explain_syscall, filter_rules};
pub use host::{HostCaps, Lack, Tier};
pub use launcher::LauncherSource;
pub use provider::{LinuxProvider, SessionOptions};
/// The path resolver, for its fuzzer alone.
#[cfg(fuzzing)]
pub use resolve::resolve as resolve_for_fuzzing;
