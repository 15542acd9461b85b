//! Rule files: layers, styles, faults, examples (spec 2.5).

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use stockade_rules::{Opinion, RuleLayer, RuleScope, RuleSet, Verdict};
use tempfile::TempDir;

struct Scene {
    folder: TempDir,
    rules: RuleSet,
}

impl Scene {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), rules: RuleSet::default() }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn with(mut self, layer: RuleLayer, name: &str, text: &str) -> Self {
        let path = self.file(name, text);
        self.rules.add_file(layer, &path).unwrap();
        self
    }

    fn judge(&self, tool: &str, arguments: Value) -> Option<Opinion> {
        let scope = RuleScope { workspace: "/w".into(), home: Some("/home/u".into()) };
        self.rules.judge(tool, &arguments, &scope)
    }

    fn verdict(&self, tool: &str, arguments: Value) -> Option<Verdict> {
        self.judge(tool, arguments).map(|opinion| opinion.verdict)
    }

    fn bash(&self, line: &str) -> Option<Verdict> {
        self.verdict("Bash", json!({ "command": line }))
    }

    fn faults(&mut self, layer: RuleLayer, name: &str, text: &str) -> Vec<(usize, String)> {
        let path = self.file(name, text);
        let errors = self.rules.add_file(layer, &path).unwrap_err();
        assert!(errors.to_string().contains(name), "{errors}");
        errors.0.into_iter().map(|error| (error.line, error.problem)).collect()
    }
}

#[test]
fn deny_beats_ask_and_ask_beats_allow_whatever_layer_each_is_in() {
    let scene = Scene::new()
        .with(RuleLayer::Project, "project.toml", r#"allow = ["Bash(git:*)", "Bash(rm:*)"]"#)
        .with(RuleLayer::User, "user.toml", r#"ask = ["Bash(git push:*)"]"#)
        .with(RuleLayer::Managed, "managed.toml", r#"deny = ["Bash(rm:*)"]"#);
    assert_eq!(scene.bash("git log"), Some(Verdict::Allow));
    assert_eq!(scene.bash("git push"), Some(Verdict::Ask));
    assert_eq!(scene.bash("rm x"), Some(Verdict::Deny));
    let opinion = scene.judge("Bash", json!({"command": "rm x"})).unwrap();
    let rule = opinion.rule.unwrap();
    assert!(rule.starts_with("Bash(rm:*) (") && rule.contains("managed.toml:1"), "{rule}");
}

#[test]
fn without_a_rule_about_it_a_call_is_the_policys_alone() {
    let scene = Scene::new().with(RuleLayer::User, "a.toml", r#"deny = ["Bash(rm:*)"]"#);
    assert_eq!(scene.bash("ls"), None);
    assert_eq!(scene.bash("$X"), Some(Verdict::Ask), "it may be rm");
    assert_eq!(scene.verdict("Read", json!({"file_path": "/w/a"})), None);
    assert_eq!(Scene::new().bash("rm x"), None);
}

#[test]
fn a_default_speaks_where_no_rule_does_the_nearer_one_first_and_a_managed_one_only_tightens() {
    let scene = Scene::new().with(RuleLayer::User, "user.toml", r#"default = "deny""#).with(
        RuleLayer::Project,
        "project.toml",
        "default = \"ask\"\nallow = [\"Bash(ls:*)\"]",
    );
    assert_eq!(scene.bash("make"), Some(Verdict::Ask));
    assert_eq!(scene.bash("ls"), Some(Verdict::Allow));
    assert_eq!(scene.verdict("Read", json!({"file_path": "a"})), Some(Verdict::Ask));
    let scene = scene.with(RuleLayer::Managed, "managed.toml", r#"default = "confine""#);
    assert_eq!(scene.bash("make"), Some(Verdict::Ask), "confine would be looser");
}

#[test]
fn a_broken_file_is_refused_whole_with_the_line_of_each_fault_and_the_other_rules_stay() {
    let mut scene = Scene::new().with(RuleLayer::User, "good.toml", r#"deny = ["Bash(rm:*)"]"#);
    let faults = scene.faults(RuleLayer::Project, "bad.toml", "deny = [\n  \"Bash(ls\",\n  \"Bash(git:*)\",\n  \"Bash()\",\n  \"Read(../x)\",\n]\n[[example]]\ncall = \"nothing\"\nexpect = \"allow\"\n");
    assert_eq!(faults.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 4, 5, 8]);
    let faults = scene.faults(RuleLayer::Project, "bad2.toml", "\n\ndenny = []\n");
    assert_eq!(faults[0].0, 3, "{faults:?}");
    let faults = scene.faults(RuleLayer::Project, "bad3.toml", "allow = [\"Bash(ls)\"\n\nask = 1");
    assert_eq!(faults.len(), 1);
    let faults = scene.faults(RuleLayer::Managed, "bad4.toml", "deny = []\nallow = [\"Bash(ls)\"]");
    assert_eq!(faults[0].0, 2);
    let faults = scene.faults(
        RuleLayer::User,
        "settings.json",
        "{\"permissions\": {\n  \"deny\": [\"Bash(rm:*)\",\n  \"Bash(ls\"]}}",
    );
    assert_eq!(faults[0].0, 3);
    let faults = scene.faults(RuleLayer::User, "torn.json", "{\"permissions\": {\n \"deny\": [");
    assert_eq!(faults[0].0, 2);
    let missing = scene.folder.path().join("missing.toml");
    assert!(scene.rules.add_file(RuleLayer::User, &missing).is_err());
    assert_eq!(scene.rules.len(), 1);
    assert_eq!(scene.bash("rm x"), Some(Verdict::Deny), "what was loaded before is in force");
    assert_eq!(scene.bash("git log"), None);
}

#[test]
fn path_rules_are_about_the_file_tools_and_know_workspace_home_and_root() {
    let scene = Scene::new().with(
        RuleLayer::Project,
        "rules.toml",
        r#"
deny = ["Read(~/.ssh/**)", "Edit(/etc/**)", "Read(secret/)"]
allow = ["Read(src/**)", "Edit(src/*.rs)", "Write(out/**)"]
"#,
    );
    let read = |path: &str| scene.verdict("Read", json!({"file_path": path}));
    let write = |path: &str| scene.verdict("Write", json!({"file_path": path}));
    let edit = |path: &str| scene.verdict("Edit", json!({"file_path": path}));
    assert_eq!(read("/w/src/a/b.rs"), Some(Verdict::Allow));
    assert_eq!(read("src/../secret/a"), Some(Verdict::Deny));
    assert_eq!(read("/w/other"), Some(Verdict::Ask));
    assert_eq!(read("/home/u/.ssh/id"), Some(Verdict::Deny));
    assert_eq!(read("/home/u/x/../.ssh/id"), Some(Verdict::Deny));
    assert_eq!(edit("/w/src/a.rs"), Some(Verdict::Allow));
    assert_eq!(edit("/w/src/a/b.rs"), Some(Verdict::Ask), "* stays within a folder");
    assert_eq!(write("/w/src/a.rs"), Some(Verdict::Allow), "a rule for Edit is about Write too");
    assert_eq!(write("/etc/passwd"), Some(Verdict::Deny));
    assert_eq!(edit("/w/out/a"), Some(Verdict::Ask), "a rule for Write is not about Edit");
    let grep = |path: &str| scene.verdict("Grep", json!({"pattern": "x", "path": path}));
    assert_eq!(grep("/w/src"), Some(Verdict::Allow));
    assert_eq!(grep("/w/secret"), Some(Verdict::Deny));
    assert_eq!(grep("/w"), Some(Verdict::Ask), "the search may come upon it");
    assert_eq!(
        scene.verdict("Read", json!({"file_path": {"base64": "/w=="}})),
        Some(Verdict::Ask),
        "a name that is no text"
    );
}

#[test]
fn a_settings_file_of_an_agent_host_is_understood() {
    let scene = Scene::new().with(
        RuleLayer::Project,
        "settings.json",
        r#"{"model": "x", "permissions": {
            "allow": ["Bash(npm run *)", "Bash(git diff *)", "Read(/src/**)", "Read(//opt/**)", "WebFetch(domain:example.org)", "mcp__github", "Skill(pdf)"],
            "ask": ["mcp__github__delete_repo"],
            "deny": ["Bash(curl:*)", "Read(./.env)", "Task(x)"]}}"#,
    );
    assert_eq!(scene.bash("npm run build"), Some(Verdict::Allow));
    assert_eq!(scene.bash("git diff"), Some(Verdict::Allow));
    assert_eq!(scene.bash("git differ"), Some(Verdict::Ask));
    assert_eq!(scene.bash("curl x"), Some(Verdict::Deny));
    assert_eq!(scene.verdict("Read", json!({"file_path": "/w/src/a"})), Some(Verdict::Allow));
    assert_eq!(scene.verdict("Read", json!({"file_path": "/opt/a"})), Some(Verdict::Allow));
    assert_eq!(scene.verdict("Read", json!({"file_path": "/src/a"})), Some(Verdict::Ask));
    assert_eq!(scene.verdict("Read", json!({"file_path": ".env"})), Some(Verdict::Deny));
    assert_eq!(
        scene.verdict("WebFetch", json!({"url": "https://example.org/x"})),
        Some(Verdict::Allow)
    );
    assert_eq!(
        scene.verdict("WebFetch", json!({"url": "https://example.org@evil.net/x"})),
        Some(Verdict::Ask)
    );
    assert_eq!(scene.verdict("mcp__github__list", json!({})), Some(Verdict::Allow));
    assert_eq!(scene.verdict("mcp__github__delete_repo", json!({})), Some(Verdict::Ask));
    assert_eq!(scene.verdict("mcp__githubx__list", json!({})), None);
    assert_eq!(
        scene.verdict("Skill", json!({})),
        Some(Verdict::Ask),
        "a pattern that is not known allows nothing"
    );
    assert_eq!(scene.verdict("Task", json!({})), Some(Verdict::Deny), "and denies everything");
}

#[test]
fn an_option_is_allowed_by_a_rule_that_names_it() {
    let scene = Scene::new().with(RuleLayer::User, "a.toml", r#"allow = ["Bash(sed:*)", "Bash(sed -i s/a/b/:*)", "Bash(git -C sub status)", "Bash(npm run *)"]"#);
    assert_eq!(scene.bash("sed -i s/a/b/ f"), Some(Verdict::Allow));
    assert_eq!(scene.bash("sed -i s/a/c/ f"), Some(Verdict::Ask));
    assert_eq!(scene.bash("git -C sub status"), Some(Verdict::Allow));
    assert_eq!(scene.bash("git -C other status"), Some(Verdict::Ask));
}

#[test]
fn the_examples_beside_rules_are_run_and_a_wrong_one_is_named() {
    let scene = Scene::new().with(
        RuleLayer::Project,
        "rules.toml",
        "deny = [\"Bash(rm:*)\"]\n\n[[example]]\ncall = \"Bash(ls; (rm x))\"\nexpect = \"deny\"\n\n[[example]]\ncall = \"Read(/etc/passwd)\"\nexpect = \"confine\"\n\n[[example]]\ncall = \"Bash(ls)\"\nexpect = \"allow\"\n",
    );
    let scope = RuleScope { workspace: "/w".into(), home: None };
    let results: Vec<_> =
        scene.rules.examples().map(|example| example.run(&scene.rules, &scope)).collect();
    let good: Vec<bool> = results.iter().map(|result| result.is_good()).collect();
    assert_eq!(good, [true, true, false]);
    assert_eq!((results[2].line, results[2].expected, results[2].found), (12, "allow", "confine"));
    assert!(scene.rules.examples().all(|example| example.file.ends_with(Path::new("rules.toml"))));
}

#[test]
fn a_settings_file_in_which_a_key_stands_twice_or_rules_stand_where_nobody_looks_is_refused_with_the_place()
 {
    // spec 2.5
    for (text, line, part) in [
        ("{\n\"permissions\":{\n\"deny\":[\"Bash(rm:*)\"],\n\"deny\":[]}}", 4, "stands twice"),
        ("{\"permissions\":{\"deny\":[\"Read(x)\"]},\n\"permissions\":{}}", 2, "stands twice"),
        ("{\"hooks\":{\"PreToolUse\":[],\n\"PreToolUse\":[]}}", 2, "stands twice"),
        ("{\"permissions\":{\n\"deni\":[\"Bash(rm:*)\"]}}", 2, "permissions.deni is not known"),
        ("{\n\"Permissions\":{\"deny\":[]}}", 2, "write \"permissions\""),
        ("{\n\"permission\":{}}", 2, "write \"permissions\""),
        ("{\n\"pemissions\":{}}", 2, "write \"permissions\""),
        ("{\n\"deny\":[\"Bash(rm:*)\"]}", 2, "nowhere else"),
        ("{\n\"defaultmode\":\"dontAsk\"}", 2, "nowhere else"),
        ("{\n\"rules\":{\"deny\":[\"Bash(rm:*)\"]}}", 2, "nowhere else"),
        (
            "{\"permissions\":{\"allow\":[\"Bash(ls:*)\"],\n\"deny\":[\n\"Bash(rm\"]}}",
            3,
            "')' is missing",
        ),
        ("{\"permissions\":{\n\"defaultMode\":7}}", 2, "7 is no known defaultMode"),
        (
            "{\"permissions\":{\"disableBypassPermissionsMode\":\"disable\",\n\"defaultMode\":\"bypassPermissions\"}}",
            2,
            "stands beside it",
        ),
        ("[]", 1, "one JSON object"),
    ] {
        let mut scene = Scene::new();
        let faults = scene.faults(RuleLayer::User, "settings.json", text);
        assert!(
            matches!(faults.as_slice(), [(at, problem)] if *at == line && problem.contains(part)),
            "{text}: {faults:?}"
        );
        assert!(scene.rules.is_empty());
    }
    // What is about other things is theirs.
    let scene = Scene::new().with(
        RuleLayer::User,
        "settings.json",
        r#"{"$schema": "x", "model": "m", "env": {"ASK": "1", "ask": "2"}, "permissions": {"deny": ["Bash(rm:*)"], "additionalDirectories": ["/x"]}}"#,
    );
    assert_eq!(scene.bash("rm x"), Some(Verdict::Deny));
}

#[test]
fn what_the_managed_default_denies_or_asks_about_no_lower_file_allows() {
    // spec 2.5: a managed layer can only be tightened
    let allow = r#"allow = ["Bash", "Read", "Edit(**)", "Task"]
default = "confine""#;
    for (default, expected) in [("deny", Verdict::Deny), ("ask", Verdict::Ask)] {
        let managed = format!(
            "default = {default:?}\nask = [\"Bash(git:*)\", \"Read(docs/**)\"]\ndeny = [\"Bash(rm:*)\"]"
        );
        for lower in [RuleLayer::Project, RuleLayer::User, RuleLayer::Default] {
            let scene = Scene::new().with(RuleLayer::Managed, "managed.toml", &managed).with(
                lower,
                "lower.toml",
                allow,
            );
            assert_eq!(scene.bash("ls"), Some(expected), "{default}");
            assert_eq!(scene.verdict("Read", json!({"file_path": "/w/x"})), Some(expected));
            assert_eq!(scene.verdict("Write", json!({"file_path": "/w/x"})), Some(expected));
            assert_eq!(scene.verdict("Task", json!({})), Some(expected));
            assert_eq!(scene.verdict("Other", json!({})), Some(expected));
            // What the managed file itself asks about is not what no rule of it is about.
            assert_eq!(scene.bash("git status"), Some(Verdict::Ask));
            assert_eq!(
                scene.verdict("Read", json!({"file_path": "/w/docs/x"})),
                Some(Verdict::Ask)
            );
            assert_eq!(scene.bash("git status && ls"), Some(expected), "{default}");
            assert_eq!(scene.bash("git status > x"), Some(expected), "{default}");
            assert_eq!(scene.bash("git status && rm x"), Some(Verdict::Deny));
        }
    }
}
