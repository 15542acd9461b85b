//! Every system call; the one crate with unsafe code.
