//! An approval is of the place that was shown: what is moved, replaced or linked elsewhere while somebody is asked does not take the call along
//! (spec 2.2, 2.6; issue 6: an approved call runs the very bytes that were shown). Judged by the files.

use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use stockade_tests::approval::Scene;

/// Executes these calls; while somebody is asked about one, this shell line runs in the workspace, outside all cells. Then the answer is yes.
fn meanwhile(scene: &Scene, line: &str, options: &[&str], calls: &[(&str, Value)]) -> Vec<String> {
    let program = scene.scratch.path().join("approves");
    let text = format!(
        "#!/bin/sh\ncat > /dev/null\ncd {:?} || exit 1\n{line}\nprintf '{{\"decision\":\"allow\"}}'\n",
        scene.workspace
    );
    fs::write(&program, text).expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    let rules = rules(scene);
    let mut all = vec!["--approve-program", program.to_str().expect("text")];
    all.extend(["--rules", rules.to_str().expect("text")]);
    all.extend(options);
    scene.exec(&all, calls).into_iter().map(|answer| answer.text).collect()
}

/// Everything is asked about.
fn rules(scene: &Scene) -> PathBuf {
    let rules = scene.scratch.path().join("ask.toml");
    fs::write(&rules, "ask = [\"Edit\", \"Read\"]\n").expect("rules");
    rules
}

fn folders(scene: &Scene) {
    for (folder, text) in [("dd", "shown\n"), ("ee", "of somebody else\n")] {
        fs::create_dir_all(scene.workspace.join(folder)).expect("a folder");
        fs::write(scene.workspace.join(folder).join("x"), text).expect("a file");
    }
}

fn write(path: &str) -> (&'static str, Value) {
    ("Write", json!({"file_path": path, "content": "new\n"}))
}

fn read(path: &str) -> (&'static str, Value) {
    ("Read", json!({"file_path": path}))
}

fn edit(path: &str) -> (&'static str, Value) {
    ("Edit", json!({"file_path": path, "old_string": "s", "new_string": "S", "replace_all": true}))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

const CHANGED: &str = "has changed since this call was approved";

/// Ways to make `dd` another folder.
const SWAPS: [&str; 2] = ["mv dd away; ln -s ee dd", "mv dd away; mv ee dd"];

#[test]
fn a_folder_that_was_swapped_since_it_was_approved_is_not_written_to() {
    for swap in SWAPS {
        let scene = Scene::new();
        folders(&scene);
        let said = meanwhile(&scene, swap, &[], &[write("dd/n.txt")]);
        assert!(said[0].contains(CHANGED), "{swap}: {said:?}");
        for folder in ["away", "dd"] {
            assert_eq!(names(&scene.workspace.join(folder)), ["x"], "{swap}");
        }
    }
}

#[test]
fn a_link_that_appears_where_a_file_was_to_be_made_is_not_followed() {
    let scene = Scene::new();
    folders(&scene);
    let said = meanwhile(&scene, "ln -s ee/made dd/n.txt", &[], &[write("dd/n.txt")]);
    assert!(said[0].contains(CHANGED), "{said:?}");
    assert_eq!(names(&scene.workspace.join("ee")), ["x"]);
}

#[test]
fn what_was_swapped_since_it_was_approved_is_not_read_or_searched() {
    let grep = ("Grep", json!({"pattern": "somebody", "path": "dd", "output_mode": "content"}));
    let glob = ("Glob", json!({"pattern": "dd/*"}));
    for swap in SWAPS.into_iter().chain(["mv ee/x dd/x"]) {
        for call in [read("dd/x"), grep.clone(), glob.clone()] {
            if swap.starts_with("mv ee/x") && call.0 != "Read" {
                continue;
            }
            let scene = Scene::new();
            folders(&scene);
            let said = meanwhile(&scene, swap, &[], std::slice::from_ref(&call));
            assert!(said[0].contains(CHANGED), "{swap}, {call:?}: {said:?}");
            assert!(!said[0].contains("somebody else"), "{swap}, {call:?}: {said:?}");
        }
    }
}

#[test]
fn a_granted_folder_that_was_swapped_since_it_was_approved_is_not_written_to() {
    let scene = Scene::new();
    let outside = scene.outside.to_str().expect("text");
    let (place, other) = (format!("{outside}/place"), format!("{outside}/other"));
    fs::create_dir(&place).expect("a folder");
    fs::create_dir(&other).expect("a folder");
    let asked = json!({"file_path": format!("{place}/n.txt"), "content": "new\n",
        "sandbox_permissions": {"write": [outside]}, "justification": "it goes there"});
    let swap = format!("mv {place} {place}-away; ln -s other {place}");
    let said = meanwhile(&scene, &swap, &[], &[("Write", asked)]);
    assert!(said[0].contains(CHANGED), "{said:?}");
    assert!(names(Path::new(&other)).is_empty());
}

#[test]
fn what_nobody_touched_runs_as_it_was_approved() {
    let scene = Scene::new();
    folders(&scene);
    std::os::unix::fs::symlink("dd", scene.workspace.join("link")).expect("a link");
    let granted = json!({"file_path": scene.outside.join("sub/n.txt"), "content": "new\n",
        "sandbox_permissions": {"write": [scene.outside]}, "justification": "it goes there"});
    let seen = json!({"file_path": scene.outside.join("marker"),
        "sandbox_permissions": {"read": [scene.outside.join("marker")]}, "justification": "to see"});
    let calls = [
        read("dd/x"),
        edit("dd/x"),
        ("Edit", json!({"file_path": "dd/x", "old_string": "S", "new_string": "Z"})),
        write("new/sub/a"),
        write("new/sub/b"),
        write("link/through"),
        write("/tmp/of-the-session"),
        read("/tmp/of-the-session"),
        ("Glob", json!({"pattern": "dd/*"})),
        ("Grep", json!({"pattern": "hown", "output_mode": "content"})),
        ("Write", granted),
        ("Read", seen),
    ];
    let said = meanwhile(&scene, "true", &[], &calls);
    assert!(said.iter().all(|said| !said.contains(CHANGED)), "{said:?}");
    let text = |path: &str| fs::read_to_string(scene.workspace.join(path)).expect(path);
    assert_eq!(text("dd/x"), "Zhown\n", "{said:?}");
    assert_eq!(text("new/sub/a"), "new\n", "{said:?}");
    assert_eq!(text("new/sub/b"), "new\n", "{said:?}");
    assert_eq!(text("dd/through"), "new\n", "{said:?}");
    assert!(said[7].contains("new"), "{said:?}");
    assert!(said[8].contains("dd/x") && said[9].contains("Zhown"), "{said:?}");
    assert_eq!(fs::read_to_string(scene.outside.join("sub/n.txt")).expect("made"), "new\n");
    assert!(said[11].contains("untouched"), "{said:?}");
}

#[test]
fn whoever_is_asked_is_shown_where_a_link_leads() {
    let scene = Scene::new();
    folders(&scene);
    std::os::unix::fs::symlink("ee/x", scene.workspace.join("link")).expect("a link");
    let program = scene.program(r#"{"decision":"allow"}"#);
    let rules = rules(&scene);
    let options = ["--approve-program", &program, "--rules", rules.to_str().expect("text")];
    scene.exec(&options, &[read("link")]);
    scene.exec(&options, &[read("dd/x")]);
    let asked = scene.asked();
    let led = scene.workspace.join("ee/x");
    assert_eq!(asked[0]["leads_to"], led.to_str().expect("text"), "{asked:#?}");
    assert!(asked[1]["leads_to"].is_null(), "{asked:#?}");
}
