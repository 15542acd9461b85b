use crate::authority::Authority;
use crate::call::Submission;
use crate::denied::DeniedPaths;
use crate::escalation::{Escalation, EvidenceBook, GrantBook, GrantInfo};
use crate::events::Events;
use crate::links::LinkedRules;
use crate::pipeline::Pipeline;
use crate::scheduler::plan;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::{
    Approver, Around, DenyApprover, EventSink, Guard, Hook, Observer, PermissionHook, ScopeBuilder,
    SessionLog, Settings, Turn, TurnFault,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stockade_ledger::Ledger;
use stockade_policy::{EntryError, Policy, PolicyError, Variables};
use stockade_rules::{RuleScope, RuleSet};
use stockade_sandbox::SandboxProvider;
use stockade_spill::SpillStore;
use stockade_subprocess::tasks::Tasks;
use stockade_tools::registry::ToolsChanged;
use stockade_tools::{BashTimeouts, RegistrationError, Registry, SessionContext, builtin};
use stockade_types::{CallId, SessionId, ToolResult};

/// Time of a call whose tool says nothing of it (spec 2.8).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// Runs the turns of one session. Cheap to clone.
#[derive(Clone)]
pub struct ToolRuntime {
    pub(crate) pipeline: Arc<Pipeline>,
    settings: Settings,
    last_turn: Arc<AtomicU64>,
    /// Its listeners hear of changed tools for as long as it lives.
    _changes: Arc<dyn ToolsChanged>,
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
    /// The policy names a ceiling that cannot be loaded.
    #[error("the policy's ceiling: {0}")]
    Ceiling(#[from] PolicyError),
    /// Calls could write what they are then shown as their own earlier results.
    #[error(
        "the policy lets calls write to {0}, where the spill store is shown: keep the state outside of the writable roots, or hide it and show the store's folder under filesystem.read"
    )]
    SpillWritable(PathBuf),
    /// The policy's paths cannot be told.
    #[error("the policy's paths: {0}")]
    Paths(#[from] EntryError),
    /// A time that no call could have.
    #[error("Bash's default time is longer than its longest: lower the one, or raise the other")]
    BashTimeouts,
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
    permission_hooks: Vec<Arc<dyn PermissionHook>>,
    rules: RuleSet,
    ceiling: Option<Policy>,
    ledger: Option<(Arc<Ledger>, SessionId)>,
    observers: Vec<Arc<dyn Observer>>,
    log: Option<SessionLog>,
    spill: Option<Arc<SpillStore>>,
    events: Events,
    settings: Settings,
    around: Vec<Arc<dyn Around>>,
    default_timeout: Option<Duration>,
    bash_timeouts: BashTimeouts,
    tasks: Tasks,
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

    /// Adds a hook that answers questions of permission beside the approver.
    pub fn permission_hook(mut self, hook: Arc<dyn PermissionHook>) -> Self {
        self.permission_hooks.push(hook);
        self
    }

    /// The permission rules; none by default.
    pub fn rules(mut self, rules: RuleSet) -> Self {
        self.rules = rules;
        self
    }

    /// The most that the session may ever be granted; by default whatever an approver allows.
    pub fn ceiling(mut self, ceiling: Policy) -> Self {
        self.ceiling = Some(ceiling);
        self
    }

    /// Writes every request, decision, grant and outcome to this ledger, under the session's name. A call whose records cannot be
    /// written does not run.
    pub fn ledger(mut self, ledger: Arc<Ledger>, session: SessionId) -> Self {
        self.ledger = Some((ledger, session));
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

    /// Keeps results that are larger than their budget. Without it they are cut.
    pub fn spill(mut self, store: Arc<SpillStore>) -> Self {
        self.spill = Some(store);
        self
    }

    /// Adds somebody who takes the events.
    pub fn events(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.events.0.push(sink);
        self
    }

    /// Bodies that run at once, at most; 10 by default.
    pub fn max_parallel_calls(mut self, calls: usize) -> Self {
        self.settings.max_parallel_calls = calls;
        self
    }

    /// How turns are scheduled, unless one is opened with settings of its own.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Adds a wrapper around every body, inside those that were added before.
    pub fn around(mut self, wrapper: Arc<dyn Around>) -> Self {
        self.around.push(wrapper);
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

    /// What goes on in the background; by default with output in nameless temporary files, and 16 at most (spec 1.21).
    pub fn tasks(mut self, tasks: Tasks) -> Self {
        self.tasks = tasks;
        self
    }

    /// The runtime.
    pub fn build(self) -> Result<ToolRuntime, BuildError> {
        let provider = self.provider.ok_or(BuildError::Missing("provider"))?;
        let policy = self.policy.ok_or(BuildError::Missing("policy"))?;
        if self.settings.max_parallel_calls == 0 {
            return Err(BuildError::NoPool);
        }
        let ceiling = match self.ceiling {
            None => policy.ceiling()?,
            ceiling => ceiling,
        };
        if self.bash_timeouts.default > self.bash_timeouts.max {
            return Err(BuildError::BashTimeouts);
        }
        let variables = Variables {
            workspace: provider.workspace(),
            home: self.home.clone().unwrap_or_else(|| PathBuf::from("/nonexistent")),
            session: None,
        };
        // A policy that lets calls write everywhere protects nothing, the session's log neither.
        if let Some(store) = &self.spill
            && policy.access(store.inside(), &variables)?.write
            && !policy.access(Path::new("/"), &variables)?.write
        {
            return Err(BuildError::SpillWritable(store.inside().to_owned()));
        }
        let registry = match self.registry {
            Some(registry) => registry,
            None => Arc::new(builtin::registry()?),
        };
        let session = SessionContext {
            home: self.home,
            bash: self.bash_timeouts,
            tasks: self.tasks,
            ..SessionContext::new(provider.workspace())
        };
        let scope = RuleScope { workspace: provider.workspace(), home: session.home.clone() };
        let authority = Authority {
            denied: DeniedPaths::new(&self.rules, &scope),
            rules: LinkedRules::new(self.rules, scope.clone()),
            scope,
            escalation: Escalation {
                ceiling,
                variables,
                grants: GrantBook::default(),
                evidence: EvidenceBook::default(),
            },
            permission_hooks: self.permission_hooks,
            ledger: self.ledger,
        };
        let last_turn = self.log.as_ref().map_or(0, SessionLog::last_turn);
        let pipeline = Pipeline {
            registry,
            provider,
            policy_digest: policy.digest().into(),
            policy: Arc::new(policy),
            session: Arc::new(session),
            hooks: self.hooks,
            guards: self.guards,
            around: self.around,
            approver: self.approver.unwrap_or_else(|| Arc::new(DenyApprover)),
            authority: Arc::new(authority),
            observers: self.observers,
            log: self.log.map(Arc::new),
            spill: self.spill,
            events: self.events,
            calls: Arc::default(),
            default_timeout: self.default_timeout.unwrap_or(DEFAULT_TIMEOUT),
        };
        let listeners = pipeline.events.clone();
        Ok(ToolRuntime::new(
            pipeline,
            self.settings,
            Arc::new(AtomicU64::new(last_turn)),
            listeners,
        ))
    }
}

impl ToolRuntime {
    /// The way in.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// `listeners` are told when tools change, wherever that is (spec 3.5).
    pub(crate) fn new(
        pipeline: Pipeline,
        settings: Settings,
        last_turn: Arc<AtomicU64>,
        listeners: Events,
    ) -> Self {
        let changes: Arc<dyn ToolsChanged> = Arc::new(listeners);
        pipeline.registry.on_change(&changes);
        Self { pipeline: Arc::new(pipeline), settings, last_turn, _changes: changes }
    }

    /// The tools. They may be changed while a turn runs.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.pipeline.registry
    }

    /// A scope below this one, of the same session: it inherits the tools, and this one's hooks, guards and listeners see its
    /// calls too. What is added to it sees its calls alone (spec 3.5).
    pub fn scope(&self) -> ScopeBuilder {
        ScopeBuilder::new((*self.pipeline).clone(), self.settings, Arc::clone(&self.last_turn))
    }

    /// What goes on in the background: calls that were asked to, and whatever the host adopts
    /// ([`Tasks::track_background_task`]). [`Tasks::end`] is for the session's end.
    pub fn tasks(&self) -> &Tasks {
        &self.pipeline.session.tasks
    }

    /// The grants of the session that are alive.
    pub fn grants(&self) -> Vec<GrantInfo> {
        self.pipeline.authority.escalation.grants.list(Instant::now())
    }

    /// Takes a grant of the session back: no later call runs under it. `false`: there is none of this id.
    pub fn revoke_grant(&self, id: &str) -> bool {
        self.pipeline.authority.revoke(id)
    }

    /// Ends the session in the ledger: its grants end with it, and a checkpoint is signed.
    pub fn end_session(&self, reason: &str) {
        self.pipeline.authority.end(self.pipeline.calls.load(Ordering::Relaxed), reason);
    }

    /// Opens a turn, to be fed call by call. Must be called inside a tokio runtime whose timers are enabled (`enable_time`, or
    /// `enable_all`); in one without them the turn ends at once, in a [`TurnFault`] that says so, and runs none of its calls.
    pub fn open_turn(&self) -> Turn {
        self.open_turn_with(self.settings)
    }

    /// Opens a turn with settings of its own. A pool of no size counts as one of 1.
    pub fn open_turn_with(&self, settings: Settings) -> Turn {
        let number = self.last_turn.fetch_add(1, Ordering::Relaxed) + 1;
        let max_parallel_calls = settings.max_parallel_calls.max(1);
        let settings = Settings { max_parallel_calls, ..settings };
        Turn::open(Arc::clone(&self.pipeline), number, settings)
    }

    /// Runs a whole turn: one result for each call, in order.
    pub async fn run_turn<S: Into<Submission>>(
        &self,
        calls: impl IntoIterator<Item = S>,
    ) -> Result<Vec<ToolResult>, TurnFault> {
        Self::all_results(self.open_turn(), calls).await
    }

    /// Runs a whole turn as its planned groups, one after another, with batch events (spec 1.6).
    pub async fn run_groups<S: Into<Submission>>(
        &self,
        calls: impl IntoIterator<Item = S>,
    ) -> Result<Vec<ToolResult>, TurnFault> {
        let settings = Settings { grouped: true, ..self.settings };
        Self::all_results(self.open_turn_with(settings), calls).await
    }

    /// The groups in which [`ToolRuntime::run_groups`] would run these calls now: consecutive parallel ones up to the pool's
    /// size, an exclusive one alone (spec 1.6).
    pub fn plan<S: Into<Submission>>(
        &self,
        calls: impl IntoIterator<Item = S>,
    ) -> Vec<Vec<CallId>> {
        plan(&self.pipeline, self.settings.max_parallel_calls, calls)
    }

    async fn all_results<S: Into<Submission>>(
        mut turn: Turn,
        calls: impl IntoIterator<Item = S>,
    ) -> Result<Vec<ToolResult>, TurnFault> {
        for call in calls {
            // A turn that was just opened is not closed.
            let _ = turn.submit(call);
        }
        turn.close();
        // Nobody sees a result before the last one is there: to be woken for each would cost more than some calls do.
        turn.through().await;
        let mut results = Vec::new();
        while let Some(result) = turn.next_result().await? {
            results.push(result);
        }
        Ok(results)
    }
}
