//! Hooks that are external commands and speak Claude Code's hook JSON: the call on stdin, a decision on stdout. A command that
//! says anything unexpected refuses, and so does one that ends with anything but 0 (spec 2.3).

mod answer;
mod permission;
mod run;
mod settings;
#[cfg(test)]
mod tests;

pub use settings::{HookSettingsError, command_hooks, command_permission_hooks};

use crate::failure::given;
use crate::{
    FailureDecision, Hook, HookError, PostDecision, PostVerdict, PreDecision, PreVerdict,
    PreparedCall,
};
use answer::Answer;
use async_trait::async_trait;
use regex::Regex;
use run::{Ended, run};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use stockade_types::ToolResult;

/// What hook commands are told of the session that they run in.
#[derive(Clone, Debug)]
pub struct HookSession {
    /// Its id.
    pub session_id: String,
    /// Its log.
    pub transcript_path: PathBuf,
    /// Where the commands run: the workspace.
    pub cwd: PathBuf,
}

/// When a command is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    PreToolUse,
    PostToolUse,
    PostToolUseFailure,
    PermissionRequest,
}

impl When {
    fn name(self) -> &'static str {
        match self {
            When::PreToolUse => "PreToolUse",
            When::PostToolUse => "PostToolUse",
            When::PostToolUseFailure => "PostToolUseFailure",
            When::PermissionRequest => "PermissionRequest",
        }
    }
}

/// One command of the settings.
struct CommandHook {
    command: String,
    when: When,
    /// Which tools it is about; `None`: all.
    matcher: Option<Regex>,
    timeout: Duration,
    session: HookSession,
}

impl CommandHook {
    fn is_about(&self, when: When, call: &PreparedCall) -> bool {
        self.when == when && self.matcher.as_ref().is_none_or(|tools| tools.is_match(call.tool()))
    }

    async fn ask(&self, call: &PreparedCall, more: Value) -> Result<Answer, HookError> {
        let HookSession { session_id, transcript_path, cwd } = &self.session;
        let mut input = json!({
            "session_id": session_id,
            "transcript_path": transcript_path.to_string_lossy(),
            "cwd": cwd.to_string_lossy(),
            "hook_event_name": self.when.name(),
            "tool_name": call.tool(),
            "tool_use_id": call.id(),
            "tool_input": call.input().value(),
        });
        if let (Some(input), Value::Object(mut more)) = (input.as_object_mut(), more) {
            input.append(&mut more);
        }
        let input = serde_json::to_vec(&input)?;
        match run(&self.command, cwd, input, self.timeout).await? {
            Ended::Refused(reason) => Ok(Answer::refusal(reason)),
            Ended::Answered(stdout) => Ok(Answer::parse(&stdout, self.when)?),
        }
    }
}

#[async_trait]
impl Hook for CommandHook {
    fn name(&self) -> &str {
        &self.command
    }

    async fn pre_execute(&self, call: &PreparedCall) -> Result<PreDecision, HookError> {
        if !self.is_about(When::PreToolUse, call) {
            return Ok(PreDecision::pass());
        }
        let answer = self.ask(call, json!({})).await?;
        let why = || given(answer.why().unwrap_or_default());
        let verdict = match answer.verdict.as_deref() {
            _ if answer.stop => PreVerdict::Stop(why()),
            Some("deny") => PreVerdict::Deny(why()),
            Some("ask") => PreVerdict::Ask(given(answer.reason.clone().unwrap_or_default())),
            Some("allow") => PreVerdict::Allow,
            _ => PreVerdict::Pass,
        };
        Ok(PreDecision { verdict, context: answer.context })
    }

    async fn failed(
        &self,
        call: &PreparedCall,
        result: &ToolResult,
        is_interrupt: bool,
    ) -> Result<FailureDecision, HookError> {
        if !self.is_about(When::PostToolUseFailure, call) {
            return Ok(FailureDecision::default());
        }
        let more = json!({ "error": result.content, "is_interrupt": is_interrupt });
        let answer = self.ask(call, more).await?;
        // Nothing is left to be refused: what would refuse is feedback.
        let feedback = answer.why().filter(|_| answer.verdict.as_deref() == Some("deny"));
        let mut context = answer.context;
        context.extend(feedback);
        Ok(FailureDecision { context, stop_turn: answer.stop })
    }

    async fn post_execute(
        &self,
        call: &PreparedCall,
        result: &ToolResult,
    ) -> Result<PostDecision, HookError> {
        if !self.is_about(When::PostToolUse, call) {
            return Ok(PostDecision::accept());
        }
        let response = json!({ "content": result.content, "is_error": result.is_error });
        let answer = self.ask(call, json!({ "tool_response": response })).await?;
        let why = || given(answer.why().unwrap_or_default());
        let verdict = match answer.verdict.as_deref() {
            Some("deny") if answer.stop => PostVerdict::BlockAndStop(why()),
            Some("deny") => PostVerdict::Block(why()),
            _ if answer.stop => PostVerdict::StopTurn,
            _ => PostVerdict::Accept,
        };
        Ok(PostDecision { verdict, context: answer.context })
    }
}
