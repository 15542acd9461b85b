//! A policy's text: whatever it is, it is refused with a place or means something that holds together.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use stockade_policy::{Effective, Variables};

fuzz_target!(|text: &str| {
    let effective = match Effective::from_text("p.toml", text) {
        Ok(effective) => effective,
        Err(error) => {
            // Told to a person, it must have a place or a name.
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let variables =
        Variables { workspace: "/w".into(), home: "/home/u".into(), session: Some("/s".into()) };
    let policy = &effective.policy;
    assert_eq!(policy.digest(), policy.clone().digest());
    // What is shown is a policy that says the same.
    let shown = effective.to_string();
    let again = Effective::from_text("p.toml", &shown)
        .unwrap_or_else(|error| panic!("{error} in\n{shown}"));
    assert_eq!(&again.policy, policy, "{shown}");
    // A loaded policy has no entry that means nothing.
    policy.expand(&variables).expect("its entries were checked");
    for path in ["/", "/w/.git/hooks/x", "/home/u/.ssh", "/s/spill/a", "/usr/lib/x"] {
        let path = Path::new(path);
        let access = policy.access(path, &variables).expect("its entries were checked");
        assert!(access.read || !(access.write || access.connect));
        let told = effective.explain_path(path, path, &variables).expect("its entries were checked");
        let allowed: Vec<bool> = told.iter().map(|verdict| verdict.allowed).collect();
        assert_eq!(allowed, [access.read, access.write, access.connect], "{path:?} under\n{shown}");
    }
    if effective.lines.len() < 40 {
        let met = policy.meet(policy, &variables).expect("its entries were checked");
        assert_eq!(met.excess_over(&[policy], &variables), Ok(None), "{shown}");
    }
});
