use crate::call::QueuedCall;
use crate::caught::caught;
use std::sync::Arc;
use stockade_tools::{RegisteredTool, Registry};
use stockade_types::{CallFlags, CallMode};

/// The tool of a call, and how the call shares time with others. Asked each time the call is about to start, so that a
/// tool that an earlier call replaced counts (spec 1.4). Fails closed: anything but a definite yes is exclusive
/// (spec 1.2).
pub(crate) fn classify(
    registry: &Registry,
    call: &QueuedCall,
) -> (Option<Arc<RegisteredTool>>, CallFlags) {
    let closed = CallFlags { mode: CallMode::Exclusive, read_only: false };
    if call.broken.is_some() {
        return (None, closed);
    }
    let Some(registered) = registry.get(&call.name) else {
        return (None, closed);
    };
    let flags = caught(|| {
        let Ok(arguments) = registered.validate(&call.arguments) else {
            return closed;
        };
        let tool = registered.tool();
        let parallel = tool.concurrency_safe(&arguments).unwrap_or(false);
        let mode = if parallel { CallMode::Parallel } else { CallMode::Exclusive };
        CallFlags { mode, read_only: tool.read_only(&arguments) }
    });
    (Some(registered), flags.unwrap_or(closed))
}
