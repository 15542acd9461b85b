//! Hosts that have less than this one, as values (spec 5.3): for each of them and each policy it is predicted what is refused, by
//! which name, or what is missing; then it is done, with what the host is said to have and no more.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use stockade_policy::Policy;
use stockade_sandbox::linux::{HostCaps, Lack, Tier};
use stockade_sandbox::{SandboxError, SandboxProvider};
use stockade_tests::embedded::{bash, session};
use stockade_tests::{Confined, Scratch, stockade_bin};
use stockade_types::{Layer, LayerState, Outcome};

const NAMESPACES: [Layer; 8] = [
    Layer::UserNamespace,
    Layer::PidNamespace,
    Layer::MountNamespace,
    Layer::NetworkNamespace,
    Layer::IpcNamespace,
    Layer::UtsNamespace,
    Layer::CgroupNamespace,
    Layer::MountTree,
];

/// What a host is said to lack.
fn hosts() -> Vec<Vec<Lack>> {
    use Lack::{Admin, LandlockAbove, Mounts, Seccomp, SeccompNotify, UserNamespaces};
    let mut hosts = vec![
        vec![],
        vec![SeccompNotify],
        vec![Seccomp],
        vec![UserNamespaces],
        vec![Mounts],
        vec![UserNamespaces, Admin, SeccompNotify],
        vec![UserNamespaces, Admin, Seccomp],
    ];
    for abi in 0..=7 {
        hosts.push(vec![LandlockAbove(abi)]);
        hosts.push(vec![UserNamespaces, Admin, LandlockAbove(abi)]);
    }
    hosts
}

struct Case {
    name: &'static str,
    text: &'static str,
    requires: &'static [Layer],
    confines: bool,
    memory: bool,
}

const CONFINING: &[Layer] =
    &[Layer::Landlock, Layer::Seccomp, Layer::NoNewPrivs, Layer::Capabilities, Layer::Rlimits];

const CASES: &[Case] = &[
    Case {
        name: "workspace-write",
        text: "",
        requires: &Layer::ALL,
        confines: true,
        memory: false,
    },
    Case { name: "read-only", text: "", requires: &Layer::ALL, confines: true, memory: false },
    Case {
        name: "danger-full-access",
        text: "",
        requires: &[Layer::Rlimits],
        confines: false,
        memory: false,
    },
    Case {
        name: "confining",
        text: "extends = \"workspace-write\"\nrequire = [\"landlock\", \"seccomp\", \"no_new_privs\", \"capabilities\", \"rlimits\"]\n",
        requires: CONFINING,
        confines: true,
        memory: false,
    },
    Case {
        name: "anything",
        text: "extends = \"workspace-write\"\nrequire = []\n",
        requires: &[],
        confines: true,
        memory: false,
    },
    Case {
        name: "limited",
        text: "extends = \"workspace-write\"\nrequire = []\n[limits]\nmemory = \"1G\"\n",
        requires: &[],
        confines: true,
        memory: true,
    },
];

/// What is to become of a policy.
#[derive(Debug)]
enum Prediction {
    /// Refused, with these words among the reasons.
    Refused(Vec<String>),
    /// It runs, without these layers.
    Runs(BTreeSet<Layer>),
}

/// By the rules of the documentation, and not by those of the code.
fn predict(lacks: &[Lack], host: &HostCaps, case: &Case) -> Prediction {
    let has = |lack: &Lack| lacks.contains(lack);
    let no_namespaces = has(&Lack::Mounts) || (has(&Lack::UserNamespaces) && !host.admin);
    let no_seccomp = has(&Lack::Seccomp);
    let abi = host.landlock_abi.unwrap_or(0);
    let mut missing = BTreeSet::new();
    if case.confines && no_namespaces {
        missing.extend(NAMESPACES);
    }
    if case.confines && has(&Lack::UserNamespaces) {
        missing.insert(Layer::UserNamespace);
    }
    if case.confines && abi == 0 {
        missing.insert(Layer::Landlock);
    }
    if case.confines && no_seccomp {
        missing.insert(Layer::Seccomp);
    }
    let required: Vec<String> = missing
        .iter()
        .filter(|layer| case.requires.contains(layer))
        .map(|layer| layer.name().to_owned())
        .collect();
    if !required.is_empty() {
        return Prediction::Refused(required);
    }
    if case.confines && no_namespaces {
        let refused = |word: &str| Prediction::Refused(vec![word.to_owned()]);
        match abi {
            0 => return refused("Landlock"),
            1 | 2 => return refused(&format!("Landlock ABI {abi}")),
            _ if no_seccomp => return refused("seccomp"),
            _ if case.memory => return refused("limits.memory"),
            _ => {}
        }
    }
    Prediction::Runs(missing)
}

// spec 5.3: issue 3, Show 4
#[test]
fn each_refusal_and_each_missing_layer_is_predicted_and_comes_true() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("tokio");
    let mut told = String::new();
    for lacks in hosts() {
        let host = lacks.iter().fold(HostCaps::ask(), |host, lack| host.without(*lack));
        for case in CASES {
            let prediction = predict(&lacks, &host, case);
            let line = runtime.block_on(check(&lacks, &host, case, &prediction));
            told.push_str(&line);
        }
    }
    println!("{told}");
}

async fn check(lacks: &[Lack], host: &HostCaps, case: &Case, prediction: &Prediction) -> String {
    let at = format!("{lacks:?} {}", case.name);
    let scratch = Scratch::new();
    let work = scratch.folder("work");
    let outside = scratch.folder("outside");
    let policy = if case.text.is_empty() {
        Policy::load(OsStr::new(case.name)).expect("a shipped policy")
    } else {
        let file = scratch.path().join("policy.toml");
        fs::write(&file, format!("name = \"{}\"\n{}", case.name, case.text)).expect("a policy");
        Policy::load(file.as_os_str()).expect("a policy")
    };
    let session = session(host.clone(), &work).await;
    let cell = match (session.cell(&policy).await, prediction) {
        (Err(SandboxError::Refused(refusal)), Prediction::Refused(words)) => {
            for word in words {
                assert!(refusal.reason.contains(word.as_str()), "{at}: {word} in {refusal}");
            }
            return format!("{at}: refused for {}\n", words.join(", "));
        }
        (Ok(cell), Prediction::Runs(_)) => cell,
        (Ok(_), _) => panic!("{at}: it runs, but {prediction:?}"),
        (Err(error), _) => panic!("{at}: {error}, but {prediction:?}"),
    };
    let Prediction::Runs(expected) = prediction else { return String::new() };
    let missing: BTreeSet<Layer> = cell
        .layers()
        .0
        .iter()
        .filter(|entry| matches!(entry.state, LayerState::Missing { .. }))
        .map(|entry| entry.layer)
        .collect();
    assert_eq!(&missing, expected, "{at}");
    for entry in cell.layers().0 {
        if let (Layer::Landlock, LayerState::Enforced { detail }) = (entry.layer, entry.state) {
            assert_eq!(detail, format!("abi {}", host.landlock_abi.unwrap_or(0)), "{at}");
        }
    }
    let line =
        format!("echo in > inside; echo out > {}/file; unshare --user true", outside.display());
    let ran = bash(&*cell, &work, &line).await;
    assert!(matches!(ran.outcome, Outcome::Exited { .. }), "{at}: {ran:?}");
    let writable = case.name != "read-only";
    assert_eq!(work.join("inside").exists(), writable, "{at}: {}", ran.stderr.text());
    assert_eq!(outside.join("file").exists(), !case.confines, "{at}");
    let named = ran.denials.iter().any(|denial| denial.target == "unshare(CLONE_NEWUSER)");
    let names = case.confines && host.seccomp_notify && !missing.contains(&Layer::Seccomp);
    assert_eq!(named, names, "{at}: {:?}", ran.denials);
    format!("{at}: runs without {missing:?}\n")
}

#[test]
fn the_tier_follows_from_what_a_host_has() {
    let admin = |admin| HostCaps { admin, ..HostCaps::ask() };
    assert_eq!(admin(false).tier(), Tier::Namespaces);
    assert_eq!(admin(true).without(Lack::UserNamespaces).tier(), Tier::RootNamespaces);
    assert_eq!(admin(false).without(Lack::UserNamespaces).tier(), Tier::Bare);
    assert_eq!(admin(true).no_userns().tier(), Tier::Bare);
    assert_eq!(admin(true).without(Lack::Mounts).tier(), Tier::Bare);
}

// spec 10.3
#[test]
fn doctor_shows_what_a_machine_with_less_could_enforce() {
    let doctor = |simulated: &str| {
        let mut command = std::process::Command::new(stockade_bin());
        command.args(["doctor", "--json", "--simulate", simulated]);
        let ran = stockade_tests::finish(&mut command, &[], std::time::Duration::from_secs(120));
        let object: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("an object");
        (ran.code(), object)
    };
    let (code, object) = doctor("no-userns,no-admin");
    assert_eq!(code, 1);
    assert!(object["tier"].as_str().is_some_and(|tier| tier.contains("no namespaces")), "{object}");
    let policies = object["policies"].as_array().expect("policies");
    let of = |name: &str| policies.iter().find(|policy| policy["policy"] == name).expect("listed");
    assert_eq!(of("workspace-write")["enforceable"], false);
    assert_eq!(of("danger-full-access")["enforceable"], true);
    let (code, object) = doctor("landlock=3");
    assert_eq!(code, 0, "{object}");
    let scratch = Scratch::new();
    let ran = Confined::new("workspace-write", &scratch.folder("work")).bash("true");
    assert_eq!(ran.code(), 0, "and without --simulate it is this machine");
}
