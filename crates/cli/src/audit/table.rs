use super::record::Record;
use crate::shown::on_one_line as clean;
use std::collections::HashMap;
use std::io::{self, Write};

/// Characters of the last column.
const SUMMARY_MAX: usize = 160;

/// Characters of what a call was to do.
const CALL_MAX: usize = 80;

/// What earlier records say about later ones: who runs a session, and what a call is to do.
#[derive(Debug, Default)]
pub struct Users {
    of_sessions: HashMap<String, i64>,
    calls: HashMap<(String, i64, String), String>,
}

impl Users {
    /// Learns from a record.
    pub fn hear(&mut self, record: &Record) {
        if let (true, Some(uid)) = (record.kind() == "session_started", record.number("uid")) {
            self.of_sessions.insert(record.text("session").to_owned(), uid);
        }
        if record.kind() == "call_requested" {
            let wanted = record.summary().chars().take(CALL_MAX).collect();
            self.calls.insert(call_of(record), wanted);
        }
    }

    fn of(&self, record: &Record) -> String {
        self.of_sessions.get(record.text("session")).map(i64::to_string).unwrap_or_default()
    }

    /// What a record says, and of a decision what it is about.
    pub fn summary(&self, record: &Record) -> String {
        let short: String = record.summary().chars().take(SUMMARY_MAX).collect();
        let of_call = matches!(record.kind(), "decided" | "sandbox_denied" | "network_decided");
        match self.calls.get(&call_of(record)).filter(|_| of_call) {
            Some(call) => format!("{short} <- {call}"),
            None => short,
        }
    }
}

fn call_of(record: &Record) -> (String, i64, String) {
    let (session, turn) = (record.text("session"), record.number("turn").unwrap_or(0));
    (session.to_owned(), turn, record.text("call").to_owned())
}

/// Columns for people, with who runs each session. Controls are shown, not sent: a command may hold some.
pub fn write(
    records: &[&Record],
    users: &Users,
    heading: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let short = |text: &str, most: usize| -> String { text.chars().take(most).collect() };
    let rows: Vec<[String; 8]> = records
        .iter()
        .map(|record| {
            [
                short(record.text("time"), 19).replace('T', " "),
                short(&clean(record.text("session")), 8),
                users.of(record),
                short(&clean(record.text("call")), 16),
                short(&clean(record.text("tool")), 12),
                clean(record.kind()),
                clean(record.text("decision")),
                clean(&users.summary(record)),
            ]
        })
        .collect();
    let names = ["TIME (UTC)", "SESSION", "USER", "CALL", "TOOL", "EVENT", "DECISION", "WHAT"]
        .map(str::to_owned);
    let mut widths = names.clone().map(|name| name.len());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let heading = heading.then_some(&names);
    for row in heading.into_iter().chain(&rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths).take(7) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
        }
        line.push_str(&row[7]);
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
