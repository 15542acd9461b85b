//! Each technique is first seen to work without a sandbox, then run under `stockade run`, and judged from outside both times.

use crate::scene::{Scene, Who};
use crate::technique::{Attack, By, Proof, Technique};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use stockade_tests::{
    Finished, Scratch, WITHOUT_NAMESPACES, copy_executable, lowered_policy, procs, stockade_bin,
    tree,
};

const PRELUDE: &str = include_str!("prelude.py");

/// Runs a family, for whoever the tests can be. One line for each row and user; all that went wrong at the end.
pub fn family(techniques: &[Technique]) {
    let scratch = Scratch::new();
    let binary = reachable_binary(&scratch);
    let is_root = nix::unistd::geteuid().is_root();
    let who = if is_root { &[Who::Me, Who::Nobody][..] } else { &[Who::Me] };
    // To look at one of them more closely.
    let only = std::env::var("STOCKADE_ESCAPE_ONLY").ok();
    let mut wrong = Vec::new();
    for technique in techniques.iter().filter(|t| only.as_ref().is_none_or(|id| t.id == id)) {
        for who in who {
            let user = if is_root && *who == Who::Me { By::Root } else { By::Ordinary };
            if technique.by == By::Ordinary && user == By::Root {
                continue;
            }
            let found = judge(technique, *who, user, &binary);
            wrong.extend(told(technique, name(user), found));
        }
        // As an ordinary user, since root without namespaces has the same rights.
        let who = if is_root { Who::Nobody } else { Who::Me };
        wrong.extend(told(technique, "landlock", judge_bare(technique, who, &binary)));
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn told(technique: &Technique, column: &str, found: Vec<String>) -> Vec<String> {
    let Technique { id, what, source, .. } = technique;
    let word = match (found.is_empty(), column, technique.takes) {
        (false, ..) => "WRONG",
        (true, "landlock", Some(_)) => "refused",
        _ => "stopped",
    };
    println!("{word:8} {id:28} {column:9} {what} [{source}]");
    found.into_iter().map(|text| format!("{id}, {column}: {text}")).collect()
}

fn name(user: By) -> &'static str {
    if user == By::Root { "root" } else { "ordinary" }
}

/// Where an ordinary user can execute it.
fn reachable_binary(scratch: &Scratch) -> PathBuf {
    let binary = stockade_bin();
    let open = |path: &Path| {
        path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o005 == 0o005)
    };
    if binary.ancestors().all(open) {
        return binary.to_path_buf();
    }
    let copy = scratch.path().join("stockade");
    copy_executable(binary, &copy);
    copy
}

fn judge(technique: &Technique, who: Who, user: By, binary: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    // What root alone can do proves nothing as somebody else.
    if technique.by != By::Root || user == By::Root {
        let scene = scene(technique, who);
        let found = attack(technique, &scene, &unconfined(technique, &scene));
        if !found.shows(technique.proof) {
            wrong.push(format!("does not work even without a sandbox: {found:?}"));
        }
    }
    let scene = scene(technique, who);
    let found =
        attack(technique, &scene, &confined(technique, &scene, binary, "workspace-write".as_ref()));
    if !found.began {
        wrong.push(format!("the attack did not even start in the sandbox: {found:?}"));
    }
    if let Some(harm) = found.any_harm() {
        wrong.push(format!("ESCAPED: {harm}; {found:?}"));
    }
    wrong
}

/// Where namespaces are forbidden: under a lowered policy the attack is stopped all the same, or the shipped policy, which holds what
/// this attack is against, is refused by the name of the layer.
fn judge_bare(technique: &Technique, who: Who, binary: &Path) -> Vec<String> {
    let scene = scene(technique, who);
    let policy = lowered_policy(&scene.path(""));
    let policy = technique.takes.map_or(policy, |_| "workspace-write".into());
    let mut argv: Vec<OsString> = WITHOUT_NAMESPACES.map(OsString::from).into();
    argv.extend(confined(technique, &scene, binary, &policy));
    let found = attack(technique, &scene, &argv);
    let said = &found.words[1];
    let mut wrong = Vec::new();
    let is_refused = said.contains("refused by host");
    match technique.takes {
        Some(layer) if !is_refused || !said.contains(layer) => {
            wrong.push(format!("the policy is not refused for lack of {layer}: {found:?}"));
        }
        None if !found.began && !is_refused => {
            wrong.push(format!("the attack did not even start: {found:?}"));
        }
        _ => {}
    }
    if let Some(harm) = found.any_harm() {
        wrong.push(format!("ESCAPED: {harm}; {found:?}"));
    }
    wrong
}

fn scene(technique: &Technique, who: Who) -> Scene {
    let (Attack::Sh(text) | Attack::Py(text)) = technique.attack;
    let person = if let Proof::Springs(line) = technique.proof { line } else { "" };
    Scene::new(who, &format!("{text} {person} {}", technique.options.join(" ")))
}

fn program(technique: &Technique, scene: &Scene) -> Vec<OsString> {
    let text = match technique.attack {
        Attack::Sh(line) => {
            ["bash".into(), "-c".into(), format!("echo BEGAN; {}", scene.fill(line))]
        }
        Attack::Py(text) => {
            ["python3".into(), "-c".into(), format!("{PRELUDE}\n{}", scene.fill(text))]
        }
    };
    let mut argv: Vec<OsString> = text.map(OsString::from).into();
    argv.push(scene.fill("{tag}").into());
    argv
}

fn unconfined(technique: &Technique, scene: &Scene) -> Vec<OsString> {
    let mut argv = Vec::new();
    if technique.by == By::Root {
        // Mounts that root's attacks make are gone with the attack; the host's own never change.
        argv.extend(["unshare", "--mount", "--propagation", "private", "--"].map(OsString::from));
    }
    argv.extend(program(technique, scene));
    argv
}

fn confined(technique: &Technique, scene: &Scene, binary: &Path, policy: &Path) -> Vec<OsString> {
    let mut argv: Vec<OsString> = vec![binary.into(), "run".into(), "--policy".into()];
    argv.push(policy.into());
    argv.push("--workspace".into());
    argv.push(scene.path("work").into());
    argv.extend(["--env", "STOCKADE_ESCAPE"].map(OsString::from));
    argv.extend(technique.options.iter().map(|option| scene.fill(option).into()));
    argv.push("--".into());
    argv.extend(program(technique, scene));
    argv
}

/// What an attack came to, as seen from outside.
#[derive(Debug)]
struct Found {
    began: bool,
    reads: bool,
    changes: Vec<String>,
    heard: bool,
    hurts: bool,
    outlives: usize,
    says: bool,
    springs: bool,
    plants: bool,
    /// What a person was told, and the attacker: for whoever reads why a test failed.
    words: [String; 2],
}

fn attack(technique: &Technique, scene: &Scene, argv: &[OsString]) -> Found {
    let (Attack::Sh(text) | Attack::Py(text)) = technique.attack;
    let before = scene.surroundings();
    let Finished { stdout, stderr, .. } = scene.run(argv, text.contains("&6"));
    let after = scene.surroundings();
    let mut outlives = procs::none_left(Duration::from_secs(2), || scene.survivors()).len();
    if outlives == 0 && matches!(technique.proof, Proof::Outlives) {
        // A process that is just executing something shows neither words nor environment.
        thread::sleep(Duration::from_millis(200));
        outlives = scene.survivors().len();
    }
    let said = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    let (mut springs, mut person) = (false, String::new());
    if let Proof::Springs(line) = technique.proof {
        let trap = scene.path("trap/sprung");
        fs::remove_file(&trap).ok();
        person = scene.person(&scene.fill(line));
        springs = trap.exists();
    }
    let plants = match technique.proof {
        Proof::Plants(path) => fs::read_to_string(scene.path("work").join(path))
            .is_ok_and(|text| text.contains("evil")),
        _ => false,
    };
    Found {
        began: said.contains("BEGAN"),
        reads: said.contains(scene.marker()),
        changes: before.iter().zip(&after).flat_map(|(b, a)| tree::touched(b, a)).collect(),
        heard: scene.heard(),
        hurts: scene.victim_is_hurt(),
        outlives,
        says: said.contains("REACHED"),
        springs,
        plants,
        words: [person, said],
    }
}

impl Found {
    fn shows(&self, proof: Proof) -> bool {
        match proof {
            Proof::Reads => self.reads,
            Proof::Changes => !self.changes.is_empty(),
            Proof::Heard => self.heard,
            Proof::Hurts => self.hurts,
            Proof::Outlives => self.outlives > 0,
            Proof::Says => self.says,
            Proof::Springs(_) => self.springs,
            Proof::Plants(_) => self.plants,
        }
    }

    fn any_harm(&self) -> Option<&'static str> {
        let harms = [
            (self.reads, "it read a secret"),
            (!self.changes.is_empty(), "it changed a file outside"),
            (self.heard, "a listener heard it"),
            (self.hurts, "it hurt another program"),
            (self.outlives > 0, "it outlived its call"),
            (self.says, "it reached what it was after"),
            (self.springs, "a person set off its trap"),
            (self.plants, "it planted something"),
        ];
        harms.into_iter().find(|(is_so, _)| *is_so).map(|(_, what)| what)
    }
}
