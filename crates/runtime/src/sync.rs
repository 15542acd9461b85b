//! What threads share is behind these locks and atomics, and what runs at the same time is one of these tasks: the standard
//! library's and tokio's, or, for `tests/interleavings`, shuttle's, which tries the orders in which they may come.

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};
#[cfg(not(feature = "shuttle"))]
pub(crate) use tokio::{
    spawn,
    sync::Notify,
    task::{JoinError, JoinHandle, JoinSet},
};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::{
    future::{JoinError, JoinHandle, spawn},
    sync::{Mutex, MutexGuard, atomic},
};
#[cfg(feature = "shuttle")]
pub(crate) use tasks::{JoinSet, Notify};

#[cfg(feature = "shuttle")]
mod tasks {
    use shuttle::future::{JoinError, JoinHandle, spawn};
    use shuttle::sync::atomic::{AtomicBool, Ordering};
    use std::future::{Future, poll_fn};
    use std::pin::Pin;
    use std::task::Poll;

    /// Tokio's, but others may run before each operation.
    #[derive(Debug, Default)]
    pub(crate) struct Notify {
        inner: tokio::sync::Notify,
        others: AtomicBool,
    }

    impl Notify {
        pub(crate) fn notify_one(&self) {
            self.others.load(Ordering::SeqCst);
            self.inner.notify_one();
        }

        pub(crate) async fn notified(&self) {
            self.others.load(Ordering::SeqCst);
            self.inner.notified().await;
        }
    }

    /// As much of tokio's as the scheduler needs.
    pub(crate) struct JoinSet<T>(Vec<JoinHandle<T>>);

    impl<T: Send + 'static> JoinSet<T> {
        pub(crate) fn new() -> Self {
            Self(Vec::new())
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        pub(crate) fn spawn(&mut self, task: impl Future<Output = T> + Send + 'static) {
            self.0.push(spawn(task));
        }

        /// Cancel-safe, as tokio's is.
        pub(crate) async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
            poll_fn(|context| {
                if self.0.is_empty() {
                    return Poll::Ready(None);
                }
                for place in 0..self.0.len() {
                    if let Some(task) = self.0.get_mut(place)
                        && let Poll::Ready(ended) = Pin::new(task).poll(context)
                    {
                        self.0.swap_remove(place);
                        return Poll::Ready(Some(ended));
                    }
                }
                Poll::Pending
            })
            .await
        }
    }
}
