//! What a tool is, the registry of tools, and the built-in ones: Bash, Read, Write, Edit, Glob, Grep.
//!
//! A tool declares a JSON Schema and a body; the runtime validates, freezes, asks and schedules. The built-in
//! tools do all their work inside the cell, so that Bash and the file tools see one world.
#![forbid(unsafe_code)]

mod budget;
pub mod builtin;
mod context;
mod definition;
mod denial;
mod error;
mod input;
mod output;
mod path;
mod permissions;
mod read_state;
mod registry;
mod schema;

pub use context::{BashTimeouts, CallContext, ProgressFn, SessionContext};
pub use definition::{ApprovalNeed, Timeout, Tool};
pub use denial::describe_denial;
pub use error::ToolError;
pub use input::FrozenInput;
pub use output::{RunReport, ToolOutput};
pub use path::PathInput;
pub use permissions::SandboxPermissions;
pub use read_state::ReadState;
pub use registry::{RegisteredTool, RegistrationError, Registry};
