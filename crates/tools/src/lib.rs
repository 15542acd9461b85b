//! What a tool is, the registry of tools, and the built-in ones: Bash, Read, Write, Edit, Glob, Grep.
//!
//! A tool declares a JSON Schema and a body; the runtime validates, freezes, asks and schedules. The built-in
//! tools do all their work inside the cell, so that Bash and the file tools see one world.
#![forbid(unsafe_code)]

mod blocking;
pub mod bounds;
mod budget;
pub mod builtin;
mod context;
mod definition;
mod denial;
mod display;
mod error;
mod input;
mod metadata;
mod output;
mod output_store;
mod path;
mod permissions;
mod queueing;
mod read_state;
pub mod registry;
mod result_budget;
mod schema;
mod sync;
mod typed;

pub use blocking::blocking;
pub use context::{
    BashTimeouts, CallContext, ContextChange, DenialsFn, GrantedFn, ProgressFn, SessionContext,
};
pub use definition::{
    ApprovalNeed, ApprovalPreparation, InterruptBehavior, Timeout, TimeoutRules, Tool,
};
pub use denial::describe_denial;
pub use display::{Display, Hunk};
pub use error::ToolError;
pub use input::FrozenInput;
pub use metadata::{Metadata, SideEffects};
pub use output::{RunReport, ToolOutput};
pub use output_store::{Kept, KeptOutput, OutputFile, OutputStore};
pub use path::PathInput;
pub use permissions::SandboxPermissions;
pub use queueing::QueueClock;
pub use read_state::ReadState;
pub use registry::{Filter, Lookup, Presentation, RegisteredTool, RegistrationError, Registry};
pub use result_budget::{Preview, ResultBudget, Strategy};
pub use schema::schema_of;
pub use typed::{Structured, TypedTool};
