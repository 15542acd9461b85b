//! What the tools say of themselves, and what is asked of every tool.

use super::*;

// spec 2.2
#[test]
fn arguments_that_do_not_fit_the_schema_are_named_one_by_one() {
    let registry = registry().unwrap();
    let error = |tool: &str, arguments| {
        registry.get(tool).unwrap().validate(&arguments).unwrap_err().to_string()
    };
    assert_eq!(
        error("Write", json!({"content": "x"})),
        "Write: the required parameter \"file_path\" is missing"
    );
    let unknown = error("Read", json!({"file_path": "a", "encoding": "utf8"}));
    assert!(unknown.contains("no parameter [\"encoding\"]"), "{unknown}");
    assert!(unknown.contains("file_path, justification, limit, offset"), "{unknown}");
    let kind = error("Read", json!({"file_path": "a", "limit": "ten"}));
    assert!(kind.contains("/limit"), "{kind}");
    assert!(error("Bash", json!("ls")).contains("not a JSON object"));
    let mode = error("Grep", json!({"pattern": "x", "output_mode": "lines"}));
    assert!(mode.contains("/output_mode"), "{mode}");
    let nested = error("Bash", json!({"command": "x", "sandbox_permissions": {"root": true}}));
    assert!(nested.contains("/sandbox_permissions"), "{nested}");
    let secret = error("Write", json!({"file_path": 1, "content": {"huge": "value"}}));
    assert!(!secret.contains("huge"), "{secret}");
}

// spec 10.4
#[test]
fn a_null_for_what_is_optional_counts_as_absent_and_one_for_what_is_not_is_named() {
    let nothing = json!({"command": "ls", "timeout": null, "description": null, "run_in_background": null,
        "sandbox_permissions": null, "justification": null});
    assert_eq!(resolved("Bash", nothing), resolved("Bash", json!({"command": "ls"})));
    let nothing = json!({"pattern": "x", "path": null, "type": null, "-A": null, "-i": null, "output_mode": null,
        "sandbox_permissions": {"read": null, "full_access": null}});
    let plain = json!({"pattern": "x", "sandbox_permissions": {}});
    assert_eq!(resolved("Grep", nothing), resolved("Grep", plain));
    let tool = registry().unwrap().get("Bash").unwrap();
    for bad in [json!({"command": null}), json!({"command": "ls", "comand": null})] {
        assert!(matches!(tool.validate(&bad), Err(ToolError::InvalidArguments(_))), "{bad}");
    }
}

// spec 1.2
#[test]
fn only_the_reading_tools_say_that_they_may_run_beside_others() {
    let parallel: Vec<_> = registry()
        .unwrap()
        .tools()
        .iter()
        .filter(|tool| tool.tool().concurrency_safe(&json!({})).unwrap())
        .map(|tool| (tool.name().to_owned(), tool.tool().read_only(&json!({}))))
        .collect();
    assert_eq!(
        parallel,
        [("Glob", true), ("Grep", true), ("Read", true), ("TaskOutput", true)]
            .map(|(n, r)| (n.into(), r))
    );
}

// spec 10.4
#[test]
fn the_permissions_that_a_call_asks_for_are_part_of_its_frozen_input() {
    let input = FrozenInput::new(resolved(
        "Write",
        json!({
            "file_path": "a", "content": "", "justification": "needed",
            "sandbox_permissions": {"write": ["../out", "~/x"], "network": ["a.b:443"]}
        }),
    ));
    let (permissions, justification) = input.escalation().unwrap().unwrap();
    let paths = ["/out", "/home/u/x"].map(|path| crate::PathInput(path.into()));
    let expected = SandboxPermissions {
        write: paths.to_vec(),
        network: vec!["a.b:443".into()],
        ..Default::default()
    };
    assert_eq!((permissions, justification.as_str()), (expected, "needed"));
    let nothing = resolved("Bash", json!({"command": "x", "sandbox_permissions": {"read": []}}));
    assert_eq!(FrozenInput::new(nothing).escalation().unwrap(), None);
}

// spec 3.4
#[test]
fn a_registration_is_checked() {
    struct Named(&'static str, Value);
    #[async_trait::async_trait]
    impl Tool for Named {
        fn name(&self) -> &str {
            self.0
        }
        fn description(&self) -> &str {
            ""
        }
        fn input_schema(&self) -> &Value {
            &self.1
        }
        async fn call(&self, _: &FrozenInput, _: &CallContext) -> Result<ToolOutput, ToolError> {
            Ok(ToolOutput::text(""))
        }
    }
    let registry = registry().unwrap();
    let register = |name, schema| registry.register(Arc::new(Named(name, schema)));
    let object = json!({"type": "object"});
    assert_eq!(register("Bash", object.clone()), Err(RegistrationError::NameTaken("Bash".into())));
    assert_eq!(
        register("run_code", object.clone()),
        Err(RegistrationError::NameReserved("run_code".into()))
    );
    assert_eq!(register("a b", object.clone()), Err(RegistrationError::NameInvalid("a b".into())));
    for schema in [json!({"type": "object", "properties": {"a": {"type": "strin"}}}), json!(true)] {
        let error = register("mine", schema).unwrap_err();
        assert!(matches!(error, RegistrationError::SchemaInvalid { .. }), "{error}");
    }
    assert_eq!(register("mine", object.clone()), Ok(()));
    assert!(registry.replace(Arc::new(Named("mine", object))).is_ok());
    assert!(registry.remove("mine") && !registry.remove("mine"));
}

// spec 10.4: the schemas are derived from the types that the arguments are parsed into
#[test]
fn the_schemas_that_models_are_shown_are_plain() {
    let registry = registry().unwrap();
    let schema = |name: &str| registry.get(name).unwrap().tool().input_schema().clone();
    let bash = schema("Bash");
    assert_eq!(bash["type"], "object");
    assert_eq!(bash["required"], json!(["command"]));
    assert_eq!(bash["additionalProperties"], false);
    assert_eq!(
        bash["properties"]["timeout"],
        json!({
            "type": "integer", "minimum": 0,
            "description": "Time budget in milliseconds; 120000 by default, 600000 at most."
        })
    );
    let wanted = &bash["properties"]["sandbox_permissions"];
    assert_eq!(
        (&wanted["type"], &wanted["additionalProperties"]),
        (&json!("object"), &json!(false))
    );
    assert_eq!(wanted["properties"]["read"]["items"], json!({"type": "string"}));
    assert_eq!(schema("Read")["properties"]["limit"]["minimum"], 1);
    let modes = &schema("Grep")["properties"]["output_mode"];
    assert_eq!(modes["enum"], json!(["files_with_matches", "content", "count"]));
    for tool in registry.tools() {
        let text = tool.tool().input_schema().to_string();
        assert!(!text.contains("$ref") && !text.contains("null"), "{}: {text}", tool.name());
    }
}
