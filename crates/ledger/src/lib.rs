//! The ledger (spec 9.2): who asked for what, who allowed it, by which rule, what came of it, and what was denied.
//!
//! JSON lines that are only ever appended. Each holds the hash of the one before; checkpoints, signed with a key that stands beside the
//! ledger, hold the hash of everything so far. [`verify`] finds any line that was changed, removed, moved or added since.
//! Whoever holds the key can make a ledger anew: against the account that runs Stockade only a head that was published elsewhere
//! proves anything ([`VerifyOptions::published`]).
#![forbid(unsafe_code)]

mod entry;
mod error;
mod head;
mod key;
mod line;
mod note;
mod paths;
mod reader;
mod verify;
mod writer;

pub use entry::{
    ApproverKind, DecidedBy, Entry, Event, GrantEnd, GrantScope, KINDS, Permissions, Verdict,
};
pub use error::LedgerError;
pub use head::Head;
pub use key::VerifierKey;
pub use paths::LedgerPaths;
pub use reader::{RawLine, Reader};
pub use verify::{Fault, FaultKind, Verified, VerifyOptions, verify};
pub use writer::{FsyncPolicy, Ledger, LedgerOptions};
