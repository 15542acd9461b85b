use crate::{OutputStore, QueueClock, ReadState};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use stockade_policy::Policy;
use stockade_sandbox::file::Place;
use stockade_sandbox::{Cell, SandboxError, SandboxProvider};
use stockade_subprocess::tasks::Tasks;
use stockade_types::{CallId, Denial, visible};
use tokio_util::sync::CancellationToken;

/// Takes what a running body reports, at once.
pub type ProgressFn = Arc<dyn Fn(Value) + Send + Sync>;

/// What all calls of a session share. Working directory and environment are the turn's: an exclusive call may change them
/// for the calls after it (spec 1.20).
#[derive(Clone, Debug)]
pub struct SessionContext {
    /// The workspace, absolute, as seen inside the cell.
    pub workspace: PathBuf,
    /// The working directory, absolute, as seen inside the cell. Relative paths start here.
    pub cwd: PathBuf,
    /// Variables on top of the environment that the policy makes.
    pub env: Vec<(OsString, OsString)>,
    /// What `~` stands for, absolute, as seen inside the cell; `None`: paths with `~` are refused.
    pub home: Option<PathBuf>,
    /// Which files were read, and how they were then.
    pub files_read: Arc<ReadState>,
    /// Bash's time budgets.
    pub bash: BashTimeouts,
    /// What goes on in the background (spec 1.21).
    pub tasks: Tasks,
}

impl SessionContext {
    /// A session without a home, which starts in its workspace.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        let workspace = workspace.into();
        Self {
            cwd: workspace.clone(),
            workspace,
            env: Vec::new(),
            home: None,
            files_read: Arc::default(),
            bash: BashTimeouts::default(),
            tasks: Tasks::default(),
        }
    }

    /// The context that calls after this change find (spec 1.20).
    pub fn changed(&self, change: ContextChange) -> Self {
        let mut next = self.clone();
        if let Some(cwd) = change.cwd {
            next.cwd = cwd;
        }
        for (name, value) in change.env {
            next.env.retain(|(known, _)| *known != name);
            next.env.extend(value.map(|value| (name, value)));
        }
        next
    }
}

/// How an exclusive call changes what the calls after it find (spec 1.20).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextChange {
    /// The new working directory, absolute, as seen inside the cell.
    pub cwd: Option<PathBuf>,
    /// Variables to set, or with `None` to take away again.
    pub env: Vec<(OsString, Option<OsString>)>,
}

impl ContextChange {
    /// Says why it cannot be made.
    pub fn check(&self) -> Result<(), String> {
        let has_nul = |text: &OsStr| text.as_bytes().contains(&0);
        if let Some(cwd) = &self.cwd {
            let shown = visible(&cwd.to_string_lossy());
            if !cwd.is_absolute() {
                return Err(format!("the working directory {shown:?} is not absolute"));
            }
            if has_nul(cwd.as_os_str()) {
                return Err(format!("the working directory {shown:?} has a zero byte"));
            }
        }
        for (name, value) in &self.env {
            let shown = visible(&name.to_string_lossy());
            if name.is_empty() || name.as_bytes().contains(&b'=') || has_nul(name) {
                return Err(format!("{shown:?} is no name of a variable"));
            }
            if value.as_deref().is_some_and(has_nul) {
                return Err(format!("the value of the variable {shown:?} has a zero byte"));
            }
        }
        Ok(())
    }
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

/// Ends when what a call was granted does.
pub type GrantedFn = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Takes denials down, as those of one call.
pub type DenialsFn = Arc<dyn Fn(&[Denial]) + Send + Sync>;

/// What the body of one call is given.
#[derive(Clone)]
pub struct CallContext {
    /// The model's id of the call.
    pub call_id: CallId,
    /// The session.
    pub session: Arc<SessionContext>,
    /// Fires when the call is cancelled or its time is up.
    pub cancel: CancellationToken,
    /// Fires after that when nobody will wait any longer: what is being ended is to be killed, and the call to say what it can.
    pub kill: CancellationToken,
    /// Delivers progress at once (spec 1.8).
    pub progress: ProgressFn,
    /// Is told that a task which the call started has ended: no progress of the call, which has mostly had its result by then (spec
    /// 1.9, 1.21).
    pub task_ended: ProgressFn,
    /// Is given what was denied to the call after it had its result: to a task that it started.
    pub late_denials: DenialsFn,
    /// Ends when what the call was granted does; `None`: it was granted nothing that could end before it. What it leaves running must end
    /// with that (spec 7.3).
    pub granted: Option<GrantedFn>,
    /// Builds the cell.
    pub provider: Arc<dyn SandboxProvider>,
    /// The policy of this call: the session's, or what an approved escalation made of it.
    pub policy: Arc<Policy>,
    /// Where output goes that is too large to return; `None`: nothing keeps it.
    pub output_store: Option<Arc<dyn OutputStore>>,
    /// Where its path led when somebody was asked about it; `None`: nobody was, or it has none ([`crate::Tool::acts_on`]). It is done there or
    /// not at all.
    pub approved_place: Option<Place>,
    /// Stops the call's clock while it waits to be admitted somewhere (spec 2.9).
    pub queueing: QueueClock,
}

impl CallContext {
    /// The cell in which this call does its work. Built when it is first asked for.
    pub async fn cell(&self) -> Result<Arc<dyn Cell>, SandboxError> {
        self.provider.cell(&self.policy).await
    }
}
