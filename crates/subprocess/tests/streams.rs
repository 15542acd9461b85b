//! What goes through a command's pipes.
#![allow(missing_docs)]

mod support;

use portable_pty::{PtyPair, native_pty_system};
use std::fs::File;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stockade_sandbox::{ChildEvent, Stdio};
use stockade_subprocess::pty::Size;
use stockade_subprocess::{OutputSink, Progress, RunOptions, RunningCommand, Stream, run};
use stockade_types::Outcome;
use support::*;
use tokio_util::sync::CancellationToken;

#[tokio::test(start_paused = true)]
async fn all_that_is_in_the_pipe_when_the_tree_goes_is_kept() {
    // spec 6.4: written, closed and gone in one moment, before anything could be read.
    let bytes = vec![b'x'; 60_000];
    let cell = ScriptedCell::new(Script {
        start: vec![
            (5, Do::Out(bytes.clone())),
            (5, Do::Err(b"e".to_vec())),
            (5, exits(0, 0)),
            (5, gone()),
        ],
        ..Script::default()
    });
    let finished = run(&cell, command(), RunOptions::default(), CancellationToken::new()).await;
    assert_eq!(finished.stdout.bytes, bytes);
    assert_eq!(finished.stdout.total, 60_000);
    assert_eq!(finished.stderr.bytes, b"e");
}

#[tokio::test(start_paused = true)]
async fn a_writing_end_that_someone_outside_holds_keeps_no_call_from_ending() {
    // spec 6.2
    let mut cell = ScriptedCell::new(Script {
        start: vec![(5, out("mine")), (5, exits(0, 0)), (6, gone())],
        ..Script::default()
    });
    cell.hold_output = true;
    let begun = tokio::time::Instant::now();
    let finished = run(&cell, command(), RunOptions::default(), CancellationToken::new()).await;
    assert_eq!(finished.stdout.text(), "mine");
    assert!(begun.elapsed() < Duration::from_millis(200), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_a_lost_tree_writes_while_the_kernel_ends_it_is_kept() {
    // spec 6.4: the init's vanishing shows before the last of its tree has gone.
    let detail = "the init was killed".to_owned();
    let mut cell = ScriptedCell::new(Script {
        start: vec![(5, out("before, ")), (10, Do::Tell(ChildEvent::Lost { detail }))],
        ..Script::default()
    });
    cell.hold_output = true;
    let running = RunningCommand::start(&cell, command(), RunOptions::default()).await.unwrap();
    let mut pipe = cell.seen.lock().unwrap().held.take().unwrap();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(40)).await;
        pipe.write_all(b"after").unwrap();
    });
    let finished = running.wait(CancellationToken::new()).await;
    assert_eq!(finished.stdout.text(), "before, after");
}

#[tokio::test(start_paused = true)]
async fn output_over_the_limit_keeps_head_and_tail_and_exact_counts() {
    // spec 6.4
    let cell = ScriptedCell::new(Script {
        start: vec![
            (1, out("start ")),
            (2, Do::Out(vec![b'.'; 1000])),
            (3, Do::Out("…end".into())),
            (4, exits(0, 0)),
            (5, gone()),
        ],
        ..Script::default()
    });
    // The tail begins inside the ellipsis.
    let options = RunOptions { output_limit: 10, ..RunOptions::default() };
    let finished = run(&cell, command(), options, CancellationToken::new()).await;
    let stdout = finished.stdout;
    assert_eq!((stdout.total, stdout.omitted, stdout.head_len), (1012, 1002, 5));
    assert_eq!(stdout.bytes, b"start\x80\xa6end");
    assert_eq!(stdout.text(), "start\n… 1004 bytes omitted …\nend");
}

#[tokio::test(flavor = "current_thread")]
async fn one_stream_that_is_never_at_rest_keeps_neither_the_other_nor_the_deadline_waiting() {
    // spec 6.4, 6.1
    let mut cell = ScriptedCell::new(Script {
        start: vec![(50, Do::Err(b"heard".to_vec()))],
        on_terminate: vec![(0, exits(0, 0)), (0, gone())],
        ..Script::default()
    });
    cell.hold_output = true;
    let options =
        RunOptions { deadline: Some(Duration::from_millis(300)), ..RunOptions::default() };
    let running = RunningCommand::start(&cell, command(), options).await.unwrap();
    let mut pipe = cell.seen.lock().unwrap().held.take().unwrap();
    let begun = std::time::Instant::now();
    // For so long that a call which waits for its rest is found out, however slow the machine.
    const NEVER_AT_REST: Duration = Duration::from_secs(60);
    let writer = std::thread::spawn(move || {
        let chunk = vec![b'g'; 1 << 20];
        while begun.elapsed() < NEVER_AT_REST && pipe.write_all(&chunk).is_ok() {}
    });
    let finished = running.wait(CancellationToken::new()).await;
    let took = begun.elapsed();
    writer.join().unwrap();
    assert_eq!(finished.outcome, Outcome::TimedOut { timeout_ms: 300 });
    assert_eq!(finished.stderr.text(), "heard");
    assert!(finished.stdout.total > 0);
    assert!(took < NEVER_AT_REST / 2, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stdin_is_written_while_output_is_read_and_closed_after_it() {
    // spec 6.4: more than both pipes hold, echoed: who writes first and reads later hangs.
    let input: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    let mut cell = ScriptedCell::new(Script {
        on_interrupt: vec![(0, exits(0, 0)), (0, gone())],
        ..Script::default()
    });
    cell.hold_output = true;
    let options = RunOptions {
        stdin: Some(input.clone()),
        output_limit: input.len(),
        ..RunOptions::default()
    };
    let running = RunningCommand::start(&cell, command(), options).await.unwrap();
    let control = running.control();
    let (mut from, mut to) = {
        let mut seen = cell.seen.lock().unwrap();
        (seen.stdin.take().unwrap(), seen.held.take().unwrap())
    };
    let echo = std::thread::spawn(move || {
        std::io::copy(&mut from, &mut to).unwrap();
        control.signal(stockade_sandbox::TreeSignal::Interrupt);
    });
    let finished = running.wait(CancellationToken::new()).await;
    echo.join().unwrap();
    assert_eq!(finished.stdout.omitted, 0);
    assert!(finished.stdout.bytes == input);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_does_not_read_its_stdin_is_no_error() {
    let cell = ScriptedCell::new(Script {
        start: vec![(100, exits(0, 0)), (101, gone())],
        ..Script::default()
    });
    let options = RunOptions { stdin: Some(vec![0; 1_000_000]), ..RunOptions::default() };
    let running = RunningCommand::start(&cell, command(), options).await.unwrap();
    // EPIPE from here on.
    drop(cell.seen.lock().unwrap().stdin.take());
    let finished = running.wait(CancellationToken::new()).await;
    assert_eq!(finished.outcome, Outcome::Exited { code: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_piped_stdin_without_anything_to_write_is_at_its_end() {
    let cell = ScriptedCell::new(Script {
        start: vec![(100, exits(0, 0)), (101, gone())],
        ..Script::default()
    });
    let mut command = command();
    command.stdin = Stdio::Pipe;
    let running = RunningCommand::start(&cell, command, RunOptions::default()).await.unwrap();
    let mut stdin = cell.seen.lock().unwrap().stdin.take().unwrap();
    let mut read = Vec::new();
    stdin.read_to_end(&mut read).unwrap();
    assert_eq!(read, b"");
    running.wait(CancellationToken::new()).await;
}

type Taken = Vec<(Stream, Vec<u8>)>;

/// Takes so many bytes, then is full.
struct Shelf {
    taken: Arc<Mutex<Taken>>,
    room: usize,
}

impl OutputSink for Shelf {
    fn write(&mut self, stream: Stream, bytes: &[u8]) -> std::io::Result<()> {
        if bytes.len() > self.room {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.room -= bytes.len();
        self.taken.lock().unwrap().push((stream, bytes.to_vec()));
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn the_sink_gets_everything_as_it_comes_and_memory_the_ends() {
    // spec 6.4, 8.2
    let cell = ScriptedCell::new(Script {
        start: vec![
            (1, out("first\n")),
            (2, Do::Err(b"second\n".to_vec())),
            (3, Do::Out(vec![b'.'; 5000])),
            (4, exits(0, 0)),
            (5, gone()),
        ],
        ..Script::default()
    });
    let taken = Arc::default();
    let sink = Shelf { taken: Arc::clone(&taken), room: usize::MAX };
    let options =
        RunOptions { output_limit: 10, sink: Some(Box::new(sink)), ..RunOptions::default() };
    let finished = run(&cell, command(), options, CancellationToken::new()).await;
    let taken = taken.lock().unwrap();
    let expected = [
        (Stream::Stdout, b"first\n".to_vec()),
        (Stream::Stderr, b"second\n".to_vec()),
        (Stream::Stdout, vec![b'.'; 5000]),
    ];
    assert_eq!(*taken, expected);
    assert_eq!(finished.sink_error, None);
    assert_eq!(finished.output.captured.total, 5013);
    assert_eq!(finished.output.text(), "first\n… 5003 bytes omitted …\n.....");
}

#[tokio::test(start_paused = true)]
async fn a_full_sink_fails_no_call_and_is_told() {
    // spec 8.2
    let cell = ScriptedCell::new(Script {
        start: vec![
            (1, out("fits")),
            (2, out("does not")),
            (3, out("x")),
            (4, exits(0, 0)),
            (5, gone()),
        ],
        ..Script::default()
    });
    let taken = Arc::default();
    let sink = Shelf { taken: Arc::clone(&taken), room: 4 };
    let options = RunOptions { sink: Some(Box::new(sink)), ..RunOptions::default() };
    let finished = run(&cell, command(), options, CancellationToken::new()).await;
    assert_eq!(finished.outcome, Outcome::Exited { code: 0 });
    assert_eq!(finished.stdout.text(), "fitsdoes notx");
    assert_eq!(*taken.lock().unwrap(), [(Stream::Stdout, b"fits".to_vec())], "nothing after a gap");
    assert!(finished.sink_error.is_some());
}

#[tokio::test(start_paused = true)]
async fn progress_comes_at_most_ten_times_a_second_and_all_of_it_comes() {
    // spec 6.4
    let text = |n: u64| format!("line {n} é\n");
    let mut start: Steps = (1..=3000).map(|n| (n, out(&text(n)))).collect();
    start.extend([(3001, exits(0, 0)), (3002, gone())]);
    let cell = ScriptedCell::new(Script { start, ..Script::default() });
    let reports: Arc<Mutex<Vec<(tokio::time::Instant, Progress)>>> = Arc::default();
    let told = Arc::clone(&reports);
    let options = RunOptions {
        progress: Some(Arc::new(move |report| {
            told.lock().unwrap().push((tokio::time::Instant::now(), report));
        })),
        ..RunOptions::default()
    };
    run(&cell, command(), options, CancellationToken::new()).await;
    let reports = reports.lock().unwrap();
    assert!((30..=32).contains(&reports.len()), "{} in three seconds", reports.len());
    for pair in reports.windows(2).take(reports.len() - 2) {
        assert!(pair[1].0 - pair[0].0 >= Duration::from_millis(100));
    }
    let all: String = reports.iter().map(|(_, report)| report.text.as_str()).collect();
    assert_eq!(all, (1..=3000).map(text).collect::<String>());
    assert_eq!(reports.last().unwrap().1.stdout_bytes, all.len() as u64);
}

#[tokio::test(start_paused = true)]
async fn progress_of_much_output_carries_its_end_and_says_how_much_is_missing() {
    // spec 6.4
    let big = "é".repeat(30_000);
    let cell = ScriptedCell::new(Script {
        start: vec![(1, out(&big)), (2, out("end\n")), (500, exits(0, 0)), (501, gone())],
        ..Script::default()
    });
    let reports: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let told = Arc::clone(&reports);
    let options = RunOptions {
        progress: Some(Arc::new(move |report| told.lock().unwrap().push(report))),
        ..RunOptions::default()
    };
    run(&cell, command(), options, CancellationToken::new()).await;
    let reports = reports.lock().unwrap();
    let shown: usize = reports.iter().map(|report| report.text.len()).sum();
    let omitted: u64 = reports.iter().map(|report| report.omitted).sum();
    assert_eq!(shown as u64 + omitted, big.len() as u64 + 4);
    assert!(reports.iter().all(|report| !report.text.contains('\u{fffd}')));
    assert!(reports.iter().all(|report| report.text.len() <= 4096));
    assert!(reports.last().unwrap().text.ends_with("end\n"));
}

#[tokio::test]
async fn what_a_terminal_shows_is_captured_though_it_is_closed_for_a_while() {
    // spec 6.4, 6.5
    let mut cell = ScriptedCell::new(Script {
        on_interrupt: vec![(0, exits(0, 0)), (0, gone())],
        ..Script::default()
    });
    let PtyPair { master, slave } = native_pty_system().openpty(Size::default().into()).unwrap();
    let open = || File::options().read(true).write(true).open(master.tty_name().unwrap()).unwrap();
    let ours = open_master(&*master);
    cell.terminal = Mutex::new(Some(ours));
    let options = RunOptions { stdin: Some(b"typed".to_vec()), ..RunOptions::default() };
    let running = RunningCommand::start(&cell, command(), options).await.unwrap();
    let control = running.control();
    let mut end = open();
    drop(slave);
    drop(master);
    let writer = std::thread::spawn(move || {
        end.write_all(b"one\n").unwrap();
        let mut line = [0; 5];
        end.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"typed");
        let mut rest = [0; 1];
        assert_eq!(end.read(&mut rest).unwrap(), 0, "an end of file follows");
        end.write_all(b"two\n").unwrap();
        drop(end);
        control.signal(stockade_sandbox::TreeSignal::Interrupt);
    });
    let finished = running.wait(CancellationToken::new()).await;
    writer.join().unwrap();
    let shown = finished.stdout.text().replace("typed", "").replace("^D\u{8}\u{8}", "");
    assert_eq!(shown, "one\r\ntwo\r\n");
}

/// A copy of our end, by its own descriptor.
fn open_master(master: &dyn portable_pty::MasterPty) -> std::os::fd::OwnedFd {
    let fd = master.as_raw_fd().unwrap();
    let fds = rustix::process::pidfd_open(
        rustix::process::getpid(),
        rustix::process::PidfdFlags::empty(),
    );
    rustix::process::pidfd_getfd(fds.unwrap(), fd, rustix::process::PidfdGetfdFlags::empty())
        .unwrap()
}

#[tokio::test]
async fn of_two_streams_that_are_both_ready_the_one_that_was_so_first_comes_first() {
    // spec 6.4
    for err_first in [true, false] {
        let mut first = vec![(20, Do::Err(b"err ".to_vec())), (20, out("out "))];
        if !err_first {
            first.reverse();
        }
        first.extend([(60, exits(0, 0)), (61, gone())]);
        let cell = ScriptedCell::new(Script { start: first, ..Script::default() });
        let finished = run(&cell, command(), RunOptions::default(), CancellationToken::new()).await;
        let expected = if err_first { "err out " } else { "out err " };
        assert_eq!(finished.output.text(), expected);
    }
}
