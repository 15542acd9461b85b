//! The confined side: launcher, cell, init, command stage, file worker.
#![forbid(unsafe_code)]
