use crate::{PathInput, SessionContext, ToolError, schema_of};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a call asks for beyond its policy: the `sandbox_permissions` argument (spec 10.4).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxPermissions {
    /// Paths to read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<PathInput>,
    /// Paths to write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<PathInput>,
    /// `host:port` to reach.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    /// Unix sockets to reach.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unix_sockets: Vec<PathInput>,
    /// Groups of system calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub syscalls: Vec<String>,
    /// Limits to raise.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub limits: Map<String, Value>,
    /// No confinement at all.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub full_access: bool,
}

/// The same as a model writes it: paths as plain text.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Asked {
    /// Paths to read.
    read: Vec<String>,
    /// Paths to write.
    write: Vec<String>,
    /// Hosts to reach, each as host:port.
    network: Vec<String>,
    /// Unix sockets to reach, as paths.
    unix_sockets: Vec<String>,
    /// Groups of system calls.
    syscalls: Vec<String>,
    /// Limits to raise.
    limits: Map<String, Value>,
    /// No confinement at all.
    full_access: bool,
}

impl SandboxPermissions {
    /// Nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn from_value(value: &Value) -> Result<Self, ToolError> {
        Self::deserialize(value).map_err(|e| malformed(&e))
    }

    fn resolve(value: &Value, session: &SessionContext) -> Result<Self, ToolError> {
        let asked = Asked::deserialize(value).map_err(|e| malformed(&e))?;
        let paths = |texts: Vec<String>| -> Result<Vec<PathInput>, ToolError> {
            texts.iter().map(|text| PathInput::resolve(text, session)).collect()
        };
        Ok(Self {
            read: paths(asked.read)?,
            write: paths(asked.write)?,
            network: asked.network,
            unix_sockets: paths(asked.unix_sockets)?,
            syscalls: asked.syscalls,
            limits: asked.limits,
            full_access: asked.full_access,
        })
    }
}

fn malformed(error: &serde_json::Error) -> ToolError {
    ToolError::InvalidArguments(format!("sandbox_permissions: {error}"))
}

/// The two arguments that every built-in tool takes, resolved.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct EscalationInput {
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox_permissions: Option<SandboxPermissions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    justification: Option<String>,
}

impl EscalationInput {
    pub(crate) fn resolve(arguments: &Value, session: &SessionContext) -> Result<Self, ToolError> {
        let wanted = arguments.get("sandbox_permissions");
        Ok(Self {
            sandbox_permissions: wanted
                .map(|value| SandboxPermissions::resolve(value, session))
                .transpose()?,
            justification: arguments
                .get("justification")
                .and_then(Value::as_str)
                .map(str::to_owned),
        })
    }
}

/// The two arguments that every built-in tool takes, as a model writes them.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only the schema is derived; the values are resolved one by one")]
struct EscalationArguments {
    /// Permissions beyond the sandbox's policy, for this one call. Use it only to retry a call that the sandbox refused.
    sandbox_permissions: Option<Asked>,
    /// Why the permissions are needed.
    justification: Option<String>,
}

/// The schema of a built-in tool: its own arguments and the two of an escalation, and nothing else.
pub(crate) fn schema<T: JsonSchema>() -> Value {
    let mut schema = schema_of::<T>();
    let mut escalation = schema_of::<EscalationArguments>();
    if let Some(own) = schema.as_object_mut() {
        own.insert("additionalProperties".to_owned(), false.into());
        let properties = own.get_mut("properties").and_then(Value::as_object_mut);
        let more = escalation.get_mut("properties").and_then(Value::as_object_mut);
        if let (Some(properties), Some(more)) = (properties, more) {
            properties.append(more);
        }
    }
    schema
}
