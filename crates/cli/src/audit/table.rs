use super::record::Record;
use std::io::{self, Write};

/// Characters of the last column.
const SUMMARY_MAX: usize = 160;

/// Columns for people. Controls are shown, not sent: a command may hold some.
pub fn write(records: &[&Record], heading: bool, out: &mut impl Write) -> io::Result<()> {
    let short = |text: &str, most: usize| -> String { text.chars().take(most).collect() };
    let rows: Vec<[String; 7]> = records
        .iter()
        .map(|record| {
            [
                short(record.text("time"), 19).replace('T', " "),
                short(record.text("session"), 8),
                short(&clean(record.text("call")), 16),
                short(&clean(record.text("tool")), 12),
                record.kind().to_owned(),
                record.text("decision").to_owned(),
                short(&clean(&record.summary()), SUMMARY_MAX),
            ]
        })
        .collect();
    let names =
        ["TIME (UTC)", "SESSION", "CALL", "TOOL", "EVENT", "DECISION", "WHAT"].map(str::to_owned);
    let mut widths = names.clone().map(|name| name.len());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let heading = heading.then_some(&names);
    for row in heading.into_iter().chain(&rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths).take(6) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
        }
        line.push_str(&row[6]);
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn clean(text: &str) -> String {
    let mut clean = String::new();
    for c in text.chars() {
        match c {
            '\n' => clean.push('⏎'),
            c if c.is_control()
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}') =>
            {
                clean.extend(c.escape_default());
            }
            c => clean.push(c),
        }
    }
    clean
}
