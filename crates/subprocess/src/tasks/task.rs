use super::OnTaskEnd;
use super::info::{ByteRange, TaskId, TaskInfo, TaskStatus, now_ms};
use super::kept::{KeptOutput, Quota, ReadPart};
use super::store::Store;
use crate::output::{OutputSink, Stream, unfinished_character};
use crate::{Control, Finished};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stockade_sandbox::Exit;
use stockade_types::{CancelReason, Denial, DenialKind, Evidence, visible};
use tokio::sync::watch;

/// How to reach a task.
#[derive(Clone)]
pub(super) enum Reach {
    Command(Control),
    Adopted(Arc<dyn Fn() + Send + Sync>),
}

/// Runs what is somebody else's: its panic is not to keep the session's other tasks from their end.
fn guarded(task: &TaskId, what: &'static str, foreign: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(foreign)).is_err() {
        tracing::warn!(%task, "{what} panicked");
    }
}

/// One task, alive or ended.
pub(super) struct Task {
    info: Mutex<TaskInfo>,
    output: Mutex<KeptOutput>,
    reach: Mutex<Option<Reach>>,
    store: Store,
    /// Counts what has changed: output, status.
    changes: watch::Sender<u64>,
    told_at_end: Mutex<Option<OnTaskEnd>>,
}

/// A part of a task's output.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskText {
    /// The text, which ends with a whole character.
    pub text: String,
    /// What lies between the place that was asked for and the text, and is not kept.
    pub skipped: Option<ByteRange>,
    /// Where to read on.
    pub next_offset: u64,
    /// The task, as it was after the reading.
    pub info: TaskInfo,
}

impl Task {
    pub(super) fn new(
        store: &Store,
        from: u64,
        description: String,
        deadline: Option<Duration>,
        (quota, output_max): (&Arc<Quota>, Option<u64>),
        told_at_end: Option<OnTaskEnd>,
    ) -> io::Result<Self> {
        let (id, output) = store.create(from)?;
        let deadline_ms = deadline.map(crate::ladder::millis);
        let info = TaskInfo { deadline_ms, ..TaskInfo::running(id, description) };
        store.write(&info).inspect_err(|_| store.forget(&info.id))?;
        Ok(Self {
            output: Mutex::new(KeptOutput::new(
                store,
                &info.id,
                output,
                Arc::clone(quota),
                output_max,
            )),
            info: Mutex::new(info),
            reach: Mutex::new(None),
            store: store.clone(),
            changes: watch::Sender::new(0),
            told_at_end: Mutex::new(told_at_end),
        })
    }

    pub(super) fn id(&self) -> TaskId {
        self.lock().id.clone()
    }

    pub(super) fn info(&self) -> TaskInfo {
        self.lock().clone()
    }

    pub(super) fn is_alive(&self) -> bool {
        self.lock().status.is_alive()
    }

    pub(super) fn reached_by(&self, reach: Reach) {
        *self.reach.lock().unwrap_or_else(PoisonError::into_inner) = Some(reach);
    }

    /// Asks it to end: a command by the ladder, the second time without its grace.
    pub(super) fn ask_to_end(&self) {
        match self.reach() {
            Some(Reach::Command(control)) => control.cancel(CancelReason::UserInterrupted),
            Some(Reach::Adopted(stop)) => self.ask_owner(&*stop),
            None => {}
        }
    }

    /// A copy: what is called may ask for this task itself.
    fn reach(&self) -> Option<Reach> {
        self.reach.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn ask_owner(&self, stop: &(dyn Fn() + Send + Sync)) {
        guarded(&self.id(), "what stops an adopted task", stop);
    }

    /// Ends it without any grace.
    pub(super) fn kill(&self) {
        match self.reach() {
            Some(Reach::Command(control)) => control.kill_now(),
            Some(Reach::Adopted(stop)) => self.ask_owner(&*stop),
            None => {}
        }
    }

    pub(super) fn main_ended(&self, _exit: Exit, left: u32) {
        let info = {
            let mut info = self.lock();
            info.status = TaskStatus::LivesOn;
            info.left = Some(left);
            info.clone()
        };
        // What is written down of it says that it runs, which is still true.
        if let Err(error) = self.store.write(&info) {
            tracing::warn!(task = %info.id, %error, "what is known of a task could not be written down");
        }
        self.changes.send_modify(|changes| *changes += 1);
    }

    pub(super) fn finished(&self, finished: Finished) {
        let Finished { outcome, usage, killed, sink_error, denials, limits_met, .. } = finished;
        self.end(|info| {
            info.outcome = Some(outcome);
            info.usage = Some(usage);
            info.killed = (killed.terminated || killed.killed).then_some(killed);
            let notes: Vec<String> =
                sink_error.into_iter().chain(denials.iter().map(told)).collect();
            info.note = (!notes.is_empty()).then(|| notes.join("; "));
            info.denials = denials;
            info.limits_met = limits_met;
        });
    }

    pub(super) fn end(&self, how: impl FnOnce(&mut TaskInfo)) {
        let trouble = self.output().trouble();
        let mut ended = self.info();
        ended.status = TaskStatus::Ended;
        ended.ended_ms = Some(now_ms());
        ended.left = None;
        how(&mut ended);
        if let Some(error) = trouble {
            let note = format!("its output is not kept any more: {error}");
            ended.note = Some(match ended.note.take() {
                Some(before) => format!("{note}; {before}"),
                None => note,
            });
        }
        // Whoever asks later, when this runtime is gone, takes it for lost: now is the time to say so.
        if let Err(error) = self.store.write(&ended) {
            let note = format!("how it ended could not be written down: {error}");
            ended.note = Some(match ended.note.take() {
                Some(before) => format!("{before}; {note}"),
                None => note,
            });
        }
        // Before anybody who waits for the end goes on: what is written down of it must come before the session's own end.
        let told = self.told_at_end.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(told) = told {
            guarded(&ended.id, "what is told of a task's end", || told(&ended));
        }
        {
            let mut info = self.lock();
            let (bytes, not_kept) = (info.bytes, std::mem::take(&mut info.not_kept));
            *info = TaskInfo { bytes, not_kept, ..ended };
        }
        self.changes.send_modify(|changes| *changes += 1);
        let reach = self.reach.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(reach);
    }

    /// Reads on from `offset`, at most `max` bytes of it.
    pub(super) fn read(&self, offset: u64, max: usize) -> io::Result<TaskText> {
        // First the status: what was written before the end is read then, and an end is the end.
        let info = self.info();
        let ReadPart { start, mut bytes, meets_gap } = self.output().read(offset, max.max(4))?;
        let more = start.saturating_add(bytes.len() as u64) < info.bytes;
        // Before a gap, what is missing of a character never comes.
        if !meets_gap && (more || info.status.is_alive()) {
            bytes.truncate(bytes.len() - unfinished_character(&bytes));
        }
        let asked = offset < info.bytes.max(start);
        Ok(TaskText {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            skipped: (asked && start > offset).then_some(ByteRange { from: offset, to: start }),
            next_offset: start.saturating_add(bytes.len() as u64),
            info,
        })
    }

    /// Waits until it has ended.
    pub(super) async fn ended(&self) {
        self.until(|info| !info.status.is_alive()).await;
    }

    /// Waits until it has written more than this, or has ended.
    pub(super) async fn beyond(&self, offset: u64) {
        self.until(|info| info.bytes > offset || !info.status.is_alive()).await;
    }

    async fn until(&self, mut enough: impl FnMut(&TaskInfo) -> bool) {
        let mut changes = self.changes.subscribe();
        // The sender is this task's own, so it does not go away meanwhile.
        let _ = changes.wait_for(|_| enough(&self.lock())).await;
    }

    fn output(&self) -> MutexGuard<'_, KeptOutput> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, TaskInfo> {
        // Nothing is done under the lock that could leave it half done.
        self.info.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A denial in the words of a task's record.
fn told(denial: &Denial) -> String {
    let kind = match denial.kind {
        DenialKind::Read => "reading",
        DenialKind::Write => "writing",
        DenialKind::Network => "network access to",
        DenialKind::Syscall => "the system call",
    };
    let (target, note) = (visible(&denial.target), visible(&denial.note));
    match denial.evidence {
        // It was written, and found at the end.
        Evidence::Observed if !note.is_empty() => format!("{target}: {note}"),
        _ if note.is_empty() => format!("the sandbox refused {kind} {target}"),
        _ => format!("the sandbox refused {kind} {target}; {note}"),
    }
}

/// Where a task's output is written to: by the runtime for a command, by its owner for an adopted task.
pub struct TaskWriter(pub(super) Arc<Task>);

impl OutputSink for TaskWriter {
    fn write(&mut self, _stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let (written, missing) = {
            let mut output = self.0.output();
            output.write(bytes);
            (output.written(), output.missing())
        };
        {
            let mut info = self.0.lock();
            info.bytes = written;
            info.not_kept = missing;
        }
        self.0.changes.send_modify(|changes| *changes += 1);
        Ok(())
    }
}
