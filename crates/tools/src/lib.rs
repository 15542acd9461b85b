//! Tool definitions, the registry and the built-in tools.
#![forbid(unsafe_code)]
