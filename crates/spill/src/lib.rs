//! The spill store (spec 8.3): output that is too large to return is kept in a file, which the model can read from inside
//! its cell.
//!
//! A session's folder is `<state>/sessions/<id>/spill/`, with one folder in it for each [`Retention`]. What has outlived its
//! retention is removed when any session's store is opened, and temporary files when their own store is closed.
#![forbid(unsafe_code)]

mod retention;
mod store;
mod sweep;
mod sync;

pub use retention::{Ages, Retention};
pub use store::{Growing, Limits, SpillError, SpillStore, Spilled};
pub use sweep::{Swept, sweep};
