//! `stockade tasks`: the background tasks of sessions, from another process (spec 1.21, 10.1).

use crate::args::{TasksAction, TasksArgs};
use crate::{USAGE, complain, report, session};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};
use stockade_subprocess::tasks::{
    ByteRange, RemoteTasks, StoredOutput, TaskId, TaskInfo, TaskReply, TaskStatus, stored_output,
    stored_tasks,
};
use stockade_types::{Outcome, SessionId, visible};
use tokio::time::timeout;

/// How much output is read at once.
const READ_MAX: usize = 256 * 1024;
/// How often to look for new output.
const FOLLOW: Duration = Duration::from_millis(100);

/// Why it did not do it.
#[derive(Debug, thiserror::Error)]
enum TasksError {
    #[error(
        "the user's state folder is unknown: set HOME or XDG_STATE_HOME, or name a folder with --state-dir"
    )]
    StateDir,
    #[error("--session: {0}")]
    Session(String),
    #[error("there is no session {session} in {}", path.display())]
    UnknownSession { path: PathBuf, session: String },
    #[error("the sessions in {} cannot be read: {source}", path.display())]
    Sessions { path: PathBuf, source: io::Error },
    #[error("no session in {} has a task {task}; `stockade tasks` lists those there are", path.display())]
    Unknown { path: PathBuf, task: TaskId },
    #[error("nobody runs the session of {task} any more ({source}); the task ended with it")]
    Gone { task: TaskId, source: io::Error },
    #[error("{0}")]
    Refused(String),
    #[error("the output of {task} cannot be read: {source}")]
    Output { task: TaskId, source: io::Error },
    #[error("--offset {offset} is beyond the output of {task}, which is {bytes} bytes")]
    Beyond { task: TaskId, offset: u64, bytes: u64 },
    #[error("it cannot be written to stdout: {0}")]
    Stdout(io::Error),
    #[error("the runtime cannot start: {0}")]
    Runtime(io::Error),
}

/// One session's folder of tasks.
struct Session {
    id: String,
    folder: PathBuf,
    changed: SystemTime,
}

/// A task with its session, for JSON.
#[derive(Serialize)]
struct Listed<'a> {
    session: &'a str,
    #[serde(flatten)]
    info: &'a TaskInfo,
}

/// Does it and gives the exit code.
pub fn main(args: &TasksArgs) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.map_err(TasksError::Runtime).and_then(|runtime| runtime.block_on(act(args)));
    done.unwrap_or_else(|error| {
        complain(&error.to_string());
        ExitCode::from(if matches!(error, TasksError::Session(_)) { USAGE } else { 1 })
    })
}

async fn act(args: &TasksArgs) -> Result<ExitCode, TasksError> {
    let state_dir = session::state_dir(args.state_dir.as_deref()).ok_or(TasksError::StateDir)?;
    let sessions = sessions(&state_dir, args.session.as_deref())?;
    let find = async |task: &str| find(&state_dir, &sessions, TaskId(task.to_owned())).await;
    match args.action.as_ref().unwrap_or(&TasksAction::List) {
        TasksAction::List => {
            let mut all = Vec::new();
            for session in &sessions {
                all.push((session, known(&session.folder).await?));
            }
            list(&all, args.json)?;
        }
        TasksAction::Output { task, offset, follow } => {
            let (session, info) = find(task).await?;
            return output(session, info, *offset, *follow, args.json).await;
        }
        TasksAction::Wait { task, timeout: at_most } => {
            let (session, info) = find(task).await?;
            let ended = ended(session, info, *at_most).await?;
            let Some(info) = ended else {
                return Ok(ExitCode::from(report::exit::TIMED_OUT));
            };
            tell(session, &info, args.json)?;
            return Ok(ExitCode::from(u8::from(!succeeded(&info))));
        }
        TasksAction::Stop { task } => {
            let (session, info) = find(task).await?;
            let info = match info.status.is_alive() {
                true => {
                    let reply = RemoteTasks::in_folder(&session.folder).stop(info.id.clone()).await;
                    one(reply, info.id)?
                }
                false => info,
            };
            tell(session, &info, args.json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A task that was started elsewhere has no outcome of its own, and one that was lost has none that anybody knows.
fn succeeded(info: &TaskInfo) -> bool {
    info.status == TaskStatus::Ended
        && matches!(info.outcome, None | Some(Outcome::Exited { code: 0 }))
}

/// The sessions that have tasks, the one that changed last at the end.
fn sessions(state_dir: &Path, only: Option<&str>) -> Result<Vec<Session>, TasksError> {
    let path = state_dir.join("sessions");
    let failed = |source| TasksError::Sessions { path: path.clone(), source };
    let names = match only {
        Some(name) => vec![name.to_owned()],
        None => match fs::read_dir(&path) {
            Ok(entries) => entries
                .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
                .collect::<io::Result<_>>()
                .map_err(failed)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(error)),
        },
    };
    let mut sessions = Vec::new();
    for name in names {
        let id = match (SessionId::new(name), only) {
            (Ok(id), _) => id,
            (Err(error), Some(_)) => return Err(TasksError::Session(error)),
            (Err(_), None) => continue,
        };
        let folder = session::tasks_folder(state_dir, &id);
        if only.is_some() && !path.join(id.as_str()).is_dir() {
            return Err(TasksError::UnknownSession { path, session: id.as_str().to_owned() });
        }
        if let Ok(changed) = folder.metadata().and_then(|metadata| metadata.modified()) {
            sessions.push(Session { id: id.as_str().to_owned(), folder, changed });
        }
    }
    sessions.sort_by_key(|session| session.changed);
    Ok(sessions)
}

/// What is known of a session's tasks: what was written down, and what the session says of those that it still has.
async fn known(folder: &Path) -> Result<Vec<TaskInfo>, TasksError> {
    let live = RemoteTasks::in_folder(folder).list().await;
    let mut tasks = stored_tasks(folder, live.is_ok())
        .map_err(|source| TasksError::Sessions { path: folder.to_owned(), source })?;
    if let Ok(TaskReply::Tasks(live)) = live {
        for info in live {
            if let Some(stored) = tasks.iter_mut().find(|stored| stored.id == info.id) {
                *stored = info;
            }
        }
    }
    Ok(tasks)
}

async fn find<'a>(
    state_dir: &Path,
    sessions: &'a [Session],
    task: TaskId,
) -> Result<(&'a Session, TaskInfo), TasksError> {
    for session in sessions.iter().rev() {
        if let Some(info) = known(&session.folder).await?.into_iter().find(|info| info.id == task) {
            return Ok((session, info));
        }
    }
    Err(TasksError::Unknown { path: state_dir.join("sessions"), task })
}

/// Waits for its end; `None`: it still runs.
async fn ended(
    session: &Session,
    info: TaskInfo,
    at_most: Option<Duration>,
) -> Result<Option<TaskInfo>, TasksError> {
    if !info.status.is_alive() {
        return Ok(Some(info));
    }
    let remote = RemoteTasks::in_folder(&session.folder);
    let wait = remote.wait(info.id.clone());
    let reply = match at_most {
        Some(at_most) => match timeout(at_most, wait).await {
            Ok(reply) => reply,
            Err(_) => return Ok(None),
        },
        None => wait.await,
    };
    one(reply, info.id).map(Some)
}

fn one(reply: io::Result<TaskReply>, task: TaskId) -> Result<TaskInfo, TasksError> {
    match reply {
        Ok(TaskReply::Tasks(tasks)) => tasks
            .into_iter()
            .next()
            .ok_or_else(|| TasksError::Refused("an empty answer".to_owned())),
        Ok(TaskReply::Error(error)) => Err(TasksError::Refused(error)),
        Err(source) => Err(TasksError::Gone { task, source }),
    }
}

async fn output(
    session: &Session,
    info: TaskInfo,
    mut offset: u64,
    follow: bool,
    json: bool,
) -> Result<ExitCode, TasksError> {
    let mut stdout = io::stdout().lock();
    loop {
        // First the status: what was written before the end is read then.
        let now = known(&session.folder).await?.into_iter().find(|now| now.id == info.id);
        let (alive, bytes) =
            now.as_ref().map_or((false, 0), |now| (now.status.is_alive(), now.bytes));
        if offset > bytes && !(follow && alive) {
            return Err(TasksError::Beyond { task: info.id, offset, bytes });
        }
        loop {
            let StoredOutput { start, bytes } =
                stored_output(&session.folder, &info.id, offset, READ_MAX)
                    .map_err(|source| TasksError::Output { task: info.id.clone(), source })?;
            if bytes.is_empty() {
                break;
            }
            if start > offset {
                not_kept(&info.id, ByteRange { from: offset, to: start });
            }
            let bytes = if json { whole_characters(&bytes) } else { &bytes };
            offset = start + bytes.len() as u64;
            if json {
                line(&serde_json::to_string(&Part::new(session, &info.id, start, bytes)))?;
            } else {
                stdout
                    .write_all(bytes)
                    .and_then(|()| stdout.flush())
                    .map_err(TasksError::Stdout)?;
            }
        }
        if !follow || !alive {
            if offset < bytes {
                not_kept(&info.id, ByteRange { from: offset, to: bytes });
            }
            return Ok(ExitCode::SUCCESS);
        }
        tokio::time::sleep(FOLLOW).await;
    }
}

/// A part of a task's output, for JSON.
#[derive(Serialize)]
struct Part<'a> {
    session: &'a str,
    task: &'a TaskId,
    offset: u64,
    bytes: usize,
    text: String,
    /// The bytes themselves, where the text cannot give them back.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl<'a> Part<'a> {
    fn new(session: &'a Session, task: &'a TaskId, offset: u64, bytes: &[u8]) -> Self {
        let base64 = std::str::from_utf8(bytes).is_err().then(|| BASE64.encode(bytes));
        let text = String::from_utf8_lossy(bytes).into_owned();
        Self { session: &session.id, task, offset, bytes: bytes.len(), text, base64 }
    }
}

/// Without a last character that is not all there yet; but something, so that reading goes on.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
            bytes.get(..error.valid_up_to()).unwrap_or(bytes)
        }
        _ => bytes,
    }
}

/// On stderr, so that stdout holds nothing but output.
fn not_kept(task: &TaskId, range: ByteRange) {
    complain(&format!("{range} of the output of {task} are not kept"));
}

fn tell(session: &Session, info: &TaskInfo, json: bool) -> Result<(), TasksError> {
    if json {
        return line(&serde_json::to_string(&Listed { session: &session.id, info }));
    }
    println(&row(session, info))
}

fn list(all: &[(&Session, Vec<TaskInfo>)], json: bool) -> Result<(), TasksError> {
    let tasks = || all.iter().flat_map(|(session, tasks)| tasks.iter().map(move |t| (*session, t)));
    if json {
        let listed: Vec<_> =
            tasks().map(|(session, info)| Listed { session: &session.id, info }).collect();
        return line(&serde_json::to_string(&listed));
    }
    if tasks().next().is_none() {
        return println("no session has background tasks");
    }
    tasks().try_for_each(|(session, info)| println(&row(session, info)))
}

fn row(session: &Session, info: &TaskInfo) -> String {
    let outcome = match &info.outcome {
        Some(Outcome::Exited { code }) => format!(" (exit code {code})"),
        Some(Outcome::Signaled { signal }) => format!(" (signal {signal})"),
        Some(Outcome::TimedOut { .. }) => " (timed out)".to_owned(),
        Some(Outcome::Cancelled { .. }) => " (stopped)".to_owned(),
        Some(Outcome::LimitExceeded { limit }) => format!(" (limit {limit} exceeded)"),
        Some(Outcome::Lost { detail }) => format!(" (lost: {})", visible(detail)),
        Some(Outcome::SetupFailed(failure)) => format!(" ({})", visible(&failure.to_string())),
        Some(Outcome::Refused(refusal)) => format!(" ({})", visible(&refusal.to_string())),
        Some(Outcome::NotExecutable { .. }) => " (not executable)".to_owned(),
        None => String::new(),
    };
    // One line, whatever the command holds.
    let description: String = visible(&info.description).chars().take(60).collect();
    let TaskInfo { id, status, bytes, .. } = info;
    let note = info.note.as_deref().map(|note| format!(" ({})", visible(note))).unwrap_or_default();
    let met: String = info
        .limits_met
        .iter()
        .map(|met| format!(" (ran up against the limit {})", met.limit))
        .collect();
    let missing: String =
        info.not_kept.iter().map(|range| format!(" ({range} not kept)")).collect();
    format!(
        "{}  {id}  {status}{outcome}{met}{note}  {bytes} bytes{missing}  {description}",
        session.id
    )
}

fn line(json: &serde_json::Result<String>) -> Result<(), TasksError> {
    match json {
        Ok(json) => println(json),
        Err(error) => Err(TasksError::Refused(error.to_string())),
    }
}

fn println(text: &str) -> Result<(), TasksError> {
    writeln!(io::stdout(), "{text}").map_err(TasksError::Stdout)
}
