//! What a call may do: policy files, what they mean, and the environment they allow. Pure functions: nothing in here
//! asks the kernel or looks at the file system, except for loading a policy file.
//!
//! A policy's way: `load` reads the files and follows `extends`, `merge` lays them over each other and checks each entry,
//! `check` refuses contradictions and makes a [`Policy`], `overlay` adds what the command line says, `expand` and
//! [`environment::build`] replace the variables, and `lattice` says which of two policies allows more.
#![forbid(unsafe_code)]

mod check;
mod digest;
mod effective;
pub mod environment;
mod error;
mod expand;
mod explain;
mod file;
mod lattice;
mod limits;
mod load;
mod merge;
mod model;
mod network;
mod overlay;
mod paths;
mod place;
mod protect;
mod require;
mod schema;
mod shipped;
pub mod syscalls;
#[cfg(test)]
mod testing;
mod verdict;
mod wildcard;

pub use effective::{Effective, Line};
pub use error::{EntryError, OverlayError, PolicyError};
pub use expand::ExpandedFilesystem;
pub use lattice::{Access, Excess, Grant, GrantKind, WidenError};
pub use limits::{LimitError, LimitSetting};
pub use model::{
    EnvironmentPolicy, EscalationPolicy, FilesystemPolicy, LimitsPolicy, LiteralPaths, NetworkMode,
    NetworkPolicy, Policy, SyscallPolicy, Variables,
};
pub use overlay::Overlay;
pub use paths::PathPattern;
pub use place::Place;
pub use protect::ProtectPattern;
pub use schema::policy_schema;
pub use shipped::{shipped_names, shipped_summary};
pub use verdict::{Decider, Verdict};
