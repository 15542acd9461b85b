//! [`LinuxProvider`]: one session.

use super::audit::AuditLog;
use super::bare::{self, TemporaryFolder};
use super::cell::{CellParts, LinuxCell};
use super::cell_group::{self, CellGroup};
use super::cell_source::CellSource;
use super::filter::{self, Listings, Refusals, Surroundings};
use super::host::{HostCaps, Tier};
use super::infer::Shown;
use super::launcher::{LauncherSource, unexpected};
use super::resolve::{self, HiddenByUser, ResolveError, Resolved};
use super::seal;
use crate::{Cell, SandboxError, SandboxProvider};
use async_trait::async_trait;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use stockade_plan::{Bytes, CellPlan, LandlockPlan, MountStep, WorkerPlan};
use stockade_policy::{NetworkMode, Policy, ProtectPattern, Variables};
use stockade_sys::cgroup::Controllers;
use stockade_types::{Layer, LayerReport, LayerState, Refusal, SetupFailure};
use tokio::sync::Mutex;

/// What a session needs.
pub struct SessionOptions {
    /// The workspace: any path to an existing folder.
    pub workspace: PathBuf,
    /// The home folder on the host; inside, an empty one takes its place unless the policy names it.
    pub home: PathBuf,
    /// What `$SESSION` stands for: the canonical path of a folder of the session's own files, if it has one.
    pub session: Option<PathBuf>,
    /// The host's environment, of which policies take what they keep.
    pub host_environment: Vec<(OsString, OsString)>,
    /// Where the launcher comes from.
    pub launcher: LauncherSource,
    /// What is known of the host's capabilities, instead of asking: fewer than it has, to see what becomes of a policy then. A
    /// launcher that runs already has entered its user namespace, if it could.
    pub host: Option<HostCaps>,
}

/// The provider for Linux: namespaces, a mount tree, Landlock and seccomp.
pub struct LinuxProvider(Arc<Session>);

struct Session {
    source: Mutex<CellSource>,
    variables: Variables,
    host_environment: Vec<(OsString, OsString)>,
    host: HostCaps,
    /// Where the kernel's records of what Landlock refuses can be read.
    audit: Option<Arc<AuditLog>>,
    /// What the host turned out to lack when a cell was made.
    degraded: OnceLock<HostCaps>,
    /// Where there is no mount tree that holds one.
    temporary: OnceLock<TemporaryFolder>,
    cells: Mutex<Vec<Built>>,
}

/// A cell, and what it was built for.
struct Built {
    policy: Policy,
    /// Of the policy, once it is asked for: a session of one policy never does.
    digest: OnceLock<String>,
    hidden: HiddenByUser,
    cell: Arc<LinuxCell>,
}

impl Built {
    /// One in which something would be shown that is to be hidden by now gets no more calls.
    fn is_usable(&self) -> bool {
        self.cell.is_alive() && !self.hidden.has_grown()
    }
}

impl LinuxProvider {
    /// Starts a session. Needs a tokio runtime with its I/O and time drivers.
    pub async fn start(options: SessionOptions) -> Result<Self, SandboxError> {
        let workspace = canonical_workspace(&options.workspace)?;
        let mut host = options.host.unwrap_or_else(HostCaps::ask);
        let source = CellSource::start(options.launcher, &mut host).await?;
        // Without it denials are inferred, as on hosts that keep no records.
        let audit = host.audit_records.then(AuditLog::open).and_then(Result::ok);
        host.audit_records = audit.is_some();
        Ok(Self(Arc::new(Session {
            source: Mutex::new(source),
            variables: Variables { workspace, home: options.home, session: options.session },
            host_environment: options.host_environment,
            host,
            audit,
            degraded: OnceLock::new(),
            temporary: OnceLock::new(),
            cells: Mutex::default(),
        })))
    }

    /// Ends the session's processes and removes what it has on the host, which dropping it does too: for a program that ends without.
    pub fn leave_nothing(&self) {
        // Nobody else has it when a program ends.
        if let Ok(cells) = self.0.cells.try_lock() {
            cells.iter().for_each(|built| built.cell.end());
        }
        if let Ok(mut source) = self.0.source.try_lock() {
            source.end();
        }
        if let Some(temporary) = self.0.temporary.get() {
            temporary.remove();
        }
    }
}

/// The cell of this policy, or of one that allows the same.
fn known(cells: &[Built], policy: &Policy) -> Option<Arc<LinuxCell>> {
    let same = cells.iter().find(|built| built.policy == *policy).or_else(|| {
        let digest = (!cells.is_empty()).then(|| policy.digest())?;
        let of = |built: &Built| *built.digest.get_or_init(|| built.policy.digest()) == digest;
        cells.iter().find(|built| of(built))
    });
    same.filter(|built| built.is_usable()).map(|built| Arc::clone(&built.cell))
}

impl Session {
    async fn cell(&self, policy: &Policy) -> Result<Arc<LinuxCell>, SandboxError> {
        // Held while a cell is built, so that parallel first calls do not build it twice.
        let mut cells = self.cells.lock().await;
        cells.retain(Built::is_usable);
        if let Some(cell) = known(&cells, policy) {
            return Ok(cell);
        }
        let built = match self.build(policy).await {
            Err(SandboxError::Setup(failure)) if self.degrade(&failure) => self.build(policy).await,
            built => built,
        };
        let (cell, hidden) = built?;
        let cell = Arc::new(cell);
        let (policy, digest) = (policy.clone(), OnceLock::new());
        cells.push(Built { policy, digest, hidden, cell: Arc::clone(&cell) });
        Ok(cell)
    }

    fn host(&self) -> &HostCaps {
        self.degraded.get().unwrap_or(&self.host)
    }

    /// Whether a cell's failure tells that the host lacks mounts. From then on the session does without.
    fn degrade(&self, failure: &SetupFailure) -> bool {
        match self.host().after(failure) {
            Some(host) => self.degraded.set(host).is_ok(),
            None => false,
        }
    }

    async fn build(&self, policy: &Policy) -> Result<(LinuxCell, HiddenByUser), SandboxError> {
        let host = self.host();
        let bare = host.tier() == Tier::Bare;
        let group = CellGroup::make(&policy.limits);
        let controllers = group.as_ref().map_or(Controllers::NONE, |group| group.controllers);
        let layers = seal::seal(policy, host, controllers)?;
        // The cell is being made, which takes its time, while its plan is.
        let mut source = self.source.lock().await;
        let new_network = policy.network.mode == NetworkMode::None && !bare;
        let ordered = source.order(new_network, bare).await?;
        let planned = self.resolve(policy, &layers);
        let (channel, pidfd) = source.take(ordered).await?;
        let replaceable = source.has_launcher();
        if bare && let Some(temporary) = self.temporary.get() {
            source.remove_at_end(temporary.path()).await;
        }
        drop(source);
        let Planned { mut plan, worker_plan, environment, hidden } = planned?;
        plan.group = group.as_ref().map(CellGroup::name);
        let folder: Vec<_> = group.iter().map(CellGroup::folder).collect();
        // What the cell says of it is heard with the answer to its first request: a cell that failed has said so, and may be
        // gone, and its word counts more than a failed send.
        let _ = channel.send(&plan, &folder).await;
        let cell = LinuxCell::new(CellParts {
            channel,
            pidfd,
            worker_plan,
            environment,
            layers,
            limits: policy.limits.clone(),
            host: host.clone(),
            group,
            audit: self.audit.clone().filter(|_| plan.landlock.is_some()),
            shown: Shown {
                mounts: plan.mounts,
                protected: plan.protected,
                no_network: policy.network.mode == NetworkMode::None && !policy.is_full_access(),
            },
        });
        if replaceable {
            // A bare one may have to take its place.
            cell.stands().await?;
        }
        Ok((cell, hidden))
    }

    fn resolve(&self, policy: &Policy, layers: &LayerReport) -> Result<Planned, SandboxError> {
        let mut environment = stockade_policy::environment::build(
            &policy.environment,
            &self.variables,
            self.host_environment.iter().cloned(),
        )
        .map_err(|error| Refusal { by: "policy".into(), reason: error.to_string() })?;
        let mut resolved = if policy.is_full_access() {
            Resolved::default()
        } else {
            resolve::resolve(policy, &self.variables)?
        };
        let worker_plan = WorkerPlan {
            write_roots: resolved.named_roots.iter().map(|root| root.as_path().into()).collect(),
            protected: resolved.protect.iter().map(for_file_tools).collect(),
        };
        let hidden = std::mem::take(&mut resolved.hidden);
        let mut plan = self.plan(policy, resolved, layers)?;
        if plan.bare && !plan.whole_host {
            let folder = self.temporary()?.path();
            plan.mounts.retain(|step| !matches!(step, MountStep::Session { .. }));
            environment.retain(|(name, _)| name != "TMPDIR");
            environment.push(("TMPDIR".into(), folder.into()));
            // Bash looks its user's up otherwise, over a socket that is refused here: a denial of each call.
            if environment.iter().all(|(name, _)| name != "SHELL") {
                environment.push(("SHELL".into(), "/bin/sh".into()));
            }
        }
        Ok(Planned { plan, worker_plan, environment, hidden })
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
        let host = self.host();
        let bare = host.tier() == Tier::Bare;
        let landlock = match enforced(Layer::Landlock).then_some(()).and(host.landlock_abi) {
            None => None,
            Some(abi) if bare => {
                let rules = bare::rules(&resolved, self.temporary()?.path())?;
                Some(LandlockPlan { abi, rules })
            }
            Some(abi) => Some(LandlockPlan { abi, rules: resolved.rules }),
        };
        let absent = |step: &MountStep| matches!(step, MountStep::Hide { absent: true, .. });
        // PIDFD_THREAD, by which the init comes by the caller's folder.
        let can_answer = !bare && host.kernel >= (6, 9);
        let listings = match can_answer && resolved.mounts.iter().any(absent) {
            true => Listings::Asked,
            false => Listings::Whole,
        };
        Ok(CellPlan {
            whole_host: policy.is_full_access(),
            bare,
            mounts: resolved.mounts,
            landlock,
            seccomp: if enforced(Layer::Seccomp) {
                let refusals = match host.seccomp_notify {
                    true => Refusals::Named,
                    false => Refusals::Silent,
                };
                let surroundings = match (bare && !policy.is_full_access(), policy.network.mode) {
                    (false, _) => Surroundings::Namespaces,
                    (true, NetworkMode::Host) => Surroundings::HostNetwork,
                    (true, _) => Surroundings::NoNetwork,
                };
                filter::compile(&policy.syscalls, refusals, surroundings, listings)?
            } else {
                None
            },
            protected: resolved.protected,
            group: None,
        })
    }
}

impl Session {
    fn temporary(&self) -> Result<&TemporaryFolder, SetupFailure> {
        if self.temporary.get().is_none() {
            let made = TemporaryFolder::make().map_err(|error| SetupFailure {
                step: "temporary-folder".into(),
                subject: Some(std::env::temp_dir().display().to_string()),
                errno: error.raw_os_error(),
                detail: error.to_string(),
                remedy: "set TMPDIR to a folder that can be written to".into(),
            })?;
            // One cell is built at a time.
            let _ = self.temporary.set(made);
        }
        self.temporary.get().ok_or_else(|| unexpected(&"no temporary folder"))
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
    hidden: HiddenByUser,
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
        if let Ok(cells) = self.0.cells.try_lock()
            && let Some(cell) = known(&cells, policy)
        {
            return Ok(cell);
        }
        // In a task of its own: what the launcher was asked is always answered for, even if whoever asked gives up.
        let (session, policy) = (Arc::clone(&self.0), policy.clone());
        match tokio::spawn(async move { session.cell(&policy).await }).await {
            Ok(cell) => Ok(cell? as Arc<dyn Cell>),
            Err(error) => Err(SandboxError::CellLost(error.to_string())),
        }
    }

    fn would_build(&self, policy: &Policy) -> Result<(), SandboxError> {
        seal::seal(policy, self.0.host(), cell_group::available(&policy.limits))?;
        if !policy.is_full_access() {
            resolve::resolve(policy, &self.0.variables)?;
        }
        Ok(())
    }

    fn workspace(&self) -> PathBuf {
        self.0.variables.workspace.clone()
    }
}
