//! The wire format between the runtime and the confined side: resolved, versioned, bounded.
//!
//! Three channels use it:
//!
//! * the **control socket** (`SOCK_SEQPACKET`): [`LauncherRequest`]/[`LauncherReply`] between the runtime
//!   and its launcher, [`CellRequest`]/[`CellReply`] between the runtime and each cell, one message a
//!   packet, with the descriptors beside it; a long one travels in a memfd;
//! * the **lifeline** of each call (`SOCK_SEQPACKET`): fixed-size [`record::Record`]s that an init can
//!   write without a heap;
//! * the **file worker's stream**: length-prefixed [`file::FileMessage`]/[`file::FileReply`] frames.
//!
//! Nothing in here is a path that still has to be interpreted: variables, globs and symlinks were
//! resolved by the side that built the plan.
#![forbid(unsafe_code)]

mod bytes;
mod cell;
mod codec;
mod command;
pub mod file;
pub mod record;
mod stage;

pub use bytes::Bytes;
pub use cell::{
    BpfInstruction, CellPlan, CellReply, CellRequest, FileIdentity, LandlockPlan, LandlockRule,
    LauncherReply, LauncherRequest, MountStep, ProbeReport, ProbedFeature, ProtectedPath,
    QUARANTINED, SECCOMP_NOTIFY, SeccompPlan, SessionFolder, ShownPath, TellingArguments,
    WorkerPlan,
};
pub use codec::{CodecError, MESSAGE_MAX, VERSION, decode, encode};
pub use command::{CommandPlan, RlimitPlan, TerminalSize};
pub use stage::{Stage, StageFailure};
