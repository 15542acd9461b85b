use crate::{SandboxPermissions, ToolError};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;

/// Arguments that were validated and resolved, and cannot change any more (spec 2.2): hooks, guards, approver and body
/// all hold this same value.
#[derive(Clone, Debug, PartialEq)]
pub struct FrozenInput(Arc<Value>);

impl FrozenInput {
    /// Freezes it.
    pub fn new(value: Value) -> Self {
        Self(Arc::new(value))
    }

    /// The arguments.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// The arguments as a tool's own type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        T::deserialize(self.value()).map_err(|e| ToolError::InvalidArguments(e.to_string()))
    }

    /// The permissions beyond the policy that the call asks for, with its justification; `None` if it asks
    /// for none.
    pub fn escalation(&self) -> Result<Option<(SandboxPermissions, String)>, ToolError> {
        let Some(wanted) = self.0.get("sandbox_permissions") else {
            return Ok(None);
        };
        let wanted = SandboxPermissions::from_value(wanted)?;
        let justification = self.0.get("justification").and_then(Value::as_str);
        Ok((!wanted.is_empty()).then(|| (wanted, justification.unwrap_or_default().to_owned())))
    }
}
