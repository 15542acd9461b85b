//! The JSON Schema accepts what the loader accepts, and refuses what it refuses in kind (spec 5.1).
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use stockade_policy::{Policy, policy_schema, shipped_names};

fn accepts(text: &str) -> bool {
    let value: toml::Table = toml::from_str(text).expect("TOML");
    let value: Value = serde_json::to_value(value).expect("JSON");
    jsonschema::validator_for(&policy_schema()).expect("a schema").is_valid(&value)
}

fn loads(text: &str) -> Result<Policy, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.toml");
    fs::write(&file, text).unwrap();
    Policy::load(file.as_os_str()).map_err(|error| error.to_string())
}

#[test]
fn every_shipped_policy_is_accepted_as_written_and_as_shown() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies");
    for name in shipped_names() {
        let text = fs::read_to_string(folder.join(format!("{name}.toml"))).unwrap();
        assert!(accepts(&text), "{name}");
        assert!(accepts(&Policy::load_effective(OsStr::new(name)).unwrap().to_string()), "{name}");
    }
}

#[test]
fn what_the_loader_accepts_is_accepted() {
    for text in [
        "",
        "name = \"a-b_c.1\"\nrequire = [\"landlock\"]",
        "extends = \"read-only\"",
        "[filesystem]\nread = [\"/\", \"~\", \"$WORKSPACE\", \"$HOME/x\", \"$SESSION/spill\", \"/a/*.b\", \"//a/./b\"]",
        "[filesystem]\nprotect = [\".git/hooks\", \"**/.envrc\", \"a*/b\", \"$WORKSPACE/x\", \"a b\", \"..a\"]",
        "[network]\nmode = \"proxy\"\nallow = [\"*\", \"*.a.org:443\", \"10.0.0.1\", \"[::1]:80\", \"b_c\"]\ndeny = [\"x.a.org\"]\nunix_sockets = [\"/run/x\"]",
        "[environment]\nkeep = [\"LC_*\", \"ProgramFiles(x86)\"]\nscrub = [\"X\"]\nscrub_secrets = false\nset = { A = \"$HOME:$$\", _b1 = \"\" }",
        "[limits]\nwall = \"1m 30s\"\ngrace = \"0s\"\nmemory = \"2G\"\npids = 512\ncpu = \"60\"\nfiles = \"none\"\nfile_size = 0\noutput = \"64K\"\ntask_output = \"8M\"",
        "[syscalls]\nallow = [\"ptrace\"]\ndeny = [\"io_uring\"]",
        "[escalation]\nceiling = \"danger-full-access\"\nalways_ask = [\"write\", \"full_access\"]",
    ] {
        assert_eq!(loads(text).err(), None, "{text}");
        assert!(accepts(text), "{text}");
    }
}

#[test]
fn what_the_loader_refuses_in_kind_is_refused() {
    for text in [
        // Unknown keys.
        "nmae = \"x\"",
        "[filesystem]\nreed = []",
        "[network]\nhosts = []",
        "[limits]\nmemroy = \"1G\"",
        "[escalation]\nask = []",
        // Wrong types.
        "name = 3",
        "require = \"landlock\"",
        "filesystem = []",
        "[filesystem]\nread = \"/usr\"",
        "[filesystem]\nread = [3]",
        "[environment]\nscrub_secrets = \"no\"",
        "[environment.set]\nA = 1",
        "[limits]\npids = 0.5",
        "[limits]\nwall = 5",
        // Values that mean nothing.
        "name = \"a b\"",
        "require = [\"landlok\"]",
        "[network]\nmode = \"prxy\"",
        "[filesystem]\nread = [\"usr\"]",
        "[filesystem]\nread = [\"\"]",
        "[filesystem]\nread = [\"$NOWHERE/x\"]",
        "[filesystem]\nread = [\"~root\"]",
        "[filesystem]\nwrite = [\"/a/../b\"]",
        "[filesystem]\nhide = [\"/a/**\"]",
        "[filesystem]\nprotect = [\"a/../b\"]",
        "[filesystem]\nprotect = [\"a//b\"]",
        "[filesystem]\nprotect = [\"\"]",
        "[filesystem]\nprotect = [\"a/**/b\"]",
        "[filesystem]\nprotect = [\"$NOWHERE/x\"]",
        "[network]\nmode = \"proxy\"\nallow = [\"https://a\"]",
        "[network]\nmode = \"proxy\"\nallow = [\"a:0\"]",
        "[environment]\nkeep = [\"A=B\"]",
        "[environment.set]\n1A = \"x\"",
        "[limits]\nmemory = \"2 gigs\"",
        "[limits]\nmemory = 0",
        "[limits]\npids = \"0\"",
        "[limits]\ngrace = \"none\"",
        "[syscalls]\nallow = [\"Ptrace\"]",
        "[syscalls]\ndeny = [\"all\"]",
        "[escalation]\nalways_ask = [\"wirte\"]",
    ] {
        assert!(loads(text).is_err(), "{text}");
        assert!(!accepts(text), "{text}");
    }
}

#[test]
fn every_key_has_a_description() {
    fn check(schema: &Value, path: &str, seen: &mut usize) {
        let Some(properties) = schema["properties"].as_object() else { return };
        for (key, value) in properties {
            let path = format!("{path}.{key}");
            assert!(value["description"].is_string(), "{path}");
            *seen += 1;
            check(value, &path, seen);
        }
    }
    let mut seen = 0;
    check(&policy_schema(), "", &mut seen);
    assert!(seen >= 30, "{seen}");
}
