//! Tests that look at Stockade from outside.
#![forbid(unsafe_code)]
