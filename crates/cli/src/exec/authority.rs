//! Who decides in a session of `exec`: rules, ceiling, approver, and the ledger in which they are written down.

use super::terminal::TerminalApprover;
use crate::args::{Approve, ExecArgs};
use crate::{report, session};
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stockade_ledger::{Entry, Event, Ledger, LedgerError, LedgerOptions, LedgerPaths};
use stockade_policy::{Policy, PolicyError, Variables};
use stockade_rules::{RuleErrors, RuleLayer, RuleScope, RuleSet};
use stockade_runtime::{
    Approver, ApproverKind, CeilingApprover, DeniedPaths, DenyApprover, ProgramApprover,
    RpcApprover,
};
use stockade_sandbox::SandboxProvider;
use stockade_types::{LayerState, SessionId, SetupFailure};
use tokio::net::UnixStream;

/// The administrator's rules.
const MANAGED: &str = "/etc/stockade/rules.toml";
/// The project's, in the workspace.
const PROJECT: &str = ".stockade/rules.toml";

/// Why nobody can decide.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("the permission rules are not in force, so nothing runs:\n{0}")]
    Rules(#[from] RuleErrors),
    #[error("--ceiling: {0}")]
    Ceiling(SetupFailure),
    #[error("the policy's ceiling: {0}")]
    PolicyCeiling(#[from] PolicyError),
    #[error(
        "--approve ceiling grants what lies within a ceiling, and there is none: name it with --ceiling, or in the policy"
    )]
    NoCeiling,
    #[error("--approve-socket {}: {source}", path.display())]
    Socket { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("the folder of the state {} cannot be made: {source}", path.display())]
    StateDir { path: PathBuf, source: io::Error },
}

impl AuthorityError {
    pub fn exit_code(&self) -> u8 {
        report::exit::SETUP_FAILED
    }
}

/// Who decides.
pub struct Authority {
    pub rules: RuleSet,
    pub ceiling: Option<Policy>,
    pub approver: Arc<dyn Approver>,
    /// The JSON-RPC client, which may also look after grants.
    pub client: Option<Arc<RpcApprover>>,
}

impl Authority {
    pub async fn of(
        args: &ExecArgs,
        policy: &Policy,
        variables: &Variables,
    ) -> Result<Self, AuthorityError> {
        let ceiling = match &args.ceiling {
            Some(name) => Some(session::policy(name).map_err(AuthorityError::Ceiling)?),
            None => policy.ceiling()?,
        };
        let rules = rules(args, variables)?;
        let timeout = args.approve_timeout;
        let mut client = None;
        let approver: Arc<dyn Approver> = if let Some(program) = &args.approve_program {
            Arc::new(ProgramApprover::new(vec![program.clone()], timeout))
        } else if let Some(path) = &args.approve_socket {
            let connected = UnixStream::connect(path).await;
            let failed = |source| AuthorityError::Socket { path: path.clone(), source };
            let (reader, writer) = connected.map_err(failed)?.into_split();
            let approver = Arc::new(RpcApprover::new(reader, writer, timeout));
            client = Some(Arc::clone(&approver));
            approver
        } else {
            match args.approve {
                Approve::Deny => Arc::new(DenyApprover),
                Approve::Ask => Arc::new(TerminalApprover::new(timeout)),
                Approve::Ceiling if ceiling.is_none() => return Err(AuthorityError::NoCeiling),
                Approve::Ceiling => Arc::new(CeilingApprover),
            }
        };
        Ok(Self { rules, ceiling, approver, client })
    }
}

/// The rules of all layers. A file that is broken stops the session: what it forbids must not be missing.
fn rules(args: &ExecArgs, variables: &Variables) -> Result<RuleSet, RuleErrors> {
    let mut rules = RuleSet::default();
    let mut standing = vec![
        (RuleLayer::Managed, PathBuf::from(MANAGED)),
        (RuleLayer::Project, variables.workspace.join(PROJECT)),
    ];
    if let Some(file) = user_rules() {
        standing.push((RuleLayer::User, file));
    }
    for (layer, file) in standing {
        if !is_absent(&file) {
            rules.add_file(layer, &file)?;
        }
    }
    for file in &args.rules {
        rules.add_file(RuleLayer::User, file)?;
    }
    // Whoever names a settings file for its hooks does not expect its permissions to be passed over.
    if let Some(file) = &args.settings {
        rules.add_settings(RuleLayer::User, file)?;
    }
    Ok(rules)
}

/// Whether there is no such file. One that cannot be looked at is not absent, nor is a link on the way to it that leads nowhere: what it led to
/// may have forbidden something.
fn is_absent(file: &Path) -> bool {
    let missing = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    for path in file.ancestors() {
        match path.symlink_metadata() {
            Ok(_) if path == file => return false,
            Ok(found) => return !(found.is_symlink() && path.metadata().is_err()),
            Err(error) if missing(&error) => {}
            Err(_) => return false,
        }
    }
    true
}

/// `stockade/rules.toml` in the user's configuration folder, by the XDG Base Directory Specification.
fn user_rules() -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let base = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(absolute);
    let home = || std::env::home_dir().filter(absolute).map(|home| home.join(".config"));
    base.or_else(home).map(|base| base.join("stockade/rules.toml"))
}

/// The ledger of this state folder.
pub fn ledger(state_dir: &Path) -> Result<Arc<Ledger>, AuthorityError> {
    std::fs::create_dir_all(state_dir)
        .map_err(|source| AuthorityError::StateDir { path: state_dir.to_owned(), source })?;
    let paths = LedgerPaths::of_state_dir(state_dir);
    Ok(Arc::new(Ledger::open(paths, LedgerOptions::default())?))
}

/// Writes down that the session begins, and what of its policy is not enforced here.
pub async fn begin(
    ledger: &Ledger,
    session: &SessionId,
    authority: &Authority,
    policy: &Arc<Policy>,
    variables: &Variables,
    provider: &dyn SandboxProvider,
) -> Result<(), AuthorityError> {
    let entry = |event| Entry { session: Some(session.clone()), ..Entry::of(event) };
    ledger.append(&entry(Event::SessionStarted {
        policy: policy.name.clone(),
        policy_digest: policy.digest(),
        workspace: provider.workspace().display().to_string(),
        ceiling: authority.ceiling.as_ref().map(|ceiling| ceiling.name.clone()),
        approver: kind(&*authority.approver),
        uid: uid(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        correlation: Value::Null,
    }))?;
    // What rules deny is kept from each call; what cannot be is said once.
    let scope =
        RuleScope { workspace: variables.workspace.clone(), home: Some(variables.home.clone()) };
    let denied = DeniedPaths::new(&authority.rules, &scope);
    let Ok(confined) = denied.confine(policy, variables) else { return Ok(()) };
    for (what, reason) in confined.not_enforced {
        tracing::warn!("the rule {what} is not held by the kernel: {reason}");
        ledger.append(&entry(Event::NotEnforced { what, reason }))?;
    }
    // A cell that cannot be built is every call's own error; the calls find this one ready.
    let Ok(cell) = provider.cell(&confined.policy).await else { return Ok(()) };
    for layer in cell.layers().0 {
        if let LayerState::Missing { reason } = layer.state {
            let what = layer.layer.name().to_owned();
            ledger.append(&entry(Event::NotEnforced { what, reason }))?;
        }
    }
    Ok(())
}

fn kind(approver: &dyn Approver) -> ApproverKind {
    approver.kind()
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}
