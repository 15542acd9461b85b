use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stockade_plan::file::FileError;

/// One request's cancellation; loops over lines, folders and files look at it in every round.
#[derive(Clone, Debug, Default)]
pub(super) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn check(&self) -> Result<(), FileError> {
        if self.is_set() { Err(FileError::Cancelled) } else { Ok(()) }
    }

    /// Whether both belong to the same request, which an id alone does not tell: it may be used again.
    pub(super) fn is(&self, other: &Cancel) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
