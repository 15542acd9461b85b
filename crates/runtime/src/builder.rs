use crate::call::Submission;
use crate::events::Events;
use crate::pipeline::Pipeline;
use crate::{
    Approver, DenyApprover, EventSink, Guard, Hook, Observer, SessionLog, Turn, TurnFault,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use stockade_policy::Policy;
use stockade_sandbox::SandboxProvider;
use stockade_tools::{BashTimeouts, RegistrationError, Registry, SessionContext, builtin};
use stockade_types::ToolResult;

/// Bodies that run at once, at most (spec 1.5).
const MAX_PARALLEL_CALLS: usize = 10;
/// Time of a call whose tool says nothing of it (spec 2.8).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// Runs the turns of one session. Cheap to clone.
#[derive(Clone)]
pub struct ToolRuntime {
    pub(crate) pipeline: Arc<Pipeline>,
    max_parallel_calls: usize,
    last_turn: Arc<AtomicU64>,
}

/// Why a runtime was not built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Something that has no default was not given.
    #[error("the runtime has no {0}: give it one with .{0}(…)")]
    Missing(&'static str),
    /// A pool of no size runs nothing.
    #[error("max_parallel_calls must be at least 1")]
    NoPool,
    /// A built-in tool was not registered.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
}

/// Builds a [`ToolRuntime`]. Only the provider and the policy have no default.
#[derive(Default)]
pub struct RuntimeBuilder {
    provider: Option<Arc<dyn SandboxProvider>>,
    policy: Option<Policy>,
    registry: Option<Arc<Registry>>,
    home: Option<PathBuf>,
    hooks: Vec<Arc<dyn Hook>>,
    guards: Vec<Arc<dyn Guard>>,
    approver: Option<Arc<dyn Approver>>,
    observers: Vec<Arc<dyn Observer>>,
    log: Option<SessionLog>,
    events: Events,
    max_parallel_calls: Option<usize>,
    default_timeout: Option<Duration>,
    bash_timeouts: BashTimeouts,
}

impl RuntimeBuilder {
    /// Builds the cells. Its workspace is where relative paths start.
    pub fn provider(mut self, provider: Arc<dyn SandboxProvider>) -> Self {
        self.provider = Some(provider);
        self
    }

    /// What calls may do.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// The tools, in place of the built-in ones ([`stockade_tools::builtin::registry`]).
    pub fn registry(mut self, registry: Arc<Registry>) -> Self {
        self.registry = Some(registry);
        self
    }

    /// What `~` stands for inside the cell. Without it such paths are refused.
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// Adds a hook at the chain's end.
    pub fn hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Adds a guard.
    pub fn guard(mut self, guard: Arc<dyn Guard>) -> Self {
        self.guards.push(guard);
        self
    }

    /// Decides what must be approved; [`DenyApprover`] by default.
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Adds an observer.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Records every call and result. A call that cannot be recorded does not run.
    pub fn session_log(mut self, log: SessionLog) -> Self {
        self.log = Some(log);
        self
    }

    /// Takes the events.
    pub fn events(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.events = Events(Some(sink));
        self
    }

    /// Bodies that run at once, at most; 10 by default.
    pub fn max_parallel_calls(mut self, calls: usize) -> Self {
        self.max_parallel_calls = Some(calls);
        self
    }

    /// Time of a call whose tool says nothing of it; 300 s by default.
    pub fn default_timeout(mut self, timeout: Duration) -> Self {
        self.default_timeout = Some(timeout);
        self
    }

    /// Bash's default and longest time; 120 s and 600 s by default.
    pub fn bash_timeouts(mut self, timeouts: BashTimeouts) -> Self {
        self.bash_timeouts = timeouts;
        self
    }

    /// The runtime.
    pub fn build(self) -> Result<ToolRuntime, BuildError> {
        let provider = self.provider.ok_or(BuildError::Missing("provider"))?;
        let policy = self.policy.ok_or(BuildError::Missing("policy"))?;
        let max_parallel_calls = self.max_parallel_calls.unwrap_or(MAX_PARALLEL_CALLS);
        if max_parallel_calls == 0 {
            return Err(BuildError::NoPool);
        }
        let registry = match self.registry {
            Some(registry) => registry,
            None => Arc::new(builtin::registry()?),
        };
        let session = SessionContext {
            home: self.home,
            bash: self.bash_timeouts,
            ..SessionContext::new(provider.workspace())
        };
        let last_turn = self.log.as_ref().map_or(0, SessionLog::last_turn);
        let pipeline = Pipeline {
            registry,
            provider,
            policy: Arc::new(policy),
            session: Arc::new(session),
            hooks: self.hooks,
            guards: self.guards,
            approver: self.approver.unwrap_or_else(|| Arc::new(DenyApprover)),
            observers: self.observers,
            log: self.log,
            events: self.events,
            default_timeout: self.default_timeout.unwrap_or(DEFAULT_TIMEOUT),
        };
        Ok(ToolRuntime {
            pipeline: Arc::new(pipeline),
            max_parallel_calls,
            last_turn: Arc::new(AtomicU64::new(last_turn)),
        })
    }
}

impl ToolRuntime {
    /// The way in.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// The tools. They may be changed while a turn runs.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.pipeline.registry
    }

    /// Opens a turn, to be fed call by call. Must be called inside a tokio runtime.
    pub fn open_turn(&self) -> Turn {
        let number = self.last_turn.fetch_add(1, Ordering::Relaxed) + 1;
        Turn::open(Arc::clone(&self.pipeline), number, self.max_parallel_calls)
    }

    /// Runs a whole turn: one result for each call, in order.
    pub async fn run_turn<S: Into<Submission>>(
        &self,
        calls: impl IntoIterator<Item = S>,
    ) -> Result<Vec<ToolResult>, TurnFault> {
        let mut turn = self.open_turn();
        for call in calls {
            // A turn that was just opened is not closed.
            let _ = turn.submit(call);
        }
        turn.close();
        let mut results = Vec::new();
        while let Some(result) = turn.next_result().await? {
            results.push(result);
        }
        Ok(results)
    }
}
