use crate::error::{EntryError, OverlayError};
use crate::expand::expand_entry;
use crate::limits::LimitSetting;
use crate::paths::is_plain;
use crate::{ExpandedFilesystem, NetworkPolicy, Policy, Variables};
use std::path::{Path, PathBuf};
use stockade_types::Layer;

/// What the command line, or a grant, lays over a policy. Paths are absolute and taken as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlay {
    /// Readable too.
    pub read: Vec<PathBuf>,
    /// Writable too.
    pub write: Vec<PathBuf>,
    /// Hidden too; it wins over every grant.
    pub hide: Vec<PathBuf>,
    /// Replaces the network.
    pub network: Option<NetworkPolicy>,
    /// Replaces limits, in this order.
    pub limits: Vec<LimitSetting>,
}

impl Policy {
    /// The policy with an overlay laid over it. `require` follows: a layer that is no longer asked for is no longer
    /// required, one that is newly asked for is.
    ///
    /// A grant of what is hidden is an error rather than a grant without effect.
    pub fn with_overlay(
        &self,
        overlay: &Overlay,
        variables: &Variables,
    ) -> Result<Policy, OverlayError> {
        let mut policy = self.clone();
        let literal = &mut policy.filesystem.literal;
        for (option, paths, list) in [
            ("--read", &overlay.read, &mut literal.read),
            ("--write", &overlay.write, &mut literal.write),
            ("--hide", &overlay.hide, &mut literal.hide),
        ] {
            for path in paths {
                if !is_plain(path) {
                    return Err(OverlayError::Path { option, path: path.display().to_string() });
                }
                // Collected anew, so that `/a//b/` and `/a/b` are one.
                let path: PathBuf = path.components().collect();
                if !list.contains(&path) {
                    list.push(path);
                }
            }
        }
        if self.is_full_access() {
            if !overlay.hide.is_empty() {
                return Err(OverlayError::FullAccess { option: "--hide" });
            }
        } else if policy.filesystem.literal.write.iter().any(|path| path == Path::new("/")) {
            return Err(OverlayError::FullAccess { option: "--write" });
        }

        for hidden in &overlay.hide {
            policy.forget_below(hidden, variables)?;
        }
        let grants_paths = !overlay.read.is_empty() || !overlay.write.is_empty();
        let files =
            if grants_paths { policy.expand(variables)? } else { ExpandedFilesystem::default() };
        let hidden = &files.hide;
        let before = if grants_paths { self.expand(variables)?.write } else { Vec::new() };
        for path in &overlay.write {
            let is_inside = before.iter().any(|root| root.covers(path));
            if let Some(by) =
                files.protect.iter().find(|by| is_inside && by.is_above(path, &before))
            {
                let path = path.display().to_string();
                return Err(OverlayError::Protected {
                    option: "--write",
                    path,
                    by: by.to_string(),
                });
            }
        }
        for (option, paths) in [("--read", &overlay.read), ("--write", &overlay.write)] {
            for path in paths {
                if let Some(by) = hidden.iter().find(|hidden| hidden.covers(path)) {
                    let path = path.display().to_string();
                    return Err(OverlayError::Hidden { option, path, by: by.to_string() });
                }
            }
        }

        if let Some(network) = &overlay.network {
            policy.network = network.clone();
        }
        overlay.limits.iter().for_each(|setting| policy.limits.apply(setting));
        policy.require_as(self);
        Ok(policy)
    }

    /// Takes out what the policy grants strictly below a path: hidden on the command line, all of it is meant.
    fn forget_below(&mut self, hidden: &Path, variables: &Variables) -> Result<(), EntryError> {
        let hidden: PathBuf = hidden.components().collect();
        let is_below = |path: &Path| path.starts_with(&hidden) && path != hidden;
        let Policy { filesystem, network, .. } = self;
        for list in [&mut filesystem.read, &mut filesystem.write, &mut network.unix_sockets] {
            let mut kept = Vec::with_capacity(list.len());
            for entry in list.drain(..) {
                let path = expand_entry(&entry, variables).transpose()?;
                if !path.is_some_and(|path| is_below(path.base())) {
                    kept.push(entry);
                }
            }
            *list = kept;
        }
        let literal = &mut filesystem.literal;
        for list in [&mut literal.read, &mut literal.write, &mut literal.unix_sockets] {
            list.retain(|path| !is_below(path));
        }
        Ok(())
    }

    /// Requires what `before` required, and what it did not ask for; nothing that is no longer asked for.
    pub(crate) fn require_as(&mut self, before: &Policy) {
        self.require = Layer::ALL
            .into_iter()
            .filter(|layer| {
                self.requests(*layer)
                    && (before.require.contains(layer) || !before.requests(*layer))
            })
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NetworkMode;
    use crate::testing::policy;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    fn variables() -> Variables {
        Variables { workspace: "/w".into(), home: "/home/u".into(), session: None }
    }

    fn lay(policy: &Policy, overlay: &Overlay) -> Result<Policy, OverlayError> {
        policy.with_overlay(overlay, &variables())
    }

    #[test]
    fn paths_from_the_command_line_are_added_as_they_are() {
        // spec 10.1 (--read, --write, --hide)
        let odd = PathBuf::from(OsString::from_vec(b"/d/$HOME*\xff".to_vec()));
        let overlay = Overlay {
            read: vec!["/r//x/".into(), odd.clone()],
            write: vec!["/out".into()],
            hide: vec!["/r/x/secret".into()],
            ..Overlay::default()
        };
        let files = lay(&policy(), &overlay).unwrap().expand(&variables()).unwrap();
        let literal = |paths: Vec<_>| -> Vec<Option<PathBuf>> { paths };
        let found = |patterns: &[crate::PathPattern]| -> Vec<Option<PathBuf>> {
            patterns.iter().map(|pattern| pattern.as_literal().map(Path::to_owned)).collect()
        };
        assert_eq!(found(&files.read), literal(vec![Some("/r/x".into()), Some(odd)]));
        assert_eq!(found(&files.write), literal(vec![Some("/out".into())]));
        assert_eq!(found(&files.hide), literal(vec![Some("/r/x/secret".into())]));
    }

    #[test]
    fn a_relative_path_is_refused() {
        for path in ["x", "../x", "/x/../y", ""] {
            let overlay = Overlay { write: vec![path.into()], ..Overlay::default() };
            let error = lay(&policy(), &overlay).unwrap_err().to_string();
            assert!(error.starts_with("--write "), "{error}");
        }
    }

    #[test]
    fn what_is_hidden_cannot_be_granted() {
        // spec 5.4: hide wins
        let mut policy = policy();
        policy.filesystem.hide = vec!["~/.ssh".into(), "/etc/*_key".into()];
        for path in ["/home/u/.ssh", "/home/u/.ssh/config", "/etc/a_key"] {
            let overlay = Overlay { read: vec![path.into()], ..Overlay::default() };
            assert!(matches!(lay(&policy, &overlay), Err(OverlayError::Hidden { .. })), "{path}");
        }
        let both =
            Overlay { write: vec!["/x/y".into()], hide: vec!["/x".into()], ..Overlay::default() };
        assert!(matches!(lay(&policy, &both), Err(OverlayError::Hidden { .. })));
        // What lies above may be granted: the hidden path stays hidden in it.
        let above = Overlay { read: vec!["/home/u".into()], ..Overlay::default() };
        let files = lay(&policy, &above).unwrap().expand(&variables()).unwrap();
        assert!(files.hide.iter().any(|hidden| hidden.covers(Path::new("/home/u/.ssh"))));
    }

    #[test]
    fn what_is_hidden_on_the_command_line_is_hidden_with_all_that_a_policy_shows_in_it() {
        // spec 5.4, 10.1
        let mut policy = policy();
        policy.filesystem.read = vec!["~/.cargo".into(), "~/.cargo/bin".into(), "~/.rustup".into()];
        policy.filesystem.write = vec!["$WORKSPACE".into()];
        let hide = |path: &str| Overlay { hide: vec![path.into()], ..Overlay::default() };
        let laid = lay(&policy, &hide("/home/u/.cargo/")).unwrap();
        assert_eq!(laid.filesystem.read, ["~/.cargo", "~/.rustup"]);
        assert_eq!(laid.filesystem.write, ["$WORKSPACE"]);
        let access = laid.access(Path::new("/home/u/.cargo/bin/x"), &variables()).unwrap();
        assert!(!access.read);
    }

    #[test]
    fn an_option_does_not_lift_what_is_protected() {
        // spec 5.4
        let mut policy = policy();
        policy.filesystem.write = vec!["$WORKSPACE".into()];
        policy.filesystem.protect = vec![".git/hooks".into(), "**/.envrc".into()];
        let write = |path: &str| Overlay { write: vec![path.into()], ..Overlay::default() };
        for path in ["/w/.git/hooks", "/w/.git/hooks/x", "/w/a/.envrc"] {
            let error = lay(&policy, &write(path)).unwrap_err();
            assert!(matches!(error, OverlayError::Protected { .. }), "{path}: {error}");
        }
        // Where the policy writes nothing, a person may.
        assert!(lay(&policy, &write("/other/.git/hooks")).is_ok());
    }

    #[test]
    fn full_access_comes_only_from_its_policy_and_hides_nothing() {
        let everything = Overlay { write: vec!["/".into()], ..Overlay::default() };
        assert_eq!(
            lay(&policy(), &everything),
            Err(OverlayError::FullAccess { option: "--write" })
        );
        let mut full = policy();
        full.filesystem.write = vec!["/".into()];
        let hide = Overlay { hide: vec!["/x".into()], ..Overlay::default() };
        assert_eq!(lay(&full, &hide), Err(OverlayError::FullAccess { option: "--hide" }));
        assert!(lay(&full, &everything).is_ok());
    }

    #[test]
    fn require_follows_the_network() {
        // spec 5.3
        let net =
            |text: &str| Overlay { network: Some(text.parse().unwrap()), ..Overlay::default() };
        let open = lay(&policy(), &net("host")).unwrap();
        assert_eq!(open.network.mode, NetworkMode::Host);
        assert!(!open.require.contains(&Layer::NetworkNamespace));
        assert!(open.require.contains(&Layer::Landlock));
        assert!(lay(&open, &net("none")).unwrap().require.contains(&Layer::NetworkNamespace));
        // A layer that the policy let go stays let go.
        let mut lenient = policy();
        lenient.require.retain(|layer| *layer != Layer::Landlock);
        assert!(!lay(&lenient, &net("host")).unwrap().require.contains(&Layer::Landlock));
    }

    #[test]
    fn limits_are_replaced_in_order() {
        let limits = ["memory=1G", "memory=2G", "pids=none"].map(|text| text.parse().unwrap());
        let mut policy = policy();
        policy.limits.pids = Some(5);
        let overlay = Overlay { limits: limits.to_vec(), ..Overlay::default() };
        let laid = lay(&policy, &overlay).unwrap();
        assert_eq!((laid.limits.memory, laid.limits.pids), (Some(2 << 30), None));
    }
}
