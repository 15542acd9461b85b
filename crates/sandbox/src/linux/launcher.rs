//! Starting a session's launcher and opening the session in it.

use super::channel::Channel;
use super::host::{HostCaps, Tier};
use super::id_map;
use crate::SandboxError;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use stockade_plan::{LauncherReply, LauncherRequest, ProbeReport, StageFailure};
use stockade_sys::process;
use stockade_types::{Layer, SetupFailure};

/// How to get namespaces and mounts.
pub(super) const NAMESPACES_REMEDY: &str = "allow user namespaces (sysctl user.max_user_namespaces above 0, kernel.apparmor_restrict_unprivileged_userns=0, in a container a seccomp profile that lets unshare and clone through and an unmasked /proc), or run as root with CAP_SYS_ADMIN";

/// `argv[0]` of a launcher; `stockade_launcher::ARGV0` is the same, and a test holds them together.
pub(super) const ARGV0: &str = "stockade-launcher";

/// `stockade_launcher::WITHOUT_USER_NAMESPACE`.
pub(super) const WITHOUT_USER_NAMESPACE: &str = "without-user-namespace";

/// How long a session's end waits for its processes, of which each waits for its own: without that, the first process of the host would
/// have to, and in a container that is often one which does not.
pub(super) const PATIENCE_MS: i32 = 500;

/// Where the launcher comes from.
#[derive(Debug, Default)]
pub enum LauncherSource {
    /// This very program, executed anew. Its `main` begins with `stockade_launcher::main_if_launcher()`.
    #[default]
    CurrentExecutable,
    /// Another program whose `main` begins so.
    Executable(PathBuf),
    /// One that runs already, as `stockade_launcher::fork()` gives it.
    Running {
        /// The runtime's end of its control socket.
        control: OwnedFd,
        /// Its pid.
        pid: i32,
    },
    /// None: the session's only cell runs already, as `stockade_launcher::fork_only_cell()` gives it.
    OnlyCell {
        /// The runtime's end of its control socket.
        control: OwnedFd,
        /// Its pid.
        pid: i32,
        /// Its pidfd.
        pidfd: OwnedFd,
        /// Whether it has a network namespace of its own.
        new_network: bool,
    },
}

/// A session's launcher. Dropping it ends it, and with it every cell and every call of the session.
pub struct Launcher {
    /// Its control socket.
    channel: Channel,
    pid: i32,
    child: Option<Child>,
    /// The session's root was ordered, and nobody has waited for it yet.
    opening: bool,
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.end();
    }
}

impl Launcher {
    /// Ends it and waits, for a while.
    pub(super) fn end(&mut self) {
        self.channel.end();
        let ended = process::pidfd_open(self.pid)
            .is_ok_and(|pidfd| process::await_end(pidfd.as_fd(), PATIENCE_MS));
        // The kill is what the wait may rely on.
        if let Some(child) = &mut self.child {
            if !ended {
                let _ = child.kill();
            }
            let _ = child.wait();
        }
    }

    /// Starts the process, which enters a user namespace unless this host has none. Never forks this one.
    pub fn start(source: LauncherSource, host: &HostCaps) -> Result<Self, SetupFailure> {
        let failed = |subject: Option<String>| {
            move |error: io::Error| SetupFailure {
                step: "start-launcher".into(),
                subject,
                errno: error.raw_os_error(),
                detail: error.to_string(),
                remedy: String::new(),
            }
        };
        let program = match source {
            LauncherSource::Running { control, pid } => {
                let channel = Channel::new(control).map_err(failed(None))?;
                return Ok(Self { channel, pid, child: None, opening: false });
            }
            LauncherSource::OnlyCell { .. } => {
                return Err(failed(None)(io::Error::other(
                    "a session with one cell has no launcher",
                )));
            }
            // Not `current_exe`: that path may be another file by now.
            LauncherSource::CurrentExecutable => PathBuf::from("/proc/self/exe"),
            LauncherSource::Executable(path) => path,
        };
        let subject = Some(program.display().to_string());
        let (ours, theirs) = stockade_sys::socket::packet_pair().map_err(failed(None))?;
        let without = host.lacks(Layer::UserNamespace).map(|_| WITHOUT_USER_NAMESPACE);
        let child = Command::new(&program)
            .arg0(ARGV0)
            .args(without)
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed(subject))?;
        let pid = child.id() as i32;
        let channel = Channel::new(ours).map_err(failed(None))?;
        Ok(Self { channel, pid, child: Some(child), opening: false })
    }

    /// Opens the session: user namespace, id maps, root. What turns out to be missing is noted in `host`. The root is only ordered here:
    /// the answer is waited for with the first cell's, since the launcher needs no help for it.
    pub async fn open_session(&mut self, host: &mut HostCaps) -> Result<(), SetupFailure> {
        self.map_ids(host).await?;
        if host.tier() == Tier::Bare {
            return Ok(());
        }
        self.channel
            .send(&LauncherRequest::OpenSession, &[])
            .await
            .map_err(|error| lost(&error))?;
        self.opening = true;
        Ok(())
    }

    /// Asks for a cell whose control socket is `control`; [`Launcher::cell_started`] gives the answer.
    pub async fn make_cell(&self, new_network: bool, bare: bool, control: BorrowedFd<'_>) {
        let request = LauncherRequest::MakeCell { new_network, bare };
        // A launcher that is gone has said why, or shows it by its silence: its word counts more than a failed send.
        let _ = self.channel.send(&request, &[control]).await;
    }

    /// Has the launcher remove a folder of the host when the session is over, however it ends.
    pub async fn remove_at_end(&self, folder: &Path) {
        // A launcher that is gone shows it when it is asked for something.
        let request = LauncherRequest::RemoveAtEnd { folder: folder.into() };
        let _ = self.channel.send(&request, &[]).await;
    }

    /// The pidfd of the cell that was asked for.
    pub async fn cell_started(&mut self) -> Result<OwnedFd, SandboxError> {
        let mut not_opened = None;
        if std::mem::take(&mut self.opening) {
            match self.channel.receive().await.map_err(|error| over(&error))? {
                (LauncherReply::SessionReady, _) => {}
                (LauncherReply::Failed(failure), _) => not_opened = Some(failure),
                (other, _) => return Err(unexpected(&other).into()),
            }
        }
        match (self.channel.receive().await.map_err(|error| over(&error))?, not_opened) {
            ((LauncherReply::CellStarted, mut fds), None) => {
                fds.pop().ok_or_else(|| unexpected(&"no pidfd").into())
            }
            // The reason comes first.
            ((LauncherReply::Failed(_), _), Some(failure))
            | ((LauncherReply::Failed(failure), _), None) => Err(setup_failure(&failure).into()),
            ((other, _), _) => Err(unexpected(&other).into()),
        }
    }

    /// Waits until the launcher is in its user namespace, and writes its maps; or hears that there is none.
    pub async fn map_ids(&self, host: &mut HostCaps) -> Result<(), SetupFailure> {
        match self.answer().await? {
            LauncherReply::MapIds => id_map::write(self.pid),
            LauncherReply::NoUserNamespace(failure) => {
                if host.lacks(Layer::UserNamespace).is_none() {
                    host.missing.push((Layer::UserNamespace, reason(&setup_failure(&failure))));
                }
                Ok(())
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Tries out what can be done from where the launcher is.
    pub async fn probe(&self) -> Result<ProbeReport, SetupFailure> {
        match self.ask(&LauncherRequest::Probe).await? {
            LauncherReply::Probed(report) => Ok(report),
            other => Err(unexpected(&other)),
        }
    }

    async fn ask(&self, request: &LauncherRequest) -> Result<LauncherReply, SetupFailure> {
        self.channel.send(request, &[]).await.map_err(|error| lost(&error))?;
        self.answer().await
    }

    async fn answer(&self) -> Result<LauncherReply, SetupFailure> {
        match self.channel.receive().await {
            Ok((LauncherReply::Failed(failure), _)) => Err(setup_failure(&failure)),
            Ok((reply, _)) => Ok(reply),
            Err(error) => Err(lost(&error)),
        }
    }
}

fn over(error: &io::Error) -> SandboxError {
    SandboxError::SessionOver(format!("the launcher does not answer: {error}"))
}

/// A failure as the reason why a layer is missing.
pub(super) fn reason(failure: &SetupFailure) -> String {
    match failure.remedy.as_str() {
        "" => format!("{}: {}", failure.step, failure.detail),
        remedy => format!("{}: {}; {remedy}", failure.step, failure.detail),
    }
}

fn lost(error: &io::Error) -> SetupFailure {
    SetupFailure {
        step: "launcher".into(),
        subject: None,
        errno: error.raw_os_error(),
        detail: format!("the launcher does not answer: {error}"),
        remedy: "somebody ended it, or it is not Stockade's: a program that embeds Stockade calls stockade_launcher::main_if_launcher() first in its main".into(),
    }
}

pub(super) fn unexpected(reply: &impl std::fmt::Debug) -> SetupFailure {
    SetupFailure {
        step: "message".into(),
        subject: None,
        errno: None,
        detail: format!("an answer that does not fit its question: {reply:?}"),
        remedy: String::new(),
    }
}

/// A stage's failure in words, with a remedy where there is one.
pub(super) fn setup_failure(failure: &StageFailure) -> SetupFailure {
    let detail = match (failure.errno, failure.detail.as_str()) {
        (0, detail) => detail.to_owned(),
        (errno, "") => io::Error::from_raw_os_error(errno).to_string(),
        (errno, detail) => format!("{detail}: {}", io::Error::from_raw_os_error(errno)),
    };
    let subject = failure.subject.as_os_str().to_string_lossy().into_owned();
    SetupFailure {
        step: failure.stage.name().into(),
        subject: Some(subject).filter(|subject| !subject.is_empty()),
        errno: Some(failure.errno).filter(|errno| *errno != 0),
        detail,
        remedy: remedy(failure).into(),
    }
}

fn remedy(failure: &StageFailure) -> &'static str {
    use stockade_plan::Stage;
    match (failure.stage, failure.errno) {
        (Stage::UserNamespace, libc::ENOSPC) => {
            "user namespaces are switched off here: set the sysctl user.max_user_namespaces above 0"
        }
        (Stage::UserNamespace, libc::EPERM) => {
            "user namespaces are forbidden here, by a container's seccomp profile or a security module: allow unshare(CLONE_NEWUSER), or set kernel.apparmor_restrict_unprivileged_userns=0 or kernel.unprivileged_userns_clone=1"
        }
        (Stage::SessionRoot | Stage::CellClone | Stage::Mount, libc::EPERM) => {
            "namespaces or mounts are forbidden here, most often by a container's seccomp or AppArmor profile"
        }
        (Stage::MountProc, libc::EPERM) => {
            "/proc is masked here, as in a default container: give the container an unmasked /proc"
        }
        (Stage::WorkingDirectory, _) => {
            "the working directory must exist and be visible to the policy"
        }
        (
            Stage::CellClone | Stage::InitClone | Stage::CommandClone,
            libc::ENOSPC | libc::EAGAIN,
        ) => "too many namespaces or processes: raise user.max_*_namespaces or the process limit",
        (_, libc::ENOSYS) => {
            "the kernel is too old for it, or a seccomp filter keeps a system call from Stockade (in a cell of Stockade's own: openat2, which the outer policy lets through with [syscalls] allow = [\"openat2\"])"
        }
        (_, errno) => SetupFailure::general_remedy(errno).unwrap_or_default(),
    }
}
