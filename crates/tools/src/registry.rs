use crate::schema::InputSchema;
use crate::{Tool, ToolError};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The tools by name. It may change while a turn runs: every call looks its tool up when it is about to start
/// (spec 1.4).
#[derive(Default)]
pub struct Registry {
    tools: RwLock<BTreeMap<String, Arc<RegisteredTool>>>,
}

/// A tool with its compiled schema.
pub struct RegisteredTool {
    name: String,
    tool: Arc<dyn Tool>,
    schema: InputSchema,
}

/// Why a tool was not registered (spec 3.4).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    /// Another tool has the name.
    #[error("a tool called {0:?} is registered already: replace it, or remove it first")]
    NameTaken(String),
    /// The name is kept for code mode.
    #[error("the name {0:?} is reserved")]
    NameReserved(String),
    /// The name is none that models can call.
    #[error("{0:?} is no tool name: use 1 to 128 ASCII letters, digits, '_' or '-'")]
    NameInvalid(String),
    /// The schema is not valid.
    #[error("the input schema of {name:?} is not valid: {reason}")]
    SchemaInvalid {
        /// The tool.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool under a name that is still free.
    pub fn register(&self, tool: Arc<dyn Tool>) -> Result<(), RegistrationError> {
        let registered = RegisteredTool::new(tool)?;
        let mut tools = self.write();
        if tools.contains_key(&registered.name) {
            return Err(RegistrationError::NameTaken(registered.name));
        }
        tools.insert(registered.name.clone(), Arc::new(registered));
        Ok(())
    }

    /// Adds a tool, in place of one of the same name if there is one.
    pub fn replace(&self, tool: Arc<dyn Tool>) -> Result<(), RegistrationError> {
        let registered = RegisteredTool::new(tool)?;
        self.write().insert(registered.name.clone(), Arc::new(registered));
        Ok(())
    }

    /// Removes a tool; whether there was one. Calls of it that have started run on.
    pub fn remove(&self, name: &str) -> bool {
        self.write().remove(name).is_some()
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<Arc<RegisteredTool>> {
        self.read().get(name).cloned()
    }

    /// All tools, by name: what a host tells its model.
    pub fn tools(&self) -> Vec<Arc<RegisteredTool>> {
        self.read().values().cloned().collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<RegisteredTool>>> {
        self.tools.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Arc<RegisteredTool>>> {
        self.tools.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RegisteredTool {
    fn new(tool: Arc<dyn Tool>) -> Result<Self, RegistrationError> {
        let name = tool.name().to_owned();
        if name == "run_code" {
            return Err(RegistrationError::NameReserved(name));
        }
        let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > 128 || !name.chars().all(safe) {
            return Err(RegistrationError::NameInvalid(name));
        }
        match InputSchema::compile(tool.input_schema()) {
            Ok(schema) => Ok(Self { name, tool, schema }),
            Err(reason) => Err(RegistrationError::SchemaInvalid { name, reason }),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tool itself.
    pub fn tool(&self) -> &Arc<dyn Tool> {
        &self.tool
    }

    /// Holds arguments to the schema, and gives back what the tool is to be given: without the nulls of optional
    /// properties, which count as absent unless the property's own schema allows null.
    pub fn validate<'a>(&self, arguments: &'a Value) -> Result<Cow<'a, Value>, ToolError> {
        self.schema.validate(&self.name, arguments)
    }
}
