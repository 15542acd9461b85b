use super::files::whole_number;
use crate::denial::describe_denial;
use crate::output_store::LargeOutput;
use crate::permissions::{EscalationInput, schema};
use crate::{
    CallContext, Display, FrozenInput, Preview, ResultBudget, RunReport, SessionContext, Strategy,
    Timeout, Tool, ToolError, ToolOutput,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use stockade_sandbox::{Cell, CommandSpec, Stdio, TerminalSize};
use stockade_subprocess::tasks::{OnTaskEnd, TaskOptions};
use stockade_subprocess::{Finished, OutputSink, ProgressFn, RunOptions, stripped};
use stockade_types::{ContentBlock, Evidence, Killed, LimitMet, Outcome};

/// What the model is given of a command's output, in bytes.
const MODEL_BYTES_MAX: usize = 30_000;
/// What is kept of each stream in memory where the policy says nothing, in bytes.
const STREAM_BYTES_MAX: u64 = 256 * 1024;

/// Runs a shell command in the workspace.
pub struct Bash {
    schema: Value,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// The command, as bash takes it after -c.
    command: String,
    /// Time budget in milliseconds; 120000 by default, 600000 at most.
    #[serde(default, deserialize_with = "whole_number")]
    timeout: Option<u64>,
    /// What the command does, in a few words.
    description: Option<String>,
    /// Start it and go on: TaskOutput reads its output, TaskStop stops it. It has no time budget then but the one you set, and processes that it leaves live on until the session ends.
    #[serde(default)]
    run_in_background: bool,
    /// Give it a terminal of its own, 80 columns wide, for programs that want one. Nobody types there.
    #[serde(default)]
    tty: bool,
}

/// The resolved arguments.
#[derive(Serialize, Deserialize)]
struct Input {
    command: String,
    /// In milliseconds; always there but in the background.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    run_in_background: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    tty: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(flatten)]
    escalation: EscalationInput,
}

impl Default for Bash {
    fn default() -> Self {
        Self { schema: schema::<Arguments>() }
    }
}

#[async_trait]
impl Tool for Bash {
    fn name(&self) -> &str {
        "Bash"
    }

    fn description(&self) -> &str {
        "Runs a bash command in the workspace, confined by the sandbox. Each command is a new shell; stdin is empty."
    }

    fn input_schema(&self) -> &Value {
        &self.schema
    }

    fn resolve_input(
        &self,
        arguments: &Value,
        session: &SessionContext,
    ) -> Result<Value, ToolError> {
        let asked: Arguments = super::parse(arguments)?;
        if asked.command.contains('\0') {
            return Err(ToolError::InvalidArguments("the command holds a NUL character".into()));
        }
        let timeouts = session.bash;
        let chosen = asked.timeout.map(|ms| Duration::from_millis(ms.max(1)));
        let timeout = match asked.run_in_background {
            true => chosen,
            false => Some(chosen.unwrap_or(timeouts.default).min(timeouts.max)),
        };
        super::to_value(Input {
            command: asked.command,
            timeout: timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            run_in_background: asked.run_in_background,
            tty: asked.tty,
            description: asked.description,
            escalation: EscalationInput::resolve(arguments, session)?,
        })
    }

    fn cascades_on_error(&self) -> bool {
        true
    }

    fn budget(&self) -> ResultBudget {
        ResultBudget {
            max_inline_bytes: MODEL_BYTES_MAX,
            max_model_bytes: MODEL_BYTES_MAX,
            strategy: Strategy::Artifact,
            // How a command ended stands at the end.
            preview: Preview::HeadAndTail,
        }
    }

    fn timeout(&self, input: &FrozenInput) -> Timeout {
        let value = |key| input.value().get(key);
        match value("timeout").and_then(Value::as_u64) {
            Some(ms) if value("run_in_background").is_none() => {
                Timeout::SelfTimed(Duration::from_millis(ms))
            }
            _ => Timeout::Default,
        }
    }

    fn has_last_word(&self) -> bool {
        false
    }

    async fn call(
        &self,
        input: &FrozenInput,
        context: &CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let input: Input = input.parse()?;
        let cell = context.cell().await?;
        let limits = cell.limits();
        let timeout = input.timeout.map(Duration::from_millis);
        let deadline = timeout.into_iter().chain(limits.wall).min();
        let command = CommandSpec {
            argv: ["/bin/bash", "-c", &input.command].map(OsString::from).to_vec(),
            env: context.session.env.clone(),
            cwd: context.session.cwd.clone(),
            stdin: Stdio::Null,
            stdout: Stdio::Pipe,
            stderr: Stdio::Pipe,
            terminal: input.tty.then(TerminalSize::default),
        };
        if input.run_in_background {
            let options = TaskOptions {
                description: input.description.unwrap_or(input.command),
                deadline,
                grace: limits.grace,
                output_max: limits.task_output,
                on_end: Some(notify(context)),
            };
            return start_task(&*cell, command, options, context).await;
        }
        let output_limit = limits.output.unwrap_or(STREAM_BYTES_MAX).min(STREAM_BYTES_MAX);
        let defaults = RunOptions::default();
        let store = context.output_store.clone();
        let large =
            store.map(|store| LargeOutput::new(store, context.call_id.clone(), MODEL_BYTES_MAX));
        let options = RunOptions {
            deadline,
            progress: Some(report(context)),
            grace: limits.grace.unwrap_or(defaults.grace),
            kill: context.kill.clone(),
            output_limit: usize::try_from(output_limit).unwrap_or(usize::MAX),
            sink: large.clone().map(|large| Box::new(large) as Box<dyn OutputSink>),
            ..defaults
        };
        let command_line = input.command;
        let finished =
            stockade_subprocess::run(&*cell, command, options, context.cancel.clone()).await;
        let mut output = render(command_line, finished, input.tty)?;
        output.kept = large.and_then(LargeOutput::finish);
        Ok(output)
    }
}

/// New output as the call's progress.
fn report(context: &CallContext) -> ProgressFn {
    let progress = Arc::clone(&context.progress);
    Arc::new(move |report| match serde_json::to_value(report) {
        Ok(report) => progress(report),
        Err(error) => drop(error),
    })
}

/// A task's end as progress of the call that started it, though that has had its result; and what was denied to the task.
fn notify(context: &CallContext) -> OnTaskEnd {
    let ended = Arc::clone(&context.task_ended);
    let late_denials = Arc::clone(&context.late_denials);
    Box::new(move |info| {
        if !info.denials.is_empty() {
            late_denials(&info.denials);
        }
        ended(json!({"task": info}));
    })
}

async fn start_task(
    cell: &dyn Cell,
    command: CommandSpec,
    options: TaskOptions,
    context: &CallContext,
) -> Result<ToolOutput, ToolError> {
    let tasks = context.session.tasks.clone();
    let task = tasks.start(cell, command, options).await?;
    if let Some(granted) = context.granted.clone() {
        let id = task.clone();
        tokio::spawn(async move {
            granted().await;
            // It has ended by itself, or is stopped now.
            let _ = tasks.stop(&id).await;
        });
    }
    Ok(ToolOutput::text(format!(
        "The command runs in the background as {task}. Read its output with TaskOutput, stop it with TaskStop."
    )))
}

/// What it wrote, in the order in which it came, then how it ended unless it ended well, then what was refused.
fn render(command: String, finished: Finished, tty: bool) -> Result<ToolOutput, ToolError> {
    let Finished { outcome, output, usage, killed, denials, limits_met, sink_error, .. } = finished;
    let mut end = String::new();
    match &outcome {
        Outcome::Exited { code: 0 } => {}
        Outcome::Exited { code } => line(&mut end, format_args!("Exit code {code}")),
        Outcome::Signaled { signal } => {
            line(&mut end, format_args!("The command was ended by signal {signal}"));
        }
        Outcome::TimedOut { timeout_ms } => {
            line(&mut end, format_args!("Tool execution timed out after {timeout_ms}ms"));
        }
        Outcome::LimitExceeded { limit } => {
            line(&mut end, format_args!("The command exceeded the limit {limit} and was ended"));
        }
        // Why is the runtime's to say; what it wrote until then is not lost.
        Outcome::Cancelled { .. } => line(&mut end, format_args!("The command was cancelled")),
        Outcome::SetupFailed(failure) => return Err(ToolError::SetupFailed(failure.clone())),
        Outcome::Refused(refusal) => return Err(ToolError::Refused(refusal.clone())),
        Outcome::NotExecutable { program, errno } => {
            let why = std::io::Error::from_raw_os_error(*errno);
            return Err(ToolError::Business(format!(
                "{program} cannot be executed inside the sandbox: {why}"
            )));
        }
        Outcome::Lost { detail } if output.text().is_empty() && denials.is_empty() => {
            return Err(ToolError::Lost(detail.clone()));
        }
        // What it wrote until then is not lost with it, nor what it planted.
        Outcome::Lost { detail } => line(&mut end, format_args!("The command was lost: {detail}")),
    }
    describe_killed(&mut end, &killed);
    if let Some(why) = sink_error {
        line(&mut end, format_args!("[The output is not kept whole: {why}]"));
    }
    for LimitMet { limit, evidence } in &limits_met {
        let by = match evidence {
            Evidence::Inferred => "by what it printed, it",
            Evidence::Observed | Evidence::Kernel => "it",
        };
        line(&mut end, format_args!("[{by} ran up against the limit {limit}]"));
    }
    for denial in &denials {
        line(&mut end, format_args!("{}", describe_denial(denial)));
    }
    let text = output.text();
    // What moves a cursor means nothing to a model.
    let mut text = if tty { stripped(&text) } else { text };
    let display = Display::Bash { command, output: text.clone(), omitted_bytes: 0 };
    if !end.is_empty() && !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&end);
    let text = text.strip_suffix('\n').map(str::to_owned).unwrap_or(text);
    Ok(ToolOutput {
        content: vec![ContentBlock::Text { text }],
        is_error: outcome != Outcome::Exited { code: 0 },
        report: RunReport {
            outcome: Some(outcome),
            usage: Some(usage),
            killed: (killed.terminated || killed.killed).then_some(killed),
            limits_met,
            denials,
        },
        display: Some(display.limited()),
        ..ToolOutput::default()
    })
}

fn line(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{what}");
}

/// What was ended, by which signals, and how long that took (spec 6.1).
fn describe_killed(text: &mut String, killed: &Killed) {
    let Killed { terminated, signalled, processes, took_ms, .. } = *killed;
    if !terminated && !killed.killed {
        return;
    }
    let mut how = match (terminated, killed.killed) {
        (_, false) if signalled > 0 => {
            format!("the process tree, {} then, was ended with SIGTERM", counted(signalled))
        }
        (_, false) => "the process tree was ended with SIGTERM".to_owned(),
        (terminated, true) => {
            let first = if terminated { "SIGTERM, then " } else { "" };
            let were = if processes == 1 { "was" } else { "were" };
            format!("{} left running {were} ended with {first}SIGKILL", counted(processes))
        }
    };
    match (killed.main_signal, killed.main_exit_code) {
        (Some(signal), _) => {
            how.push_str(&format!("; the command itself ended by signal {signal}"));
        }
        (None, Some(code)) => {
            how.push_str(&format!("; the command itself ended with exit code {code}"));
        }
        (None, None) => {}
    }
    line(text, format_args!("[{how}; it took {took_ms} ms]"));
    if let Some(caution) = caution(killed) {
        line(text, format_args!("[{caution}]"));
    }
}

/// What is not certain of an end (spec 6.1).
fn caution(killed: &Killed) -> Option<&'static str> {
    match (killed.outrun, killed.best_effort) {
        (true, _) => Some(
            "processes of it kept forking faster than they could be found, and some may be left, confined as before",
        ),
        (false, true) => Some(
            "best effort: neither a pid namespace nor a cgroup held the processes together, and all that descended from the command were found and ended",
        ),
        (false, false) => None,
    }
}

fn counted(processes: u32) -> String {
    format!("{processes} {}", if processes == 1 { "process" } else { "processes" })
}
