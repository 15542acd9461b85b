//! The environment of a confined command (spec 5.6): built from an allowlist, never copied and then cleaned.
mod loaders;
mod redact;
mod secrets;
mod value;

use crate::{EntryError, EnvironmentPolicy, Variables, wildcard};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

pub use redact::{REDACTED, may_show_secrets, redact, redact_json};
pub(crate) use value::check as check_value;

/// Makes the environment from the host's: what `keep` names, less what `scrub` and the built-in scrubbers remove, plus
/// `set`, whose word is the last. Sorted by name, each name once.
///
/// It fails if a value of `set` names an unknown variable; a loaded policy has none.
pub fn build(
    policy: &EnvironmentPolicy,
    variables: &Variables,
    host: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Vec<(OsString, OsString)>, EntryError> {
    let mut environment: BTreeMap<OsString, OsString> =
        host.filter(|(name, value)| passes(policy, name, value)).collect();
    for (name, value) in &policy.set {
        environment.insert(name.into(), value::expand(value, variables)?);
    }
    Ok(environment.into_iter().collect())
}

fn passes(policy: &EnvironmentPolicy, name: &OsStr, value: &OsStr) -> bool {
    let (name, value) = (name.as_bytes(), value.as_bytes());
    let named = |patterns: &[String]| {
        patterns.iter().any(|pattern| wildcard::matches(pattern.as_bytes(), name))
    };
    is_possible(name)
        && named(&policy.keep)
        && !named(&policy.scrub)
        && !(policy.scrub_loaders && loaders::is_loader(name))
        && !(policy.scrub_secrets
            && (secrets::is_secret_name(name) || secrets::is_secret_value(value)))
}

/// The kernel passes any bytes on; a name that is empty or holds `=` would be read back as another one.
fn is_possible(name: &[u8]) -> bool {
    !name.is_empty() && !name.contains(&b'=')
}

/// Checks a name in `set`: letters, digits and `_`, not starting with a digit.
pub(crate) fn check_name(name: &str) -> Result<(), EntryError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.bytes().all(fits) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit()) {
        return Ok(());
    }
    Err(EntryError {
        entry: name.to_owned(),
        problem:
            "a variable's name is made of letters, digits and '_', and does not start with a digit"
                .into(),
    })
}

/// Checks a name pattern in `keep` or `scrub`.
pub(crate) fn check_name_pattern(pattern: &str) -> Result<(), EntryError> {
    let fits = |byte: u8| byte.is_ascii_graphic() && byte != b'=';
    if !pattern.is_empty() && pattern.bytes().all(fits) {
        return Ok(());
    }
    Err(EntryError {
        entry: pattern.to_owned(),
        problem: "a variable's name cannot be empty or hold '=', white space or control characters; '*' stands for any characters".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;
    use std::path::PathBuf;

    fn variables() -> Variables {
        Variables { workspace: "/w".into(), home: "/home/u".into(), session: None }
    }

    fn built(policy: &EnvironmentPolicy, host: &[(&str, &str)]) -> Vec<(String, String)> {
        let host = host.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        build(policy, &variables(), host)
            .unwrap()
            .into_iter()
            .map(|(name, value)| (name.into_string().unwrap(), value.into_string().unwrap()))
            .collect()
    }

    fn keep(patterns: &[&str]) -> EnvironmentPolicy {
        EnvironmentPolicy {
            keep: patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
            ..EnvironmentPolicy::default()
        }
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_what_the_allowlist_names_is_taken_over_sorted_and_once() {
        // spec 5.6
        let host =
            [("TERM", "xterm"), ("LC_ALL", "C"), ("FOO", "1"), ("LANG", "de"), ("LANG", "C")];
        let expected = pairs(&[("LANG", "C"), ("LC_ALL", "C"), ("TERM", "xterm")]);
        assert_eq!(built(&keep(&["TERM", "LC_*", "LANG"]), &host), expected);
        assert_eq!(built(&EnvironmentPolicy::default(), &host), []);
    }

    #[test]
    fn scrubbing_by_name_beats_keeping() {
        // spec 5.6
        let mut policy = keep(&["*"]);
        policy.scrub = vec!["AWS_*".into()];
        assert_eq!(
            built(&policy, &[("AWS_REGION", "eu"), ("HOME", "/h")]),
            pairs(&[("HOME", "/h")])
        );
    }

    #[test]
    fn secrets_and_loader_variables_are_removed_even_if_everything_is_kept() {
        // spec 5.6
        let host = [
            ("PATH", "/bin"),
            ("GITHUB_TOKEN", "x"),
            ("HARMLESS", "ghp_0123456789abcdefghij0123456789abcdef"),
            ("LD_PRELOAD", "/x.so"),
            ("SSH_AUTH_SOCK", "/run/x"),
        ];
        assert_eq!(built(&keep(&["*"]), &host), pairs(&[("PATH", "/bin")]));
    }

    #[test]
    fn a_policy_can_turn_each_built_in_scrubber_off() {
        let host = [("GITHUB_TOKEN", "x"), ("LD_PRELOAD", "/x.so")];
        let mut policy = keep(&["*"]);
        policy.scrub_secrets = false;
        assert_eq!(built(&policy, &host), pairs(&[("GITHUB_TOKEN", "x")]));
        policy.scrub_secrets = true;
        policy.scrub_loaders = false;
        assert_eq!(built(&policy, &host), pairs(&[("LD_PRELOAD", "/x.so")]));
    }

    #[test]
    fn what_is_set_on_purpose_wins_over_every_scrubber() {
        // spec 5.6
        let mut policy = keep(&["*"]);
        policy.scrub = vec!["*".into()];
        policy.set.insert("API_TOKEN".into(), "dummy".into());
        policy.set.insert("GIT_PAGER".into(), "cat".into());
        policy.set.insert("HOME".into(), "$HOME".into());
        assert_eq!(
            built(&policy, &[("API_TOKEN", "real"), ("HOME", "/elsewhere")]),
            pairs(&[("API_TOKEN", "dummy"), ("GIT_PAGER", "cat"), ("HOME", "/home/u")])
        );
    }

    #[test]
    fn bytes_that_are_no_utf8_pass_unchanged() {
        let odd = OsString::from_vec(b"a\xffb".to_vec());
        let mut policy = keep(&["ODD"]);
        policy.set.insert("W".into(), "$WORKSPACE/x".into());
        let variables = Variables {
            workspace: PathBuf::from("/").join(&odd),
            home: "/h".into(),
            session: None,
        };
        let host = [(OsString::from("ODD"), odd.clone())];
        let environment = build(&policy, &variables, host.into_iter()).unwrap();
        assert_eq!(environment[0].1, odd);
        assert_eq!(environment[1].1.as_bytes(), b"/a\xffb/x");
    }

    #[test]
    fn names_that_would_be_read_back_as_another_are_dropped() {
        assert_eq!(built(&keep(&["*"]), &[("", "x"), ("A=B", "x")]), []);
    }

    #[test]
    fn names_and_patterns_are_checked() {
        for good in ["A", "_x1", "Path"] {
            check_name(good).unwrap();
        }
        for bad in ["", "1A", "A-B", "A=B", "A*", "É"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        for good in ["*", "LC_*", "npm_config_*", "ProgramFiles(x86)"] {
            check_name_pattern(good).unwrap();
        }
        for bad in ["", "A B", "A=", "A\n"] {
            assert!(check_name_pattern(bad).is_err(), "{bad}");
        }
    }
}
