use crate::{HookError, PreparedCall};
use async_trait::async_trait;
use std::sync::Arc;
use stockade_tools::SandboxPermissions;

/// Decides on calls that need an approval (spec 2.6). One that errs or panics denies.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Decides. Dropped without an answer when the call is cancelled meanwhile.
    async fn decide(&self, request: &ApprovalRequest) -> Result<Decision, HookError>;
}

/// What is to be approved.
#[derive(Clone, Debug)]
pub struct ApprovalRequest {
    /// The call, as it will run.
    pub call: Arc<PreparedCall>,
    /// Why it must be approved; never empty.
    pub reasons: Vec<ApprovalReason>,
}

/// Why a call must be approved.
#[derive(Clone, Debug, PartialEq)]
pub enum ApprovalReason {
    /// A hook asks.
    Hook {
        /// Its name.
        name: String,
        /// What it asks.
        question: String,
    },
    /// The tool itself asks.
    Tool,
    /// The call wants more than its policy allows (spec 7.1).
    Escalation {
        /// What it wants.
        permissions: SandboxPermissions,
        /// Why it says it needs that.
        justification: String,
    },
}

/// An approver's answer. It counts for this one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may run, with everything that the request names.
    Allow,
    /// It may not.
    Deny {
        /// Why, for the model.
        reason: String,
    },
    /// It may not, and the turn is to stop with it (spec 1.12).
    Stop {
        /// Why, for the model.
        reason: String,
    },
}

/// The default: nobody is there to ask, so nothing is approved.
#[derive(Clone, Copy, Debug, Default)]
pub struct DenyApprover;

#[async_trait]
impl Approver for DenyApprover {
    async fn decide(&self, _request: &ApprovalRequest) -> Result<Decision, HookError> {
        Ok(Decision::Deny { reason: "No permission client configured".to_owned() })
    }
}
