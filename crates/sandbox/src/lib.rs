//! [`SandboxProvider`] builds cells: prepared confinements in which calls of one policy run.
#![forbid(unsafe_code)]

mod error;
pub mod fake;
pub mod linux;
mod provider;

pub use error::SandboxError;
pub use provider::{
    Cell, Child, ChildEvent, ChildHandle, CommandSpec, Exit, SandboxProvider, Stdio, TreeSignal,
};
pub use stockade_plan::{Bytes, TerminalSize, file};
pub use stockade_sys::watched::WatchedFd;
