use super::{ApprovalRequest, Approver, ApproverKind, Decision, wire};
use crate::HookError;
use async_trait::async_trait;
use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;
use stockade_rules::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// The longest answer, in bytes.
const ANSWER_MAX: u64 = 64 * 1024;

/// Asks a program of the user's, which runs unconfined: the request on its stdin as one JSON object, its answer on its stdout. When it
/// ends with anything but 0, says nothing that can be understood, or takes too long, the answer is no.
#[derive(Clone, Debug)]
pub struct ProgramApprover {
    argv: Vec<OsString>,
    timeout: Duration,
}

impl ProgramApprover {
    /// A program with its arguments, and how long it may take.
    pub fn new(argv: Vec<OsString>, timeout: Duration) -> Self {
        Self { argv, timeout }
    }

    async fn ask(&self, request: &ApprovalRequest) -> Result<Decision, HookError> {
        let (program, rest) = self.argv.split_first().ok_or("no program is named")?;
        let mut child = Command::new(program)
            .args(rest)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
        let mut question = wire::describe(request).to_string().into_bytes();
        question.push(b'\n');
        if let Some(mut stdin) = child.stdin.take() {
            // A program that does not read decides without reading.
            let _ = stdin.write_all(&question).await;
        }
        let mut answer = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(ANSWER_MAX).read_to_end(&mut answer).await?;
        }
        let status = child.wait().await?;
        if !status.success() {
            return Ok(Decision::Deny {
                reason: format!("the approval program ended with {status}"),
            });
        }
        match json::unique(&answer) {
            Ok(answer) => Ok(wire::decision(&answer, request, "the approval program")),
            Err(error) => Ok(Decision::Deny {
                reason: format!("the approval program's answer is no JSON: {error}"),
            }),
        }
    }
}

#[async_trait]
impl Approver for ProgramApprover {
    async fn decide(&self, request: &ApprovalRequest) -> Result<Decision, HookError> {
        match tokio::time::timeout(self.timeout, self.ask(request)).await {
            Ok(decision) => decision,
            Err(_) => Ok(Decision::Deny {
                reason: format!(
                    "the approval program gave no answer within {} s",
                    self.timeout.as_secs()
                ),
            }),
        }
    }

    fn kind(&self) -> ApproverKind {
        ApproverKind::Program
    }
}
