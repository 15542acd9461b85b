use crate::ToolError;
use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

/// More issues than this are not listed: the model mends the first ones anyway.
const ISSUES_MAX: usize = 8;

/// A compiled input schema.
pub(crate) struct InputSchema {
    validator: Validator,
    parameters: Vec<String>,
}

impl InputSchema {
    /// Compiles it, or says what is wrong with it.
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err("it must have \"type\": \"object\"".into());
        }
        let validator = jsonschema::validator_for(schema).map_err(|e| e.to_string())?;
        let properties = schema.get("properties").and_then(Value::as_object);
        let parameters = properties.map(|p| p.keys().cloned().collect()).unwrap_or_default();
        Ok(Self { validator, parameters })
    }

    /// Holds arguments to it; the error names each parameter at fault.
    pub(crate) fn validate(&self, tool: &str, arguments: &Value) -> Result<(), ToolError> {
        if !arguments.is_object() {
            return Err(ToolError::InvalidArguments(format!(
                "{tool}: the arguments are not a JSON object"
            )));
        }
        let issues: Vec<String> = self
            .validator
            .iter_errors(arguments)
            .take(ISSUES_MAX)
            .map(|error| match error.kind() {
                ValidationErrorKind::Required { property } => {
                    format!("the required parameter {property} is missing")
                }
                ValidationErrorKind::AdditionalProperties { unexpected } => {
                    let place = error.instance_path().as_str();
                    if place.is_empty() {
                        let known = self.parameters.join(", ");
                        format!("it has no parameter {unexpected:?}; its parameters are {known}")
                    } else {
                        format!("{place} has no key {unexpected:?}")
                    }
                }
                // The value itself may be a whole file: it is not repeated.
                _ => format!("{}: {}", error.instance_path().as_str(), error.masked()),
            })
            .collect();
        if issues.is_empty() {
            return Ok(());
        }
        Err(ToolError::InvalidArguments(format!("{tool}: {}", issues.join("; "))))
    }
}
