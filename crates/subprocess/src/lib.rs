//! A running command over the provider's traits: its output, its deadline, the ladder that ends its whole tree, and
//! what it used (spec 6).
//!
//! [`run`] is the short way: start, capture, wait. [`RunningCommand`] is the same in two steps, for a caller that
//! passes its own descriptors through or relays signals. [`pty`] gives the command a terminal, [`tasks`] keeps it in the
//! background.
#![forbid(unsafe_code)]

mod budget;
mod control;
mod finished;
mod ladder;
mod limits;
mod options;
mod output;
pub mod pty;
mod running;
pub mod tasks;

pub use budget::Budget;
pub use control::Control;
pub use finished::Finished;
pub use options::{Leftovers, RunOptions};
pub use output::{
    Captured, Decoder, Interleaved, OutputSink, Progress, ProgressFn, Stream, stripped,
};
pub use running::{RunningCommand, run};
