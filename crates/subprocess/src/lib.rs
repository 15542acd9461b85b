//! A running command: output, deadlines, the kill ladder, usage.
#![forbid(unsafe_code)]
