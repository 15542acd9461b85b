//! Tests that look at Stockade from outside.
