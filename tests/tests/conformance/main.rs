//! The three reference systems (spec, introduction): for each, every rule that bears its letter, under the settings that make the
//! one scheduler behave as that system. On the fake provider with controlled time; `real` runs turns once more on real cells.
//! `rules` holds the suite to the table of the rules.

mod batched;
mod hooks;
mod probe;
mod real;
mod rolling;
mod rules;
mod streaming;
mod world;
