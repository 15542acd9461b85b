//! `stockade doctor`: what this machine has, found by trying (spec 10.3).

mod diagnosis;
mod limits;
mod repair;

use crate::args::DoctorArgs;
use crate::{complain, session};
use diagnosis::{Diagnosis, LayerFinding, Missing, PolicyFinding};
use repair::Repair;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use stockade_policy::{Policy, shipped_names};
use stockade_sandbox::linux::{HostCaps, LauncherSource, LinuxProvider, SessionOptions};
use stockade_sandbox::{CommandSpec, SandboxError, SandboxProvider, Stdio};
use stockade_subprocess::RunOptions;
use stockade_types::{Layer, LayerState, Outcome};
use tokio_util::sync::CancellationToken;

/// The machine will not do.
const UNSOUND: u8 = 1;

/// How long the trial of a policy may take.
const TRIAL: Duration = Duration::from_secs(10);

/// Prints the diagnosis.
pub fn main(args: &DoctorArgs) -> ExitCode {
    if args.repair {
        let repair = Repair::run(args.state_dir.as_deref());
        return print(&repair.to_string(), repair.is_whole());
    }
    let host = args.simulate.iter().fold(HostCaps::ask(), |host, lack| host.without(*lack));
    let diagnosis = match diagnose(host) {
        Ok(diagnosis) => diagnosis,
        Err(error) => {
            complain(&format!("the machine cannot be examined: {error}"));
            return ExitCode::from(UNSOUND);
        }
    };
    let text = match args.json {
        true => serde_json::to_string(&diagnosis).map(|json| json + "\n"),
        false => Ok(diagnosis.to_string()),
    };
    match text {
        Ok(text) => print(&text, diagnosis.is_sound()),
        Err(error) => {
            complain(&format!("the diagnosis cannot be written: {error}"));
            ExitCode::from(UNSOUND)
        }
    }
}

fn print(text: &str, is_sound: bool) -> ExitCode {
    if let Err(error) = std::io::stdout().write_all(text.as_bytes()) {
        complain(&format!("the diagnosis cannot be written: {error}"));
        return ExitCode::from(UNSOUND);
    }
    ExitCode::from(if is_sound { 0 } else { UNSOUND })
}

fn diagnose(host: HostCaps) -> std::io::Result<Diagnosis> {
    let scratch = tempfile::tempdir()?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let caps = host.clone().probe(LauncherSource::CurrentExecutable).await;
        let mut policies = Vec::new();
        for name in shipped_names() {
            let missing = try_policy(name, scratch.path(), &host).await.err();
            policies.push(PolicyFinding {
                policy: name.to_owned(),
                enforceable: missing.is_none(),
                missing: missing.into_iter().flatten().collect(),
            });
        }
        Ok(Diagnosis {
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| "unknown".to_owned(), |release| release.trim().to_owned()),
            tier: caps.tier().describe().to_owned(),
            layers: Layer::ALL.iter().map(|layer| finding(&caps, *layer)).collect(),
            limits: limits::held_by(&caps),
            policies,
        })
    })
}

fn finding(caps: &HostCaps, layer: Layer) -> LayerFinding {
    let lacks = caps.lacks(layer);
    let detail = match (&lacks, layer) {
        (Some(reason), _) => reason.clone(),
        (None, Layer::Landlock) => {
            let records = match caps.audit_records && stockade_sys::audit::is_on() {
                true => "; the kernel's audit records name what it refuses",
                false => "",
            };
            caps.landlock_abi.map_or_else(String::new, |abi| format!("abi {abi}{records}"))
        }
        (None, _) => String::new(),
    };
    LayerFinding {
        layer,
        there: lacks.is_none(),
        detail,
        remedy: if lacks.is_some() { remedy(layer).to_owned() } else { String::new() },
    }
}

/// How to get a layer that is missing.
fn remedy(layer: Layer) -> &'static str {
    match layer {
        Layer::UserNamespace => {
            "allow user namespaces: sysctl user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1 (Debian), kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu); in a container, a seccomp profile that lets unshare and clone through"
        }
        Layer::PidNamespace
        | Layer::MountNamespace
        | Layer::NetworkNamespace
        | Layer::IpcNamespace
        | Layer::UtsNamespace
        | Layer::CgroupNamespace => {
            "allow it: the sysctl user.max_*_namespaces above 0, and in a container a seccomp profile that lets unshare and clone through"
        }
        Layer::MountTree => {
            "allow mounts inside a user namespace: in a container, an AppArmor profile that does (or none) and an unmasked /proc"
        }
        Layer::Landlock => {
            "run Linux 5.13 or newer, built with CONFIG_SECURITY_LANDLOCK, with landlock in the kernel's lsm= list"
        }
        Layer::Seccomp => "run a kernel built with CONFIG_SECCOMP_FILTER",
        Layer::NoNewPrivs | Layer::Capabilities | Layer::Rlimits => "every supported kernel has it",
    }
}

/// Builds the policy's cell and runs a command in it; the error is what is missing.
async fn try_policy(name: &str, workspace: &Path, host: &HostCaps) -> Result<(), Vec<Missing>> {
    let policy = Policy::load(name.as_ref()).map_err(|error| missing("policy", error))?;
    let options = session::options(Some(workspace), LauncherSource::CurrentExecutable)
        .map_err(|failure| missing(&failure.step.clone(), failure))?;
    let options = SessionOptions { host: Some(host.clone()), ..options };
    let provider = LinuxProvider::start(options).await.map_err(not_enforceable)?;
    let cell = provider.cell(&policy).await.map_err(not_enforceable)?;
    let absent: Vec<Missing> = cell
        .layers()
        .0
        .into_iter()
        .filter_map(|entry| match entry.state {
            LayerState::Missing { reason } => {
                Some(Missing { what: entry.layer.name().to_owned(), why: reason })
            }
            LayerState::Enforced { .. } | LayerState::NotRequested => None,
        })
        .collect();
    if !absent.is_empty() {
        return Err(absent);
    }
    let command = CommandSpec {
        argv: vec!["true".into()],
        env: Vec::new(),
        cwd: provider.workspace(),
        stdin: Stdio::Null,
        stdout: Stdio::Null,
        stderr: Stdio::Null,
        terminal: None,
    };
    let options = RunOptions { deadline: Some(TRIAL), ..RunOptions::default() };
    let finished =
        stockade_subprocess::run(&*cell, command, options, CancellationToken::new()).await;
    match finished.outcome {
        Outcome::Exited { code: 0 } => Ok(()),
        Outcome::SetupFailed(failure) => Err(missing(&failure.step.clone(), failure)),
        other => Err(missing("trial", format!("`true` did not run in it: {other:?}"))),
    }
}

fn not_enforceable(error: SandboxError) -> Vec<Missing> {
    match error {
        SandboxError::Setup(failure) => missing(&failure.step.clone(), failure),
        SandboxError::Refused(refusal) => missing(&refusal.by.clone(), refusal),
        other => missing("session", other),
    }
}

fn missing(what: &str, why: impl ToString) -> Vec<Missing> {
    vec![Missing { what: what.to_owned(), why: why.to_string() }]
}
