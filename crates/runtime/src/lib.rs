//! Runs a model's tool calls: one scheduler, one pipeline of four phases, one session log.
//!
//! [`ToolRuntime::builder`] is the way in. A turn is handed over whole ([`ToolRuntime::run_turn`]) or call by call
//! while the model still streams ([`ToolRuntime::open_turn`]); either way its results come in the model's order, one
//! for each call, whatever fails.
#![forbid(unsafe_code)]

mod approval;
mod around;
mod authority;
mod budget;
mod builder;
mod call;
mod cancel;
mod caught;
mod classify;
mod command_hook;
mod deadline;
mod denied;
mod escalation;
mod events;
mod failure;
mod guard;
mod held_threads;
mod hooks;
mod links;
mod observer;
mod permission;
mod pipeline;
mod record;
mod render;
mod replay;
mod scheduler;
mod scope;
mod session_log;
mod settings;
mod sync;
mod telemetry;
#[cfg(test)]
mod tests;
mod turn;

pub use approval::{
    AnswerError, ApprovalReason, ApprovalRequest, Approver, ApproverKind, CeilingApprover,
    Decision, DenyApprover, PermissionHook, ProgramApprover, RpcApprover, SlotApprover,
};
pub use around::{Around, Next};
pub use builder::{BuildError, RuntimeBuilder, ToolRuntime};
pub use call::{CallToken, PreparedCall, Submission};
pub use command_hook::{HookSession, HookSettingsError, command_hooks, command_permission_hooks};
pub use denied::{Confined, DeniedPaths};
pub use escalation::{GrantInfo, Scope, recorded_digest};
pub use events::{Event, EventSink, Notice, Transition};
pub use failure::CallFailure;
pub use guard::Guard;
pub use hooks::{
    FailureDecision, Hook, HookError, PostDecision, PostVerdict, PreDecision, PreVerdict,
};
pub use observer::Observer;
pub use replay::{ReplayError, ReplayedTurn, replay};
pub use scope::ScopeBuilder;
pub use session_log::{LogError, SessionLog};
pub use settings::{Cascade, EarlyStart, Settings};
pub use turn::{Submitter, Turn, TurnClosed, TurnFault};
