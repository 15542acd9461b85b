use crate::ToolError;

/// Runs code that waits without `await` (a library that reads files or sleeps, a long computation) on a thread that is there for
/// it, so that the calls beside it and their deadlines do not wait for it.
///
/// A thread cannot be stopped from outside: code that takes long should look at `context.cancel.is_cancelled()` now and then,
/// or it goes on after its call was cancelled or timed out and had its result. A panic of it is the body's.
///
/// ```
/// # async fn body() -> Result<String, stockade_tools::ToolError> {
/// let text = stockade_tools::blocking(|| {
///     std::fs::read_to_string("/etc/hostname").map_err(|e| stockade_tools::ToolError::Other(e.into()))
/// })
/// .await?;
/// # Ok(text)
/// # }
/// ```
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The executor shuts down.
            Err(_) => Err(ToolError::Cancelled),
        },
    }
}
