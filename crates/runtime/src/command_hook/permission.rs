use super::{CommandHook, When};
use crate::approval::describe;
use crate::failure::given;
use crate::{ApprovalRequest, Decision, HookError, PermissionHook};
use async_trait::async_trait;
use serde_json::json;

#[async_trait]
impl PermissionHook for CommandHook {
    fn name(&self) -> &str {
        &self.command
    }

    /// An allow is for the one call. Saying nothing leaves the question to others; a command that fails says no.
    async fn decide(&self, request: &ApprovalRequest) -> Result<Option<Decision>, HookError> {
        if !self.is_about(When::PermissionRequest, &request.call) {
            return Ok(None);
        }
        let answer = self.ask(&request.call, json!({ "request": describe(request) })).await?;
        let reason = given(answer.why().unwrap_or_default());
        Ok(match answer.verdict.as_deref() {
            _ if answer.stop => Some(Decision::Stop { reason }),
            Some("deny") => Some(Decision::Deny { reason }),
            Some("allow") => Some(Decision::Allow),
            _ => None,
        })
    }
}
