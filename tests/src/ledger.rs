//! Many processes at one ledger, and what is left when some of them are killed in the middle of a record (spec 9.2).

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use stockade_ledger::{
    DecidedBy, Entry, Event, FsyncPolicy, Ledger, LedgerOptions, LedgerPaths, Reader, Verdict,
    VerifyOptions, verify,
};
use stockade_types::{CallId, SessionId};

/// What a writer does: so many records that name it and count up.
pub fn write(state_dir: &Path, writer: &str, records: u64) -> Result<()> {
    let options = LedgerOptions { fsync: FsyncPolicy::Never, ..LedgerOptions::default() };
    let ledger = Ledger::open(LedgerPaths::of_state_dir(state_dir), options)?;
    for n in 0..records {
        let reason = format!("{writer}: {}", "x".repeat((n % 700) as usize));
        ledger.append(&Entry {
            tool: Some(writer.to_owned()),
            ..Entry::of(Event::SessionEnded { calls: n, reason })
        })?;
    }
    ledger.checkpoint()?;
    Ok(())
}

fn start(program: &Path, state_dir: &Path, writer: &str, records: u64) -> Result<Child> {
    Command::new(program)
        .arg("write")
        .arg(state_dir)
        .args([writer, &records.to_string()])
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {program:?}"))
}

/// How many records each writer has in the ledger. They must count up from 0 without a gap, and the chain must be whole.
fn written(state_dir: &Path) -> Result<BTreeMap<String, u64>> {
    let paths = LedgerPaths::of_state_dir(state_dir);
    let found = verify(&paths, &VerifyOptions::default())?;
    if let Some(fault) = found.fault {
        bail!("{:?} line {}: {:?}: {}", fault.file, fault.line, fault.kind, fault.detail);
    }
    let mut counts = BTreeMap::new();
    for line in Reader::open(&paths)? {
        let line: Value = serde_json::from_slice(&line?.bytes)?;
        if line["type"] == "session_ended" {
            let writer = line["tool"].as_str().context("a writer's name")?.to_owned();
            let count = counts.entry(writer).or_insert(0);
            ensure!(line["calls"] == *count, "{line} is not the writer's record {count}");
            *count += 1;
        }
    }
    Ok(counts)
}

/// So many processes append so many records each, all at once. All of them must be there, the chain whole. The time that took.
pub fn together(
    program: &Path,
    state_dir: &Path,
    processes: u64,
    records: u64,
) -> Result<Duration> {
    let start_of_all = Instant::now();
    let writers: Vec<Child> = (0..processes)
        .map(|n| start(program, state_dir, &format!("writer {n}"), records))
        .collect::<Result<_>>()?;
    for mut writer in writers {
        ensure!(writer.wait()?.success(), "a writer failed");
    }
    let took = start_of_all.elapsed();
    let counts = written(state_dir)?;
    ensure!(counts.len() as u64 == processes, "{counts:?}");
    ensure!(counts.values().all(|count| *count == records), "{counts:?}");
    Ok(took)
}

/// What one process alone pays for each of so many records of a call, as `exec` writes them (target: 20 µs without fsync).
pub fn cost(state_dir: &Path, records: u64, fsync: FsyncPolicy) -> Result<Duration> {
    let options = LedgerOptions { fsync, ..LedgerOptions::default() };
    let ledger = Ledger::open(LedgerPaths::of_state_dir(state_dir), options)?;
    let requested = Entry {
        session: SessionId::new("0b5c9a52-2f0e-4c5b-9a52-1f0e3d1c6c0a").ok(),
        turn: Some(1),
        call: Some(CallId("toolu_0123456789abcdef".to_owned())),
        tool: Some("Bash".to_owned()),
        event: Event::CallRequested {
            arguments: json!({"command": "cargo test --workspace 2>&1 | tail -n 40 && git log --oneline -5", "timeout": 120_000, "description": "Run all the tests"}),
            arguments_sha256: "3d".repeat(32),
        },
    };
    let decided = Event::Decided {
        decision: Verdict::Allow,
        by: DecidedBy::Policy,
        approver: None,
        rule: String::new(),
        reason: "nobody objects, and the policy confines it".to_owned(),
        policy_digest: "5a".repeat(32),
        permissions: Value::Null,
    };
    let ended = Event::CallEnded {
        outcome: "exited".to_owned(),
        is_error: false,
        exit_code: Some(0),
        policy_digest: "5a".repeat(32),
        took_ms: Some(1200),
        message: String::new(),
    };
    let entries = [
        requested.clone(),
        Entry { event: decided, ..requested.clone() },
        Entry { event: ended, ..requested },
    ];
    let started = Instant::now();
    for entry in entries.iter().cycle().take(usize::try_from(records)?) {
        ledger.append(entry)?;
    }
    let took = started.elapsed();
    ensure!(verify(ledger.paths(), &VerifyOptions::default())?.fault.is_none(), "not whole");
    Ok(took)
}

/// What [`killed`] saw.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kills {
    /// Records in the ledger at the end.
    pub records: u64,
    /// Torn lines that were found and taken away.
    pub recovered: u64,
}

/// Kills one of three writers after a while of its life, again and again, each time after another while, and looks each time whether
/// the ledger is whole up to its last whole record: what was in it before is there still.
pub fn killed(program: &Path, state_dir: &Path, times: u64) -> Result<Kills> {
    const WRITERS: usize = 3;
    let paths = LedgerPaths::of_state_dir(state_dir);
    let mut writers: Vec<Child> = Vec::new();
    let mut number = 0;
    let mut begin = || {
        number += 1;
        start(program, state_dir, &format!("writer {number}"), u64::from(u32::MAX))
    };
    for _ in 0..WRITERS {
        writers.push(begin()?);
    }
    let mut before = BTreeMap::new();
    // A plain generator: the moments differ, and a run can be repeated.
    let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
    for round in 0..times {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The next moment comes only once somebody is at work: under load a start takes longer than a life.
        let length = || std::fs::metadata(&paths.current).map_or(0, |file| file.len());
        let (before_kill, waited) = (length(), Instant::now());
        while length() == before_kill {
            ensure!(waited.elapsed() < Duration::from_secs(60), "no writer writes");
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(Duration::from_micros((random >> 33) % 8_000));
        let at = (round as usize) % WRITERS;
        let mut victim = std::mem::replace(&mut writers[at], begin()?);
        // SIGKILL.
        victim.kill().and_then(|()| victim.wait())?;
        // The whole ledger is read at every so manieth kill: it grows.
        if round % 25 == 24 {
            for writer in &mut writers {
                writer.kill()?;
                writer.wait()?;
            }
            // Whoever comes next recovers what they left.
            drop(Ledger::open(paths.clone(), LedgerOptions::default())?);
            let now = written(state_dir).with_context(|| format!("after {} kills", round + 1))?;
            for (writer, count) in &before {
                ensure!(
                    now.get(writer).is_some_and(|now| now >= count),
                    "records of {writer} are gone"
                );
            }
            before = now;
            for writer in &mut writers {
                *writer = begin()?;
            }
        }
    }
    for mut writer in writers {
        writer.kill()?;
        writer.wait()?;
    }
    Ledger::open(paths.clone(), LedgerOptions::default())?.checkpoint()?;
    let mut kills = Kills { records: written(state_dir)?.values().sum(), recovered: 0 };
    for line in Reader::open(&paths)? {
        let line: Value = serde_json::from_slice(&line?.bytes)?;
        kills.recovered += u64::from(line["type"] == "recovered");
    }
    Ok(kills)
}
