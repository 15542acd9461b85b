//! Commands in the background (spec 1.21).
#![allow(missing_docs)]

use std::future::pending;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stockade_sandbox::fake::{FakeProvider, OnTerminate, Script, Step};
use stockade_sandbox::{CommandSpec, Exit, Stdio, TreeSignal};
use stockade_subprocess::tasks::{
    RemoteTasks, TaskError, TaskId, TaskOptions, TaskReply, TaskStatus, Tasks, stored_output,
    stored_tasks,
};
use stockade_subprocess::{OutputSink, Stream};
use stockade_types::{CancelReason, Outcome};
use tokio::sync::oneshot;

const HOUR: Duration = Duration::from_secs(3600);

fn command() -> CommandSpec {
    CommandSpec {
        argv: vec!["scripted".into()],
        env: Vec::new(),
        cwd: "/".into(),
        stdin: Stdio::Null,
        stdout: Stdio::Pipe,
        stderr: Stdio::Pipe,
        terminal: None,
    }
}

fn provider(script: impl Fn() -> Script + Send + Sync + 'static) -> FakeProvider {
    FakeProvider::new("/ws").on_command(move |_| Ok(script()))
}

async fn start(tasks: &Tasks, provider: &FakeProvider) -> Result<TaskId, TaskError> {
    tasks.start(&*provider.fake_cell(), command(), TaskOptions::default()).await
}

fn sleeps() -> Script {
    Script::takes(HOUR)
}

#[tokio::test(start_paused = true)]
async fn a_task_is_listed_read_from_an_offset_and_waited_for() {
    let provider = provider(|| {
        let steps = vec![
            Step::Stdout("é1\n".into()),
            Step::Sleep(Duration::from_secs(5)),
            Step::Stderr("€2\n".into()),
            Step::Sleep(Duration::from_secs(5)),
        ];
        Script { exit: Exit::Code(7), ..Script::steps(steps) }
    });
    let tasks = Tasks::default();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let options = TaskOptions {
        description: "two lines".into(),
        on_end: Some(Box::new(move |info| tell.lock().unwrap().push(info.clone()))),
        ..TaskOptions::default()
    };
    let id = tasks.start(&*provider.fake_cell(), command(), options).await.unwrap();
    let info = tasks.wait_for_output(&id, 0, HOUR).await.unwrap();
    assert_eq!((info.status, info.bytes), (TaskStatus::Running, 4));
    let read = tasks.read(&id, 0, 100).unwrap();
    assert_eq!((read.text.as_str(), read.next_offset), ("é1\n", 4));
    let info = tasks.wait(&id, Duration::from_secs(1)).await.unwrap();
    assert_eq!(info.status, TaskStatus::Running, "it is waited for no longer than asked");

    tasks.wait_for_output(&id, 4, HOUR).await.unwrap();
    assert_eq!(tasks.read(&id, 4, 100).unwrap().text, "€2\n");
    // A read that ends inside a character gives it whole with the next.
    let read = tasks.read(&id, 4, 4).unwrap();
    assert_eq!((read.text.as_str(), read.next_offset), ("€2", 8));
    let info = tasks.wait(&id, HOUR).await.unwrap();
    assert_eq!(info.outcome, Some(Outcome::Exited { code: 7 }));
    assert_eq!(info.status, TaskStatus::Ended);
    assert_eq!(*told.lock().unwrap(), vec![info.clone()], "one notification");
    assert_eq!(tasks.list(), [info]);
    let read = tasks.read(&id, 8, 100).unwrap();
    assert_eq!((read.text.as_str(), read.next_offset), ("\n", 9));
}

#[tokio::test(start_paused = true)]
async fn what_the_main_process_leaves_lives_on_under_the_tasks_name_until_it_is_stopped() {
    // spec 6.2
    let provider = provider(|| Script { left: 2, ..Script::exits(0) });
    let tasks = Tasks::default();
    let id = start(&tasks, &provider).await.unwrap();
    let info = tasks.wait(&id, HOUR).await.unwrap();
    assert_eq!((info.status, info.left), (TaskStatus::LivesOn, Some(2)));
    let info = tasks.stop(&id).await.unwrap();
    assert_eq!(info.status, TaskStatus::Ended);
    let reason = CancelReason::UserInterrupted;
    assert_eq!(info.outcome, Some(Outcome::Cancelled { reason }));
    assert!(info.killed.unwrap().terminated);
}

#[tokio::test(start_paused = true)]
async fn a_task_has_a_deadline_of_its_own_and_the_whole_ladder() {
    let provider = provider(|| Script {
        on_terminate: OnTerminate::Ignore,
        ..Script::steps(vec![Step::Hang])
    });
    let tasks = Tasks::default();
    let options = TaskOptions {
        deadline: Some(Duration::from_secs(60)),
        grace: Some(Duration::from_secs(1)),
        ..TaskOptions::default()
    };
    let id = tasks.start(&*provider.fake_cell(), command(), options).await.unwrap();
    let begun = tokio::time::Instant::now();
    let info = tasks.wait(&id, HOUR).await.unwrap();
    assert_eq!(info.outcome, Some(Outcome::TimedOut { timeout_ms: 60_000 }));
    assert_eq!(begun.elapsed().as_secs(), 61);
    assert_eq!(provider.signals(), [TreeSignal::Terminate, TreeSignal::Kill]);
}

#[tokio::test(start_paused = true)]
async fn no_more_run_at_once_than_may_and_one_that_ended_makes_room() {
    let provider = provider(sleeps);
    let tasks = Tasks::default().limit(2);
    let first = start(&tasks, &provider).await.unwrap();
    start(&tasks, &provider).await.unwrap();
    let refused = start(&tasks, &provider).await;
    assert!(matches!(refused, Err(TaskError::TooMany { running: 2 })), "{refused:?}");
    tasks.stop(&first).await.unwrap();
    start(&tasks, &provider).await.unwrap();
    assert_eq!(provider.running(), 2);
}

#[tokio::test(start_paused = true)]
async fn all_are_gone_when_the_session_ends_and_none_is_started_after_it() {
    let provider = provider(sleeps);
    let tasks = Tasks::default();
    for _ in 0..5 {
        start(&tasks, &provider).await.unwrap();
    }
    assert_eq!(provider.running(), 5);
    tasks.end().await;
    assert_eq!(provider.running(), 0);
    assert!(tasks.list().iter().all(|info| info.status == TaskStatus::Ended));
    assert!(matches!(start(&tasks, &provider).await, Err(TaskError::SessionOver)));
}

#[tokio::test(start_paused = true)]
async fn tasks_that_nobody_holds_any_more_are_killed() {
    let provider = provider(sleeps);
    let tasks = Tasks::default();
    start(&tasks, &provider).await.unwrap();
    drop(tasks);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(provider.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn ended_tasks_are_forgotten_in_the_end_so_that_their_files_are_closed() {
    let provider = provider(|| Script::prints("x"));
    let tasks = Tasks::default();
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut before = 0;
    for round in 0..400 {
        let id = start(&tasks, &provider).await.unwrap();
        assert_eq!(id, TaskId(format!("task_{}", round + 1)));
        tasks.wait(&id, HOUR).await.unwrap();
        if round == 100 {
            before = open();
        }
    }
    assert!(open() <= before + 2, "{before} descriptors, then {}", open());
    let gone = tasks.read(&TaskId("task_1".into()), 0, 1);
    assert!(matches!(gone, Err(TaskError::Unknown(..))));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_was_started_elsewhere_is_tracked_read_and_stopped() {
    let tasks = Tasks::default();
    let (stop, stopped) = oneshot::channel::<()>();
    let stop = Mutex::new(Some(stop));
    let (id, mut output) = tasks
        .track_background_task(
            "a sub-agent",
            async {
                stopped.await.ok();
                "it was asked to end".to_owned()
            },
            move || drop(stop.lock().unwrap().take()),
        )
        .unwrap();
    output.write(Stream::Stdout, b"thinking").unwrap();
    assert_eq!(tasks.read(&id, 0, 100).unwrap().text, "thinking");
    assert_eq!(tasks.list()[0].status, TaskStatus::Running);
    let info = tasks.stop(&id).await.unwrap();
    assert_eq!(info.status, TaskStatus::Ended);
    assert_eq!(info.note.as_deref(), Some("it was asked to end"));
    assert_eq!(info.outcome, None);
}

// spec 1.21, 2.1
#[tokio::test(start_paused = true)]
async fn an_adopted_task_whose_owner_panics_ends_and_hinders_no_other() {
    let provider = provider(sleeps);
    let tasks = Tasks::default();
    let panics = async { panic!("the owner's own") };
    let (dead, _output) = tasks.track_background_task("panics at its end", panics, || {}).unwrap();
    let info = tasks.wait(&dead, HOUR).await.unwrap();
    assert_eq!(info.status, TaskStatus::Ended);
    assert!(info.note.unwrap().contains("panicked"));

    let stop = || panic!("the owner's own");
    let (tell, told) = oneshot::channel::<()>();
    let ended = async {
        told.await.ok();
        String::new()
    };
    let (stubborn, _output) =
        tasks.track_background_task("panics when stopped", ended, stop).unwrap();
    // Its stop asks for what it is a part of.
    let all = tasks.clone();
    let asks = move || assert_eq!(all.list().len(), 4);
    let (asking, _output) = tasks.track_background_task("asks", pending(), asks).unwrap();
    let command = start(&tasks, &provider).await.unwrap();
    tasks.kill();
    assert_eq!(tasks.wait(&command, HOUR).await.unwrap().status, TaskStatus::Ended);
    drop(tell);
    assert_eq!(tasks.stop(&stubborn).await.unwrap().status, TaskStatus::Ended);
    assert_eq!(
        tasks.wait(&asking, Duration::from_secs(1)).await.unwrap().status,
        TaskStatus::Running
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_task_is_named_with_those_there_are() {
    let provider = provider(sleeps);
    let tasks = Tasks::default();
    start(&tasks, &provider).await.unwrap();
    for name in ["task_2", "task_01", "../task_1", ""] {
        let error = tasks.stop(&TaskId(name.into())).await.unwrap_err().to_string();
        assert!(error.contains("the session has task_1"), "{name}: {error}");
    }
}

fn in_folder(path: &Path) -> Tasks {
    Tasks::in_folder(path.join("a folder/tasks"))
}

#[tokio::test]
async fn another_process_lists_reads_waits_for_and_stops_tasks() {
    let provider = provider(|| {
        let steps = vec![Step::Stdout("written\n".into()), Step::Sleep(HOUR)];
        Script::steps(steps)
    });
    let scratch = tempfile::tempdir().unwrap();
    // Longer than a socket's address may be.
    let deep = scratch.path().join("x".repeat(150));
    let tasks = in_folder(&deep);
    let folder = deep.join("a folder/tasks");
    let remote = RemoteTasks::in_folder(&folder);
    assert!(remote.list().await.is_err(), "no session yet");
    let id = start(&tasks, &provider).await.unwrap();
    tasks.wait_for_output(&id, 0, HOUR).await.unwrap();
    let TaskReply::Tasks(listed) = remote.list().await.unwrap() else { panic!() };
    assert_eq!(listed, tasks.list());
    assert_eq!(stored_output(&folder, &id, 3, 100).unwrap().bytes, b"tten\n");
    assert_eq!(stored_tasks(&folder, true).unwrap()[0].status, TaskStatus::Running);
    assert_eq!(stored_tasks(&folder, false).unwrap()[0].status, TaskStatus::Lost);

    let waiting = tokio::spawn({
        let (remote, id) = (remote.clone(), id.clone());
        async move { remote.wait(id).await }
    });
    let TaskReply::Tasks(stopped) = remote.stop(id.clone()).await.unwrap() else { panic!() };
    assert_eq!(stopped[0].status, TaskStatus::Ended);
    assert_eq!(waiting.await.unwrap().unwrap(), TaskReply::Tasks(stopped.clone()));
    assert_eq!(stored_tasks(&folder, false).unwrap(), stopped, "what was written down is whole");
    let unknown = remote.stop(TaskId("task_9".into())).await.unwrap();
    assert!(matches!(unknown, TaskReply::Error(_)), "{unknown:?}");
    assert!(stored_output(&folder, &TaskId("../task_1".into()), 0, 1).is_err());

    // A session that goes on in the same folder does not write over what is there.
    drop(tasks);
    let tasks = Tasks::in_folder(&folder);
    assert_eq!(start(&tasks, &provider).await.unwrap(), TaskId("task_2".into()));
    tasks.end().await;
}

#[tokio::test]
async fn a_session_that_goes_on_has_no_more_room_than_it_had() {
    let provider = provider(|| Script::steps(vec![Step::Stdout("x".repeat(8000).into())]));
    let scratch = tempfile::tempdir().unwrap();
    let mut kept = Vec::new();
    for _ in 0..2 {
        let tasks = in_folder(scratch.path()).quota(10_000);
        let id = start(&tasks, &provider).await.unwrap();
        let info = tasks.wait(&id, HOUR).await.unwrap();
        let missing: u64 = info.not_kept.iter().map(|range| range.to - range.from).sum();
        assert_eq!(info.bytes, 8000, "every byte is counted");
        kept.push(8000 - missing);
        tasks.end().await;
    }
    assert!(kept[0] == 8000 && kept[1] <= 2000, "{kept:?}");
}

#[tokio::test]
async fn a_task_whose_end_nobody_awaits_holds_up_no_drop() {
    let tasks = Tasks::default();
    let tracked = tasks.track_background_task("for ever", pending(), || {});
    drop(tracked);
    drop(tasks);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_cannot_be_written_down_is_told_at_once_and_hides_no_other_task() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("tasks");
    let tasks = Tasks::in_folder(&folder);
    let provider = provider(|| Script::takes(Duration::from_secs(1)));
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let options = TaskOptions {
        on_end: Some(Box::new(move |info| tell.lock().unwrap().push(info.clone()))),
        ..TaskOptions::default()
    };
    let id = tasks.start(&*provider.fake_cell(), command(), options).await.unwrap();
    let other = start(&tasks, &provider).await.unwrap();
    // Nothing can take this place.
    let record = folder.join("task_1.json");
    std::fs::remove_file(&record).unwrap();
    std::fs::create_dir(&record).unwrap();
    std::fs::write(record.join("in the way"), "").unwrap();
    let info = tasks.wait(&id, HOUR).await.unwrap();
    tasks.wait(&other, HOUR).await.unwrap();
    let note = info.note.clone().unwrap();
    assert!(note.starts_with("how it ended could not be written down: "), "{note}");
    assert_eq!(info.outcome, Some(Outcome::Exited { code: 0 }));
    assert_eq!(*told.lock().unwrap(), [info]);
    let stored = stored_tasks(&folder, false).unwrap();
    assert_eq!(stored.len(), 2, "{stored:?}");
    assert_eq!(stored[0].status, TaskStatus::Lost);
    assert!(stored[0].note.as_deref().unwrap().contains("cannot be read"), "{stored:?}");
    assert_eq!(stored[1].status, TaskStatus::Ended);
}
