//! A provider without a kernel, for tests of what sits above it.
