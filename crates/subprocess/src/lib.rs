//! A running command over the provider's traits: its output, its deadline, the ladder that ends its whole tree, and
//! what it used (spec 6).
//!
//! [`run`] is the short way: start, capture, wait. [`RunningCommand`] is the same in two steps, for a caller that
//! passes its own descriptors through or relays signals. [`pty`] gives the command a terminal.
#![forbid(unsafe_code)]

mod capture;
mod control;
mod finished;
mod ladder;
mod options;
pub mod pty;
mod running;
mod streams;

pub use capture::Captured;
pub use control::Control;
pub use finished::Finished;
pub use options::RunOptions;
pub use running::{RunningCommand, run};
