mod bash;
mod contracts;
mod files;
mod search;

use super::*;
use crate::{
    CallContext, Display, FrozenInput, QueueClock, SandboxPermissions, SessionContext, ToolOutput,
};
use serde_json::json;
use std::ffi::OsString;
use std::time::Duration;
use stockade_policy::LimitsPolicy;
use stockade_sandbox::fake::{FakeProvider, FileScript, OnTerminate, Script, Step, policy};
use stockade_sandbox::file::{FileDone, FileError, FileOp};
use stockade_sandbox::{Exit, SandboxError, TreeSignal};
use stockade_types::{
    CallId, ContentBlock, Denial, DenialKind, Evidence, Outcome, Refusal, SetupFailure,
};
use tokio_util::sync::CancellationToken;

fn context(provider: &FakeProvider) -> CallContext {
    CallContext {
        call_id: CallId("c1".into()),
        session: Arc::new(SessionContext {
            home: Some("/home/u".into()),
            ..SessionContext::new("/ws")
        }),
        cancel: CancellationToken::new(),
        kill: CancellationToken::new(),
        progress: Arc::new(|_| {}),
        task_ended: Arc::new(|_| {}),
        late_denials: Arc::new(|_| {}),
        granted: None,
        provider: Arc::new(provider.clone()),
        policy: Arc::new(of_workspace()),
        output_store: None,
        approved_place: None,
        queueing: QueueClock::default(),
    }
}

/// Validates, resolves and calls, as the pipeline does.
async fn call(
    context: &CallContext,
    tool: &str,
    arguments: Value,
) -> Result<ToolOutput, ToolError> {
    let tool = registry().unwrap().get(tool).unwrap();
    let arguments = tool.validate(&arguments)?;
    let input = FrozenInput::new(tool.tool().resolve_input(&arguments, &context.session)?);
    tool.tool().call(&input, context).await
}

fn text(output: &ToolOutput) -> &str {
    let [ContentBlock::Text { text }] = output.content.as_slice() else {
        panic!("not one text: {output:?}")
    };
    text
}

fn resolved(tool: &str, arguments: Value) -> Value {
    let provider = FakeProvider::new("/ws");
    let tool = registry().unwrap().get(tool).unwrap();
    let arguments = tool.validate(&arguments).unwrap();
    tool.tool().resolve_input(&arguments, &context(&provider).session).unwrap()
}

/// A policy that lets the workspace be written, and nothing else.
fn of_workspace() -> stockade_policy::Policy {
    let mut policy = policy("test");
    policy.filesystem.write = vec!["$WORKSPACE".to_owned()];
    policy
}
