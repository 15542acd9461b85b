//! Who is asked, what they are shown, and what they may answer (spec 2.6).

mod ceiling;
mod program;
mod race;
mod rpc;
mod slots;
mod wire;

pub use ceiling::CeilingApprover;
pub use program::ProgramApprover;
pub use race::PermissionHook;
pub(crate) use race::{Answer, kind_of, race, settled};
pub use rpc::RpcApprover;
pub use slots::{AnswerError, SlotApprover};
pub use wire::describe;

use crate::{HookError, PreparedCall};
use async_trait::async_trait;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
pub use stockade_ledger::ApproverKind;
use stockade_tools::{Display, SandboxPermissions};
use stockade_types::Denial;

/// Decides on calls that need an approval (spec 2.6). One that errs or panics denies.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Decides. Dropped without an answer when the call is cancelled meanwhile.
    async fn decide(&self, request: &ApprovalRequest) -> Result<Decision, HookError>;

    /// Which kind it is, for the ledger.
    fn kind(&self) -> ApproverKind {
        ApproverKind::Custom
    }

    /// Makes ready to be answered: called before anybody hears of the request, so that no answer comes too early.
    fn register(&self, _request: &ApprovalRequest) {}

    /// Somebody else has decided, or the call was cancelled: no answer is wanted any more.
    fn settled(&self, _request: &ApprovalRequest, _by: &str) {}
}

/// What is to be approved.
#[derive(Clone, Debug)]
pub struct ApprovalRequest {
    /// The call, as it will run.
    pub call: Arc<PreparedCall>,
    /// Why it must be approved; never empty.
    pub reasons: Vec<ApprovalReason>,
    /// What it would change, where its tool can tell: a file's diff.
    pub preview: Option<Display>,
    /// Where its path leads, where a link is on the way: it acts there or nowhere.
    pub leads_to: Option<PathBuf>,
    /// What the sandbox refused when this same call ran before.
    pub evidence: Vec<Denial>,
    /// Whether an answer may hold for longer than this call.
    pub may_hold_for_session: bool,
    /// What an answer for the session grants, in words: to every later call of the session, whatever it runs, that asks for no more (spec 7.3).
    /// Empty where there can be none.
    pub granted_to_session: Vec<String>,
    /// The digest of the call: of its tool and every byte of its arguments.
    pub call_digest: String,
    /// The digest of the policy under which it would run.
    pub policy_digest: String,
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
    /// A permission rule asks, or the rules cannot tell what the call does.
    Rule {
        /// The rule, with its place; empty where none decided alone.
        rule: String,
        /// Why.
        reason: String,
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

/// An approver's answer. It counts for this one call, unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may run, with everything that the request names.
    Allow,
    /// It may run, and what it asks for beyond the policy is granted to the session (spec 7.3). Never kept for what the policy says must
    /// be asked for each time.
    AllowSession {
        /// For how long; `None`: until the session ends, or the grant is revoked.
        expires_in: Option<Duration>,
    },
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
    fn kind(&self) -> ApproverKind {
        ApproverKind::Deny
    }

    async fn decide(&self, _request: &ApprovalRequest) -> Result<Decision, HookError> {
        Ok(Decision::Deny { reason: "No permission client configured".to_owned() })
    }
}
