//! Hooks of one closure.

use async_trait::async_trait;
use std::sync::Arc;
use stockade_runtime::{
    Hook, HookError, PostDecision, PostVerdict, PreDecision, PreVerdict, PreparedCall,
};
use stockade_types::ToolResult;

type Pre = dyn Fn(&PreparedCall) -> PreDecision + Send + Sync;
type Post = dyn Fn(&PreparedCall, &ToolResult) -> PostVerdict + Send + Sync;

struct Scripted {
    name: &'static str,
    pre: Box<Pre>,
    post: Box<Post>,
}

#[async_trait]
impl Hook for Scripted {
    fn name(&self) -> &str {
        self.name
    }

    async fn pre_execute(&self, call: &PreparedCall) -> Result<PreDecision, HookError> {
        Ok((self.pre)(call))
    }

    async fn post_execute(
        &self,
        call: &PreparedCall,
        result: &ToolResult,
    ) -> Result<PostDecision, HookError> {
        Ok((self.post)(call, result).into())
    }
}

/// Looks at calls before they run.
pub fn before(
    name: &'static str,
    pre: impl Fn(&PreparedCall) -> PreDecision + Send + Sync + 'static,
) -> Arc<dyn Hook> {
    Arc::new(Scripted { name, pre: Box::new(pre), post: Box::new(|_, _| PostVerdict::Accept) })
}

/// Says the same of every call.
pub fn says(verdict: PreVerdict) -> Arc<dyn Hook> {
    before("says", move |_| verdict.clone().into())
}

/// Looks at results.
pub fn after(
    post: impl Fn(&PreparedCall, &ToolResult) -> PostVerdict + Send + Sync + 'static,
) -> Arc<dyn Hook> {
    let pre = Box::new(|_: &PreparedCall| PreDecision::pass());
    Arc::new(Scripted { name: "post", pre, post: Box::new(post) })
}
