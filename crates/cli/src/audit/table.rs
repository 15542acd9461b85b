use super::record::Record;
use crate::shown::on_one_line as clean;
use std::collections::HashMap;
use std::io::{self, Write};

/// Characters of the last column.
const SUMMARY_MAX: usize = 160;

/// Who runs which session: its first record says so.
#[derive(Debug, Default)]
pub struct Users(HashMap<String, i64>);

impl Users {
    /// Learns from a record.
    pub fn hear(&mut self, record: &Record) {
        if let (true, Some(uid)) = (record.kind() == "session_started", record.number("uid")) {
            self.0.insert(record.text("session").to_owned(), uid);
        }
    }

    fn of(&self, record: &Record) -> String {
        self.0.get(record.text("session")).map(i64::to_string).unwrap_or_default()
    }
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
                short(&clean(&record.summary()), SUMMARY_MAX),
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
