//! Commands that go on in the background under a task id (spec 1.21): listed, read from an offset, waited for, stopped, each
//! with a deadline of its own if it is given one, and all gone when the session ends.

mod info;
mod kept;
mod remote;
mod store;
mod task;

pub use info::{ByteRange, TaskId, TaskInfo, TaskStatus};
pub use remote::{RemoteTasks, TaskReply, remove_stale_socket};
pub use store::{StoredOutput, stored_output, stored_tasks};
pub use task::{TaskText, TaskWriter};

use crate::{Finished, Leftovers, RunOptions, RunningCommand};
use kept::Quota;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use stockade_sandbox::{Cell, CommandSpec, SandboxError};
use store::Store;
use task::{Reach, Task};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How many may run at once where nobody says.
const LIMIT: usize = 16;

/// How many that have ended are remembered, each with its open file; older ones are forgotten, and only their folder has them.
const ENDED_MAX: usize = 64;

/// The tasks of a session. A clone is of the same; when the last one goes, every task is killed.
#[derive(Clone)]
pub struct Tasks(Arc<Session>);

struct Session {
    store: Store,
    limit: usize,
    /// Of what all tasks keep of their output, in bytes.
    quota_bytes: u64,
    quota: OnceLock<Arc<Quota>>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// By number.
    tasks: BTreeMap<u64, Arc<Task>>,
    served: bool,
    over: bool,
}

/// Is told that nothing of a task is left.
pub type OnTaskEnd = Box<dyn FnOnce(&TaskInfo) + Send>;

/// How a task is to be run.
#[derive(Default)]
pub struct TaskOptions {
    /// What it is, for people.
    pub description: String,
    /// Its time; `None` is no limit but the session's end.
    pub deadline: Option<Duration>,
    /// From SIGTERM to SIGKILL; `None` is the usual.
    pub grace: Option<Duration>,
    /// How much of its output is kept, in bytes: half of that from its beginning, the rest from its end. `None` is 64 MiB.
    pub output_max: Option<u64>,
    /// Is told when the last of it has ended.
    pub on_end: Option<OnTaskEnd>,
}

/// Why there is no such task, or none was started.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// No task has this name.
    #[error("there is no task {0}; {1}")]
    Unknown(TaskId, String),
    /// As many run as may.
    #[error(
        "{running} background tasks are running, which is the limit: stop one, or wait until one has ended"
    )]
    TooMany {
        /// How many.
        running: usize,
    },
    /// The session is ending.
    #[error("the session is ending: no more tasks are started")]
    SessionOver,
    /// Its output has no place.
    #[error("a task's output cannot be kept: {0}; is the disk full?")]
    Store(io::Error),
    /// Its output cannot be read.
    #[error("a task's output cannot be read: {0}")]
    Read(io::Error),
    /// It did not start.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

impl Default for Tasks {
    fn default() -> Self {
        Self::with(Store::Nameless)
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("store", &self.0.store).finish_non_exhaustive()
    }
}

impl Tasks {
    /// Tasks whose output is kept in this folder, which is made when it is needed. Other processes of the user can then read it,
    /// and stop tasks ([`RemoteTasks`]).
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self::with(Store::Folder(folder.into()))
    }

    fn with(store: Store) -> Self {
        Self::of(store, LIMIT, kept::SESSION_MAX)
    }

    fn of(store: Store, limit: usize, quota_bytes: u64) -> Self {
        let (quota, state) = (OnceLock::new(), Arc::default());
        Self(Arc::new(Session { store, limit, quota_bytes, quota, state }))
    }

    /// How many may run at once; 16 by default. For tasks of which no clone exists yet.
    pub fn limit(self, limit: usize) -> Self {
        Self::of(self.0.store.clone(), limit, self.0.quota_bytes)
    }

    /// How much the outputs of all tasks may take together, in bytes; 1 GiB by default. For tasks of which no clone exists yet.
    pub fn quota(self, bytes: u64) -> Self {
        Self::of(self.0.store.clone(), self.0.limit, bytes)
    }

    /// Starts a command as a task. What its main process leaves behind lives on in it.
    pub async fn start(
        &self,
        cell: &dyn Cell,
        command: CommandSpec,
        options: TaskOptions,
    ) -> Result<TaskId, TaskError> {
        let TaskOptions { description, deadline, grace, output_max, on_end } = options;
        let task = self.add(description, deadline, output_max, on_end)?;
        let ended_by_main = Arc::downgrade(&task);
        let defaults = RunOptions::default();
        let options = RunOptions {
            deadline,
            grace: grace.unwrap_or(defaults.grace),
            leftovers: Leftovers::Keep,
            // All of it is in the file.
            output_limit: 0,
            sink: Some(Box::new(TaskWriter(Arc::clone(&task)))),
            on_main_ended: Some(Box::new(move |exit, left| {
                if let Some(task) = ended_by_main.upgrade() {
                    task.main_ended(exit, left);
                }
            })),
            ..defaults
        };
        match RunningCommand::start(cell, command, options).await {
            Ok(running) => {
                task.reached_by(Reach::Command(running.control()));
                // The session may have ended while the command was being started.
                if self.state().over {
                    task.kill();
                }
                let id = task.id();
                tokio::spawn(async move {
                    task.finished(running.wait(CancellationToken::new()).await);
                });
                Ok(id)
            }
            Err(error) => {
                task.finished(Finished::from(error.clone()));
                Err(error.into())
            }
        }
    }

    /// Takes a task under the session's wing that was started elsewhere. It is asked to end by `stop`, counts as over when
    /// `ended` is, with what that says of its end, and writes its output to what is given back.
    pub fn track_background_task(
        &self,
        description: impl Into<String>,
        ended: impl Future<Output = String> + Send + 'static,
        stop: impl Fn() + Send + Sync + 'static,
    ) -> Result<(TaskId, TaskWriter), TaskError> {
        let task = self.add(description.into(), None, None, None)?;
        task.reached_by(Reach::Adopted(Arc::new(stop)));
        let (id, writer) = (task.id(), TaskWriter(Arc::clone(&task)));
        // A task of its own: one that panics is over as well.
        let ended = tokio::spawn(ended);
        tokio::spawn(async move {
            let note =
                ended.await.unwrap_or_else(|_| "what was to tell of its end panicked".to_owned());
            task.end(|info| info.note = Some(note));
        });
        Ok((id, writer))
    }

    /// All tasks of the session, ended ones too, in the order of their starts.
    pub fn list(&self) -> Vec<TaskInfo> {
        self.state().tasks.values().map(|task| task.info()).collect()
    }

    /// Reads a task's output from `offset` on, at most `max` bytes. What is not UTF-8 is replaced.
    pub fn read(&self, id: &TaskId, offset: u64, max: usize) -> Result<TaskText, TaskError> {
        self.get(id)?.read(offset, max).map_err(TaskError::Read)
    }

    /// Waits, at most so long, until a task has ended. What it is then.
    pub async fn wait(&self, id: &TaskId, at_most: Duration) -> Result<TaskInfo, TaskError> {
        let task = self.get(id)?;
        let _ = timeout(at_most, task.ended()).await;
        Ok(task.info())
    }

    /// Waits, at most so long, until a task has written more than `offset` bytes, or has ended.
    pub async fn wait_for_output(
        &self,
        id: &TaskId,
        offset: u64,
        at_most: Duration,
    ) -> Result<TaskInfo, TaskError> {
        let task = self.get(id)?;
        let _ = timeout(at_most, task.beyond(offset)).await;
        Ok(task.info())
    }

    /// Stops a task, and returns when nothing of it is left. One that has ended is left as it is.
    pub async fn stop(&self, id: &TaskId) -> Result<TaskInfo, TaskError> {
        let task = self.get(id)?;
        if task.is_alive() {
            task.ask_to_end();
            task.ended().await;
        }
        Ok(task.info())
    }

    /// Ends the session's tasks, all at once, and returns when nothing of them is left. None is started any more.
    pub async fn end(&self) {
        let tasks = self.close();
        tasks.iter().for_each(|task| task.ask_to_end());
        for task in tasks {
            task.ended().await;
        }
        if let (Store::Folder(folder), true) = (&self.0.store, self.state().served) {
            remote::withdraw(folder);
        }
    }

    /// Kills what runs of the session's tasks, at once and without any grace. None is started any more; [`Tasks::end`] waits for
    /// the last of them.
    pub fn kill(&self) {
        // Not under the lock: an adopted task's owner may ask for the list.
        self.close().iter().for_each(|task| task.kill());
    }

    /// Starts none any more. Those that run.
    fn close(&self) -> Vec<Arc<Task>> {
        let mut state = self.state();
        state.over = true;
        state.tasks.values().filter(|task| task.is_alive()).cloned().collect()
    }

    fn add(
        &self,
        description: String,
        deadline: Option<Duration>,
        output_max: Option<u64>,
        on_end: Option<OnTaskEnd>,
    ) -> Result<Arc<Task>, TaskError> {
        let mut state = self.state();
        if state.over {
            return Err(TaskError::SessionOver);
        }
        let running = state.tasks.values().filter(|task| task.is_alive()).count();
        if running >= self.0.limit {
            return Err(TaskError::TooMany { running });
        }
        let ended = state.tasks.iter().filter(|(_, task)| !task.is_alive()).map(|(n, _)| *n);
        let ended: Vec<u64> = ended.collect();
        let too_many = ended.len().saturating_sub(ENDED_MAX);
        for number in ended.iter().take(too_many) {
            state.tasks.remove(number);
        }
        let from = state.tasks.keys().next_back().map_or(1, |last| last + 1);
        let Session { store, quota_bytes, .. } = &*self.0;
        // A session that goes on has some already.
        let quota = || Arc::new(Quota::new(*quota_bytes, store.used()));
        let room = (self.0.quota.get_or_init(quota), output_max);
        let task = Task::new(store, from, description, deadline, room, on_end)
            .map_err(TaskError::Store)?;
        let task = Arc::new(task);
        state.tasks.insert(task.id().number().unwrap_or(from), Arc::clone(&task));
        if let Store::Folder(folder) = &self.0.store
            && !std::mem::replace(&mut state.served, true)
            && let Err(error) = remote::serve(folder, &self.0.state)
        {
            tracing::warn!(%error, "tasks cannot be stopped from other processes");
        }
        Ok(task)
    }

    fn get(&self, id: &TaskId) -> Result<Arc<Task>, TaskError> {
        let state = self.state();
        let found = id.number().and_then(|number| state.tasks.get(&number));
        found.cloned().ok_or_else(|| {
            let known: Vec<_> = state.tasks.values().map(|task| task.id().0).collect();
            let known = match known.as_slice() {
                [] => "the session has none".to_owned(),
                known => format!("the session has {}", known.join(", ")),
            };
            TaskError::Unknown(id.clone(), known)
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Nothing is done under the lock that could leave it half done.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Session {
    fn drop(&mut self) {
        let tasks: Vec<_> = lock(&self.state).tasks.values().cloned().collect();
        tasks.iter().for_each(|task| task.kill());
    }
}
