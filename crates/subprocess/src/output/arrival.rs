use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

/// Notes which of several streams had something first. The kernel tells of ready descriptors in the order in which they became
/// so (epoll(7)), and tokio wakes in that order; by the time a task runs, all it sees is that several are ready.
#[derive(Debug, Default)]
pub(super) struct Arrival(Arc<Noted>);

#[derive(Debug, Default)]
struct Noted {
    /// When it was woken, in a count of all such wakings; 0: not yet.
    at: AtomicU64,
    task: Mutex<Option<Waker>>,
}

impl Wake for Noted {
    fn wake(self: Arc<Self>) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let now = NEXT.fetch_add(1, Ordering::Relaxed);
        // Only the first counts.
        let _ = self.at.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        if let Some(task) = &*self.task.lock().unwrap_or_else(PoisonError::into_inner) {
            task.wake_by_ref();
        }
    }
}

impl Arrival {
    /// Waits for `ready`, and notes when it was woken for it.
    pub(super) async fn note<T>(&self, ready: impl Future<Output = T>) -> T {
        let mut ready = pin!(ready);
        let waker = Waker::from(Arc::clone(&self.0));
        poll_fn(|context| {
            let mut task = self.0.task.lock().unwrap_or_else(PoisonError::into_inner);
            if !task.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
                *task = Some(context.waker().clone());
            }
            drop(task);
            ready.as_mut().poll(&mut Context::from_waker(&waker))
        })
        .await
    }

    /// Takes the note. Later ones are greater; one that was not woken is greater than all.
    pub(super) fn take(&self) -> u64 {
        match self.0.at.swap(0, Ordering::Relaxed) {
            0 => u64::MAX,
            at => at,
        }
    }
}
