//! The memory that output takes, in a process where nothing else runs.
#![allow(missing_docs)]

mod support;

use std::io::Write;
use stockade_subprocess::{RunOptions, RunningCommand};
use support::*;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn a_gibibyte_passes_in_bounded_memory_and_is_counted_exactly() {
    // spec 6.4
    const SIZE: u64 = 1 << 30;
    let peak = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let mut cell = ScriptedCell::new(Script {
        on_interrupt: vec![(0, exits(0, 0)), (0, gone())],
        ..Script::default()
    });
    cell.hold_output = true;
    let options = RunOptions { output_limit: 64 * 1024, ..RunOptions::default() };
    let running = RunningCommand::start(&cell, command(), options).await.unwrap();
    let control = running.control();
    let mut pipe = cell.seen.lock().unwrap().held.take().unwrap();
    let before = peak();
    let writer = std::thread::spawn(move || {
        let chunk = vec![b'g'; 1 << 20];
        for _ in 0..SIZE / chunk.len() as u64 {
            pipe.write_all(&chunk).unwrap();
        }
        control.signal(stockade_sandbox::TreeSignal::Interrupt);
    });
    let finished = running.wait(CancellationToken::new()).await;
    writer.join().unwrap();
    assert_eq!(finished.stdout.total, SIZE);
    assert_eq!(finished.stdout.omitted, SIZE - 64 * 1024);
    assert_eq!(finished.stdout.bytes.len(), 64 * 1024);
    let more = peak() - before;
    assert!(more < 16 * 1024, "{more} KiB more at the peak");
}
