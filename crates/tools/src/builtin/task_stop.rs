use super::task_output::status;
use crate::schema::schema_of;
use crate::{CallContext, FrozenInput, Tool, ToolError, ToolOutput};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stockade_subprocess::tasks::TaskId;

/// Stops a background task.
pub struct TaskStop {
    schema: Value,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Arguments {
    /// The task.
    task_id: String,
}

impl Default for TaskStop {
    fn default() -> Self {
        Self { schema: schema_of::<Arguments>() }
    }
}

#[async_trait]
impl Tool for TaskStop {
    fn name(&self) -> &str {
        "TaskStop"
    }

    fn description(&self) -> &str {
        "Stops a background task with all its processes: SIGTERM, and SIGKILL after a grace. Its output can be read afterwards."
    }

    fn input_schema(&self) -> &Value {
        &self.schema
    }

    fn has_last_word(&self) -> bool {
        false
    }

    async fn call(
        &self,
        input: &FrozenInput,
        context: &CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let Arguments { task_id } = input.parse()?;
        let id = TaskId(task_id);
        let info = tokio::select! {
            biased;
            info = context.session.tasks.stop(&id) => info?,
            // The task goes on being stopped.
            () = context.cancel.cancelled() => return Err(ToolError::Cancelled),
        };
        let mut text = format!("{}: {}.", info.id, status(&info));
        if let Some(killed) = info.killed.filter(|killed| killed.killed) {
            text.push_str(&format!(
                " {} of its processes had to be ended with SIGKILL.",
                killed.processes
            ));
        }
        Ok(ToolOutput::text(text))
    }
}
