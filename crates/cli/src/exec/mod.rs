//! `stockade exec`: a model's turn in, its results out, in the same dialect and in the model's order (spec 10.1).

mod authority;
mod conversation;
mod lines;
mod output;
mod spill;
mod terminal;
#[cfg(test)]
mod tests;

use crate::args::{Cascade, ExecArgs, Format};
use crate::turn::{self, Dialect, Reader};
use crate::{complain, complain_in_lines, report, session, signals};
use conversation::{Broken, Conversation, End};
use output::LineWriter;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use stockade_ledger::LedgerPaths;
use stockade_policy::{Overlay, OverlayError, Policy, Variables};
use stockade_runtime::{
    BuildError, Event, EventSink, HookSession, HookSettingsError, LogError, Notice, RuntimeBuilder,
    SessionLog, Settings, ToolRuntime, command_hooks, command_permission_hooks,
};
use stockade_sandbox::linux::{LauncherSource, LinuxProvider};
use stockade_sandbox::{SandboxError, SandboxProvider};
use stockade_spill::SpillError;
use stockade_subprocess::tasks::Tasks;
use stockade_types::{SessionId, SetupFailure};

/// Signals as they come in.
type Signals = tokio::sync::mpsc::UnboundedReceiver<i32>;

/// The input, or an option, could not be understood.
const INPUT: u8 = 2;
/// Anything else that left calls without results.
const FAILED: u8 = 1;

/// Why there was no conversation, or why it broke off.
#[derive(Debug, thiserror::Error)]
enum ExecError {
    #[error(transparent)]
    Authority(#[from] authority::AuthorityError),
    #[error("--session: {0}")]
    Session(String),
    #[error("the turn cannot be read: {}: {source}", path.display())]
    Input { path: PathBuf, source: io::Error },
    #[error("events cannot be written to {}: {source}", path.display())]
    OpenEvents { path: PathBuf, source: io::Error },
    #[error(
        "the workspace lies in {}, where sessions are kept, so that a call could change their logs; name another folder with --state-dir",
        sessions.display()
    )]
    StateAbove { sessions: PathBuf },
    #[error(transparent)]
    Overlay(#[from] OverlayError),
    #[error(
        "the user's state folder is unknown: set HOME or XDG_STATE_HOME, or name a folder with --state-dir"
    )]
    StateDir,
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Spill(#[from] SpillError),
    #[error("--settings: {0}")]
    Settings(#[from] HookSettingsError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
    #[error("events cannot be written: {0}")]
    Events(io::Error),
    #[error(transparent)]
    Broken(#[from] Broken),
}

impl ExecError {
    fn exit_code(&self) -> u8 {
        match self {
            ExecError::Session(_)
            | ExecError::Input { .. }
            | ExecError::Broken(Broken::Input(_)) => INPUT,
            ExecError::Authority(error) => error.exit_code(),
            ExecError::Sandbox(_)
            | ExecError::StateDir
            | ExecError::StateAbove { .. }
            | ExecError::Overlay(_)
            | ExecError::OpenEvents { .. }
            | ExecError::Log(_)
            | ExecError::Spill(_)
            | ExecError::Settings(_)
            | ExecError::Build(_)
            | ExecError::System { .. } => report::exit::SETUP_FAILED,
            ExecError::Events(_) | ExecError::Broken(_) => FAILED,
        }
    }
}

impl From<SetupFailure> for ExecError {
    fn from(failure: SetupFailure) -> Self {
        ExecError::Sandbox(failure.into())
    }
}

/// Executes the turn and gives the exit code.
pub fn main(args: &ExecArgs) -> ExitCode {
    let system = |what| move |source| ExecError::System { what, source };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(system("the runtime cannot start"));
    let end = runtime.and_then(|runtime| {
        let end = runtime.block_on(exec(args));
        // A thread may be blocked in a read of the input, and is not waited for.
        runtime.shutdown_background();
        end
    });
    let stopped = |signal: i32| {
        u8::try_from(signal).map_or(u8::MAX, |number| report::exit::SIGNAL.saturating_add(number))
    };
    ExitCode::from(match end {
        Ok(End::Answered) => 0,
        Ok(End::BadLines) => INPUT,
        Ok(End::Stopped(signal) | End::Hurried(signal) | End::Killed(signal)) => stopped(signal),
        Err(error) => {
            // The errors of rules and policies show the lines that they are about.
            match &error {
                ExecError::Authority(_) | ExecError::Sandbox(_) | ExecError::Settings(_) => {
                    complain_in_lines(&error.to_string());
                }
                _ => complain(&error.to_string()),
            }
            error.exit_code()
        }
    })
}

async fn exec(args: &ExecArgs) -> Result<End, ExecError> {
    let system = |what| move |source| ExecError::System { what, source };
    let mut stop = signals::listen_to(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT])
        .map_err(system("signals cannot be received"))?;
    let input = open_input(&args.input)?;
    let output = LineWriter::start(io::stdout()).map_err(system("stdout cannot be written"))?;
    let events = args.events.as_deref().map(|path| open_events(path, &output)).transpose()?;

    let policy = session::policy(&args.place.policy)?;
    let state_dir = session::state_dir(args.state_dir.as_deref()).ok_or(ExecError::StateDir)?;
    let session_id = session_id(args)?;
    let log = SessionLog::open(&state_dir, &session_id)?;
    session::remove_stale_sockets(&state_dir);
    let mut options =
        session::options(args.place.workspace.as_deref(), LauncherSource::CurrentExecutable)?;
    let folder = log.path().parent().unwrap_or(&state_dir).canonicalize();
    options.session = Some(folder.map_err(system("the session's folder cannot be found"))?);
    let session_folder = options.session.clone();
    let home = options.home.clone();
    let provider = LinuxProvider::start(options).await?;
    let mut variables =
        Variables { workspace: provider.workspace(), home: home.clone(), session: None };
    let ledger = authority::ledger(&state_dir)?;
    let mut policy = without_sessions(&policy, &state_dir, &variables)?;
    if let (Some(folder), Some(name), false) =
        (&session_folder, log.path().file_name(), policy.is_full_access())
    {
        // Also from a policy that shows `$SESSION` itself.
        policy.filesystem.literal.hide.push(folder.join(name));
    }
    // Only now: what a policy shows of the session's folder is not hidden with the rest of it.
    variables.session = session_folder;
    let spill = spill::open(&state_dir, &session_id)?;
    // The one part of the session's folder that its calls may look at (spec 8.5).
    policy.filesystem.literal.read.push(spill.folder().to_owned());
    let hook_session = HookSession {
        session_id: session_id.as_str().to_owned(),
        transcript_path: log.path().to_owned(),
        cwd: variables.workspace.clone(),
    };
    let (hooks, permission_hooks) = match &args.settings {
        Some(path) => {
            (command_hooks(path, &hook_session)?, command_permission_hooks(path, &hook_session)?)
        }
        None => (Vec::new(), Vec::new()),
    };
    let authority = authority::Authority::of(args, &policy, &variables).await?;
    let provider: Arc<dyn SandboxProvider> = Arc::new(provider);
    let policy = Arc::new(policy);
    authority::begin(&ledger, &session_id, &authority, &policy, &variables, &*provider).await?;
    let mut builder: RuntimeBuilder = ToolRuntime::builder()
        .provider(provider)
        .policy(Arc::unwrap_or_clone(policy))
        .home(home)
        .rules(authority.rules)
        .approver(Arc::clone(&authority.approver))
        .ledger(ledger, session_id.clone())
        .settings(settings(args))
        .tasks(Tasks::in_folder(session::tasks_folder(&state_dir, &session_id)))
        .session_log(log)
        .spill(Arc::new(spill));
    for hook in hooks {
        builder = builder.hook(hook);
    }
    for hook in permission_hooks {
        builder = builder.permission_hook(hook);
    }
    if let Some(events) = &events {
        builder = builder.events(Arc::new(EventLines(events.clone())));
    }
    if let Some(ceiling) = authority.ceiling {
        builder = builder.ceiling(ceiling);
    }
    let runtime = builder.build()?;
    if let Some(client) = authority.client {
        client.attach(runtime.clone());
    }

    let mut lines =
        lines::start(input, turn::INPUT_MAX).map_err(system("the input cannot be read"))?;
    let ended = Conversation::new(runtime.open_turn(), Reader::new(dialect(args.format)), output)
        .hold(&mut lines, &mut stop, |error| complain(&error.to_string()))
        .await
        .map_err(|broken| match broken {
            Broken::Read(source) => ExecError::Input { path: args.input.clone(), source },
            other => other.into(),
        });
    // Also when the conversation broke off: what runs in the background ends with the session, by the ladder.
    if !matches!(ended, Ok(End::Killed(_))) {
        end_tasks(runtime.tasks(), &ended, &mut stop).await;
    }
    runtime.end_session(match &ended {
        Ok(End::Answered) => "answered",
        Ok(End::BadLines) => "answered, but for lines that could not be read",
        Ok(End::Stopped(_) | End::Hurried(_)) => "stopped",
        Ok(End::Killed(_)) => "killed",
        Err(_) => "broken off",
    });
    let end = ended?;
    if let Some(events) = events {
        events.finish().await.map_err(ExecError::Events)?;
    }
    Ok(end)
}

/// Ends what runs in the background: by the ladder, at once when somebody does not want to wait for that, and by the end of this
/// process, with which the kernel ends it, when they do not want to wait for that either.
async fn end_tasks(tasks: &Tasks, ended: &Result<End, ExecError>, stop: &mut Signals) {
    let mut killed = matches!(ended, Ok(End::Hurried(_)));
    if killed {
        tasks.kill();
    }
    let mut end = std::pin::pin!(tasks.end());
    loop {
        tokio::select! {
            () = &mut end => return,
            Some(_) = stop.recv() => {
                if std::mem::replace(&mut killed, true) {
                    return;
                }
                tasks.kill();
            }
        }
    }
}

fn settings(args: &ExecArgs) -> Settings {
    Settings {
        max_parallel_calls: usize::from(args.max_parallel),
        cascade: match args.cascade {
            Cascade::Shell => stockade_runtime::Cascade::Shell,
            Cascade::Writes => stockade_runtime::Cascade::Writes,
            Cascade::Off => stockade_runtime::Cascade::Off,
        },
        ..Settings::default()
    }
}

/// The dialect that is asked for; `None`: to be found out.
pub(crate) fn dialect(format: Format) -> Option<Dialect> {
    match format {
        Format::Auto => None,
        Format::Anthropic => Some(Dialect::Anthropic),
        Format::OpenAiResponses => Some(Dialect::OpenAiResponses),
        Format::OpenAiChat => Some(Dialect::OpenAiChat),
    }
}

fn open_input(path: &Path) -> Result<Box<dyn Read + Send>, ExecError> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    match File::open(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(source) => Err(ExecError::Input { path: path.to_owned(), source }),
    }
}

/// `-` is stdout, where each event is a line between the results.
fn open_events(path: &Path, stdout: &LineWriter) -> Result<LineWriter, ExecError> {
    if path == Path::new("-") {
        return Ok(stdout.clone());
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(LineWriter::start)
        .map_err(|source| ExecError::OpenEvents { path: path.to_owned(), source })
}

struct EventLines(LineWriter);

impl EventLines {
    fn line(&self, event: &impl Serialize) {
        match serde_json::to_vec(event) {
            Ok(line) => self.0.line(line),
            Err(error) => tracing::warn!(%error, "an event could not be written as JSON"),
        }
    }
}

impl EventSink for EventLines {
    fn emit(&self, event: &Event) {
        self.line(event);
    }

    fn notice(&self, notice: &Notice) {
        self.line(notice);
    }
}

/// The policy with the session logs hidden: a command that could write its own log could forge it, and the policy's
/// writable roots may hold the folder.
fn without_sessions(
    policy: &Policy,
    state_dir: &Path,
    variables: &Variables,
) -> Result<Policy, ExecError> {
    if policy.is_full_access() {
        return Ok(policy.clone());
    }
    let sessions = state_dir.join("sessions");
    let sessions = sessions.canonicalize().map_err(|source| ExecError::System {
        what: "the folder of the sessions cannot be found",
        source,
    })?;
    if variables.workspace.starts_with(&sessions) {
        return Err(ExecError::StateAbove { sessions });
    }
    // The whole folder, unless the workspace is in it.
    let hide = match sessions.parent() {
        Some(state) if !variables.workspace.starts_with(state) => state.to_owned(),
        _ => sessions,
    };
    let mut hide = vec![hide];
    // With the workspace in the state folder: the ledger's own files, which lie beside the sessions.
    let state = hide.first().and_then(|sessions| sessions.parent()).map(Path::to_owned);
    if let Some(state) = state.filter(|state| variables.workspace.starts_with(state)) {
        let paths = LedgerPaths::of_state_dir(&state);
        hide.extend(
            [paths.current, paths.head, paths.key, paths.verifier]
                .into_iter()
                .filter(|path| path.exists()),
        );
    }
    Ok(policy.with_overlay(&Overlay { hide, ..Overlay::default() }, variables)?)
}

fn session_id(args: &ExecArgs) -> Result<SessionId, ExecError> {
    let name = match &args.session {
        Some(name) => name.clone(),
        None => uuid::Uuid::new_v4().to_string(),
    };
    SessionId::new(name).map_err(ExecError::Session)
}
