//! What the tests that look at Stockade from outside have in common: the binary, throw-away homes and
//! repositories, a listener, snapshots of file trees, and a view of the host's process table.
//!
//! Nothing in here asks Stockade whether it did well: files, sockets and processes are looked at
//! directly. Helpers panic when the *host* cannot do what a test needs: such a test fails, it is not
//! skipped.
#![forbid(unsafe_code)]

pub mod approval;
mod bare;
mod binary;
mod confined;
mod conversation;
pub mod corpus;
mod deadline;
pub mod embedded;
mod home;
pub mod ledger;
mod listener;
mod peer;
pub mod procs;
mod reference;
mod scratch;
pub mod tree;
pub mod turn;

pub use bare::{WITHOUT_NAMESPACES, lowered_policy};
pub use binary::{cargo, copy_executable, data_dir, stockade_bin, target_dir};
pub use confined::{Confined, RunReport};
pub use conversation::Conversation;
pub use deadline::{Finished, finish};
pub use home::FakeHome;
pub use listener::Listener;
pub use peer::equal_profile;
pub use reference::Reference;
pub use scratch::{Scratch, unique};
