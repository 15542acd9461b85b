//! `stockade run`: one command, confined (spec 10.1, 10.2).

mod recording;
mod streams;
mod terminal;
mod transcript;

use crate::args::RunArgs;
use crate::report::{self, Report};
use crate::{complain, complain_in_lines, session, signals};
use recording::Recording;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use stockade_launcher::OnlyCell;
use stockade_policy::{NetworkMode, Overlay, OverlayError, Policy, Variables};
use stockade_sandbox::linux::{HostCaps, LauncherSource, LinuxProvider, SessionOptions};
use stockade_sandbox::{Cell, CommandSpec, SandboxError, SandboxProvider, Stdio};
use stockade_subprocess::{Finished, RunOptions, RunningCommand};
use stockade_types::{CancelReason, LayerReport, Outcome, Refusal, SetupFailure, visible};
use streams::Streams;
use terminal::Joined;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

/// Runs the command and gives its exit code.
pub fn main(args: &RunArgs) -> ExitCode {
    // Before anything runs: a descriptor that is not there must not be found out after the command.
    let status = match args.status_fd.map(status_fd).transpose() {
        Ok(status) => status,
        Err(error) => {
            let fd = args.status_fd.unwrap_or_default();
            complain(&format!("--status-fd {fd}: {error}; it must be open when stockade starts"));
            return ExitCode::from(report::exit::SETUP_FAILED);
        }
    };
    let mut ran = Ran {
        finished: Finished::never_ran(Outcome::Exited { code: 0 }),
        layers: LayerReport::default(),
        stopped_by: None,
        shown: true,
    };
    let mut result = first_run(args, &mut ran);
    if let Err(SandboxError::Setup(failure)) = &result
        && let Some(host) = HostCaps::ask().after(failure)
    {
        // Nothing has run. What this host lacks came out only by trying; now it is known.
        result = second_run(args, host, &mut ran);
    }
    if let Err(error) = result {
        ran.finished = Finished::from(error);
    }
    tell(args, status, &ran)
}

/// A duplicate of the descriptor, if it was open when we started: a standard one is always open by now.
fn status_fd(fd: RawFd) -> io::Result<OwnedFd> {
    if stockade_sys::stdio::was_closed(fd) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    stockade_sys::fd::duplicate(fd)
}

/// What is known at the end.
struct Ran {
    finished: Finished,
    layers: LayerReport,
    stopped_by: Option<i32>,
    /// Whether what the command's terminal showed has arrived.
    shown: bool,
}

fn first_run(args: &RunArgs, ran: &mut Ran) -> Result<(), SandboxError> {
    let policy = session::policy(&args.confine.place.policy)?;
    let new_network =
        args.confine.net.as_ref().map_or(policy.network.mode, |net| net.mode) == NetworkMode::None;
    run(args, policy, launcher(new_network)?, None, ran)
}

/// On a host that is known to lack something.
fn second_run(args: &RunArgs, host: HostCaps, ran: &mut Ran) -> Result<(), SandboxError> {
    let policy = session::policy(&args.confine.place.policy)?;
    run(args, policy, LauncherSource::CurrentExecutable, Some(host), ran)
}

fn run(
    args: &RunArgs,
    policy: Policy,
    launcher: LauncherSource,
    host: Option<HostCaps>,
    ran: &mut Ran,
) -> Result<(), SandboxError> {
    let options = SessionOptions {
        host,
        ..session::options(args.confine.place.workspace.as_deref(), launcher)?
    };
    let home = options.home.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| SetupFailure::of_step("runtime", &error))?;
    runtime.block_on(async {
        let mut stop =
            signals::listen().map_err(|error| SetupFailure::of_step("signals", &error))?;
        let provider = LinuxProvider::start(options).await?;
        let variables = Variables { workspace: provider.workspace(), home, session: None };
        let mut policy = overlaid(policy, args, &variables)?;
        let state_dir = match &args.confine.state_dir {
            Some(state_dir) => Some(recording::folder(state_dir, &variables.workspace)?),
            None => None,
        };
        if let (Some(state_dir), false) = (&state_dir, policy.is_full_access()) {
            policy.filesystem.literal.hide.push(state_dir.clone());
        }
        let cell = provider.cell(&policy).await?;
        ran.layers = cell.layers();
        let recording = match &state_dir {
            Some(state_dir) => Some(Recording::begin(
                state_dir,
                &args.command,
                &policy,
                &variables.workspace,
                &ran.layers,
            )?),
            None => None,
        };
        let command = command(args, variables.workspace.clone())?;
        let options = run_options(args, &policy);
        let ended = supervise(&*cell, command, options, args, &mut stop, ran).await;
        if let (Some(recording), Err(error)) = (&recording, &ended) {
            recording.broken_off(error);
        }
        ran.finished = ended?;
        ran.finished.infer(&*cell, &variables.workspace);
        if let Some(recording) = recording {
            recording.end(&ran.finished);
        }
        // The process is about to end, and the kernel takes it apart faster.
        provider.leave_nothing();
        std::mem::forget((provider, cell, policy));
        Ok::<(), SandboxError>(())
    })?;
    std::mem::forget(runtime);
    Ok(())
}

/// No thread exists yet, so that a plain clone will do; it spares executing this program anew, and one command needs no more than
/// one cell. Early: the less memory this process has touched, the less there is to copy, and the namespaces are made while
/// the policy's paths are looked up.
fn launcher(new_network: bool) -> Result<LauncherSource, SetupFailure> {
    if let Ok(cell) = stockade_launcher::fork_only_cell(new_network) {
        let OnlyCell { control, pid, pidfd, new_network } = cell;
        return Ok(LauncherSource::OnlyCell { control, pid, pidfd, new_network });
    }
    // Where that cannot be had, a launcher finds out what can, or says why nothing can.
    let (control, pid) = stockade_launcher::fork()
        .map_err(|error| SetupFailure::of_step("fork-launcher", &error))?;
    Ok(LauncherSource::Running { control, pid })
}

/// The policy with what the command line adds to it.
fn overlaid(policy: Policy, args: &RunArgs, variables: &Variables) -> Result<Policy, SandboxError> {
    let overlay = Overlay {
        read: absolute("--read", &args.confine.read)?,
        write: absolute("--write", &args.confine.write)?,
        hide: absolute("--hide", &args.confine.hide)?,
        network: args.confine.net.clone(),
        limits: args.confine.limit.clone(),
    };
    if overlay == Overlay::default() {
        return Ok(policy);
    }
    policy.with_overlay(&overlay, variables).map_err(|error| match error {
        OverlayError::Hidden { .. }
        | OverlayError::Protected { .. }
        | OverlayError::FullAccess { .. } => {
            Refusal { by: "policy".to_owned(), reason: error.to_string() }.into()
        }
        _ => failure("policy", None, error.to_string()).into(),
    })
}

/// Paths as they are written where that can be, since a symlink that is named may be meant. `..` has a meaning only on the
/// disk. One that is not there was mistyped: as a grant it would do nothing, and nothing would be hidden by it.
fn absolute(option: &str, paths: &[PathBuf]) -> Result<Vec<PathBuf>, SetupFailure> {
    let resolve = |path: &PathBuf| {
        // What a link leads to is not asked: it may be meant to be hidden itself.
        let found = match std::fs::symlink_metadata(path) {
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Err(error)
            }
            _ => Ok(()),
        };
        found
            .and_then(|()| {
                if path.components().any(|part| part == Component::ParentDir) {
                    std::fs::canonicalize(path)
                } else {
                    std::path::absolute(path)
                }
            })
            .map_err(|error| SetupFailure {
                subject: Some(visible(&format!("{option} {}", path.display()))),
                ..SetupFailure::of_step("policy", &error)
            })
    };
    paths.iter().map(resolve).collect()
}

/// The command with its streams: those of `stockade` itself, or pipes that are captured.
fn command(args: &RunArgs, workspace: PathBuf) -> Result<CommandSpec, SetupFailure> {
    let own = |fd: i32| -> Result<Stdio, SetupFailure> {
        stockade_sys::fd::duplicate(fd)
            .map(Stdio::Fd)
            .map_err(|error| SetupFailure::of_step("stdio", &error))
    };
    let output = |fd: i32| if args.json { Ok(Stdio::Pipe) } else { own(fd) };
    let mut command = CommandSpec {
        argv: args.command.clone(),
        env: args.confine.env.iter().filter_map(|entry| variable(entry)).collect(),
        cwd: workspace,
        stdin: own(0)?,
        stdout: output(1)?,
        stderr: output(2)?,
        terminal: None,
    };
    if args.tty {
        terminal::ask(&mut command);
    }
    Ok(command)
}

/// `NAME=VALUE`, or `NAME` with the value that it has here; nothing if it has none.
fn variable(entry: &OsStr) -> Option<(OsString, OsString)> {
    let bytes = entry.as_bytes();
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(at) => {
            let (name, value) = bytes.split_at(at);
            let value = value.strip_prefix(b"=").unwrap_or_default();
            let own = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
            Some((own(name), own(value)))
        }
        None => {
            let value = std::env::var_os(entry);
            if value.is_none() {
                complain(&format!(
                    "--env {}: it is not set here, so it is not set there",
                    entry.display()
                ));
            }
            value.map(|value| (entry.to_owned(), value))
        }
    }
}

fn run_options(args: &RunArgs, policy: &Policy) -> RunOptions {
    let defaults = RunOptions::default();
    let limits = &policy.limits;
    let output = limits.output.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    RunOptions {
        // The option is for this command, the limit is the policy's: neither lets out the other.
        deadline: args.confine.timeout.into_iter().chain(limits.wall).min(),
        grace: args.confine.grace.or(limits.grace).unwrap_or(defaults.grace),
        output_limit: output.unwrap_or(defaults.output_limit),
        ..defaults
    }
}

/// Runs it to its end. The first signal that stops `stockade` cancels it, the second kills it at once; one that suspends
/// `stockade` suspends it.
async fn supervise(
    cell: &dyn Cell,
    command: CommandSpec,
    options: RunOptions,
    args: &RunArgs,
    stop: &mut UnboundedReceiver<i32>,
    ran: &mut Ran,
) -> Result<Finished, SandboxError> {
    // A terminal of the command's own is taken care of below.
    let _streams = (!args.tty).then(Streams::now);
    let mut running = RunningCommand::start(cell, command, options).await?;
    let mut joined = match running.take_terminal() {
        Some(terminal) => Some(Joined::new(terminal, args.transcript.as_deref())?),
        None => None,
    };
    // Now that the command runs, and not on its way there.
    let mut seldom = signals::listen_to(if args.tty { &AT_A_TERMINAL } else { &SELDOM })
        .map_err(|error| SetupFailure::of_step("signals", &error))?;
    let control = running.control();
    let mut end = std::pin::pin!(running.wait(CancellationToken::new()));
    let mut has_hung_up = false;
    let finished = loop {
        let follow_size = async {
            match &joined {
                Some(joined) => joined.follow_size().await,
                None => std::future::pending().await,
            }
        };
        let hung_up = async {
            match joined.as_ref().filter(|_| !has_hung_up) {
                Some(joined) => joined.output_refused().await,
                None => std::future::pending().await,
            }
        };
        let signal = tokio::select! {
            finished = &mut end => break finished,
            Some(signal) = stop.recv() => signal,
            Some(signal) = seldom.recv() => signal,
            () = follow_size => continue,
            // As whoever writes to a pipe that nobody reads is told.
            () = hung_up => {
                has_hung_up = true;
                control.cancel(CancelReason::UserInterrupted);
                continue;
            }
        };
        if signal == libc::SIGTSTP {
            control.suspend();
            tokio::select! {
                finished = &mut end => break finished,
                // It takes the order, then the tree its signal.
                () = tokio::time::sleep(SUSPENDED) => {}
            }
            joined.iter_mut().for_each(Joined::suspended);
            stockade_sys::signal::stop_self();
            joined.iter_mut().for_each(Joined::resumed);
            control.resume();
        } else if ran.stopped_by.replace(signal).is_some() {
            control.kill_now();
        } else {
            control.cancel(CancelReason::UserInterrupted);
        }
    };
    if let Some(joined) = joined {
        ran.shown = joined.finish().await;
    }
    Ok(finished)
}

/// The signals that stop a run besides the usual, and the one that suspends it.
const SELDOM: [i32; 2] = [libc::SIGQUIT, libc::SIGTSTP];

/// The same while the host's terminal is not as it was: whatever else would end us then has to leave the time to give it back.
const AT_A_TERMINAL: [i32; 11] = [
    libc::SIGQUIT,
    libc::SIGTSTP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGXCPU,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGABRT,
];

/// The command ended well, but what it showed or how it went has not arrived.
const NOT_TOLD: u8 = 1;

/// How long the command's tree may take to be stopped before `stockade` stops itself.
const SUSPENDED: Duration = Duration::from_millis(20);

/// Tells how it went: the object on stdout (`--json`) or on its own descriptor, a line on stderr, the exit code.
fn tell(args: &RunArgs, status: Option<OwnedFd>, ran: &Ran) -> ExitCode {
    let code = report::exit_code(&ran.finished.outcome, ran.stopped_by);
    let mut told = ran.shown;
    let workspace = args.confine.place.workspace.as_deref().unwrap_or(Path::new("."));
    if let Some(status) = status {
        let object = Report::status(&ran.finished, &ran.layers, workspace);
        if let Err(error) = write_object(File::from(status), &object) {
            complain(&format!("the command has run, but the status cannot be written: {error}"));
            told = false;
        }
    }
    if args.json {
        let object = Report::whole(&ran.finished, &ran.layers, workspace);
        if let Err(error) = write_object(io::stdout().lock(), &object) {
            complain(&format!("the command has run, but the report cannot be written: {error}"));
            told = false;
        }
    } else {
        ran.finished.denials.iter().for_each(|denial| complain(&report::refused(denial)));
        if let Some(message) = report::message(&ran.finished, workspace) {
            // The error of a policy shows the lines that it is about.
            match &ran.finished.outcome {
                Outcome::SetupFailed(failure) if failure.step == "policy" => {
                    complain_in_lines(&message);
                }
                _ => complain(&message),
            }
        }
    }
    ExitCode::from(if code == 0 && !told { NOT_TOLD } else { code })
}

fn write_object(mut target: impl Write, object: &Report) -> io::Result<()> {
    let mut line = serde_json::to_vec(object)?;
    line.push(b'\n');
    target.write_all(&line)?;
    target.flush()
}

fn failure(step: &str, errno: Option<i32>, detail: String) -> SetupFailure {
    SetupFailure { step: step.to_owned(), subject: None, errno, detail, remedy: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn paths_on_the_command_line_are_made_absolute_and_keep_their_links() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().canonicalize().unwrap();
        std::fs::create_dir(folder.join("real")).unwrap();
        std::os::unix::fs::symlink("real", folder.join("link")).unwrap();
        let one = |path: PathBuf| absolute("--read", &[path]).map(|mut paths| paths.remove(0));
        assert_eq!(one(folder.join("link")), Ok(folder.join("link")));
        assert_eq!(one(folder.join("link/../real")), Ok(folder.join("real")));
        assert_eq!(one("src".into()), Ok(std::env::current_dir().unwrap().join("src")));
        assert!(one(folder.join("mistyped")).is_err());
        let failed = one(folder.join("absent/../x")).unwrap_err();
        assert!(failed.to_string().contains("absent/../x"), "{failed}");
    }

    // spec 10.1
    #[test]
    fn a_variable_is_set_byte_for_byte_or_taken_over_from_here() {
        let set = |entry: &[u8]| variable(OsStr::from_bytes(entry));
        assert_eq!(set(b"A=b=c"), Some(("A".into(), "b=c".into())));
        assert_eq!(set(b"A="), Some(("A".into(), "".into())));
        let odd = OsString::from_vec(b"\xff$HOME".to_vec());
        assert_eq!(set(b"A=\xff$HOME"), Some(("A".into(), odd)));
        let path = std::env::var_os("PATH").unwrap();
        assert_eq!(set(b"PATH"), Some(("PATH".into(), path)));
        assert_eq!(set(b"NO_SUCH_VARIABLE_HERE"), None);
    }
}
