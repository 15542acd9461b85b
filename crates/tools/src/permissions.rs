use crate::{PathInput, SessionContext, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

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
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Asked {
    read: Vec<String>,
    write: Vec<String>,
    network: Vec<String>,
    unix_sockets: Vec<String>,
    syscalls: Vec<String>,
    limits: Map<String, Value>,
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

/// The schema of a built-in tool: its own properties and the two of an escalation.
pub(crate) fn schema(properties: Value, required: &[&str]) -> Value {
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let mut properties = properties;
    if let Some(map) = properties.as_object_mut() {
        map.insert(
            "sandbox_permissions".into(),
            json!({
                "type": "object",
                "description": "Permissions beyond the sandbox's policy, for this one call. \
                    Use it only to retry a call that the sandbox refused.",
                "additionalProperties": false,
                "properties": {
                    "read": texts, "write": texts, "network": texts, "unix_sockets": texts,
                    "syscalls": texts, "limits": {"type": "object"}, "full_access": {"type": "boolean"}
                }
            }),
        );
        map.insert(
            "justification".into(),
            json!({"type": "string", "description": "Why the permissions are needed."}),
        );
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false
    })
}
