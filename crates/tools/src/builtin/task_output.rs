use super::files::whole_number;
use crate::schema::schema_of;
use crate::{CallContext, FrozenInput, SessionContext, Timeout, Tool, ToolError, ToolOutput};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Write as _;
use std::time::Duration;
use stockade_subprocess::tasks::{TaskId, TaskInfo, TaskStatus};
use stockade_types::Outcome;

/// How much one call reads, in bytes.
const READ_MAX: usize = 30_000;

/// Reads a background task's output, or lists the tasks.
pub struct TaskOutput {
    schema: Value,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// The task; without it all tasks are listed.
    task_id: Option<String>,
    /// Where to read from, in bytes; 0 by default. Each answer says where to read on.
    #[serde(default, deserialize_with = "whole_number")]
    offset: Option<u64>,
    /// Wait until the task has ended, or the timeout is over.
    #[serde(default)]
    block: bool,
    /// How long to wait, in milliseconds; 30000 by default, 600000 at most.
    #[serde(default, deserialize_with = "whole_number")]
    timeout: Option<u64>,
}

/// The resolved arguments.
#[derive(Serialize, Deserialize)]
struct Input {
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<TaskId>,
    offset: u64,
    /// In milliseconds.
    wait: u64,
}

impl Default for TaskOutput {
    fn default() -> Self {
        Self { schema: schema_of::<Arguments>() }
    }
}

#[async_trait]
impl Tool for TaskOutput {
    fn name(&self) -> &str {
        "TaskOutput"
    }

    fn description(&self) -> &str {
        "Reads the output of a background task from an offset, and says how the task stands. Without a task it lists all tasks."
    }

    fn input_schema(&self) -> &Value {
        &self.schema
    }

    fn concurrency_safe(&self, _arguments: &Value) -> Result<bool, ToolError> {
        Ok(true)
    }

    fn read_only(&self, _arguments: &Value) -> bool {
        true
    }

    fn resolve_input(
        &self,
        arguments: &Value,
        _session: &SessionContext,
    ) -> Result<Value, ToolError> {
        let asked: Arguments = super::parse(arguments)?;
        super::to_value(Input {
            task_id: asked.task_id.map(TaskId),
            offset: asked.offset.unwrap_or(0),
            wait: if asked.block { asked.timeout.unwrap_or(30_000).min(600_000) } else { 0 },
        })
    }

    fn timeout(&self, _input: &FrozenInput) -> Timeout {
        // It waits no longer than it is asked to.
        Timeout::None
    }

    fn has_last_word(&self) -> bool {
        false
    }

    async fn call(
        &self,
        input: &FrozenInput,
        context: &CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let Input { task_id, offset, wait } = input.parse()?;
        let tasks = &context.session.tasks;
        let Some(id) = task_id else {
            let lines: Vec<String> = tasks.list().iter().map(listed).collect();
            return Ok(match lines.as_slice() {
                [] => "There are no background tasks.".into(),
                lines => lines.join("\n").into(),
            });
        };
        if wait > 0 {
            tokio::select! {
                biased;
                () = context.cancel.cancelled() => return Err(ToolError::Cancelled),
                ended = tasks.wait(&id, Duration::from_millis(wait)) => ended?,
            };
        }
        let read = tasks.read(&id, offset, READ_MAX)?;
        let mut text = String::new();
        // Writing to a String cannot fail.
        if let Some(skipped) = read.skipped {
            let _ = writeln!(text, "[{skipped} of {id}'s output are not kept]");
        }
        text.push_str(&read.text);
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let _ = write!(text, "[{id}: {}", status(&read.info));
        let _ = match (read.next_offset < read.info.bytes, read.info.status.is_alive()) {
            _ if offset > read.info.bytes => write!(
                text,
                "; nothing is read, since offset {offset} is beyond its output, which is {bytes} bytes: read on with offset {bytes}]",
                bytes = read.info.bytes
            ),
            (true, _) => write!(
                text,
                "; {} of {} bytes of output read, read on with offset {}]",
                read.next_offset, read.info.bytes, read.next_offset
            ),
            (false, true) => write!(text, "; read on with offset {}]", read.next_offset),
            (false, false) => write!(text, "; the output ends here]"),
        };
        Ok(ToolOutput::text(text))
    }
}

fn listed(info: &TaskInfo) -> String {
    let description: String = info.description.chars().take(80).collect();
    let mut text = format!("{}: {}, {} bytes of output", info.id, status(info), info.bytes);
    for range in &info.not_kept {
        let _ = write!(text, ", {range} not kept");
    }
    text + ": " + &description
}

/// Where a task stands, in words.
pub(super) fn status(info: &TaskInfo) -> String {
    let mut text = match (info.status, &info.outcome) {
        (TaskStatus::LivesOn, _) => {
            let left = info.left.unwrap_or_default();
            format!("its main process has ended, {left} others live on")
        }
        (_, Some(Outcome::Exited { code })) => format!("exit code {code}"),
        (_, Some(Outcome::Signaled { signal })) => format!("ended by signal {signal}"),
        (_, Some(Outcome::TimedOut { timeout_ms })) => format!("timed out after {timeout_ms}ms"),
        (_, Some(Outcome::LimitExceeded { limit })) => format!("exceeded the limit {limit}"),
        (_, Some(Outcome::Cancelled { .. })) => "stopped".to_owned(),
        (_, Some(Outcome::SetupFailed(failure))) => failure.to_string(),
        (_, Some(Outcome::Refused(refusal))) => refusal.to_string(),
        (_, Some(Outcome::NotExecutable { program, errno })) => {
            let why = std::io::Error::from_raw_os_error(*errno);
            format!("{program} cannot be executed inside the sandbox: {why}")
        }
        (_, Some(Outcome::Lost { detail })) => format!("lost: {detail}"),
        (status, None) => status.to_string(),
    };
    for met in &info.limits_met {
        let _ = write!(text, ", having run up against the limit {}", met.limit);
    }
    if let Some(note) = &info.note {
        let _ = write!(text, " ({note})");
    }
    text
}
