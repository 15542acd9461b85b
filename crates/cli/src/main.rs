//! The stockade binary.
#![forbid(unsafe_code)]
fn main() {}
