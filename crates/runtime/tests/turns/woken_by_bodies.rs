//! What a body wakes does not wait for the thread that the body then holds, as long as another one is idle.

use crate::scene::{Nothing, PATIENCE, builder, call, text};
use serde_json::json;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stockade_runtime::{Event, EventSink, Submitter, Transition};
use stockade_tools::{CallContext, Registry, ToolError, TypedTool};

/// The other body has run.
struct Ran(Sender<()>, Mutex<Receiver<()>>);

impl Ran {
    fn new() -> Arc<Self> {
        let (sender, receiver) = channel();
        Arc::new(Self(sender, Mutex::new(receiver)))
    }

    fn tell(&self) {
        let _ = self.0.send(());
    }

    /// Holds the thread.
    fn wait(&self) -> Result<&'static str, ToolError> {
        let receiver = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        let heard: Result<(), RecvTimeoutError> = receiver.recv_timeout(PATIENCE);
        heard.map(|()| "heard").map_err(|_| ToolError::Business("nobody came".into()))
    }
}

// spec 1.5, 2.9
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn another_body_runs_that_was_woken_by_a_message_or_by_the_end_of_a_wait_at_a_gate() {
    let ran = Ran::new();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let registry = Registry::new();
    let (here, free) = (Arc::clone(&ran), Arc::clone(&gate));
    let holds = move |_: Nothing, _| {
        let (here, free) = (Arc::clone(&here), Arc::clone(&free));
        async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            free.add_permits(1);
            here.wait()
        }
    };
    let waits = move |_: Nothing, context: CallContext| {
        let (ran, gate) = (Arc::clone(&ran), Arc::clone(&gate));
        async move {
            let passed = context.queueing.wait(gate.acquire_owned()).await;
            passed.map_err(|_| ToolError::Cancelled)?.forget();
            ran.tell();
            Ok::<_, ToolError>("passed")
        }
    };
    registry.register(Arc::new(TypedTool::new("Holds", "", holds).read_only())).unwrap();
    registry.register(Arc::new(TypedTool::new("Waits", "", waits).read_only())).unwrap();
    let runtime = builder(registry).build().unwrap();
    let results = runtime.run_turn([call("a", "Waits"), call("b", "Holds")]).await.unwrap();
    assert_eq!(results.iter().map(text).collect::<Vec<_>>(), ["passed", "heard"]);
}

// spec 1.10
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_call_that_a_body_submits_starts() {
    let ran = Ran::new();
    let way_in: Arc<Mutex<Option<Submitter>>> = Arc::default();
    let registry = Registry::new();
    let (here, submitter) = (Arc::clone(&ran), Arc::clone(&way_in));
    let holds = move |_: Nothing, _| {
        let (here, submitter) = (Arc::clone(&here), Arc::clone(&submitter));
        async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let submitter = submitter.lock().unwrap_or_else(PoisonError::into_inner).take();
            submitter.unwrap().submit(call("b", "Starts")).unwrap();
            here.wait()
        }
    };
    let starts = move |_: Nothing, _| {
        ran.tell();
        async { Ok::<_, ToolError>("started") }
    };
    registry.register(Arc::new(TypedTool::new("Holds", "", holds).read_only())).unwrap();
    registry.register(Arc::new(TypedTool::new("Starts", "", starts).read_only())).unwrap();
    let runtime = builder(registry).build().unwrap();
    let mut turn = runtime.open_turn();
    *way_in.lock().unwrap() = Some(turn.submitter());
    turn.submit(call("a", "Holds")).unwrap();
    let mut texts = Vec::new();
    while let Some(result) = turn.next_result().await.unwrap() {
        texts.push(text(&result));
    }
    assert_eq!(texts, ["heard", "started"]);
}

struct Shows(tokio::sync::mpsc::UnboundedSender<()>);

impl EventSink for Shows {
    fn emit(&self, event: &Event) {
        if matches!(event.transition, Transition::Progress { .. }) {
            let _ = self.0.send(());
        }
    }
}

// spec 1.9
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_hosts_task_hears_of_progress() {
    let ran = Ran::new();
    let (sender, mut reports) = tokio::sync::mpsc::unbounded_channel();
    let here = Arc::clone(&ran);
    let shown = tokio::spawn(async move {
        while reports.recv().await.is_some() {
            ran.tell();
        }
    });
    let registry = Registry::new();
    let holds = move |_: Nothing, context: CallContext| {
        let here = Arc::clone(&here);
        async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            (context.progress)(json!(1));
            here.wait()
        }
    };
    registry.register(Arc::new(TypedTool::new("Holds", "", holds).read_only())).unwrap();
    let runtime = builder(registry).events(Arc::new(Shows(sender))).build().unwrap();
    let results = runtime.run_turn([call("a", "Holds")]).await.unwrap();
    assert_eq!(text(&results[0]), "heard");
    drop(runtime);
    shown.await.unwrap();
}
