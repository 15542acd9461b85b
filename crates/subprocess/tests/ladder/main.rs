//! How commands end: by themselves, by deadline, by cancel, by limits, and with what they leave behind.
#![allow(missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod cancel;
mod ends;
mod leftovers;
mod timeout;

use std::sync::{Arc, Mutex};
use std::time::Duration;
use stockade_policy::LimitsPolicy;
use stockade_sandbox::{ChildEvent, Exit, SandboxError, Stdio, TreeSignal};
use stockade_subprocess::{Finished, Leftovers, RunOptions, RunningCommand, run};
use stockade_types::{
    CancelReason, Denial, DenialKind, Evidence, Killed, LimitName, Outcome, Refusal, SetupFailure,
    Usage,
};
use support::*;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const MINUTE: Duration = Duration::from_secs(60);

fn options(deadline_ms: u64, grace_ms: u64) -> RunOptions {
    RunOptions {
        deadline: Some(Duration::from_millis(deadline_ms)),
        grace: Duration::from_millis(grace_ms),
        ..RunOptions::default()
    }
}

async fn run_to_end(cell: &ScriptedCell, options: RunOptions) -> Finished {
    let run = run(cell, command(), options, CancellationToken::new());
    tokio::time::timeout(MINUTE, run).await.expect("it must not hang")
}
