use crate::ReadState;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use stockade_policy::Policy;
use stockade_sandbox::{Cell, SandboxError, SandboxProvider};
use stockade_types::CallId;
use tokio_util::sync::CancellationToken;

/// Takes what a running body reports, at once.
pub type ProgressFn = Arc<dyn Fn(Value) + Send + Sync>;

/// What all calls of a session share.
#[derive(Debug)]
pub struct SessionContext {
    /// The workspace, absolute, as seen inside the cell. Relative paths start here.
    pub workspace: PathBuf,
    /// What `~` stands for, absolute, as seen inside the cell; `None`: paths with `~` are refused.
    pub home: Option<PathBuf>,
    /// Which files were read, and how they were then.
    pub files_read: ReadState,
    /// Bash's time budgets.
    pub bash: BashTimeouts,
}

/// Bash's time budgets (spec 2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BashTimeouts {
    /// When the call names none.
    pub default: Duration,
    /// At most.
    pub max: Duration,
}

impl Default for BashTimeouts {
    fn default() -> Self {
        Self { default: Duration::from_secs(120), max: Duration::from_secs(600) }
    }
}

/// What the body of one call is given.
#[derive(Clone)]
pub struct CallContext {
    /// The model's id of the call.
    pub call_id: CallId,
    /// The session.
    pub session: Arc<SessionContext>,
    /// Fires when the call is cancelled or its time is up.
    pub cancel: CancellationToken,
    /// Delivers progress at once (spec 1.8).
    pub progress: ProgressFn,
    /// Builds the cell.
    pub provider: Arc<dyn SandboxProvider>,
    /// The policy of this call: the session's, or what an approved escalation made of it.
    pub policy: Arc<Policy>,
}

impl CallContext {
    /// The cell in which this call does its work. Built when it is first asked for.
    pub async fn cell(&self) -> Result<Arc<dyn Cell>, SandboxError> {
        self.provider.cell(&self.policy).await
    }
}
