//! Runs over real commands, each confined, each judged from outside: what models wrote ([`model_commands`]), what
//! people wrote ([`one_liners`]), and what happens when parts of Stockade are killed ([`kill9`]).

mod canary;
mod expected;
pub mod kill9;
pub mod model_commands;
pub mod one_liners;
pub mod shell;
mod watch;

use std::time::Duration;

/// Which of a corpus's commands to run, and how strictly.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// The first so many.
    pub first: usize,
    /// Of these, every so manieth: 1 is all of them.
    pub every: usize,
    /// How late a call may be beyond its timeout and grace.
    pub slack: Duration,
}

impl Selection {
    fn of<T>(self, all: Vec<T>) -> Vec<(usize, T)> {
        all.into_iter().take(self.first).enumerate().step_by(self.every.max(1)).collect()
    }
}
