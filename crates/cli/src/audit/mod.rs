//! `stockade audit`: what was asked, who allowed it, and what was denied; and whether the ledger is whole (spec 9.2, 10.1).

mod export;
mod filter;
mod record;
mod table;

use crate::args::{AuditAction, AuditArgs, AuditPlace};
use crate::{complain, session};
use filter::{Filter, Seen};
use record::Record;
use std::collections::VecDeque;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use stockade_ledger::{LedgerError, LedgerPaths, Reader, VerifierKey, VerifyOptions, verify};
use table::Users;

/// A fault was found.
const FAULT: u8 = 1;
/// It could not be looked at.
const FAILED: u8 = 2;
/// How often `tail --follow` looks for more.
const FOLLOW: Duration = Duration::from_millis(200);

/// Why it did not do it.
#[derive(Debug, thiserror::Error)]
enum AuditError {
    #[error(
        "the user's state folder is unknown: set HOME or XDG_STATE_HOME, or name a folder with --state-dir"
    )]
    StateDir,
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("--key: {0}")]
    Key(String),
    #[error("it cannot be written to stdout: {0}")]
    Stdout(#[from] io::Error),
}

/// Does it, and gives the exit code.
pub fn main(args: &AuditArgs) -> ExitCode {
    match audit(args) {
        Ok(code) => code,
        // Whoever reads has enough.
        Err(AuditError::Stdout(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(&error.to_string());
            ExitCode::from(FAILED)
        }
    }
}

fn paths(place: &AuditPlace) -> Result<LedgerPaths, AuditError> {
    if let Some(file) = &place.ledger {
        return Ok(LedgerPaths::of_file(file));
    }
    let state_dir = session::state_dir(place.state_dir.as_deref()).ok_or(AuditError::StateDir)?;
    Ok(LedgerPaths::of_state_dir(&state_dir))
}

fn audit(args: &AuditArgs) -> Result<ExitCode, AuditError> {
    let mut out = BufWriter::new(io::stdout().lock());
    let done = match &args.action {
        AuditAction::Tail { place, lines, follow, json } => {
            tail(&paths(place)?, *lines, *follow, *json, &mut out).map(|()| ExitCode::SUCCESS)
        }
        AuditAction::Query { place, filter, json } => {
            show(records(&paths(place)?)?, &Filter::of(filter), *json, &mut out)
                .map(|()| ExitCode::SUCCESS)
        }
        AuditAction::Export { place, filter, format } => {
            let filter = Filter::of(filter);
            let mut seen = Seen::default();
            for record in records(&paths(place)?)? {
                let record = record?;
                let taken = filter.takes(&record);
                seen.hear(&record, &filter, taken);
                if taken {
                    export::write(&record, *format, &mut out)?;
                }
            }
            seen.missing(&filter).iter().for_each(|missing| complain(missing));
            Ok(ExitCode::SUCCESS)
        }
        AuditAction::Verify { place, key, head, json } => {
            check(&paths(place)?, key.as_deref(), head.as_deref(), *json, &mut out)
        }
    }?;
    out.flush()?;
    Ok(done)
}

/// The records of a ledger, oldest first. A line that is none is passed over: `verify` names it.
fn records(
    paths: &LedgerPaths,
) -> Result<impl Iterator<Item = Result<Record, AuditError>> + use<>, AuditError> {
    let lines = Reader::open(paths)?;
    Ok(lines.filter_map(|line| match line {
        Ok(line) if line.ended => Record::parse(&line.bytes).map(Ok),
        Ok(_) => None,
        Err(error) => Some(Err(error.into())),
    }))
}

fn show(
    records: impl Iterator<Item = Result<Record, AuditError>>,
    filter: &Filter<'_>,
    json: bool,
    out: &mut impl Write,
) -> Result<(), AuditError> {
    let mut users = Users::default();
    let mut found = Vec::new();
    let mut seen = Seen::default();
    for record in records {
        let record = record?;
        users.hear(&record);
        let taken = filter.takes(&record);
        seen.hear(&record, filter, taken);
        if !taken {
            continue;
        }
        if json {
            writeln!(out, "{}", record.line())?;
        } else if !record.is_bookkeeping() {
            found.push(record);
        }
    }
    if !json {
        table::write(&found.iter().collect::<Vec<_>>(), &users, true, out)?;
    }
    seen.missing(filter).iter().for_each(|missing| complain(missing));
    Ok(())
}

fn tail(
    paths: &LedgerPaths,
    lines: usize,
    follow: bool,
    json: bool,
    out: &mut impl Write,
) -> Result<(), AuditError> {
    let mut shown = 0;
    let mut first = true;
    let mut users = Users::default();
    loop {
        let mut last: VecDeque<Record> = VecDeque::new();
        let mut newest = shown;
        for record in records(paths)? {
            let record = record?;
            users.hear(&record);
            newest = newest.max(record.seq());
            if record.seq() > shown && (json || !record.is_bookkeeping()) {
                last.push_back(record);
                if first && last.len() > lines {
                    last.pop_front();
                }
            }
        }
        shown = newest;
        if json {
            for record in &last {
                writeln!(out, "{}", record.line())?;
            }
        } else {
            table::write(&last.iter().collect::<Vec<_>>(), &users, first, out)?;
        }
        out.flush()?;
        if !follow {
            return Ok(());
        }
        first = false;
        std::thread::sleep(FOLLOW);
    }
}

fn check(
    paths: &LedgerPaths,
    key: Option<&str>,
    head: Option<&Path>,
    json: bool,
    out: &mut impl Write,
) -> Result<ExitCode, AuditError> {
    let key = match key {
        None => None,
        Some(text) if text.contains('+') => {
            Some(text.parse::<VerifierKey>().map_err(AuditError::Key)?)
        }
        Some(file) => Some(VerifierKey::read(Path::new(file))?),
    };
    let options = VerifyOptions { key, published: head.map(Path::to_owned) };
    let found = verify(paths, &options)?;
    if json {
        let text = serde_json::to_string(&found).map_err(io::Error::from)?;
        writeln!(out, "{text}")?;
    } else {
        match &found.fault {
            None => {
                writeln!(
                    out,
                    "whole: {} records, {} signed checkpoints",
                    found.records, found.checkpoints
                )?;
                if found.unsigned > 0 {
                    writeln!(
                        out,
                        "{} records at the end are not covered by a signed head yet",
                        found.unsigned
                    )?;
                }
            }
            Some(fault) => {
                let kind = serde_json::to_value(fault.kind).ok();
                let kind =
                    kind.as_ref().and_then(serde_json::Value::as_str).unwrap_or("fault").to_owned();
                writeln!(
                    out,
                    "{}:{}: {kind}: record {}: {}",
                    fault.file.display(),
                    fault.line,
                    fault.record,
                    fault.detail
                )?;
                writeln!(out, "the {} records before it are in order", found.records)?;
            }
        }
    }
    out.flush()?;
    Ok(if found.fault.is_some() { ExitCode::from(FAULT) } else { ExitCode::SUCCESS })
}
