use crate::ToolError;
use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;
use std::borrow::Cow;

/// More issues than this are not listed: the model mends the first ones anyway.
const ISSUES_MAX: usize = 8;

/// A compiled input schema.
pub(crate) struct InputSchema {
    validator: Validator,
    parameters: Vec<String>,
    nulls: Nulls,
}

/// Where a null says that there is nothing: hosts whose models must write every property (strict mode) send one for each
/// that the model leaves out.
#[derive(Default)]
struct Nulls {
    /// Optional properties that allow no null of their own.
    absent: Vec<String>,
    /// The same of the objects below.
    below: Vec<(String, Nulls)>,
}

impl Nulls {
    fn of(schema: &Value) -> Self {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return Self::default();
        };
        let required = schema.get("required").and_then(Value::as_array);
        let optional = |name: &str| !required.is_some_and(|names| names.iter().any(|n| n == name));
        // A schema that cannot stand alone, for its references, is taken to allow none.
        let takes_null = |property: &Value| {
            jsonschema::validator_for(property).is_ok_and(|schema| schema.is_valid(&Value::Null))
        };
        let absent = properties.iter().filter(|(name, of)| optional(name) && !takes_null(of));
        let below = properties.iter().map(|(name, of)| (name.clone(), Self::of(of)));
        Self {
            absent: absent.map(|(name, _)| name.clone()).collect(),
            below: below.filter(|(_, nulls)| !nulls.is_empty()).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.absent.is_empty() && self.below.is_empty()
    }

    fn found_in(&self, value: &Value) -> bool {
        self.absent.iter().any(|name| value.get(name).is_some_and(Value::is_null))
            || self
                .below
                .iter()
                .any(|(name, nulls)| value.get(name).is_some_and(|v| nulls.found_in(v)))
    }

    fn take_out(&self, value: &mut Value) {
        let Some(object) = value.as_object_mut() else { return };
        for name in &self.absent {
            if object.get(name).is_some_and(Value::is_null) {
                object.remove(name);
            }
        }
        for (name, nulls) in &self.below {
            if let Some(value) = object.get_mut(name) {
                nulls.take_out(value);
            }
        }
    }
}

/// The JSON Schema of a type (draft 2020-12), as models are shown one: nothing to look up elsewhere, and an optional property
/// is one that may be left out.
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(root) = schema.as_object_mut() {
        // The type's name and documentation are for those who read the code.
        root.remove("title");
        root.remove("description");
    }
    plain_options(&mut schema);
    schema
}

/// `Option` is written as "this or null", but what is optional is left out, not null.
fn plain_options(schema: &mut Value) {
    let required: Vec<String> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        .unwrap_or_default();
    if let Some(items) = schema.get_mut("items") {
        plain_options(items);
    }
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (name, property) in properties {
        plain_options(property);
        let Some(property) = property.as_object_mut() else { continue };
        // Integers of a certain width are of no interest to a model.
        property.remove("format");
        if required.contains(name) {
            continue;
        }
        if property.get("default") == Some(&Value::Null) {
            property.remove("default");
        }
        if let Some(Value::Array(types)) = property.get_mut("type") {
            types.retain(|kind| kind != "null");
            if let [one] = types.as_slice() {
                let one = one.clone();
                property.insert("type".to_owned(), one);
            }
        }
        if let Some(Value::Array(values)) = property.get_mut("enum") {
            values.retain(|value| !value.is_null());
        }
        if let Some(Value::Array(choices)) = property.get_mut("anyOf") {
            choices.retain(|choice| choice.get("type") != Some(&Value::from("null")));
            if let [Value::Object(one)] = choices.as_slice() {
                let one = one.clone();
                property.remove("anyOf");
                for (key, value) in one {
                    property.entry(key).or_insert(value);
                }
            }
        }
    }
}

impl InputSchema {
    /// Compiles it, or says what is wrong with it. It is within bounds.
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err("it must have \"type\": \"object\"".into());
        }
        let validator = jsonschema::validator_for(schema).map_err(|e| e.to_string())?;
        let properties = schema.get("properties").and_then(Value::as_object);
        let parameters = properties.map(|p| p.keys().cloned().collect()).unwrap_or_default();
        Ok(Self { validator, parameters, nulls: Nulls::of(schema) })
    }

    /// Holds arguments to it, and gives them back without the nulls that stand for nothing; the error names each parameter
    /// at fault.
    pub(crate) fn validate<'a>(
        &self,
        tool: &str,
        arguments: &'a Value,
    ) -> Result<Cow<'a, Value>, ToolError> {
        let mut arguments = Cow::Borrowed(arguments);
        if self.nulls.found_in(&arguments) {
            self.nulls.take_out(arguments.to_mut());
        }
        if !arguments.is_object() {
            return Err(ToolError::InvalidArguments(format!(
                "{tool}: the arguments are not a JSON object"
            )));
        }
        // What is at fault is looked for only where something is.
        if self.validator.is_valid(&arguments) {
            return Ok(arguments);
        }
        let issues: Vec<String> = self
            .validator
            .iter_errors(&arguments)
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
        Err(ToolError::InvalidArguments(format!("{tool}: {}", issues.join("; "))))
    }
}
