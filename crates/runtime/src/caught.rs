//! Other people's code may panic: here a panic becomes a value.

use std::any::Any;
use std::error::Error;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// What a panic said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Panic(pub(crate) String);

/// Runs a closure.
pub(crate) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(run)).map_err(message)
}

/// A name that somebody else's code tells.
pub(crate) fn name_of<'a>(tell: impl FnOnce() -> &'a str) -> &'a str {
    caught(tell).unwrap_or("(without a name)")
}

/// What an error of somebody else's says. Telling it, and dropping it, is their code too.
pub(crate) fn told(error: Box<dyn Error + Send + Sync>) -> String {
    let said = caught(|| error.to_string());
    let _ = caught(|| drop(error));
    said.unwrap_or_else(|panic| format!("its error cannot be told, since that panics: {}", panic.0))
}

/// Runs a future to its end. What makes the future may panic too: hand over `async { make().await }`. Its drop is guarded too, also when the returned future is dropped early.
pub(crate) fn caught_async<'a, T>(
    future: impl Future<Output = T> + Send + 'a,
) -> impl Future<Output = Result<T, Panic>> + Send + Unpin + 'a
where
    T: 'a,
{
    // Here and not in an async block, which would have room for the future beside the box.
    let mut guarded = Guarded(Some(Box::pin(future)));
    std::future::poll_fn(move |cx| {
        let Some(future) = guarded.0.as_mut() else {
            return Poll::Pending;
        };
        match caught(|| future.as_mut().poll(cx)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(guarded.close().map(|()| value)),
            Err(panic) => {
                // The first panic is the one to tell of.
                let _ = guarded.close();
                Poll::Ready(Err(panic))
            }
        }
    })
}

struct Guarded<'a, T>(Option<Pin<Box<dyn Future<Output = T> + Send + 'a>>>);

impl<T> Guarded<'_, T> {
    fn close(&mut self) -> Result<(), Panic> {
        let future = self.0.take();
        caught(|| drop(future))
    }
}

impl<T> Drop for Guarded<'_, T> {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.close();
    }
}

fn message(payload: Box<dyn Any + Send>) -> Panic {
    let text = match payload.downcast_ref::<&str>() {
        Some(text) => Some((*text).to_owned()),
        None => payload.downcast_ref::<String>().cloned(),
    };
    text.map(Panic).unwrap_or_else(|| {
        // A payload of another type may itself panic when it is dropped: let it be.
        std::mem::forget(payload);
        Panic("no message".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    #[tokio::test]
    async fn a_panic_becomes_a_value_wherever_it_happens() {
        assert_eq!(caught_async(async { 1 }).await, Ok(1));
        let polled = caught_async(async { panic!("polled {}", 1) }).await;
        assert_eq!(polled, Err::<(), _>(Panic("polled 1".into())));
        let bomb = PanicsOnDrop;
        let dropped = caught_async(async move {
            std::mem::forget(bomb);
            let _second = PanicsOnDrop;
        });
        assert_eq!(dropped.await, Err(Panic("dropped".into())));
        let payload = caught(|| std::panic::panic_any(PanicsOnDrop));
        assert_eq!(payload, Err::<(), _>(Panic("no message".into())));
    }
}
