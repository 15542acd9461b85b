//! Medians, and ratios to the first row.

use std::fmt;
use std::time::Duration;

/// Measurements of one command, run in several ways.
pub struct Table {
    title: &'static str,
    rounds: usize,
    rows: Vec<(&'static str, Vec<Duration>)>,
}

impl Table {
    /// An empty one.
    pub fn new(title: &'static str, rounds: usize) -> Self {
        Self { title, rounds, rows: Vec::new() }
    }

    /// Adds a measurement to a row. Each row gets one in each round, so that the n-th of two rows are a
    /// pair.
    pub fn add(&mut self, name: &'static str, took: Duration) {
        match self.rows.iter_mut().find(|(row, _)| *row == name) {
            Some((_, all)) => all.push(took),
            None => self.rows.push((name, vec![took])),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, {} rounds, microseconds", self.title, self.rounds)?;
        let heads = ["median", "fastest", "90 %", "over plain", "ratio"];
        write!(f, "{:<34}", "")?;
        for head in heads {
            write!(f, "{head:>12}")?;
        }
        writeln!(f)?;
        let Some((_, plain)) = self.rows.first() else {
            return Ok(());
        };
        let plain: Vec<f64> = plain.iter().map(micros).collect();
        for (name, all) in &self.rows {
            let all: Vec<f64> = all.iter().map(micros).collect();
            let pairs = || all.iter().zip(&plain);
            let over = at(pairs().map(|(this, plain)| this - plain).collect(), 0.5);
            let ratio = at(pairs().map(|(this, plain)| this / plain).collect(), 0.5);
            let [median, fastest, late] = [0.5, 0.0, 0.9].map(|part| at(all.clone(), part));
            writeln!(
                f,
                "{name:<34}{median:>12.0}{fastest:>12.0}{late:>12.0}{over:>+12.0}{ratio:>11.2}x"
            )?;
        }
        Ok(())
    }
}

fn micros(took: &Duration) -> f64 {
    took.as_secs_f64() * 1e6
}

/// The value that this part of them does not exceed.
fn at(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * part).round() as usize).copied().unwrap_or(f64::NAN)
}
