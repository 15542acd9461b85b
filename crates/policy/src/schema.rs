//! The JSON Schema of a policy file (spec 5.1), for editors and other programs. It knows keys, types and the shape of each value; what
//! contradicts another value, and whether a file that is named exists, the loader alone can tell.

use crate::file::PolicyFile;
use crate::limits::LimitSetting;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use stockade_types::Layer;

/// The JSON Schema (draft 2020-12) of a policy file.
pub fn policy_schema() -> serde_json::Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<PolicyFile>();
    schema.insert("title".to_owned(), "Stockade policy".into());
    schema.to_value()
}

/// Types that stand for nothing but their schema.
macro_rules! schema_type {
    ($(#[doc = $doc:literal] $name:ident => $schema:expr;)*) => {
        $(
            #[doc = $doc]
            pub(crate) struct $name;

            impl JsonSchema for $name {
                fn schema_name() -> Cow<'static, str> {
                    stringify!($name).into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    $schema
                }
            }
        )*
    };
}

const PATH: &str = r"^(/|~$|~/|\$(WORKSPACE|HOME|SESSION)(/|$))";
const NO_PATH: &str = r"(^|/)\.\.(/|$)|\*\*|\u0000";

schema_type! {
    #[doc = "A policy's name."]
    PolicyName => json_schema!({"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"});
    #[doc = "A shipped policy's name, or a file."]
    PolicyReference => json_schema!({"type": "string", "minLength": 1});
    #[doc = "A layer's name."]
    LayerName => json_schema!({"enum": Layer::ALL.map(Layer::name)});
    #[doc = "A path: absolute, or beginning with a variable."]
    PathEntry => json_schema!({"type": "string", "pattern": PATH, "not": {"pattern": NO_PATH}});
    #[doc = "What is protected."]
    ProtectEntry => json_schema!({
        "type": "string",
        "anyOf": [
            {"pattern": PATH, "not": {"pattern": NO_PATH}},
            {
                "pattern": r"^(\*\*/)?[^/~$\u0000][^/\u0000]*(/[^/\u0000]+)*$",
                "not": {"pattern": r"(^|/)\.{1,2}(/|$)|[^/]\*\*|\*\*[^/]|/\*\*|\*\*$"},
            },
        ],
    });
    #[doc = "A host with or without a port."]
    HostEntry => json_schema!({
        "type": "string",
        "pattern": r"^(\*|(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*|\[[0-9A-Fa-f:.]+\])(:[1-9][0-9]{0,4})?$",
    });
    #[doc = "The name of a variable, in which a star stands for any characters."]
    VariablePattern => json_schema!({"type": "string", "pattern": "^[!-<>-~]+$"});
    #[doc = "Variables to set."]
    VariableTable => json_schema!({
        "type": "object",
        "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
        "additionalProperties": {"type": "string", "not": {"pattern": r"\u0000"}},
    });
    #[doc = "A system call or a group of them."]
    SyscallName => json_schema!({"type": "string", "pattern": "^[a-z0-9_]+$"});
    #[doc = "A system call or a group of them, to refuse."]
    RefusedSyscallName => json_schema!({
        "type": "string", "pattern": "^[a-z0-9_]+$", "not": {"const": "all"},
    });
    #[doc = "Limits by their names."]
    LimitTable => limits();
}

fn limits() -> Schema {
    let properties: serde_json::Map<String, serde_json::Value> = LimitSetting::names()
        .map(|name| {
            let schema = match name {
                "wall" => json_schema!({
                    "type": "string", "description": "A duration such as \"90s\" or \"5m\", or \"none\".",
                    "pattern": "^([0-9]+ ?[a-z]+ ?)+$|^none$",
                }),
                "grace" => json_schema!({
                    "type": "string", "description": "A duration such as \"2s\".",
                    "pattern": "^([0-9]+ ?[a-z]+ ?)+$",
                }),
                "memory" | "file_size" | "output" | "task_output" => json_schema!({
                    "description": "Bytes: a number, or a text such as \"512M\" or \"2G\", or \"none\".",
                    "anyOf": [
                        {"type": "integer", "minimum": i32::from(name == "memory")},
                        {"type": "string", "pattern": "^[0-9]+[KMGT]?$|^none$"},
                    ],
                }),
                _ => json_schema!({
                    "description": "A number greater than 0, or \"none\".",
                    "anyOf": [
                        {"type": "integer", "minimum": 1},
                        {"type": "string", "pattern": "^0*[1-9][0-9]*$|^none$"},
                    ],
                }),
            };
            (name.to_owned(), schema.to_value())
        })
        .collect();
    json_schema!({"type": "object", "properties": properties, "additionalProperties": false})
}
