use super::RegistrationError;
use crate::schema::InputSchema;
use crate::{
    CallContext, FrozenInput, ResultBudget, TimeoutRules, Tool, ToolError, ToolOutput, bounds,
};
use async_trait::async_trait;
use jsonschema::Validator;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The name that is kept for code mode (spec 3.4).
pub const RUN_CODE: &str = "run_code";

/// A tool with its compiled schemas.
pub struct RegisteredTool {
    name: String,
    tool: Arc<dyn Tool>,
    schema: InputSchema,
    output: Option<Validator>,
    timeout_rules: TimeoutRules,
    budget: ResultBudget,
    changes_context: bool,
    has_last_word: bool,
    has_held_its_thread: AtomicBool,
}

impl RegisteredTool {
    /// Checks a tool (spec 3.4).
    pub(super) fn new(tool: Arc<dyn Tool>) -> Result<Self, RegistrationError> {
        let name = tool.name().to_owned();
        if name == RUN_CODE {
            return Err(RegistrationError::NameReserved(name));
        }
        let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > 128 || !name.chars().all(safe) {
            return Err(RegistrationError::NameInvalid(name));
        }
        Self::compiled(name, tool)
    }

    /// The one tool that may have the reserved name.
    pub(super) fn run_code(tool: Arc<dyn Tool>) -> Result<Self, RegistrationError> {
        Self::compiled(RUN_CODE.to_owned(), tool)
    }

    fn compiled(name: String, tool: Arc<dyn Tool>) -> Result<Self, RegistrationError> {
        if let Err(refused) = bounded(&name, &*tool) {
            // Its schema is the tool's own, and so deep that to drop it may overflow the stack, which ends the process: it is let be.
            std::mem::forget(tool);
            return Err(refused);
        }
        let timeout_rules = tool.timeout_rules();
        if [timeout_rules.default, timeout_rules.max].into_iter().flatten().any(|t| t.is_zero()) {
            return Err(RegistrationError::TimeoutZero(name));
        }
        if let TimeoutRules { default: Some(default), max: Some(max), .. } = timeout_rules
            && default > max
        {
            return Err(RegistrationError::TimeoutOverMax(name));
        }
        let changes_context = tool.changes_context();
        if changes_context && tool.metadata().is_parallel() {
            return Err(RegistrationError::ParallelContextChange(name));
        }
        let output = match tool.output_schema().map(output_schema).transpose() {
            Ok(output) => output,
            Err(reason) => return Err(RegistrationError::OutputSchemaInvalid { name, reason }),
        };
        let schema = match InputSchema::compile(tool.input_schema()) {
            Ok(schema) => schema,
            Err(reason) => return Err(RegistrationError::SchemaInvalid { name, reason }),
        };
        let budget = tool.budget();
        let has_last_word = tool.has_last_word();
        Ok(Self {
            name,
            tool,
            schema,
            output,
            timeout_rules,
            budget,
            changes_context,
            has_last_word,
            has_held_its_thread: AtomicBool::new(false),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tool itself.
    pub fn tool(&self) -> &Arc<dyn Tool> {
        &self.tool
    }

    /// Its time budgets that do not depend on arguments.
    pub fn timeout_rules(&self) -> TimeoutRules {
        self.timeout_rules
    }

    /// What the model may be given of its results.
    pub fn budget(&self) -> ResultBudget {
        self.budget
    }

    /// Whether its calls may change the turn's context (spec 1.20).
    pub fn changes_context(&self) -> bool {
        self.changes_context
    }

    /// Whether it is to be asked about its results once its body has ended.
    pub fn has_last_word(&self) -> bool {
        self.has_last_word
    }

    /// Notes that a body of it did not give its thread back at once.
    pub fn held_its_thread(&self) {
        self.has_held_its_thread.store(true, Ordering::Relaxed);
    }

    /// Whether a body of it ever did.
    pub fn has_held_its_thread(&self) -> bool {
        self.has_held_its_thread.load(Ordering::Relaxed)
    }

    /// Holds arguments to the schema, and gives back what the tool is to be given: without the nulls of optional
    /// properties, which count as absent unless the property's own schema allows null.
    pub fn validate<'a>(&self, arguments: &'a Value) -> Result<Cow<'a, Value>, ToolError> {
        self.schema.validate(&self.name, arguments)
    }

    /// Holds an output's value to the output schema, where there is one (spec 2.11); what is wrong with it.
    pub fn check_output(&self, value: Option<&Value>) -> Result<(), String> {
        match (&self.output, value) {
            (None, _) => Ok(()),
            (Some(_), None) => Err("it returned no value".to_owned()),
            (Some(schema), Some(value)) if schema.is_valid(value) => Ok(()),
            (Some(schema), Some(value)) => match schema.iter_errors(value).next() {
                None => Ok(()),
                Some(error) => {
                    let place = error.instance_path().as_str();
                    let place = if place.is_empty() { "the value" } else { place };
                    Err(format!("{place}: {}", error.masked()))
                }
            },
        }
    }
}

/// A tool's end is its own code: where a runtime lets go of the last of it, a panic must not be the runtime's.
impl Drop for RegisteredTool {
    fn drop(&mut self) {
        let tool = std::mem::replace(&mut self.tool, Arc::new(Gone));
        let gone = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(tool)));
        // What the panic carries may itself panic when it is dropped: let it be.
        std::mem::forget(gone);
    }
}

/// In the place of a tool that is being dropped. Nobody calls it.
struct Gone;

#[async_trait]
impl Tool for Gone {
    fn name(&self) -> &str {
        ""
    }

    fn description(&self) -> &str {
        ""
    }

    fn input_schema(&self) -> &Value {
        &Value::Null
    }

    async fn call(&self, _: &FrozenInput, _: &CallContext) -> Result<ToolOutput, ToolError> {
        Err(ToolError::Cancelled)
    }
}

/// Before anything walks its schemas.
fn bounded(name: &str, tool: &dyn Tool) -> Result<(), RegistrationError> {
    let excess = |schema| bounds::check(schema).map_err(|excess| format!("it is {excess}"));
    let name = || name.to_owned();
    excess(tool.input_schema())
        .map_err(|reason| RegistrationError::SchemaInvalid { name: name(), reason })?;
    tool.output_schema()
        .map_or(Ok(()), excess)
        .map_err(|reason| RegistrationError::OutputSchemaInvalid { name: name(), reason })
}

fn output_schema(schema: &Value) -> Result<Validator, String> {
    jsonschema::validator_for(schema).map_err(|error| error.to_string())
}
