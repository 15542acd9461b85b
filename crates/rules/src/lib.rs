//! Permission rules (spec 2.5), and what a shell line would run. Pure functions, but for reading a rule file.
//!
//! A rule is an opinion about a call, made before it runs and from its text alone (and from where links lead, as somebody else tells: [`Links`]); what confines the call is its policy. So a rule can
//! spare a question or forbid a call, and can never widen what the kernel lets it do.
#![forbid(unsafe_code)]

mod bash;
mod command;
mod denial;
mod example;
mod file;
pub mod json;
mod links;
mod overlap;
mod path;
mod place;
mod rule;
mod set;
pub mod shell;
mod touch;

pub use denial::PathDenial;
pub use example::{Example, ExampleResult};
pub use links::{Links, Unfollowed};
pub use place::{RuleError, RuleErrors};
pub use rule::{Effect, Rule};
pub use set::{Opinion, RuleLayer, RuleScope, RuleSet, Verdict};
