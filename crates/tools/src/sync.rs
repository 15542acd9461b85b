//! What threads share is behind these locks and atomics: the standard library's, or, for the tests that try their interleavings,
//! shuttle's.

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic,
};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};
