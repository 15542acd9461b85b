use crate::caught::{caught_async, name_of, told};
use crate::failure::{CallFailure, given};
use crate::{PreparedCall, render};
use async_trait::async_trait;
use serde_json::Value;
use std::error::Error;
use std::sync::Arc;
use stockade_tools::RegisteredTool;
use stockade_tools::bounds;
use stockade_types::{ContentBlock, Refusal, ToolResult};

/// Why a hook could not decide.
pub type HookError = Box<dyn Error + Send + Sync>;

/// Looks at calls before and after they run (spec 2.3, 2.12). Hooks form a chain, in the order in which they were
/// added. One that errs or panics refuses.
#[async_trait]
pub trait Hook: Send + Sync {
    /// Its name, for refusals.
    fn name(&self) -> &str;

    /// Before the body runs.
    async fn pre_execute(&self, _call: &PreparedCall) -> Result<PreDecision, HookError> {
        Ok(PreDecision::pass())
    }

    /// The body has failed, was cancelled or timed out, or its output says of itself that it is a failure, as that of a command that
    /// exits with 3 does; `is_interrupt` tells a cancellation (spec 2.10). The result is an error already and stays one; a hook that fails
    /// here says nothing. After it comes [`Hook::post_execute`], as for a success.
    async fn failed(
        &self,
        _call: &PreparedCall,
        _result: &ToolResult,
        _is_interrupt: bool,
    ) -> Result<FailureDecision, HookError> {
        Ok(FailureDecision::default())
    }

    /// After the body has run, or was stopped.
    async fn post_execute(
        &self,
        _call: &PreparedCall,
        _result: &ToolResult,
    ) -> Result<PostDecision, HookError> {
        Ok(PostDecision::accept())
    }
}

/// A hook's word on a call that is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreDecision {
    /// The verdict.
    pub verdict: PreVerdict,
    /// What the model is to be told beside the result.
    pub context: Vec<String>,
}

/// What a hook wants done with a call. A denial ends the chain; an ask outweighs an allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreVerdict {
    /// No opinion.
    Pass,
    /// Spares an ordinary confirmation.
    Allow,
    /// Must be approved.
    Ask(String),
    /// Must not run.
    Deny(String),
    /// Must not run, and the turn is to stop with it (spec 1.12).
    Stop(String),
}

impl PreDecision {
    /// No opinion.
    pub fn pass() -> Self {
        PreVerdict::Pass.into()
    }
}

impl From<PreVerdict> for PreDecision {
    fn from(verdict: PreVerdict) -> Self {
        Self { verdict, context: Vec::new() }
    }
}

/// A hook's word on a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureDecision {
    /// What the model is to be told beside the result.
    pub context: Vec<String>,
    /// The result ends the turn (spec 1.18).
    pub stop_turn: bool,
}

/// A hook's word on a result.
#[derive(Clone, Debug, PartialEq)]
pub struct PostDecision {
    /// The verdict.
    pub verdict: PostVerdict,
    /// What the model is to be told beside the result.
    pub context: Vec<String>,
}

/// What a hook wants done with a result.
#[derive(Clone, Debug, PartialEq)]
pub enum PostVerdict {
    /// It stands.
    Accept,
    /// It stands with this content.
    Replace(Vec<ContentBlock>),
    /// It stands with this value, which the tool renders again (spec 2.12).
    ReplaceValue(Value),
    /// It stands, and ends the turn (spec 1.18).
    StopTurn,
    /// It becomes an error with this feedback.
    Block(String),
    /// It becomes an error with this feedback, and ends the turn (spec 1.18).
    BlockAndStop(String),
}

impl PostDecision {
    /// It stands.
    pub fn accept() -> Self {
        PostVerdict::Accept.into()
    }
}

impl From<PostVerdict> for PostDecision {
    fn from(verdict: PostVerdict) -> Self {
        Self { verdict, context: Vec::new() }
    }
}

/// What the whole chain says before a call that none of it denied.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ChainVerdict {
    pub(crate) allowed: bool,
    /// Who asks, and what.
    pub(crate) asks: Vec<(String, String)>,
}

/// Runs the chain. Once begun it is never abandoned: a cancellation is looked at after it (spec 1.16).
pub(crate) async fn before(
    hooks: &[Arc<dyn Hook>],
    call: &PreparedCall,
    context: &mut Vec<String>,
) -> Result<ChainVerdict, CallFailure> {
    let mut chain = ChainVerdict::default();
    for hook in hooks {
        let decision = match caught_async(async { hook.pre_execute(call).await }).await {
            Ok(Ok(decision)) => decision,
            Ok(Err(error)) => return Err(failed_itself(&**hook, &told(error)).into()),
            Err(panic) => return Err(panicked(&**hook, &panic.0).into()),
        };
        context.extend(decision.context);
        match decision.verdict {
            PreVerdict::Pass => {}
            PreVerdict::Allow => chain.allowed = true,
            PreVerdict::Ask(question) => {
                chain.asks.push((name_of(|| hook.name()).to_owned(), question))
            }
            PreVerdict::Deny(reason) => return Err(refusal(&**hook, reason).into()),
            PreVerdict::Stop(reason) => {
                return Err(CallFailure::Stopped(refusal(&**hook, reason)));
            }
        }
    }
    Ok(chain)
}

/// Tells the chain of a failure. Whether one of it asks for the turn's stop.
pub(crate) async fn failed(
    hooks: &[Arc<dyn Hook>],
    call: &PreparedCall,
    result: &mut ToolResult,
    is_interrupt: bool,
    context: &mut Vec<String>,
) -> bool {
    let mut stops = false;
    for hook in hooks {
        match caught_async(async { hook.failed(call, result, is_interrupt).await }).await {
            Ok(Ok(decision)) => {
                context.extend(decision.context);
                stops |= decision.stop_turn;
                result.stop_turn |= decision.stop_turn;
            }
            Ok(Err(error)) => {
                let hook = name_of(|| hook.name());
                tracing::warn!(hook, "a failure hook failed: {}", told(error));
            }
            Err(panic) => {
                let hook = name_of(|| hook.name());
                tracing::warn!(hook, "a failure hook panicked: {}", panic.0);
            }
        }
    }
    stops
}

/// What the chain left of a result.
#[derive(Debug, PartialEq)]
pub(crate) enum Left {
    /// All of it.
    Own,
    /// Its content is a hook's.
    Replaced,
    /// Its content was made of this value, which is a hook's.
    ReplacedBy(Value),
}

/// Runs the chain over a result. `stops`: whether a hook asks for the turn's stop; what the tool itself asked for goes with what a hook
/// blocks, and this does not.
pub(crate) async fn after(
    hooks: &[Arc<dyn Hook>],
    call: &PreparedCall,
    tool: Option<&RegisteredTool>,
    result: &mut ToolResult,
    context: &mut Vec<String>,
    stops: &mut bool,
) -> Result<Left, Refusal> {
    let mut left = Left::Own;
    for hook in hooks {
        let decision = match caught_async(async { hook.post_execute(call, result).await }).await {
            Ok(Ok(decision)) => decision,
            Ok(Err(error)) => return Err(failed_after(&**hook, &told(error))),
            Err(panic) => {
                return Err(failed_after(&**hook, &format!("it panicked: {}", panic.0)));
            }
        };
        context.extend(decision.context);
        match decision.verdict {
            PostVerdict::Accept => {}
            PostVerdict::Replace(content) => {
                result.content = content;
                left = Left::Replaced;
            }
            PostVerdict::ReplaceValue(value) => {
                let rendered = bounds::hold(value)
                    .map_err(|excess| format!("its value is {excess}"))
                    .and_then(|value| Ok((rendered_again(tool, &value)?, value)));
                let (content, value) = rendered.map_err(|why| failed_after(&**hook, &why))?;
                result.content = content;
                // As if the tool itself had said so (spec 2.14).
                result.is_error |= render::says_error(&value);
                left = Left::ReplacedBy(value);
            }
            PostVerdict::StopTurn => {
                *stops = true;
                result.stop_turn = true;
            }
            PostVerdict::Block(feedback) => return Err(refusal(&**hook, feedback)),
            PostVerdict::BlockAndStop(feedback) => {
                *stops = true;
                return Err(refusal(&**hook, feedback));
            }
        }
    }
    Ok(left)
}

fn rendered_again(
    tool: Option<&RegisteredTool>,
    value: &Value,
) -> Result<Vec<ContentBlock>, String> {
    let Some(tool) = tool else {
        return Err("it replaces the value of a call that has none".to_owned());
    };
    // What says of itself that it failed owes no value.
    if !render::says_error(value) {
        tool.check_output(Some(value))
            .map_err(|why| format!("its value does not fit the tool's output schema: {why}"))?;
    }
    render::value(tool, value).map_err(|why| why.to_string())
}

fn refusal(hook: &dyn Hook, reason: String) -> Refusal {
    Refusal { by: format!("hook {}", name_of(|| hook.name())), reason: given(reason) }
}

fn failed_itself(hook: &dyn Hook, what: &str) -> Refusal {
    refusal(hook, format!("the hook itself failed, so the call is refused: {what}"))
}

/// The call has run: that it had not would ask for it to be run again.
fn failed_after(hook: &dyn Hook, what: &str) -> Refusal {
    let told = "the hook itself failed, so the result is withheld; the call has run";
    refusal(hook, format!("{told}: {what}"))
}

fn panicked(hook: &dyn Hook, message: &str) -> Refusal {
    failed_itself(hook, &format!("it panicked: {message}"))
}
