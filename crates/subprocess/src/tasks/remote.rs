//! A session's tasks from another process of the same user: a socket beside their output, one line of JSON each way.

use super::State;
use super::info::{TaskId, TaskInfo};
use super::lock;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

const SOCKET: &str = "control.sock";

/// No request is longer.
const REQUEST_MAX: u64 = 4096;

#[derive(Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum Request {
    List,
    Wait { task: TaskId },
    Stop { task: TaskId },
}

/// What a session answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskReply {
    /// The tasks asked for, as they are now.
    Tasks(Vec<TaskInfo>),
    /// Why not.
    Error(String),
}

/// The socket's path may be longer than an address can be (108 bytes, unix(7)); by way of the folder's descriptor it is not.
/// The descriptor is to be kept until the path was used.
fn address(folder: &Path) -> io::Result<(File, PathBuf)> {
    let folder = File::open(folder)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()));
    Ok((folder, path))
}

/// Answers for the session until it is dropped.
pub(super) fn serve(folder: &Path, state: &Arc<Mutex<State>>) -> io::Result<()> {
    let (_folder, path) = address(folder)?;
    // One is left by a runtime that was killed. The folder has one owner at a time: the session's log is locked.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    let state = Arc::downgrade(state);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if state.strong_count() == 0 {
                return;
            }
            let state = state.clone();
            tokio::spawn(async move {
                if let Err(error) = answer(stream, &state).await {
                    tracing::debug!(%error, "a question about tasks was not answered");
                }
            });
        }
    });
    Ok(())
}

/// Removes the socket, when the session is over.
pub(super) fn withdraw(folder: &Path) {
    if let Ok((_folder, path)) = address(folder) {
        // Nothing is left to be done where this fails: the next session removes it.
        let _ = std::fs::remove_file(path);
    }
}

/// Removes the socket that a killed session has left in this folder of tasks: one at which nobody listens. For a caller who holds the
/// session, or knows that nobody does. `None`: there is none, or somebody listens.
pub fn remove_stale_socket(folder: &Path) -> Option<PathBuf> {
    let (_folder, path) = address(folder).ok()?;
    let refused = std::os::unix::net::UnixStream::connect(&path)
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    (refused && std::fs::remove_file(&path).is_ok()).then(|| folder.join(SOCKET))
}

async fn answer(stream: UnixStream, state: &Weak<Mutex<State>>) -> io::Result<()> {
    let (reading, mut writing) = stream.into_split();
    let mut line = String::new();
    BufReader::new(reading.take(REQUEST_MAX)).read_line(&mut line).await?;
    let reply = match serde_json::from_str(&line) {
        Ok(request) => obey(request, state).await,
        Err(error) => TaskReply::Error(format!("not understood: {error}")),
    };
    let mut line = serde_json::to_vec(&reply)?;
    line.push(b'\n');
    writing.write_all(&line).await
}

async fn obey(request: Request, state: &Weak<Mutex<State>>) -> TaskReply {
    let find = |task: &TaskId| {
        let number = task.number()?;
        let state = state.upgrade()?;
        Arc::clone(lock(&state).tasks.get(&number)?).into()
    };
    let (task, stop) = match &request {
        Request::List => {
            let Some(state) = state.upgrade() else {
                return TaskReply::Error("the session is over".to_owned());
            };
            let tasks = lock(&state).tasks.values().map(|task| task.info()).collect();
            return TaskReply::Tasks(tasks);
        }
        Request::Wait { task } => (task, false),
        Request::Stop { task } => (task, true),
    };
    let Some(task) = find(task) else {
        return TaskReply::Error(format!("this session has no task {task}"));
    };
    if stop && task.is_alive() {
        task.ask_to_end();
    }
    task.ended().await;
    TaskReply::Tasks(vec![task.info()])
}

/// The tasks of a session that another process runs.
#[derive(Clone, Debug)]
pub struct RemoteTasks(PathBuf);

impl RemoteTasks {
    /// Those whose output is in this folder.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// All of them as their session knows them. An error where no process runs the session.
    pub async fn list(&self) -> io::Result<TaskReply> {
        self.ask(&Request::List).await
    }

    /// Waits until a task has ended.
    pub async fn wait(&self, task: TaskId) -> io::Result<TaskReply> {
        self.ask(&Request::Wait { task }).await
    }

    /// Stops a task, and waits until nothing of it is left.
    pub async fn stop(&self, task: TaskId) -> io::Result<TaskReply> {
        self.ask(&Request::Stop { task }).await
    }

    async fn ask(&self, request: &Request) -> io::Result<TaskReply> {
        let (_folder, path) = address(&self.0)?;
        let mut stream = UnixStream::connect(path).await?;
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        stream.write_all(&line).await?;
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply).await?;
        // A session that ends closes the connection without a word.
        if reply.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&reply)?)
    }
}
