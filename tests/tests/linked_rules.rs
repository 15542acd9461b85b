//! Rules mean what links lead to: a pattern that is written through a link, and a word of a shell line that is one (spec 2.5). Judged from
//! outside, by what calls read and write.

use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use stockade_tests::approval::Scene;

/// A workspace with secrets, `up` beside it as a link to the folder that holds it all, and these rules.
fn scene(rules: &str) -> (Scene, PathBuf) {
    let scene = Scene::new();
    let work = &scene.workspace;
    fs::create_dir_all(work.join("ee/sub")).expect("a folder");
    for name in ["secret", "ee/x", "lock.txt", "r.sh"] {
        fs::write(work.join(name), "k1-of-nobody\n").expect("a file");
    }
    fs::write(work.join("r.sh"), "cat secret; echo over >> secret\n").expect("a script");
    symlink(scene.scratch.path(), scene.scratch.path().join("up")).expect("a link");
    symlink("ee", work.join("zz")).expect("a link");
    symlink("ee/x", work.join("zx")).expect("a link");
    symlink("ee/sub", work.join("zs")).expect("a link");
    symlink("lock.txt", work.join("slock")).expect("a link");
    let rules = rules.replace("UP", scene.scratch.path().join("up").to_str().expect("text"));
    let file = scene.scratch.path().join("rules.toml");
    fs::write(&file, rules).expect("rules");
    (scene, file)
}

fn said(rules: &str, call: (&str, Value)) -> (String, Scene) {
    let (scene, file) = scene(rules);
    let options = ["--rules", file.to_str().expect("text")];
    let answers = scene.exec(&options, &[call]);
    (answers[0].text.clone(), scene)
}

fn bash(line: &str) -> (&'static str, Value) {
    ("Bash", json!({ "command": line }))
}

/// Patterns that mean `secret` through the link above the workspace.
const PATTERNS: [&str; 4] = ["UP/work/secret", "UP/work/se*", "UP/**", "UP/*/secret"];

#[test]
fn a_pattern_through_a_link_above_the_workspace_denies_what_it_leads_to() {
    let read = || ("Read", json!({"file_path": "secret"}));
    for call in [read, || bash("cat secret"), || bash("cat ./*cret"), || bash("sh r.sh")] {
        let (text, _) = said("", call());
        assert!(text.contains("nobody"), "without a rule it is there: {text}");
        for pattern in PATTERNS {
            let (text, _) = said(&format!("deny = [\"Read({pattern})\"]"), call());
            assert!(!text.contains("nobody"), "{pattern}, {:?}: {text}", call());
        }
    }
    for pattern in PATTERNS {
        let rule = format!("deny = [\"Edit({pattern})\"]");
        for line in ["echo over > secret", "sh r.sh"] {
            let (text, scene) = said(&rule, bash(line));
            let now = fs::read_to_string(scene.workspace.join("secret")).expect("it is there");
            assert_eq!(now, "k1-of-nobody\n", "{pattern}, {line}: {text}");
        }
    }
}

const ASKED: &str = "No permission client configured";

#[test]
fn a_word_that_is_a_link_asks_where_what_it_leads_to_does() {
    let reads = [
        "cat ee/x",
        "cat zz/x",
        "cat zx",
        "cat zs/../x",
        "cat $PWD/zz/x",
        "head zz/*",
        "cat z*",
        "cd zz; cat x",
        "cp -r zz copy",
        "cat < zx",
        "grep -r nobody zz",
        "cat ~+/zx",
        "cat {zx,slock}",
        "f=zx; cat $f",
        "sed -n p zx",
        "xargs cat <<< zx",
        "find zz/ -type f -exec cat {} +",
        "ln -s ee new; cat new/x",
        "tar -chf - zz",
        "cat zz//./x",
        "bash -c 'cat zx'",
    ];
    let writes = [
        "echo 1 > slock",
        "echo 1 >> ./slock",
        "cp ee/x slock",
        "tee slock < ee/x",
        "sed -i s/k/p/ slock",
        "truncate -s 0 slock",
        "dd if=ee/x of=slock",
        "cd ee; echo 1 > ../slock",
    ];
    let lines = reads.map(|line| (line, "ask = [\"Read(ee/**)\"]"));
    let lines = lines.into_iter().chain(writes.map(|line| (line, "ask = [\"Edit(lock.txt)\"]")));
    let mut wrong = Vec::new();
    for (line, rule) in lines {
        let (text, _) = said(rule, bash(line));
        if !text.contains(ASKED) {
            wrong.push((line, text));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_is_allowed_does_not_reach_through_a_link_to_what_nothing_allows() {
    let rules = "allow = [\"Bash(echo:*)\", \"Bash(cd:*)\", \"Edit(zz/**)\", \"Edit(new/**)\", \"Edit(slock)\"]";
    for line in
        ["echo 1 > zz/made", "echo 1 > slock", "cd /tmp && echo 1 > new/f", "echo 1 > zz/sub/../y"]
    {
        let (text, scene) = said(rules, bash(line));
        assert!(text.contains(ASKED), "{line}: {text}");
        assert!(!scene.workspace.join("ee/made").exists(), "{line}");
    }
    let (text, scene) = said(rules, bash("echo 1 > new/f; cat new/f"));
    assert!(text.contains(ASKED), "cat is not allowed: {text}");
    fs::create_dir(scene.workspace.join("new")).expect("a folder");
    let file = scene.scratch.path().join("rules.toml");
    let answers = scene.exec(&["--rules", file.to_str().expect("text")], &[bash("echo 1 > new/f")]);
    assert_ne!(answers[0].is_error, Some(true), "{}", answers[0].text);
    // A link that leads within what is allowed is allowed.
    let (text, _) = said(
        "allow = [\"Bash(echo:*)\", \"Edit(zz/**)\", \"Edit(ee/**)\"]",
        bash("echo 1 > zz/made"),
    );
    assert!(!text.contains(ASKED), "{text}");
}
