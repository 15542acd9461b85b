use crate::call::PreparedCall;
use async_trait::async_trait;
use std::sync::Arc;
use stockade_tools::{CallContext, RegisteredTool, ToolError, ToolOutput};
use tokio_util::sync::CancellationToken;

/// Wraps the bodies of calls: timeouts, tracing, admission gates (spec 2.7). The first one added is the outermost.
#[async_trait]
pub trait Around: Send + Sync {
    /// Runs `next`, the rest of the way to the body, in whatever it puts around it. It may hand on another context with
    /// another cancellation token; the caller's own always counts too.
    async fn around(
        &self,
        call: &PreparedCall,
        context: CallContext,
        next: Next<'_>,
    ) -> Result<ToolOutput, ToolError>;
}

/// The rest of the way to a body.
pub struct Next<'a> {
    wrappers: &'a [Arc<dyn Around>],
    call: &'a PreparedCall,
    tool: &'a RegisteredTool,
    caller: &'a CancellationToken,
}

impl Next<'_> {
    /// Goes on. The body ends when the token of `context` fires, and when the caller's does: no wrapper can detach a body from
    /// its caller.
    pub async fn run(self, mut context: CallContext) -> Result<ToolOutput, ToolError> {
        // Below the caller's own token, whatever the wrapper made of it.
        let fused = self.caller.child_token();
        let handed_on = std::mem::replace(&mut context.cancel, fused.clone());
        let rest = async {
            match self.wrappers.split_first() {
                Some((first, wrappers)) => {
                    let next = Next { wrappers, caller: &fused, ..self };
                    first.around(self.call, context, next).await
                }
                None => self.tool.tool().call(self.call.input(), &context).await,
            }
        };
        tokio::pin!(rest);
        tokio::select! {
            biased;
            output = &mut rest => return output,
            () = handed_on.cancelled() => fused.cancel(),
        }
        rest.await
    }
}

/// Runs a body with all that is around it.
pub(crate) async fn run_around(
    wrappers: Vec<Arc<dyn Around>>,
    call: Arc<PreparedCall>,
    tool: Arc<RegisteredTool>,
    context: CallContext,
) -> Result<ToolOutput, ToolError> {
    if wrappers.is_empty() {
        return tool.tool().call(call.input(), &context).await;
    }
    let caller = context.cancel.clone();
    // In a box, or the task of every call would have room for it.
    Box::pin(Next { wrappers: &wrappers, call: &call, tool: &tool, caller: &caller }.run(context))
        .await
}
