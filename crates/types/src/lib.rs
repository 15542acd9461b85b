//! The words that every part of Stockade shares: calls and results, how a call ended, what was
//! refused and by whom, and what confined it.
//!
//! Three things are never confused (spec, house rules): the set-up failed ([`SetupFailure`]), the
//! sandbox refused ([`Refusal`] before the start, [`Denial`] during the run), and the command itself
//! failed ([`Outcome::Exited`] with a code other than 0).
#![forbid(unsafe_code)]

mod call;
mod denial;
pub mod disk;
mod failure;
mod ids;
mod layer;
mod limits;
mod outcome;
pub mod regular;
mod usage;
mod visible;

pub use call::{CallFlags, CallMode, ContentBlock, ToolCall, ToolResult};
pub use denial::{DENIALS_OF_A_KIND, Denial, DenialKind, Evidence};
pub use failure::{Refusal, SetupFailure};
pub use ids::{CallId, SessionId};
pub use layer::{Layer, LayerEntry, LayerReport, LayerState};
pub use limits::LimitMet;
pub use outcome::{CancelReason, Killed, LimitName, Outcome};
pub use usage::Usage;
pub use visible::visible;
