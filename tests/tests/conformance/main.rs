//! The three reference systems (spec, introduction): for each, every rule that bears its letter, under the settings that make the
//! one scheduler behave as that system. On the fake provider with controlled time; `real` runs turns once more on real cells.
//!
//! Not here: 1.17, a fault of the scheduler itself, which nothing outside it can cause (`crates/runtime/src/scheduler`), and
//! the rules about permission (2.5, 2.6), which stand with the approvers.

mod batched;
mod probe;
mod real;
mod rolling;
mod streaming;
mod world;
