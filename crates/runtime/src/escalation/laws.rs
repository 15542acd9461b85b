//! The laws of escalation (issue 6, show 4): whatever is asked, granted, revoked and runs out, in whatever order, no call runs under
//! more than ceiling ∩ (policy ∪ live grants), and what is denied stays denied.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use std::path::Path;
use std::time::Duration;
use stockade_ledger::ApproverKind;
use stockade_policy::GrantKind;
use stockade_sandbox::fake;
use stockade_tools::{FrozenInput, PathInput};
use stockade_types::{CallFlags, CallId, CallMode};

#[derive(Clone, Debug)]
enum Step {
    Request { wanted: Vec<&'static str>, answer: Answer },
    Wait(u64),
    Revoke(usize),
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    No,
    Once,
    Session(Option<u64>),
}

/// What may be asked for; some of it is above the ceiling, some is hidden, protected or refused.
const WANTS: [&str; 12] = [
    "read /opt",
    "read /opt/a",
    "read /etc",
    "write /out",
    "write /out/a/b",
    "read /w/secret",
    "write /w/.git/hooks",
    "write /w",
    "network a.org:443",
    "network b.org:443",
    "limit memory",
    "full",
];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let answer = prop_oneof![
        Just(Answer::No),
        Just(Answer::Once),
        (1..60_u64).prop_map(|time| Answer::Session(Some(time))),
        Just(Answer::Session(None)),
    ];
    let request = (subsequence(WANTS.to_vec(), 1..4), answer)
        .prop_map(|(wanted, answer)| Step::Request { wanted, answer });
    let step = prop_oneof![
        6 => request,
        1 => select(vec![1, 10, 30, 100]).prop_map(Step::Wait),
        1 => (0..4_usize).prop_map(Step::Revoke),
    ];
    vec(step, 1..14)
}

fn permissions(wanted: &[&str]) -> SandboxPermissions {
    let mut asked = SandboxPermissions::default();
    for want in wanted {
        match want.split_once(' ') {
            Some(("read", path)) => asked.read.push(PathInput(path.into())),
            Some(("write", path)) => asked.write.push(PathInput(path.into())),
            Some(("network", host)) => asked.network.push(host.to_owned()),
            Some(("limit", name)) => drop(asked.limits.insert(name.to_owned(), "2G".into())),
            _ => asked.full_access = true,
        }
    }
    asked
}

fn call() -> PreparedCall {
    PreparedCall {
        token: crate::CallToken::next(),
        id: CallId("c".into()),
        name: "Bash".into(),
        input: FrozenInput::new(serde_json::json!({"command": "x"})),
        flags: CallFlags { mode: CallMode::Exclusive, read_only: false },
    }
}

fn policies() -> (Policy, Policy) {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    let mut policy = fake::policy("session");
    policy.filesystem.read = texts(&["/usr"]);
    policy.filesystem.write = texts(&["/w"]);
    policy.filesystem.hide = texts(&["/w/secret"]);
    policy.filesystem.protect = texts(&["**/.git/hooks"]);
    policy.limits.memory = Some(1 << 30);
    policy.escalation.always_ask = vec![GrantKind::Network];
    let mut ceiling = policy.clone();
    ceiling.name = "ceiling".to_owned();
    ceiling.filesystem.read = texts(&["/usr", "/opt"]);
    ceiling.filesystem.write = texts(&["/w", "/out"]);
    ceiling.network.mode = stockade_policy::NetworkMode::Proxy;
    ceiling.network.allow = texts(&["a.org:443"]);
    ceiling.limits.memory = Some(4 << 30);
    (policy, ceiling)
}

struct Given {
    id: String,
    grants: Vec<Grant>,
    ends: Option<Instant>,
}

fn holds(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let (policy, ceiling) = policies();
    let variables = Variables { workspace: "/w".into(), home: "/home/u".into(), session: None };
    let escalation = Escalation {
        ceiling: Some(ceiling.clone()),
        variables: variables.clone(),
        grants: GrantBook::default(),
        evidence: EvidenceBook::default(),
    };
    let mut now = Instant::now();
    // What was given for the session, kept beside the book under test.
    let mut given: Vec<Given> = Vec::new();
    for step in steps {
        let (wanted, answer) = match step {
            Step::Wait(seconds) => {
                now += Duration::from_secs(seconds);
                given.retain(|grant| grant.ends.is_none_or(|ends| now < ends));
                escalation.grants.expire(now);
                continue;
            }
            Step::Revoke(at) => {
                if at < given.len() {
                    prop_assert!(escalation.grants.revoke(&given.remove(at).id));
                }
                continue;
            }
            Step::Request { wanted, answer } => (wanted, answer),
        };
        let asked = permissions(&wanted);
        let Ok(considered) = escalation.consider(&policy, &policy.digest(), &call(), &asked, now)
        else {
            continue;
        };
        let network = !asked.network.is_empty();
        prop_assert_eq!(considered.always_ask, network);
        let mut grants: Vec<Grant> = given.iter().flat_map(|grant| grant.grants.clone()).collect();
        if considered.held_by.is_empty() {
            match answer {
                Answer::No => continue,
                Answer::Once => {}
                Answer::Session(time) => {
                    let expires_in = time.map(Duration::from_secs);
                    let scope = Scope::Session { expires_in };
                    let new = escalation.grants.give(
                        &policy.digest(),
                        &considered.grants,
                        scope,
                        network,
                        ApproverKind::Custom,
                        now,
                    );
                    if matches!(new.scope, Scope::Session { .. }) {
                        let ends = expires_in.map(|time| now + time);
                        given.push(Given { id: new.id, grants: considered.grants.clone(), ends });
                    } else {
                        prop_assert!(network, "only what is always asked for is cut to one call");
                    }
                }
            }
            grants.extend(considered.grants.clone());
        } else {
            prop_assert!(!network, "what must be asked for each time is never held");
        }
        // The call runs under `considered.policy` now.
        let run = &considered.policy;
        prop_assert!(
            run.excess_over(&[&policy, &ceiling], &variables).unwrap().is_none(),
            "above the ceiling"
        );
        let most = policy.widen(&grants, None, &variables).expect("live grants widen the policy");
        prop_assert!(
            most.covers(run, &variables).unwrap(),
            "more than policy and live grants: {wanted:?}"
        );
        prop_assert!(
            !run.access(Path::new("/w/secret/x"), &variables).unwrap().read,
            "what is hidden stays hidden"
        );
        prop_assert!(
            !run.access(Path::new("/w/.git/hooks/x"), &variables).unwrap().write,
            "what is protected stays protected"
        );
        prop_assert!(run.covers(&policy, &variables).unwrap(), "nothing is taken away");
        let live: Vec<String> =
            escalation.grants.list(now).into_iter().map(|grant| grant.id).collect();
        prop_assert_eq!(live, given.iter().map(|grant| grant.id.clone()).collect::<Vec<_>>());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    // spec 7.2, 7.3
    #[test]
    fn no_sequence_lets_a_call_run_under_more_than_ceiling_and_policy_with_live_grants(steps in steps()) {
        holds(steps)?;
    }
}

// The generator must reach what the laws are about.
#[test]
fn a_grant_for_the_session_holds_until_it_is_revoked_or_its_time_is_up() {
    let session = |time| Step::Request { wanted: vec!["read /opt"], answer: Answer::Session(time) };
    let again = || Step::Request { wanted: vec!["read /opt/a"], answer: Answer::No };
    holds(vec![session(Some(10)), again(), Step::Wait(30), again()]).unwrap();
    let (policy, ceiling) = policies();
    let variables = Variables { workspace: "/w".into(), home: "/home/u".into(), session: None };
    let escalation = Escalation {
        ceiling: Some(ceiling),
        variables,
        grants: GrantBook::default(),
        evidence: EvidenceBook::default(),
    };
    let now = Instant::now();
    let consider = |wanted: &str, now| {
        escalation.consider(&policy, &policy.digest(), &call(), &permissions(&[wanted]), now)
    };
    let first = consider("read /opt", now).unwrap();
    assert!(first.held_by.is_empty());
    let scope = Scope::Session { expires_in: Some(Duration::from_secs(10)) };
    let given = escalation.grants.give(
        &policy.digest(),
        &first.grants,
        scope,
        false,
        ApproverKind::Custom,
        now,
    );
    assert_eq!(consider("read /opt/a", now).unwrap().held_by, std::slice::from_ref(&given.id));
    assert!(consider("read /opt/a", now + Duration::from_secs(10)).unwrap().held_by.is_empty());
    assert!(escalation.grants.revoke(&given.id));
    assert!(consider("read /opt/a", now).unwrap().held_by.is_empty());
    for refused in [
        "read /etc",
        "read /w/secret",
        "write /w/.git/hooks",
        "write /w",
        "network b.org:443",
        "full",
    ] {
        assert!(consider(refused, now).is_err(), "{refused}");
    }
}

// spec 7.2: by something that helps
#[test]
fn what_would_not_help_against_what_was_refused_is_refused() {
    let (policy, ceiling) = policies();
    let variables = Variables { workspace: "/w".into(), home: "/home/u".into(), session: None };
    let escalation = Escalation {
        ceiling: Some(ceiling),
        variables,
        grants: GrantBook::default(),
        evidence: EvidenceBook::default(),
    };
    let denial = |evidence| Denial {
        kind: stockade_types::DenialKind::Read,
        target: "/opt/a/b".into(),
        evidence,
        grant: String::new(),
        note: String::new(),
    };
    let call = call();
    let consider = |wanted: &str| {
        escalation.consider(
            &policy,
            &policy.digest(),
            &call,
            &permissions(&[wanted]),
            Instant::now(),
        )
    };
    escalation.evidence.remember(retry_digest(&call), &[denial(stockade_types::Evidence::Kernel)]);
    assert!(consider("write /out").unwrap_err().reason.contains("would not help"));
    assert!(consider("read /opt/a").is_ok());
    // A guess from a text is no evidence: it neither helps nor hinders.
    escalation
        .evidence
        .remember(retry_digest(&call), &[denial(stockade_types::Evidence::Inferred)]);
    assert!(consider("write /out").is_ok());
    assert!(propose(&escalation, &policy, &[denial(stockade_types::Evidence::Inferred)]).is_none());
    let proposal =
        propose(&escalation, &policy, &[denial(stockade_types::Evidence::Kernel)]).unwrap();
    assert!(proposal.contains("/opt/a/b"), "as narrow as what was refused: {proposal}");
    let hidden =
        Denial { target: "/w/secret/x".into(), ..denial(stockade_types::Evidence::Kernel) };
    assert!(propose(&escalation, &policy, &[hidden]).is_none());
}
