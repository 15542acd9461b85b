//! What rules deny of the file system, the kernel denies too (spec 2.5, 5.4): a shell line has more ways to a file than its text tells. Every
//! question is answered with yes here, so that nothing but the rule itself stands in the way; each way is first shown to be one.

use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use stockade_tests::approval::Scene;

const SECRET: &str = "k1-of-nobody";

/// Ways to read `.env`.
const READS: &[&str] = &[
    "cat .env",
    "cat $(ls -A | grep env)",
    "cat `pwd`/.env",
    "cat ~+/.env",
    "cat $'\\x2e'env",
    "cat .e[n]v",
    "cat .e*",
    "cat /proc/self/cwd/.env",
    "grep -d recurse nobody .",
    "grep -r nobody .",
    "ln -sfn . z; cat z/.env",
    "cp .env copy; cat copy",
    "mv .env moved; cat moved; mv moved .env",
    "ln .env hard; cat hard",
    "git grep --no-index nobody -- . ':(glob).env'",
    "git diff --no-index /dev/null .env",
    "printf '.env\\n' | tar --files-from=- -cf - | tar -xOf -",
    "tar -cf - . | tar -xOf -",
    "awk 'BEGIN { ARGV[1] = \".\" \"env\"; ARGC = 2 } { print }'",
    "awk 'BEGIN { while ((getline line < (\".\" \"env\")) > 0) print line }'",
    "cat 0<> .env",
    "cat < .env",
    "bash <<< 'cat .env'",
    "echo Y2F0IC5lbnY= | base64 -d | sh",
    "script -qc 'cat .env' /dev/null",
    "printf '.env' > names; xargs -a names cat",
    "printf '.env\\0' | xargs -0 cat",
    "echo | sed 'r .env'",
    "sed -n p .env",
    "mapfile -t lines < .env; echo \"${lines[@]}\"",
    "read -r line < .env; echo \"$line\"",
    "echo \"$(< .env)\"",
    "x=.en; cat \"${x}v\"",
    "eval 'cat .e''nv'",
    "find . -name '.e*' -exec cat {} +",
    "find . -newer /etc/passwd -type f -exec cat {} +",
    "dd if=.env status=none",
    "od -c .env | tr -d ' \\n' | sed 's/[0-9]\\{7\\}//g'",
    "head -c 100 .env",
    "tail -n 5 ./././.env",
    "diff .env /dev/null",
    "paste .env",
    "python3 -c \"print(open(chr(46) + 'env').read())\"",
    "python3 -c \"import os; [print(open(f).read()) for f in os.listdir('.') if os.path.isfile(f)]\"",
    "perl -ne print .env",
    "perl -e 'open(F, chr(46) . \"env\"); print <F>'",
    "cd ..; cat work/.env",
    "cd / && cat \"$OLDPWD/.env\"",
    "cat \"$PWD/.env\"",
    "(exec 3< .env; cat <&3)",
    "source .env; echo \"$KEY\"",
    "set -a; . ./.env; env | grep KEY",
    "timeout 5 sh -c 'cat .en?'",
    "nohup cat .env 2> /dev/null",
    "cat link",
    "cat folder/../.env",
    "cat links/.env-too",
    "comm .env /dev/null",
    "rev .env | rev",
    "tac .env",
    "nl .env",
    "base64 .env | base64 -d",
    "gzip -c .env | gzip -dc",
    "printf '#include \".env\"\\n' > t.c; cc -E t.c",
];

/// Ways to change `secret`.
const WRITES: &[&str] = &[
    "echo x > secret",
    "echo x > \"$(pwd)/secret\"",
    "echo x > ~+/secret",
    "echo x > $'\\x73'ecret",
    "echo x >> ./secret",
    "echo x | tee secret",
    "echo x | sed -n 'w secret'",
    "sed -i s/^/x/ secret",
    "tar -cf secret folder",
    "echo x | iconv -o secret",
    "cp /etc/hostname secret",
    "mv other secret",
    "rm -f secret",
    "ln -sf other secret",
    "truncate -s 0 secret",
    "dd if=/dev/zero of=secret count=1 status=none",
    "python3 -c \"open(chr(115) + 'ecret', 'w').write('x')\"",
    "perl -pi -e 's/^/x/' secret",
    "git checkout -q -- secret",
    "git restore secret",
    "git mv -f tracked secret",
    "git stash -q",
    "git reset -q --hard",
    "printf -- '--- secret\\n+++ secret\\n@@ -1 +1 @@\\n-to be kept\\n+x\\n' | patch -s",
    "ln -sfn . z; echo x > z/secret",
    "ln secret hard; echo x > hard",
    "cd ..; echo x > work/secret",
    "install other secret",
    "sort -o secret other",
    "awk 'BEGIN { print \"x\" > (\"s\" \"ecret\") }'",
    "cat 0<> secret >&0",
    "bash <<< 'echo x > secret'",
    "script -qc 'echo x' secret",
    "ssh-keygen -q -t ed25519 -N '' -f secret <<< y",
    "echo 'int x;' > t.c; cc -M -MF secret t.c",
    "rsync other secret",
    "find . -name secret -delete",
    "chmod u-w secret; echo x > secret",
    "mv secret gone",
    "flock secret true; : > secret",
    "echo x > links/secret-too",
];

/// Ways that were found when the rules were attacked; they are asked about, too.
fn found_ways(text: &'static str) -> Vec<&'static str> {
    let read = |line: &str| serde_json::from_str::<String>(line).expect("a line");
    text.lines().map(|line| &*Box::leak(read(line).into_boxed_str())).collect()
}

/// What a repository holds of a file is no file that could be hidden: there, asking is all.
fn is_of_repository(line: &str) -> bool {
    line.contains("git ")
}

/// A workspace that is a repository, with a file to be kept secret and one to be kept.
fn fill(workspace: &Path) {
    fs::write(workspace.join("secret"), "as committed\n").expect("a file");
    fs::write(workspace.join("tracked"), "tracked\n").expect("a file");
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=n", "-c", "user.email=e@example.org"]).args(args);
        let ran = git.current_dir(workspace).output().expect("git can be run");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    refill(workspace);
}

/// Makes good what a way may have done.
fn refill(workspace: &Path) {
    // What was made on the way may hold the secret.
    for entry in fs::read_dir(workspace).expect("a folder").flatten() {
        let path = entry.path();
        if !matches!(entry.file_name().to_str(), Some(".git" | "tracked")) {
            fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)).expect("gone");
        }
    }
    fs::write(workspace.join(".env"), format!("KEY={SECRET}\n")).expect("a secret");
    fs::write(workspace.join("secret"), "to be kept\n").expect("a file");
    fs::write(workspace.join("other"), "other\n").expect("a file");
    fs::create_dir_all(workspace.join("folder")).expect("a folder");
    fs::create_dir_all(workspace.join("d")).expect("a folder");
    fs::create_dir_all(workspace.join("links")).expect("a folder");
    for name in [".env", "secret"] {
        fs::hard_link(workspace.join(name), workspace.join(format!("links/{name}-too")))
            .expect("a name");
    }
    let link = workspace.join("link");
    if link.symlink_metadata().is_err() {
        symlink(".env", link).expect("a link");
    }
}

/// What a line prints where nothing confines it; a program that is not here prints nothing.
fn unconfined(workspace: &Path, line: &str) -> String {
    let mut bash = Command::new("bash");
    bash.args(["-c", line]).current_dir(workspace).stdin(Stdio::null());
    let ran = bash.output().expect("bash can be run");
    String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr)
}

/// A scene, and the options that put these rules in force and answer every question with yes.
fn scene(rules: &str) -> (Scene, Vec<String>) {
    let scene = Scene::new();
    fill(&scene.workspace);
    let file = scene.scratch.path().join("rules.toml");
    fs::write(&file, rules).expect("rules");
    let yes = scene.program(r#"{"decision": "allow"}"#);
    let options = ["--approve-program", &yes, "--max-parallel", "1", "--rules"].map(str::to_owned);
    let options = options.into_iter().chain([file.to_str().expect("text").to_owned()]).collect();
    (scene, options)
}

fn calls(lines: &[&'static str]) -> Vec<(&'static str, Value)> {
    lines.iter().map(|line| ("Bash", json!({ "command": line }))).collect()
}

#[test]
fn what_may_not_be_read_appears_in_no_result_however_it_is_asked_for() {
    let (scene, options) = scene(r#"deny = ["Read(.env)"]"#);
    let mut ways = Vec::new();
    let found = found_ways(include_str!("../../crates/rules/tests/reads.jsonl"));
    let found = found.into_iter().filter(|line| !is_of_repository(line));
    for line in READS.iter().copied().chain(found) {
        refill(&scene.workspace);
        if unconfined(&scene.workspace, line).contains(SECRET) {
            ways.push(line);
        }
    }
    assert!(ways.len() >= 60, "{} read it here: {ways:#?}", ways.len());
    refill(&scene.workspace);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    for (line, answer) in ways.iter().zip(scene.exec(&options, &calls(&ways))) {
        assert!(!answer.text.contains(SECRET), "{line}: {}", answer.text);
    }
    assert!(!scene.asked().is_empty(), "some were asked about, and answered with yes");
    let file_tools: Vec<(&str, Value)> = vec![
        ("Read", json!({"file_path": ".env"})),
        ("Read", json!({"file_path": "link"})),
        ("Read", json!({"file_path": "folder/../.env"})),
        ("Grep", json!({"pattern": "nobody", "output_mode": "content"})),
        (
            "Grep",
            json!({"pattern": "nobody", "path": ".", "glob": ".e*", "output_mode": "content"}),
        ),
    ];
    for (call, answer) in file_tools.iter().zip(scene.exec(&options, &file_tools)) {
        assert!(!answer.text.contains(SECRET), "{call:?}: {}", answer.text);
    }
    let kept = fs::read_to_string(scene.workspace.join(".env")).expect("it is there");
    assert_eq!(kept, format!("KEY={SECRET}\n"), "the host's own file is left alone");
}

#[test]
fn what_may_not_be_changed_stays_as_it_is_however_it_is_tried() {
    let (scene, options) = scene(r#"deny = ["Edit(secret)"]"#);
    let secret = scene.workspace.join("secret");
    let is_kept = || fs::read_to_string(&secret).is_ok_and(|text| text == "to be kept\n");
    let mut ways = Vec::new();
    let found = found_ways(include_str!("../../crates/rules/tests/writes.jsonl"));
    for line in WRITES.iter().copied().chain(found) {
        refill(&scene.workspace);
        unconfined(&scene.workspace, line);
        if !is_kept() {
            ways.push(line);
        }
        unconfined(&scene.workspace, "git reset -q; git stash drop -q");
    }
    assert!(ways.len() >= 60, "{} change it here: {ways:#?}", ways.len());
    refill(&scene.workspace);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    for line in ways {
        scene.exec(&options, &calls(&[line]));
        assert!(is_kept(), "{line}");
    }
}

#[test]
fn what_may_not_be_changed_may_be_all_of_the_workspace() {
    let ways = [
        "echo x > secret",
        "sh d/script",
        "echo eCA+IHNlY3JldA== | base64 -d > /tmp/s; sh d/script",
        "rm -rf secret",
    ];
    for rule in ["Edit(**)", "Edit(*)", "Edit(.)", "Write(./)", "Edit(WORKSPACE)"] {
        let (scene, mut options) = scene("");
        let rule = rule.replace("WORKSPACE", scene.workspace.to_str().expect("text"));
        let file = options.pop().expect("the rules");
        fs::write(&file, format!("deny = [{rule:?}]")).expect("rules");
        options.push(file);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let secret = scene.workspace.join("secret");
        for line in ways {
            refill(&scene.workspace);
            fs::write(scene.workspace.join("d/script"), "echo y > secret").expect("a script");
            unconfined(&scene.workspace, line);
            assert!(
                !fs::read_to_string(&secret).is_ok_and(|text| text == "to be kept\n"),
                "{line}"
            );
            refill(&scene.workspace);
            fs::write(scene.workspace.join("d/script"), "echo y > secret").expect("a script");
            scene.exec(&options, &calls(&[line]));
            assert_eq!(
                fs::read_to_string(&secret).expect("it is there"),
                "to be kept\n",
                "{rule}: {line}"
            );
        }
        let call = ("Write", json!({"file_path": "new", "content": "x"}));
        let answers = scene.exec(&options, &[call]);
        assert!(!scene.workspace.join("new").exists(), "{rule}: {}", answers[0].text);
    }
}

#[test]
fn a_file_tool_makes_nothing_through_a_link_that_leads_to_nothing_yet() {
    let (scene, options) = scene(r#"deny = ["Edit(**/*.lock)", "Edit(made/**)"]"#);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    for (link, target) in [("q", "a.lock"), ("q2", "links/../made/x"), ("q3", "q")] {
        symlink(target, scene.workspace.join(link)).expect("a link");
        let call = ("Write", json!({"file_path": link, "content": "x"}));
        let answers = scene.exec(&options, &[call]);
        assert_eq!(answers[0].is_error, Some(true), "{link}: {}", answers[0].text);
        for name in ["a.lock", "made"] {
            assert!(!scene.workspace.join(name).exists(), "{link}: {}", answers[0].text);
        }
    }
}

#[test]
fn what_a_repository_holds_of_a_file_that_may_not_be_read_is_asked_about() {
    let scene = Scene::new();
    fill(&scene.workspace);
    let git = |line: &str| unconfined(&scene.workspace, line);
    git(
        "git add -f .env; git -c user.name=n -c user.email=e@example.org commit -qm env; echo x >> .env",
    );
    let file = scene.scratch.path().join("rules.toml");
    fs::write(&file, r#"deny = ["Read(.env)"]"#).expect("rules");
    let ways = [
        "git log -p",
        "git show",
        "git diff",
        "git show HEAD:.env",
        "git cat-file -p HEAD:.env",
        "git cat-file --batch-all-objects --batch",
        "git grep nobody",
        "git grep --cached nobody",
        "git archive HEAD",
        "git format-patch --root --stdout HEAD",
        "git fast-export --all",
        "git clone -q . d/o; cat d/o/.env",
        "git worktree add -q d/w; cat d/w/.env",
        "git status -vv",
    ];
    for line in ways {
        let shown = unconfined(&scene.workspace, line);
        assert!(shown.contains(SECRET) || line.contains("status"), "{line}: {shown}");
        fs::remove_dir_all(scene.workspace.join("d")).ok();
        git("git worktree prune");
    }
    let options = ["--rules", file.to_str().expect("text")];
    for (line, answer) in ways.iter().zip(scene.exec(&options, &calls(&ways))) {
        assert!(answer.text.contains("No permission client"), "{line}: {}", answer.text);
    }
}

#[test]
fn a_pattern_holds_for_what_comes_into_being_after_the_session_began() {
    let (scene, options) = scene(r#"deny = ["Read(**/*.pem)", "Edit(folder/**)"]"#);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let lines = [
        "mkdir -p deep/er && echo of-nobody > deep/er/k.pem; cat deep/er/$(echo k).pem",
        "cat deep/er/$(ls deep/er)",
        "echo x > \"$(pwd)/folder/new\"",
    ];
    let answers = scene.exec(&options, &calls(&lines));
    assert!(scene.workspace.join("deep/er/k.pem").exists(), "{answers:#?}");
    assert!(!answers[1].text.contains("of-nobody"), "{}", answers[1].text);
    assert!(!scene.workspace.join("folder/new").exists(), "{answers:#?}");
}

#[test]
fn no_grant_undoes_what_a_rule_denies_and_a_policy_that_confines_nothing_says_what_it_does_not_hold()
 {
    // spec 5.3, 7.2, 9.2
    let (scene, options) = scene(r#"deny = ["Read(.env)"]"#);
    let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
    options.extend(["--ceiling", "danger-full-access"]);
    let wide = |permissions: Value| json!({"command": "x=v; cat .en$x", "sandbox_permissions": permissions, "justification": "j"});
    let answers = scene.exec(
        &options,
        &[
            ("Bash", wide(json!({"full_access": true}))),
            ("Bash", wide(json!({"read": [scene.workspace.join(".env")]}))),
        ],
    );
    for answer in &answers {
        assert_eq!(answer.is_error, Some(true));
        assert!(answer.text.contains("refused by"), "{}", answer.text);
        assert!(!answer.text.contains(SECRET), "{}", answer.text);
    }
    let mut command = Command::new(stockade_tests::stockade_bin());
    command.args(["exec", "--policy", "danger-full-access", "--workspace"]).arg(&scene.workspace);
    command.arg("--state-dir").arg(&scene.state).args(&options);
    let turn = stockade_tests::turn::of_commands(&["true"]);
    scene.dress(&mut command);
    let ran =
        stockade_tests::finish(&mut command, turn.as_bytes(), stockade_tests::approval::LIMIT);
    assert!(ran.status.success(), "{}", ran.err());
    let said = scene.query(&["--type", "not_enforced"]);
    assert!(
        said.iter()
            .any(|record| record["what"].as_str().is_some_and(|what| what.contains("Read(.env)"))),
        "{said:#?}"
    );
}

#[test]
fn a_rule_file_that_never_ends_or_never_opens_stops_the_session_and_hangs_nobody() {
    // A repository may bring its own.
    let makes: [fn(&Path); 3] = [
        |path| {
            nix::unistd::mkfifo(path, nix::sys::stat::Mode::from_bits_truncate(0o600))
                .expect("a fifo");
        },
        |path| symlink("/dev/zero", path).expect("a link"),
        |path| fs::write(path, "# long\n".repeat(200_000)).expect("a file"),
    ];
    for make in makes {
        let scene = Scene::new();
        let folder = scene.workspace.join(".stockade");
        fs::create_dir_all(&folder).expect("a folder");
        make(&folder.join("rules.toml"));
        let mut exec = Command::new(stockade_tests::stockade_bin());
        exec.arg("exec").arg("--workspace").arg(&scene.workspace).arg("--state-dir");
        exec.arg(scene.scratch.path().join("state"));
        let turn =
            json!({"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "true"}});
        let ran = stockade_tests::finish(
            &mut exec,
            turn.to_string().as_bytes(),
            Duration::from_secs(120),
        );
        assert_eq!(ran.code(), 125, "{}", ran.err());
        assert!(ran.err().contains("rules.toml:1:1: cannot be read: it is "), "{}", ran.err());
    }
}
