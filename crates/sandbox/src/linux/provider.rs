//! [`LinuxProvider`]: one session.

use super::cell::{CellParts, LinuxCell};
use super::cell_source::CellSource;
use super::filter::{self, Refusals};
use super::host::HostCaps;
use super::infer::Shown;
use super::launcher::LauncherSource;
use super::resolve::{self, ResolveError, Resolved};
use super::seal;
use crate::{Cell, SandboxError, SandboxProvider};
use async_trait::async_trait;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stockade_plan::{Bytes, CellPlan, LandlockPlan, WorkerPlan};
use stockade_policy::{NetworkMode, Policy, ProtectPattern, Variables};
use stockade_types::{Layer, LayerReport, LayerState, Refusal, SetupFailure};
use tokio::sync::Mutex;

/// What a session needs.
pub struct SessionOptions {
    /// The workspace: any path to an existing folder.
    pub workspace: PathBuf,
    /// The home folder on the host; inside, an empty one takes its place unless the policy names it.
    pub home: PathBuf,
    /// The host's environment, of which policies take what they keep.
    pub host_environment: Vec<(OsString, OsString)>,
    /// Where the launcher comes from.
    pub launcher: LauncherSource,
}

/// The provider for Linux: namespaces, a mount tree, Landlock and seccomp.
pub struct LinuxProvider(Arc<Session>);

struct Session {
    source: Mutex<CellSource>,
    variables: Variables,
    host_environment: Vec<(OsString, OsString)>,
    host: HostCaps,
    cells: Mutex<HashMap<String, Arc<LinuxCell>>>,
}

impl LinuxProvider {
    /// Starts a session. Needs a tokio runtime with its I/O and time drivers.
    pub async fn start(options: SessionOptions) -> Result<Self, SandboxError> {
        let workspace = canonical_workspace(&options.workspace)?;
        Ok(Self(Arc::new(Session {
            source: Mutex::new(CellSource::start(options.launcher).await?),
            variables: Variables { workspace, home: options.home, session: None },
            host_environment: options.host_environment,
            host: HostCaps::ask(),
            cells: Mutex::new(HashMap::new()),
        })))
    }
}

impl Session {
    async fn cell(&self, policy: &Policy) -> Result<Arc<LinuxCell>, SandboxError> {
        // Held while a cell is built, so that parallel first calls do not build it twice.
        let mut cells = self.cells.lock().await;
        let key = policy.digest();
        if let Some(cell) = cells.get(&key).filter(|cell| cell.is_alive()) {
            return Ok(Arc::clone(cell));
        }
        let cell = Arc::new(self.build(policy).await?);
        cells.insert(key, Arc::clone(&cell));
        Ok(cell)
    }

    async fn build(&self, policy: &Policy) -> Result<LinuxCell, SandboxError> {
        let layers = seal::seal(policy, &self.host)?;
        // The cell is being made, which takes its time, while its plan is.
        let mut source = self.source.lock().await;
        let ordered = source.order(policy.network.mode == NetworkMode::None).await?;
        let planned = self.resolve(policy, &layers);
        let (channel, pidfd) = source.take(ordered).await?;
        drop(source);
        let Planned { plan, worker_plan, environment } = planned?;
        // What the cell says of it is heard with the answer to its first request: a cell that failed has said so, and may be
        // gone, and its word counts more than a failed send.
        let _ = channel.send(&plan, &[]).await;
        Ok(LinuxCell::new(CellParts {
            channel,
            pidfd,
            worker_plan,
            environment,
            layers,
            limits: policy.limits.clone(),
            host: self.host.clone(),
            shown: Shown {
                mounts: plan.mounts,
                protected: plan.protected,
                no_network: policy.network.mode == NetworkMode::None && !policy.is_full_access(),
            },
        }))
    }

    fn resolve(&self, policy: &Policy, layers: &LayerReport) -> Result<Planned, SandboxError> {
        let environment = stockade_policy::environment::build(
            &policy.environment,
            &self.variables,
            self.host_environment.iter().cloned(),
        )
        .map_err(|error| Refusal { by: "policy".into(), reason: error.to_string() })?;
        let resolved = if policy.is_full_access() {
            Resolved::default()
        } else {
            resolve::resolve(policy, &self.variables)?
        };
        let worker_plan = WorkerPlan {
            write_roots: resolved.named_roots.iter().map(|root| root.as_path().into()).collect(),
            protected: resolved.protect.iter().map(for_file_tools).collect(),
        };
        let plan = self.plan(policy, resolved, layers)?;
        Ok(Planned { plan, worker_plan, environment })
    }

    fn plan(
        &self,
        policy: &Policy,
        resolved: Resolved,
        layers: &LayerReport,
    ) -> Result<CellPlan, SandboxError> {
        let enforced = |layer: Layer| {
            layers.0.iter().any(|entry| {
                entry.layer == layer && matches!(entry.state, LayerState::Enforced { .. })
            })
        };
        let landlock = enforced(Layer::Landlock).then_some(()).and(self.host.landlock_abi);
        Ok(CellPlan {
            whole_host: policy.is_full_access(),
            mounts: resolved.mounts,
            landlock: landlock.map(|abi| LandlockPlan { abi, rules: resolved.rules }),
            seccomp: if enforced(Layer::Seccomp) {
                let refusals = match self.host.seccomp_notify {
                    true => Refusals::Named,
                    false => Refusals::Silent,
                };
                filter::compile(&policy.syscalls, refusals)?
            } else {
                None
            },
            protected: resolved.protected,
        })
    }
}

/// The file tools hold every name at any depth.
fn for_file_tools(pattern: &ProtectPattern) -> Bytes {
    match pattern {
        ProtectPattern::BelowRoots(names) | ProtectPattern::Anywhere(names) => {
            names.join("/").as_str().into()
        }
        ProtectPattern::At(path) => path.base().into(),
    }
}

/// What a cell is to be built from.
struct Planned {
    plan: CellPlan,
    worker_plan: WorkerPlan,
    environment: Vec<(OsString, OsString)>,
}

fn canonical_workspace(path: &Path) -> Result<PathBuf, SetupFailure> {
    let failed = |errno: Option<i32>, detail: String| SetupFailure {
        step: "workspace".into(),
        subject: Some(path.display().to_string()),
        errno,
        detail,
        remedy: "name an existing folder with --workspace".into(),
    };
    let canonical = std::fs::canonicalize(path)
        .map_err(|error| failed(error.raw_os_error(), error.to_string()))?;
    if !canonical.is_dir() {
        return Err(failed(Some(libc::ENOTDIR), "it is not a folder".into()));
    }
    Ok(canonical)
}

impl From<ResolveError> for SandboxError {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::Setup(failure) => failure.into(),
            ResolveError::Refused(refusal) => refusal.into(),
        }
    }
}

#[async_trait]
impl SandboxProvider for LinuxProvider {
    async fn cell(&self, policy: &Policy) -> Result<Arc<dyn Cell>, SandboxError> {
        // In a task of its own: what the launcher was asked is always answered for, even if whoever asked gives up.
        let (session, policy) = (Arc::clone(&self.0), policy.clone());
        match tokio::spawn(async move { session.cell(&policy).await }).await {
            Ok(cell) => Ok(cell? as Arc<dyn Cell>),
            Err(error) => Err(SandboxError::CellLost(error.to_string())),
        }
    }

    fn workspace(&self) -> PathBuf {
        self.0.variables.workspace.clone()
    }
}
