//! Whole conversations over a scripted sandbox, on a paused clock.

use super::conversation::{Broken, Conversation, End};
use super::lines::Line;
use super::output::LineWriter;
use crate::turn::{Reader, TurnError};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stockade_runtime::ToolRuntime;
use stockade_sandbox::fake::{self, FakeProvider, Script};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, UnboundedSender, channel};
use tokio::task::JoinHandle;

/// stdout, as far as it was written.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    fn lines(&self) -> Vec<Value> {
        let written = self.0.lock().unwrap();
        let text = std::str::from_utf8(&written).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A conversation that runs beside its test.
struct Held {
    lines: Option<Sender<io::Result<Line>>>,
    signals: UnboundedSender<i32>,
    written: Written,
    end: JoinHandle<(Result<End, Broken>, Vec<String>)>,
}

fn hold() -> Held {
    let written = Written::default();
    hold_with(written.clone(), written)
}

fn hold_with(target: impl Write + Send + 'static, written: Written) -> Held {
    let (lines, input) = channel(100);
    let (signals, stop) = unbounded_channel();
    let output = LineWriter::start(target).unwrap();
    let end = tokio::spawn(converse(output, input, stop));
    Held { lines: Some(lines), signals, written, end }
}

/// A stdout whose reader is gone.
struct Gone;

impl Write for Gone {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `sleep N` takes N seconds, everything else prints its command line.
async fn converse(
    output: LineWriter,
    mut input: Receiver<io::Result<Line>>,
    mut stop: UnboundedReceiver<i32>,
) -> (Result<End, Broken>, Vec<String>) {
    let provider = FakeProvider::new("/w").on_command(|command| {
        let line = command.argv.last().unwrap().to_string_lossy().into_owned();
        Ok(match line.strip_prefix("sleep ") {
            Some(seconds) => Script::takes(Duration::from_secs(seconds.parse().unwrap())),
            None => Script::prints(line),
        })
    });
    let runtime = ToolRuntime::builder()
        .provider(Arc::new(provider))
        .policy(fake::policy("fake"))
        .build()
        .unwrap();
    let mut complaints = Vec::new();
    let end = Conversation::new(runtime.open_turn(), Reader::new(None), output)
        .hold(&mut input, &mut stop, |error: &TurnError| complaints.push(error.to_string()))
        .await;
    (end, complaints)
}

impl Held {
    async fn say(&self, text: impl ToString) {
        for line in text.to_string().split_inclusive('\n') {
            let line = Line::Bytes(line.as_bytes().to_vec());
            self.lines.as_ref().unwrap().send(Ok(line)).await.unwrap();
        }
    }

    async fn fail(&self) {
        let error = Err(io::Error::other("disk on fire"));
        self.lines.as_ref().unwrap().send(error).await.unwrap();
    }

    async fn until_written(&self, count: usize) {
        while self.written.lines().len() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn end(mut self) -> (Result<End, Broken>, Vec<String>, Vec<Value>) {
        self.lines = None;
        let (end, complaints) = self.end.await.unwrap();
        (end, complaints, self.written.lines())
    }
}

fn bash(id: &str, command: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}})
}

fn function(id: &str, command: &str) -> Value {
    let arguments = json!({"command": command}).to_string();
    json!({"type": "function_call", "call_id": id, "name": "Bash", "arguments": arguments})
}

// spec 10.1
#[tokio::test(start_paused = true)]
async fn a_whole_turn_is_answered_by_one_document() {
    let held = hold();
    let turn = json!({"role": "assistant", "content": [bash("a", "one"), bash("b", "two")]});
    held.say(serde_json::to_string_pretty(&turn).unwrap()).await;
    let (end, complaints, written) = held.end().await;
    assert_eq!(end.unwrap(), End::Answered);
    assert!(complaints.is_empty());
    assert_eq!(written.len(), 1);
    assert_eq!(written[0]["role"], "user");
    let results = written[0]["content"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    assert_eq!(results[0]["tool_use_id"], "a");
    assert_eq!(results[0]["content"][0]["text"], "one");
    assert_eq!(results[1]["tool_use_id"], "b");
}

// spec 10.1: each call starts when its line has arrived, its result line leaves when it is due
#[tokio::test(start_paused = true)]
async fn a_stream_is_answered_line_by_line_each_in_the_dialect_of_its_call() {
    let held = hold();
    held.say(format!("{}\n", bash("a", "one"))).await;
    held.until_written(1).await;
    held.say(format!("{}\n", function("b", "two"))).await;
    held.until_written(2).await;
    let (end, _, written) = held.end().await;
    assert_eq!(end.unwrap(), End::Answered);
    assert_eq!(written[0]["tool_use_id"], "a");
    assert_eq!(written[1]["call_id"], "b");
    assert_eq!(written[1]["output"], "two");
}

#[tokio::test(start_paused = true)]
async fn a_bad_line_is_told_and_the_others_are_answered() {
    let held = hold();
    held.say(format!("{}\ngarbage\n{}\n", bash("a", "one"), bash("a", "two"))).await;
    let (end, complaints, written) = held.end().await;
    assert_eq!(end.unwrap(), End::BadLines);
    assert_eq!(complaints.len(), 1);
    assert!(complaints[0].starts_with("line 2, column 1"), "{complaints:?}");
    assert_eq!(written.len(), 2);
    // The id stands twice: an error in the place of the second.
    assert_eq!(written[0]["is_error"], false);
    assert_eq!(written[1]["is_error"], true);
}

#[tokio::test(start_paused = true)]
async fn of_a_whole_turn_that_is_broken_nothing_runs() {
    let held = hold();
    held.say(format!("[\n{},\n{{\"type\": \"tool_use\"}}\n]\n", bash("a", "one"))).await;
    let (end, _, written) = held.end().await;
    assert!(matches!(end, Err(Broken::Input(error)) if error.to_string().starts_with("[1]: ")));
    assert_eq!(written, Vec::<Value>::new());
}

// spec 1.14, 1.16: abort stops all, and every call still has its result
#[tokio::test(start_paused = true)]
async fn a_signal_cancels_what_runs_and_every_call_has_a_result() {
    let held = hold();
    held.say(json!([bash("a", "sleep 1000"), bash("b", "never")])).await;
    let Held { lines, signals, written, end } = held;
    drop(lines);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = tokio::time::Instant::now();
    signals.send(libc::SIGINT).unwrap();
    let (end, _) = end.await.unwrap();
    assert!(before.elapsed() < Duration::from_secs(60));
    assert_eq!(end.unwrap(), End::Stopped(libc::SIGINT));
    let results = &written.lines()[0]["content"];
    assert_eq!(results.as_array().unwrap().len(), 2);
    assert!(results.as_array().unwrap().iter().all(|result| result["is_error"] == true));
}

#[tokio::test(start_paused = true)]
async fn a_signal_before_the_input_has_ended_says_so() {
    let held = hold();
    held.say(format!("{}\n", bash("a", "sleep 1000"))).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    held.signals.send(libc::SIGTERM).unwrap();
    held.until_written(1).await;
    let (end, _, written) = held.end().await;
    assert_eq!(end.unwrap(), End::Stopped(libc::SIGTERM));
    assert_eq!(written[0]["is_error"], true);
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_leaves_no_call_without_a_result_and_a_third_waits_for_nothing() {
    for (signals, expected) in [(2, End::Hurried(libc::SIGINT)), (3, End::Killed(libc::SIGINT))] {
        let held = hold();
        held.say(format!("{}\n", bash("a", "sleep 1000"))).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        for _ in 0..signals {
            held.signals.send(libc::SIGINT).unwrap();
        }
        let (end, _, written) = held.end().await;
        assert_eq!(end.unwrap(), expected);
        assert_eq!(written.len(), 3 - signals);
    }
}

#[tokio::test(start_paused = true)]
async fn when_nobody_reads_the_results_the_turn_ends() {
    let held = hold_with(Gone, Written::default());
    let calls: Vec<String> =
        ["one", "sleep 1000", "two"].iter().map(|c| bash(c, c).to_string()).collect();
    held.say(calls.join("\n")).await;
    // The paused clock would run ahead while nothing but the writing thread works; it stands while something blocks.
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || blocked.recv());
    let before = tokio::time::Instant::now();
    let (end, ..) = held.end().await;
    assert!(matches!(end, Err(Broken::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe));
    assert!(before.elapsed() < Duration::from_secs(60));
    drop(release);
}

#[tokio::test(start_paused = true)]
async fn an_input_that_fails_leaves_what_came_before_answered() {
    let held = hold();
    held.say(format!("{}\n", bash("a", "one"))).await;
    held.fail().await;
    let (end, _, written) = held.end().await;
    assert!(matches!(end, Err(Broken::Read(error)) if error.to_string() == "disk on fire"));
    assert_eq!(written.len(), 1);
}
