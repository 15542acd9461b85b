//! Turns as nobody means them. Every call has its one result, in order, and the log replays.

mod dependencies;
mod judged;
mod probe;
mod records;
mod wrapped;
