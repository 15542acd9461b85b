use crate::caught::caught;
use std::sync::Arc;
use stockade_types::ToolResult;

/// Sees each frozen result (spec 2.13). What it does, a panic included, changes nothing; one that takes long holds up the results
/// behind it, and no body.
pub trait Observer: Send + Sync {
    /// A result was committed.
    fn committed(&self, result: &ToolResult);
}

pub(crate) fn tell(observers: &[Arc<dyn Observer>], result: &ToolResult) {
    for observer in observers {
        if let Err(panic) = caught(|| observer.committed(result)) {
            tracing::warn!(call = %result.call_id, "an observer panicked: {}", panic.0);
        }
    }
}
